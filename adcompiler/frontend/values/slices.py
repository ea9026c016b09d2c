"""Slices `start:stop:step` by Python's rules: their lengths, and the elements they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.lengths import simplest
from adcompiler.errors import DtypeError, ParseError, Span
from adcompiler.frontend.values.open_axes import ONE, open_axes
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import ZERO, combine, counted, integer, longest, numbered, stepped
from adcompiler.frontend.values.values import AnyValue, Value, describe
from adcompiler.ir.nodes import Element, Index, is_const, select
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import is_computed
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

OUTSIDE = "x[i : i + k] extends past the end of the axis"
WITHIN = "for fewer elements at the end write x[i : min(i + k, n)]"


@dataclass(frozen=True, slots=True)
class SliceValue:
    """`start:stop:step` with its parts lowered; None if omitted."""

    start: Any
    stop: Any
    step: Any


ALL = SliceValue(None, None, None)


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """The part of an axis that a slice selects: the index read at `Index(axis)`, below `length`; only the
    first `count`, if that depends on enclosing indices."""

    length: Element
    place: Element
    count: Element | None = None


def place_of(indices: Sequence[Any]) -> tuple[tuple[Any, Any], ...]:
    """The range of the elements that indices select: start and end for each leading axis."""
    found = list[tuple[Any, Any]]()
    for index in indices:
        if index is ... or index is None:
            break
        if isinstance(index, int) and not isinstance(index, bool):
            found.append((index, index + 1 if index != -1 else None))
        elif isinstance(index, SliceValue) and index.step in (None, 1):
            start, stop = (b.element if isinstance(b, Value) else b for b in (index.start, index.stop))
            found.append((start, stop))
        else:
            found.append((None, None))
    return tuple(found)


def step_of(context: Context, part: SliceValue, span: Span) -> int:
    """The step of a slice with integer bounds."""
    step = 1 if part.step is None else part.step
    for bound in (part.start, part.stop, step):
        if not (bound is None or is_integer(bound)):
            cause = f"the bounds of a slice must be integers or sizes, not {describe(bound)}"
            if isinstance(bound, Value) and is_float(bound.dtype):
                remedy = "annotate the parameter, k: int; divide with n // 2; or convert: x[:int(k)]"
                context.fail(DtypeError, cause, span, remedy)
            context.fail(ParseError, cause, span, "write x[1:n]; divide with n // 2")
    if not isinstance(step, int) or step == 0:
        context.fail(ParseError, "the step of a slice must be a nonzero constant", span, "write x[::2]")
    return step


def is_single(part: SliceValue) -> bool:
    """Whether a slice has one element by construction, or none if its array ends before it."""
    start, stop, step = part.start, part.stop, 1 if part.step is None else part.step
    if isinstance(start, int) and isinstance(stop, int):
        return (start < 0) == (stop < 0) and len(range(start, stop, step)) == 1
    if start is None or stop is None:
        return step > 0 and ((start is None and stop == 1) or (start == -1 and stop is None))
    return step == 1 and _distance(part).constant == 1


def _distance(part: SliceValue) -> Linear:
    first, end = (
        linear(b.element) if isinstance(b, Value) else linear_constant(0 if b is None else b)
        for b in (part.start, part.stop)
    )
    return end - first


def sliced(context: Context, part: SliceValue, size: Element, axis: int, span: Span) -> AxisSlice:
    """The elements of an axis of length `size` that a slice selects, by Python's rules."""
    size = context.sizes.find(size)
    part = SliceValue(_counted(context, part.start, span), _counted(context, part.stop, span), part.step)
    step = step_of(context, part, span)
    window = _window(context, part, size, axis, span)
    if window is not None:
        return window
    if step == 1 and part.stop is None and isinstance(part.start, int) and part.start >= 0:
        # x[1:] and x[:-1] have the same length expression, max(n - 1, 0), so it is known to be equal.
        length = combine("maximum", combine("subtract", size, integer(part.start)), ZERO)
        return AxisSlice(
            length, combine("add", ZERO if is_const(length, 1) else Index(axis), integer(part.start))
        )
    sure = context.binders.sure
    if step > 0:
        start, stop = (
            _bound(sure, part.start, size, ZERO, size, ZERO),
            _bound(sure, part.stop, size, ZERO, size, size),
        )
        start, stop = map(simplest, context.sizes.found((start, stop)))
    else:
        last = combine("subtract", size, ONE)
        start = _bound(sure, part.start, size, integer(-1), last, last)
        stop = _bound(sure, part.stop, size, integer(-1), last, integer(-1))
    span_length = combine("subtract", stop, start) if step > 0 else combine("subtract", start, stop)
    length = stepped(span_length, abs(step))
    if not _never_negative(part) and not (open_axes(length) and sure(linear(span_length))):
        length = combine("maximum", length, ZERO)
    length = simplest(length)
    if not is_const(length) and is_single(part):
        context.sizes.single.add(length)
    index: Element = ZERO if is_const(length, 1) else Index(axis)
    place = combine("add", index if step == 1 else combine("multiply", index, integer(step)), start)
    if open_axes(length):
        return AxisSlice(longest(context, linear(span_length), length, abs(step)), place, length)
    return AxisSlice(length, place)


