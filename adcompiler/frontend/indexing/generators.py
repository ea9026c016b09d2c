"""Reductions of generators: `sum(f(i) for i in range(n) if i % 2)`."""

from __future__ import annotations

import math

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.reductions import REDUCTIONS, Mean
from adcompiler.frontend.values.values import AnyValue, GeneratorValue, Value
from adcompiler.ir.types import is_float
from adcompiler.ops.build import cast

# What a reduction of nothing is: it stands where the condition of a generator does not hold.
NEUTRAL: dict[str, float | bool] = {
    "sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf, "logsumexp": -math.inf, "any": False,
    "all": True,
}  # fmt: skip


def reduce_family(context: Context, name: str, family: GeneratorValue, span: Span) -> AnyValue:
    """The reduction called `name` over the axes of a generator, where its conditions hold."""
    axes = tuple(range(len(family.axes)))
    value = family.value_of(family.value.element)
    if family.guard is None:
        if name in ("argmin", "argmax") and len(axes) > 1:
            context.fail(ParseError, f"{name} of a generator takes one `for`", span, "use one index")
        return REDUCTIONS[name](context, value, axes, False, span)
    holds = family.value_of(family.guard, own=False)
    if name == "mean":
        ones = Value(holds.shape, cast(holds.element, "i64"), weak=True)
        number = REDUCTIONS["sum"](context, ones, axes, False, span)
        total = REDUCTIONS["sum"](context, context.where(holds, value, 0, span), axes, False, span)
        return Mean(context, number, span).of(total, number)
    if name not in NEUTRAL:
        context.fail(
            ParseError, f"{name} of a generator with a condition", span, "use where(...) over a list"
        )
    other = NEUTRAL[name]
    if not is_float(value.dtype) and isinstance(other, float) and name in ("amax", "amin"):
        other = -(2**63) if other < 0 else 2**63 - 1
    return REDUCTIONS[name](context, context.where(holds, value, other, span), axes, False, span)
