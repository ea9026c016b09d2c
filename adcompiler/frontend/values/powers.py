"""Powers of integers: a negative exponent has no integer result."""

from __future__ import annotations

from adcompiler.analysis.affine import linear
from adcompiler.errors import Span
from adcompiler.frontend.values.open_axes import ONE, ZERO, Binders
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Const
from adcompiler.ops.build import apply

CAUSE = "an integer to a negative integer power"
REMEDY = "powers of integers are integers, as in NumPy: make the base a float, as in 2.0 ** k"


def exponent(binders: Binders, base: AnyValue, given: AnyValue, span: Span) -> AnyValue:
    """The exponent of a power of integers: a float where it is a negative constant, so that the result is one
    too, as in Python. Where only a call knows it, that it is not negative is proved or checked; powers of 1
    and -1 have no need of it."""
    known = constant(given)
    if known is not None:
        return float(known) if known < 0 else given
    assert isinstance(given, Value)
    element = given.element
    if given.dtype == "bool":
        return given
    if constant(base) in (1, -1):
        return Value(given.shape, apply("bitwise_and", element, ONE), given.weak)
    proved = binders.sure(linear(element), given.shape)
    if not proved:
        binders.check(apply("less_equal", ZERO, element), given.shape, CAUSE, REMEDY, span)
    if proved and not binders.path:
        return given
    return Value(
        given.shape, apply("maximum", element, ZERO), given.weak
    )  # what is not taken is computed too


def constant(value: AnyValue) -> int | None:
    """The integer that a value is known to be."""
    if isinstance(value, Value):
        return int(value.element.value) if isinstance(value.element, Const) else None
    return int(value)
