"""Subscripts: slices, new axes, fixed and computed indices, by NumPy's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adcompiler.errors import DtypeError, OutOfRangeError, ParseError, Span
from adcompiler.ir.nodes import Element, Index, is_const, select
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply
from adcompiler.syntax.containers import Container
from adcompiler.syntax.context import ONE, Context
from adcompiler.syntax.shapes import ZERO, combine, integer
from adcompiler.syntax.sizes import unit
from adcompiler.syntax.values import AnyValue, Value, describe


@dataclass(frozen=True, slots=True)
class SliceValue:
    """`start:stop:step` with its parts lowered; None where left out."""

    start: Any
    stop: Any
    step: Any


def subscript(context: Context, value: AnyValue, indices: list[Any], span: Span) -> AnyValue:
    """`value[indices]`."""
    if isinstance(value, Container):
        if not value.sequence:
            return _entry(context, value, indices, span)
        value = value.parts
    if isinstance(value, tuple):
        return _item(context, value, indices, span)
    if not isinstance(value, Value):
        context.fail(DtypeError, f"{describe(value)} has no elements", span, "index an array")
    used = sum(1 for i in indices if i is not None)
    if used > value.rank:
        context.fail(
            OutOfRangeError,
            f"{used} indices for an array of rank {value.rank}",
            span,
            f"use at most {value.rank}",
        )
    indices = indices + [SliceValue(None, None, None)] * (value.rank - used)
    arrays = [i for i in indices if isinstance(i, Value) and i.rank]
    if arrays:
        context.fail(
            ParseError,
            "indexing with an array is not supported yet",
            span,
            "it comes with the array language",
        )
    shape: list[Element] = []
    places: dict[int, Element] = {}
    axis = 0
    for index in indices:
        if index is None:
            shape.append(ONE)
            continue
        size = context.sizes.find(value.shape[axis])
        if isinstance(index, SliceValue):
            length, place = _slice(context, index, size, len(shape), span)
            shape.append(length)
        else:
            place = _fixed(context, index, size, span)
        places[axis] = ZERO if unit(size) else place
        axis += 1
    return Value(context.ranked(tuple(shape), span), substitute(value.element, places), value.weak)


def _item(context: Context, value: tuple[Any, ...], indices: list[Any], span: Span) -> AnyValue:
    if len(indices) != 1 or not isinstance(indices[0], int):
        context.fail(ParseError, "a tuple is indexed by one integer", span, "write t[0]")
    if not -len(value) <= indices[0] < len(value):
        context.fail(
            OutOfRangeError,
            f"index {indices[0]} of a tuple of {len(value)}",
            span,
            f"use 0 to {len(value) - 1}",
        )
    return value[indices[0]]


def _entry(context: Context, value: Container, indices: list[Any], span: Span) -> AnyValue:
    """The part of a dict under a key that is known while compiling."""
    if value.kind is not dict:
        context.fail(ParseError, f"{value.what} has no keys", span, "read a field as p.name")
    if len(indices) != 1 or not isinstance(indices[0], str):
        context.fail(ParseError, "a dict is indexed by a key in quotes", span, 'write p["name"]')
    if indices[0] not in value.keys:
        context.fail(
            OutOfRangeError,
            f"there is no key {indices[0]!r}",
            span,
            f"the keys are {', '.join(map(repr, value.keys))}" if value.keys else "the dict is empty",
        )
    return value.parts[value.keys.index(indices[0])]


def _fixed(context: Context, index: AnyValue, size: Element, span: Span) -> Element:
    """A single index; negative ones count from the end, and it must lie in the axis."""
    if not isinstance(index, int) or isinstance(index, bool):
        context.fail(
            ParseError, f"an index must be an integer known while compiling, not {describe(index)}", span,
            "computed indices come with the array language",
        )  # fmt: skip
    need = index + 1 if index >= 0 else -index
    if is_const(size):
        if need > int(size.value):
            context.fail(
                OutOfRangeError, f"index {index} of an axis of length {size.value}", span, "use a smaller one"
            )
    else:
        context.sizes.demand(size, need, f"index {index}", span)
    return integer(index) if index >= 0 else combine("add", size, integer(index))


def _slice(
    context: Context, part: SliceValue, size: Element, axis: int, span: Span
) -> tuple[Element, Element]:
    """The length of a slice and the index it reads, by Python's rules for slices."""
    step = 1 if part.step is None else part.step
    for bound in (part.start, part.stop, step):
        if not (bound is None or _is_length(bound)):
            context.fail(
                ParseError,
                f"a slice's bounds are integers or sizes, not {describe(bound)}",
                span,
                "write x[1:n]",
            )
    if not isinstance(step, int) or step == 0:
        context.fail(ParseError, "a slice's step is a constant that is not 0", span, "write x[::2]")
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
    index: Element = ZERO if is_const(length, 1) else Index(axis)
    place = index if step == 1 else combine("multiply", index, integer(step))
    return length, combine("add", place, start)


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
        return not value.rank and value.dtype == "i64" and not value.element.axes
    return isinstance(value, int) and not isinstance(value, bool)