def _window(context: Context, part: SliceValue, size: Element, axis: int, span: Span) -> AxisSlice | None:
    """`x[i : i + k]` where i is not a length: k elements, whatever i is; None for other slices.

    A window must be inside its array, which is checked: if truncated, its length would be unknown.
    """
    bounds = (part.start, part.stop)
    if part.step not in (None, 1) or not any(isinstance(b, Value) and not _is_length(b) for b in bounds):
        return None
    if not all(isinstance(b, Value) for b in bounds):
        return None
    distance = _distance(part)
    length = distance.element()
    if open_axes(length) or is_computed(length) or not context.binders.sure(distance):
        return None
    start = linear(part.start.element)
    outside = [f for f in (start, linear(size) - start - distance) if not context.binders.sure(f)]
    if outside:
        holds = [apply("less_equal", ZERO, f.element()) for f in outside]
        inside = holds[0] if len(holds) == 1 else apply("logical_and", *holds)
        context.binders.check(inside, (), OUTSIDE, WITHIN, span)
    index: Element = ZERO if is_const(length, 1) else Index(axis)
    return AxisSlice(length, combine("add", index, start.element()))


def _counted(context: Context, bound: AnyValue, span: Span) -> AnyValue:
    """A bound that is an integer argument, as a size."""
    if not isinstance(bound, Value) or not is_integer(bound):
        return bound
    return replace(bound, element=numbered(counted(context, bound.element, span)))


def _never_negative(part: SliceValue) -> bool:
    """Whether a slice's length needs no clamp, because at most one bound is given."""
    return part.start is None or part.stop is None


def _bound(
    sure: Callable[[Linear], bool],
    value: AnyValue,
    size: Element,
    low: Element,
    high: Element,
    missing: Element,
) -> Element:
    """A slice bound, counted from the end if negative, and clamped to the axis."""
    if value is None:
        return missing
    if isinstance(value, int):
        at = combine("add", size, integer(value)) if value < 0 else integer(value)
        if is_const(at):
            return combine("minimum", combine("maximum", at, low), high)
        return combine("maximum", at, low)  # value < 0, so it cannot be past the end
    at = value.element
    form = linear(at)
    computed = not _is_length(value)
    if not (computed and sure(form)):
        at = apply("maximum", select(apply("less", at, ZERO), apply("add", at, size), at), low)
    return at if computed and sure(linear(high) - form) else apply("minimum", at, high)


def is_integer(value: AnyValue) -> bool:
    """Whether a value is a single integer."""
    if isinstance(value, Value):
        return not value.rank and value.dtype == "i64"
    return isinstance(value, int) and not isinstance(value, bool)


def _is_length(value: AnyValue) -> bool:
    """Whether a value is an integer, or arithmetic on sizes."""
    if isinstance(value, Value):
        return is_integer(value) and not (value.element.axes or is_computed(value.element))
    return is_integer(value)
