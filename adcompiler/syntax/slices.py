"""Slices `start:stop:step` by Python's rules: their lengths, and what they read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from adcompiler.analysis.affine import Linear, linear, whole
from adcompiler.errors import ParseError, Span
from adcompiler.ir.nodes import Element, Index, is_const, select
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import is_computed
from adcompiler.ops.build import apply
from adcompiler.syntax.binders import ONE
from adcompiler.syntax.context import Context
from adcompiler.syntax.narrow import EMPTY, INSIDE
from adcompiler.syntax.shapes import ZERO, combine, counted, integer
from adcompiler.syntax.values import AnyValue, Value, describe


@dataclass(frozen=True, slots=True)
class SliceValue:
    """`start:stop:step` with its parts lowered; None where left out."""

    start: Any
    stop: Any
    step: Any


ALL = SliceValue(None, None, None)


def step_of(context: Context, part: SliceValue, span: Span) -> int:
    """The step of a slice, whose bounds are lengths."""
    step = 1 if part.step is None else part.step
    for bound in (part.start, part.stop, step):
        if not (bound is None or _is_length(bound)):
            cause = f"a slice's bounds are integers or sizes, not {describe(bound)}"
            remedy = "write x[1:n], halves n // 2; from a computed place on [x[i + k] for k in range(2)]"
            if isinstance(bound, Value) and is_float(bound.dtype):
                remedy = "annotate the parameter, k: int; halves n // 2; up to a computed place "
                remedy += "[x[i] for i in range(int(k))]"
            context.fail(ParseError, cause, span, remedy)
    if not isinstance(step, int) or step == 0:
        context.fail(ParseError, "a slice's step is a constant that is not 0", span, "write x[::2]")
    return step


def is_single(part: SliceValue) -> bool:
    """Whether a slice has one element by construction, or none where its array ends before it."""
    start, stop, step = part.start, part.stop, 1 if part.step is None else part.step
    if isinstance(start, int) and isinstance(stop, int):
        return (start < 0) == (stop < 0) and len(range(start, stop, step)) == 1
    if start is None or stop is None:
        return step > 0 and ((start is None and stop == 1) or (start == -1 and stop is None))
    return step == 1 and (_form(stop) - _form(start)).constant == 1


def _form(bound: AnyValue) -> Linear:
    return linear(bound.element) if isinstance(bound, Value) else whole(bound)


def computed_single(context: Context, part: SliceValue, span: Span) -> Value | None:
    """The index of the one element of `x[i : i + 1]` with an i that is no length; None for other slices."""
    bounds = (part.start, part.stop)
    if not all(isinstance(b, Value) and b.dtype == "i64" and not b.rank for b in bounds):
        return None
    if all(map(_is_length, bounds)) or part.step not in (None, 1) or not is_single(part):
        return None
    start: Value = part.start
    if not context.binders.sure(linear(start.element)):
        context.binders.check(apply("less_equal", ZERO, start.element), (), EMPTY, INSIDE, span)
    return start


def sliced(
    context: Context, part: SliceValue, size: Element, axis: int, span: Span
) -> tuple[Element, Element]:
    """The length of a slice and the index it reads, by Python's rules for slices."""
    part = SliceValue(_counted(context, part.start, span), _counted(context, part.stop, span), part.step)
    step = step_of(context, part, span)
    if step == 1 and part.stop is None and isinstance(part.start, int) and part.start >= 0:
        # x[1:] and x[:-1] have one length, max(n - 1, 0), which is then known to be the same.
        length = combine("maximum", combine("subtract", size, integer(part.start)), ZERO)
        return length, combine("add", ZERO if is_const(length, 1) else Index(axis), integer(part.start))
    if step > 0:
        start = _bound(part.start, size, ZERO, size, ZERO)
        stop = _bound(part.stop, size, ZERO, size, size)
    else:
        last = combine("subtract", size, ONE)
        start = _bound(part.start, size, integer(-1), last, last)
        stop = _bound(part.stop, size, integer(-1), last, integer(-1))
    span_length = combine("subtract", stop, start) if step > 0 else combine("subtract", start, stop)
    rounded = combine("add", span_length, integer(abs(step) - 1))
    length = combine("floor_divide", rounded, integer(abs(step)))
    if not _never_negative(part, step):
        length = combine("maximum", length, ZERO)
    if not is_const(length) and is_single(part):
        context.sizes.single.add(length)
    index: Element = ZERO if is_const(length, 1) else Index(axis)
    place = index if step == 1 else combine("multiply", index, integer(step))
    return length, combine("add", place, start)


def _counted(context: Context, bound: AnyValue, span: Span) -> AnyValue:
    """A bound that is an integer argument as the size that it is."""
    if not isinstance(bound, Value):
        return bound
    return replace(bound, element=counted(context, bound.element, span))


def _never_negative(part: SliceValue, step: int) -> bool:
    """Whether a slice's length needs no clamp: one bound at most is given."""
    return part.start is None or part.stop is None


def _bound(value: AnyValue, size: Element, low: Element, high: Element, missing: Element) -> Element:
    """A slice bound, counted from the end if it is negative, and clamped to the axis."""
    if value is None:
        return missing
    if isinstance(value, int):
        at = combine("add", size, integer(value)) if value < 0 else integer(value)
        if is_const(at):
            return combine("minimum", combine("maximum", at, low), high)
        return combine("maximum", at, low)  # value < 0: it cannot be beyond the end
    at = value.element
    at = select(apply("less", at, ZERO), apply("add", at, size), at)
    return apply("minimum", apply("maximum", at, low), high)


def _is_length(value: AnyValue) -> bool:
    """Whether a value is an integer, or arithmetic of sizes."""
    if isinstance(value, Value):
        return not (value.rank or value.dtype != "i64" or value.element.axes or is_computed(value.element))
    return isinstance(value, int) and not isinstance(value, bool)
