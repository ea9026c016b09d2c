"""Slices that are one long by construction, such as `x[:1]` and `x[i : i + 1]`: they broadcast.

Such a slice keeps its length, which is 0 where the array ends before it, until it meets a longer axis: there
it is an axis of length 1, and what it demands of the array is compared once a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.errors import Span
from adcompiler.frontend.values.open_axes import ONE, ZERO, Binders
from adcompiler.frontend.values.sizes import Sizes, unit
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Element
from adcompiler.ir.walk import is_computed, substitute
from adcompiler.ops.build import apply

EMPTY = "a slice of length 1 lies outside of its array"
INSIDE = "it must lie in the axis: an empty one does not broadcast"


def narrowed(sizes: Sizes, binders: Binders, args: Sequence[AnyValue], span: Span) -> Sequence[AnyValue]:
    """Operands whose axes of at most one element are of length 1 where another operand's may be longer."""
    if not sizes.single:
        return args
    found = list(args)
    for k in range(max((v.rank for v in args if isinstance(v, Value)), default=0)):
        facing = [(n, a.rank - 1 - k) for n, a in enumerate(args) if isinstance(a, Value) and a.rank > k]
        lengths = {(n, axis): sizes.find(args[n].shape[axis]) for n, axis in facing}
        longer = [m for m in lengths.values() if not unit(m) and m not in sizes.single]
        for (n, axis), length in lengths.items():
            if longer and length in sizes.single:
                _demand(sizes, binders, length, longer[0], span)
                found[n] = _alone(found[n], axis)
    return found


def _alone(value: Value, axis: int) -> Value:
    """A value of which one axis has length 1."""
    shape = (*value.shape[:axis], ONE, *value.shape[axis + 1 :])
    return Value(shape, substitute(value.element, {axis: ZERO}), value.weak)


def _demand(sizes: Sizes, binders: Binders, length: Element, longer: Element, span: Span) -> None:
    """Demand that a slice is not empty, unless what it is spread over is."""
    if binders.around or is_computed(longer):
        holds = apply("logical_or", apply("less_equal", ONE, length), apply("less_equal", longer, ZERO))
        binders.check(holds, (), EMPTY, INSIDE, span)
    else:
        sizes.demand(length, ONE, "a slice of length 1", span, longer)
