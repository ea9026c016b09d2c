"""Builders of elements, using the rule table: operands are promoted, results are typed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np

from adcompiler.ir.nodes import Apply, Const, Element, Select, const, select
from adcompiler.ir.types import DTYPES, NUMPY, Dtype, as_float, promote
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


def operands(element: Apply) -> dict[str, Element | int]:
    """The arguments of a primitive by the names that its texts give them; an order is a number."""
    entry = TABLE[element.op]
    found: dict[str, Element | int] = dict(zip(entry.params, element.args, strict=True))
    if entry.orders is not None and isinstance(element.args[0], Const):
        found[entry.params[0]] = int(element.args[0].value)
    return found


def order_of(op: str, value: object) -> int | None:
    """The order that a value stands for; None if it is no number, or none of those that `op` takes."""
    orders = TABLE[op].orders
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    return int(value) if whole and orders is not None and value in orders else None  # type: ignore[call-overload]


def cast(element: Element, dtype: Dtype) -> Element:
    """`element` converted to `dtype`; a constant at once, a select in its branches."""
    if element.dtype == dtype:
        return element
    if isinstance(element, Const):
        return const(element.value, dtype)
    if isinstance(element, Select):
        return select(element.guard, cast(element.then, dtype), cast(element.otherwise, dtype))
    return Apply(dtype, (element,), dtype)


def evaluated(element: Apply) -> Const:
    """The value of a primitive on constants, by its reference."""
    args = [NUMPY[a.dtype].type(a.value) for a in element.args if isinstance(a, Const)]
    with np.errstate(all="ignore"):
        value = TABLE[element.op].numpy(*args)
    return const(np.asarray(value, NUMPY[element.dtype]).item(), element.dtype)


def settled(element: Element) -> Const | None:
    """The value of an element that is computed from constants alone."""
    found: dict[Element, Const] = {}
    rest = [element]
    while rest:
        e = rest[-1]
        if isinstance(e, Const):
            found[e] = e
        if not isinstance(e, Apply | Const):
            return None
        missing = [a for a in e.args if a not in found] if isinstance(e, Apply) else []
        if isinstance(e, Apply) and not missing:
            found[e] = evaluated(Apply(e.op, tuple(found[a] for a in e.args), e.dtype))
        rest += missing
        if not missing:
            rest.pop()
    return found[element]


def apply(op: str, *args: Element) -> Element:
    """The primitive `op` of the rule table on promoted operands."""
    operand, result = result_dtype(op, tuple(a.dtype for a in args))
    return Apply(op, tuple(cast(a, operand) for a in args), result)


def product(factors: Iterable[Element]) -> Element:
    """The product of one or more elements, in order."""
    return reduce(lambda a, b: apply("multiply", a, b), factors)
