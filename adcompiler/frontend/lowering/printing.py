"""`print(...)` for debugging: the printed values are results of a separate program.

A program that prints is compiled as if it did not. A second program computes the printed values: a value
itself, or, if it is computed many times in loops or comprehensions, their number and range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from adcompiler.frontend.values.open_axes import open_axes
from adcompiler.frontend.values.operations import Context, close
from adcompiler.frontend.values.values import AnyValue, Foreign, Tally, Value, as_array, describe, is_number
from adcompiler.ir.nodes import Array, Element, Index, Input, Map, Reduce, const, select
from adcompiler.ir.walk import arrays_of, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast

# How tallies of each kind are combined, and their initial values.
TALLIES = {"min": ("minimum", math.inf), "max": ("maximum", -math.inf), "sum": ("add", 0.0)}


@dataclass(frozen=True, slots=True)
class PrintedValue:
    """One value of a line: its number, its shape, and whether it is shown itself (`whole`, the first of its
    results)."""

    number: int
    shape: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One print statement: strings, parts, and tuples of them; `number` is that of its count."""

    number: int
    parts: tuple[Any, ...]


def printed(context: Context, values: Sequence[AnyValue]) -> None:
    """Record the values that a statement prints."""
    binders = context.binders
    binders.printed += 1
    number = binders.printed
    _tally(context, number, "sum", const(1.0, "f64"), ())
    line = Line(number, tuple(_part(context, as_array(v)) for v in values))
    binders.tallies.append(Tally(number, "line", Map((), const(0.0, "f64")), line))


def _part(context: Context, value: AnyValue) -> Any:
    """A value in the form it is shown."""
    if isinstance(value, tuple):
        return tuple(_part(context, as_array(v)) for v in value)
    if isinstance(value, str) or value is None or is_number(value):
        return str(value)
    if not isinstance(value, Value):
        return value.what if isinstance(value, Foreign) else describe(value)
    context.binders.printed += 1
    number = context.binders.printed
    element = cast(value.element, "f64")
    known = apply("equal", element, element)
    _tally(context, number, "min", select(known, element, const(math.inf, "f64")), value.shape)
    _tally(context, number, "max", select(known, element, const(-math.inf, "f64")), value.shape)
    _tally(context, number, "sum", select(known, const(0.0, "f64"), const(1.0, "f64")), value.shape)
    whole = not open_axes(value.element)
    if whole:
        context.binders.tallies.append(Tally(number, "whole", close(value)))
    return PrintedValue(number, value.rank, whole)


def _tally(context: Context, number: int, kind: str, element: Element, shape: Sequence[Element]) -> None:
    """Record the minimum, maximum or sum of an element over all points where a statement runs."""
    binders = context.binders
    start = const(TALLIES[kind][1], "f64")
    for condition in binders.path:
        element = select(condition, element, start)
    axes = sorted(element.axes)
    axes += [a for a in binders.lengths if a not in axes and _runs_over(context, a)]
    axes.sort()
    lengths = tuple(binders.lengths[a] if a < 0 else shape[a] for a in axes)
    body = substitute(element, {a: Index(p) for p, a in enumerate(axes)})
    binders.tallies.append(Tally(number, kind, Reduce(kind, (), lengths, body) if axes else Map((), body)))


def _runs_over(context: Context, axis: int) -> bool:
    """Whether the current code runs for each point of an open axis."""
    return any(a == axis for a, _ in context.binders.around)


def carried(tallies: Sequence[Tally]) -> list[Tally]:
    """The tallies of one iteration that a loop accumulates; whole values are those of one iteration."""
    return [t for t in tallies if t.kind in TALLIES]


def after(tallies: Sequence[Tally], totals: Sequence[Array]) -> list[Tally]:
    """The tallies of all iterations."""
    rest = iter(totals)
    found = [Tally(t.number, t.kind, next(rest)) for t in carried(tallies)]
    return [*found, *(t for t in tallies if t.kind == "line")]


def shown(tallies: Sequence[Tally], inputs: Sequence[Input]) -> tuple[list[Line], list[Tally]]:
    """The lines in order, and the results of the program that prints them; those of placeholders, as in a
    differentiated function, are omitted."""
    good = [t for t in tallies if t.kind != "line" and _is_closed(t.array, inputs)]
    numbers = {t.number for t in good}
    lines = [t.line for t in tallies if t.kind == "line" and {t.number, *_numbers(t.line.parts)} <= numbers]
    return sorted(lines, key=lambda line: line.number), good


def _numbers(parts: Sequence[Any]) -> Iterator[int]:
    """The numbers of the values of a line, including those in tuples."""
    for part in parts:
        if isinstance(part, PrintedValue):
            yield part.number
        elif isinstance(part, tuple):
            yield from _numbers(part)


def _is_closed(array: Array, inputs: Sequence[Input]) -> bool:
    return all(a in inputs for a in arrays_of((array,)) if isinstance(a, Input))
