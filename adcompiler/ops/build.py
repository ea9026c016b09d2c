"""Builders of elements that know the rule table: operands are promoted, results are typed."""

from __future__ import annotations

from adcompiler.ir.nodes import Apply, Const, Element, Select, const, select
from adcompiler.ir.types import DTYPES, Dtype, as_float, promote
from adcompiler.ops.table import TABLE


def result_dtype(op: str, dtypes: tuple[Dtype, ...]) -> tuple[Dtype, Dtype]:
    """The type in which `op` takes operands of these types, and the type of its result."""
    if op in DTYPES:
        return dtypes[0], op
    kind = TABLE[op].kind
    if kind == "logical":
        return "bool", "bool"
    common = promote(*dtypes)
    if kind == "bool":
        return common, "bool"
    if kind == "float":
        return as_float(common), as_float(common)
    return ("i64", "i64") if common == "bool" else (common, common)


def cast(element: Element, dtype: Dtype) -> Element:
    """`element` converted to `dtype`; a constant at once, a select in its branches."""
    if element.dtype == dtype:
        return element
    if isinstance(element, Const):
        return const(element.value, dtype)
    if isinstance(element, Select):
        return select(element.guard, cast(element.then, dtype), cast(element.otherwise, dtype))
    return Apply(dtype, (element,), dtype)


def apply(op: str, *args: Element) -> Element:
    """The primitive `op` of the rule table on promoted operands."""
    operand, result = result_dtype(op, tuple(a.dtype for a in args))
    return Apply(op, tuple(cast(a, operand) for a in args), result)
