"""Ranges cut by conditions: a loop whose conditions matter only near its ends has an inside without them.

    for i in range(n):                              for i in range(1, n - 1):
        y[i] = x[i - 1] if i >= 1 else x[n - 1]         y[i] = x[i - 1]
                                                    for i in 0 and n - 1: as before

Stencils, shifts, padding and their adjoints have such conditions, and so have reads that may be outside of
an array. This is *index set splitting*. The iterations near both ends are one loop, so that a nest with d
loops has d + 1 bodies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import facts_of, lowest
from adcompiler.analysis.loop_order import is_short
from adcompiler.analysis.predicates import MIRRORED, Conditions
from adcompiler.ir.nodes import Accumulate, Apply, Const, Element, Index, Map, Read, Reduce
from adcompiler.ir.walk import elements_of
from adcompiler.kernels.emit.writer import Writer, axis_name
from adcompiler.kernels.limits import MOST_EDGE, MOST_INNER_ELEMENTS, MOST_OUTER_ELEMENTS
from adcompiler.kernels.schedule.schedule_tree import Loop, Task
from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.nodes import (
    EDGE,
    Assign,
    Binary,
    Call,
    Choice,
    Compare,
    Expr,
    For,
    Var,
    counted,
    literal,
    unsigned,
)


@dataclass(frozen=True)
class Cut:
    """The inside of a loop, without the `first` and the `last` iterations; there the conditions are
    `known`."""

    first: int
    last: int
    known: Conditions

    def inside(self, loop: Loop) -> Loop:
        """The loop with the bounds of its inside, from which proofs follow."""
        size = linear(loop.size) - linear_constant(self.last)
        bounds = [("start", linear_constant(self.first).element()), ("stop", size.element())]
        return replace(loop, bounds=[*loop.bounds, *bounds])

    def limits(self, loop: Loop, writer: Writer, whole: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        """Where the inside starts and stops, between the limits of the `whole` loop."""
        start, stop = whole
        parts = loop.number in writer.cut  # a block: from any iteration to any other
        first, last = start, stop
        if self.first:
            least = literal(self.first)
            first = Call("min", (Call("max", (start, least)) if parts else least, stop))
        if self.last:
            most = writer.written((linear(loop.size) - linear_constant(self.last)).element())
            last = Call("max", (first, Call("min", (stop, most)) if parts else most))
        return first, last


def cut(writer: Writer, loop: Loop) -> Cut | None:
    """How to cut a loop; None if no condition would be known inside, or the inside were less than half of a
    loop of constant length."""
    if loop.bounds or is_short(loop.size) or not all(map(_is_plain, loop.tasks)) or _is_large(loop):
        return None
    outer = frozenset(one.number for one in (*writer.around, *writer.loops))
    known: dict[Element, bool] = {}
    first, last = 0, 0
    for condition, form in _forms(loop):
        edge = _Edge.of(form, loop, outer)
        if edge is None:
            continue
        first, last = max(first, edge.first), max(last, edge.last)
        if condition is not None:
            known[condition] = edge.holds
    if not (first or last) or (isinstance(loop.size, Const) and 2 * (first + last) > loop.size.value):
        return None
    return Cut(first, last, tuple(known.items()))


def _is_large(loop: Loop) -> bool:
    """Whether the code of a loop is so large that more bodies would take long to compile."""
    inner = any(task.has_loops(task.loops.index(loop)) for task in loop.tasks)
    elements = elements_of(e for t in loop.tasks for e in t.elements)
    return len(elements) > (MOST_OUTER_ELEMENTS if inner else MOST_INNER_ELEMENTS)


def _is_plain(task: Task) -> bool:
    """Whether the iterations of a task may run in any order."""
    return isinstance(task.array, Map | Reduce | Accumulate)


@dataclass(frozen=True)
class _Edge:
    """Up to which iteration from one end a condition differs, and whether it `holds` inside."""

    first: int
    last: int
    holds: bool

    @staticmethod
    def of(form: Linear, loop: Loop, outer: frozenset[int]) -> _Edge | None:
        """The edge of the condition that a form is not negative; None if it may be anywhere."""
        index = Index(loop.number)
        step = form.terms.get(index)
        rest = form - linear(index) * (step or 0)
        if step not in (1, -1) or not rest.axes <= outer:
            return None
        # i + rest >= 0 holds from -rest on, and rest - i >= 0 before rest + 1.
        place = rest * -1 if step == 1 else rest + linear_constant(1)
        first, last = _most(place), _most(linear(loop.size) - place)
        if first is not None and (last is None or first <= last):
            return _Edge(first, 0, step == 1)
        return None if last is None else _Edge(0, last, step == -1)


def _most(distance: Linear) -> int | None:
    """The most that a distance from an end may be; None if that may be more than a few iterations."""
    least = lowest(distance * -1, {})
    most = None if least is None else least.constant
    return max(-most, 0) if most is not None and -most <= MOST_EDGE else None


def _forms(loop: Loop) -> Iterator[tuple[Element | None, Linear]]:
    """The conditions in a loop that depend on its index, each as a form that is not negative where it holds,
    and the same for reads."""
    for element in elements_of(e for t in loop.tasks for e in t.elements):
        if loop.number not in element.axes:
            continue
        if isinstance(element, Apply) and element.op in MIRRORED:
            yield from ((element, form) for form in facts_of(element))
        elif isinstance(element, Read):
            for index, size in zip(element.args, element.array.shape, strict=True):
                if loop.number in index.axes:
                    at = linear(index)
                    yield None, at
                    yield None, linear(size) - at - linear_constant(1)


def edges(loop: Loop, limits: tuple[Expr, Expr], inside: tuple[Expr, Expr]) -> tuple[For, Assign]:
    """The head of the loop over the iterations that are not inside, and the statement that finds them."""
    (start, stop), (first, last) = limits, inside
    name = axis_name(loop.number)
    counter = Var(f"{EDGE}{loop.number}")
    count: Expr
    place: Expr
    number: Expr = Call("np.int64", (counter,))
    if first is start:  # the last iterations only
        count, place = Binary("-", stop, last), Binary("+", last, number)
    else:
        before = first if start == literal(0) else Binary("-", first, start)
        count, place = before, number if start == literal(0) else Binary("+", start, number)
        if last is not stop:
            count = Binary("+", before, Binary("-", stop, last))
            after = Binary("+", Binary("-", number, before), last)
            place = Choice(Compare("<", number, before), place, after)
    return counted(counter.name, count, kind="edges"), Assign(name, unsigned(place))
