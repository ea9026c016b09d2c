"""Where a NaN or an infinity comes from: a walk back from a result to the operation that first made it.

The program is interpreted (`history.py`). From a non-finite element of a result, the walk goes back: at each
operation to its non-finite operands, through a `where` along the side that was taken, through a sum to its
non-finite terms, through a loop to the iteration in which the value changed. An operation with a non-finite
result and finite operands is a cause; the answer is the cause that ran first. A NaN made from infinities,
such as 0 * inf, is not a cause but an event on the way."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler.interpreter.history import Frame
from adcompiler.interpreter.limits import MOST_STARTS, MOST_VISITS
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Input,
    Put,
    Read,
    Reduce,
    Select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.library import CONSTANT

Index_ = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Event:
    """An operation at a point: `element` of `array`, or the array's own operation (a sum, a routine).

    values    those of the elements there
    point     of the domain; for an array's own operation the index of the result
    """

    frame: Frame
    array: Array
    point: Index_
    element: Element | None
    value: float
    values: Mapping[Element, Any]


class Link(NamedTuple):
    """What is on the way from a result to where the walk is, the latest first: a `birth` is an event that
    made NaN of infinities, a `sum` one with the point of its term, a `row` a loop and its iteration that read
    what was made for all iterations beside it."""

    kind: str
    what: Any
    before: Link | None


@dataclass(frozen=True, eq=False)
class Cause:
    """Why something is not finite.

    kind    "operation", "input" (it was so already), "constant", as it was written, or "computed", a constant
            that an operation on finite ones gave at compile time
    births  where infinities became NaN on the way to the result, in the order of execution
    sums    those that it is a term of, the outermost first, each at the term's point
    passed  iterations that read what was made beside their loops, the innermost first
    """

    kind: str
    event: Event
    position: tuple[int, ...]
    births: tuple[Event, ...]
    sums: tuple[Event, ...]
    passed: tuple[tuple[Loop, int], ...]
    result: int
    index: Index_


def first_cause(frame: Frame, results: Sequence[Array], computed: Container[str] = ()) -> Cause | None:
    """The first operation that made one of `results` NaN or infinite; None if all of them are finite.

    `computed` are the constants that were made at compile time, by operations on finite ones.
    """
    causes: list[Cause] = []
    for k, result in enumerate(results):
        value = np.asarray(frame.values[result])
        if is_float(result.dtype) and not np.isfinite(value).all():
            for index in _samples(value):
                causes += _Walk(k, index, computed).run(frame, result)
    order = {"operation": 0, "computed": 0, "input": 1, "constant": 2}
    # An infinity written by the user, as where a minimum begins, is less of an answer than what made NaN of
    # it.
    return min(causes, key=lambda c: (order[c.kind], c.position), default=None)


def _samples(value: np.ndarray) -> list[Index_]:
    """Some places of an array that is not finite: the first, the last and others between, NaN before
    infinity."""
    flat = np.flatnonzero(np.isnan(value))
    flat = flat if len(flat) else np.flatnonzero(~np.isfinite(value))
    chosen = flat[np.unique(np.linspace(0, len(flat) - 1, min(len(flat), MOST_STARTS)).astype(int))]
    return [tuple(int(i) for i in np.unravel_index(k, value.shape)) for k in chosen]


class _Walk:
    """The walk from one element of a result."""

    def __init__(self, result: int, index: Index_, computed: Container[str]) -> None:
        self.result, self.index, self.computed = result, index, computed
        self.causes: list[Cause] = []
        self.seen: set[Any] = set()
        self.work: list[tuple[Frame, Array, Index_, Link | None]] = []

    def run(self, frame: Frame, array: Array) -> list[Cause]:
        self.work.append((frame, array, self.index, None))
        while self.work and len(self.seen) < MOST_VISITS:
            here = self.work.pop()
            key = here[0].path, *here[1:3]
            if key not in self.seen:
                self.seen.add(key)
                self.visit(*here)
        return self.causes

    def add(self, kind: str, event: Event, link: Link | None) -> None:
        """A cause at an event."""
        found: dict[str, list[Any]] = {"birth": [], "sum": [], "row": []}
        while link is not None:
            found[link.kind].append(link.what)
            link = link.before
        births, sums, passed = found.values()
        if kind == "constant" and repr(float(event.value)) in self.computed:
            kind = "computed"
        elif kind == "constant" and births:  # the infinity was meant: what made NaN of it is the answer
            kind, event, births = "operation", births[0], births[1:]
        frame = event.frame
        inner = 0 if event.element is None else 1 + list(event.values).index(event.element)
        position = (*frame.path, frame.order.get(event.array, 0), inner)
        result = self.result, self.index
        self.causes.append(
            Cause(kind, event, position, tuple(births), tuple(sums[::-1]), tuple(passed), *result)
        )

    # -- arrays ----------------------------------------------------------------------------------------

    def visit(self, frame: Frame, array: Array, index: Index_, link: Link | None) -> None:
        """An element of an array that is not finite."""
        match array:
            case Slot():
                self.slot(frame, array, index, link)
            case Input():
                self.add("input", self.own(frame, array, index), link)
            case Item():
                self.item(frame, array, index, link)
            case Ruled():
                self.work.append((frame, array.value, index, link))
            case Call():
                self.call(frame, array, index, link)
            case Reduce():
                self.reduce(frame, array, index, link)
            case Accumulate():
                self.accumulate(frame, array, index, link)
            case Put():
                self.put(frame, array, index, link)
            case _:
                self.elements(frame, array, index, link)

    def own(self, frame: Frame, array: Array, index: Index_) -> Event:
        """An array's own operation."""
        return Event(frame, array, index, None, float(frame.values[array][index]), {})

    def slot(self, frame: Frame, slot: Slot, index: Index_, link: Link | None) -> None:
        """What the body of a loop reads, where it comes from."""
        assert frame.inside is not None
        outer, loop, done, iteration = frame.inside
        kind, k = outer.histories[loop].operand(slot)
        if kind == "init":
            self.carried(outer, loop, k, index, done, link)
        elif kind == "row":
            self.work.append(
                (outer, loop.scanned[k], (iteration, *index), Link("row", (loop, iteration), link))
            )
        elif kind == "const":
            self.work.append((outer, loop.consts[k], index, link))

    def carried(self, frame: Frame, loop: Loop, k: int, index: Index_, done: int, link: Link | None) -> None:
        """What a loop carries after `done` iterations: it comes from the one in which it became so."""
        history = frame.histories[loop]
        since = history.since(k, index, done)
        if since:
            self.work.append((history.frame(since - 1), loop.results[k], index, link))
        else:
            self.work.append((frame, loop.inits[k], index, link))

    def item(self, frame: Frame, item: Item, index: Index_, link: Link | None) -> None:
        loop, history = item.loop, frame.histories[item.loop]
        k = item.k - len(loop.results)
        if k < 0:
            self.carried(frame, loop, item.k, index, len(history.numbers), link)
        else:
            body = history.frame(history.done_before(index[0]))
            self.work.append((body, loop.outs[k], index[1:], link))

    def call(self, frame: Frame, call: Call, index: Index_, link: Link | None) -> None:
        """A routine: what it is given is not finite, or the routine is the cause."""
        found = False
        for operand in call.operands:
            if isinstance(operand, Call) and operand.op in CONSTANT:
                continue
            value = frame.values[operand]
            case = index[: len(index) - 2][len(index) - value.ndim :] if value.ndim > 2 else ()
            bad = np.argwhere(~np.isfinite(value[case]))
            if len(bad):
                found = True
                self.work.append((frame, operand, (*case, *map(int, bad[0])), link))
        if not found:
            self.add("operation", self.own(frame, call, index), link)

    def reduce(self, frame: Frame, array: Reduce, index: Index_, link: Link | None) -> None:
        """A reduction: terms that are not finite, or it overflowed."""
        domain = (*(1 for _ in index), *frame.domain(array)[array.rank :])
        (body,) = frame.over(array, (array.body,), index, domain)
        body = np.broadcast_to(body, domain)
        self.terms(frame, array, index, [(*index, *p[array.rank :]) for p in _bad(body)], link)

    def accumulate(self, frame: Frame, array: Accumulate, index: Index_, link: Link | None) -> None:
        """What was added to an element."""
        domain = frame.domain(array)
        *places, body = (np.broadcast_to(v, domain) for v in frame.over(array, array.elements, (), domain))
        here = np.ones(domain, bool)
        for place, i in zip(places, index, strict=True):
            here &= place == i
        self.terms(frame, array, index, _bad(np.where(here, body, 0)), link)

    def put(self, frame: Frame, array: Put, index: Index_, link: Link | None) -> None:
        """What was stored in an element or added to it, or what it was before."""
        domain = frame.domain(array)
        elements = frame.over(array, array.elements, (), domain)
        *places, inside, _ = (np.broadcast_to(v, domain) for v in elements)
        for place, i in zip(places, index, strict=True):
            inside = inside & (place == i)
        points = [tuple(map(int, p)) for p in np.argwhere(inside)]
        if not points or (array.op == "add" and not np.isfinite(frame.values[array.base][index])):
            self.work.append((frame, array.base, index, link))
        else:
            self.terms(frame, array, index, points[-1:], link)

    def terms(
        self, frame: Frame, array: Array, index: Index_, points: Sequence[Index_], link: Link | None
    ) -> None:
        """The terms of a sum, a product or an extremum, by their points; NaN of infinities is an event."""
        own = self.own(frame, array, index)
        if not points:
            self.add("operation", own, link)
        if (
            len(points) > 1
            and not any(np.isnan(_value(frame, array, p)) for p in points)
            and np.isnan(own.value)
        ):
            link = Link("birth", own, link)
        for point in points:
            term = Event(frame, array, point, None, own.value, {})
            self.elements(frame, array, point, Link("sum", term, link))

    # -- elements --------------------------------------------------------------------------------------

    def elements(self, frame: Frame, array: Array, point: Index_, link: Link | None) -> None:
        """The body of an array at a point of its domain."""
        values = frame.at(array, point)
        root = array.elements[-1]
        if np.isfinite(values[root]):  # one element alone is rounded otherwise than among others
            self.add("operation", Event(frame, array, point, root, float("nan"), values), link)
            return
        work: list[tuple[Element, Link | None]] = [(root, link)]
        while work:
            element, link = work.pop()
            key = frame.path, array, point, element
            if key in self.seen:
                continue
            self.seen.add(key)
            match element:
                case Const():
                    self.add("constant", Event(frame, array, point, element, values[element], values), link)
                case Read():
                    index = tuple(int(values[i]) for i in element.args)
                    self.work.append((frame, element.array, index, link))
                case Select():
                    work.append((element.then if values[element.guard] else element.otherwise, link))
                case Apply():
                    event = Event(frame, array, point, element, float(values[element]), values)
                    work += self.operands(event, element, link)

    def operands(
        self, event: Event, element: Apply, link: Link | None
    ) -> Iterator[tuple[Element, Link | None]]:
        """The operands that made an operation's result what it is; without any it is a cause."""
        bad = [a for a in element.args if is_float(a.dtype) and not np.isfinite(event.values[a])]
        nan = [a for a in bad if np.isnan(event.values[a])]
        if not bad:
            self.add("operation", event, link)
        if np.isnan(event.value) and bad and not nan:
            link = Link("birth", event, link)
        for operand in (*(a for a in bad if a not in nan), *nan):  # the last one is looked at first
            yield operand, link


def _value(frame: Frame, array: Array, point: Index_) -> Any:
    return frame.at(array, point)[array.elements[-1]]


def _bad(values: np.ndarray) -> list[Index_]:
    """The first place of each kind that is not finite: NaN, or else inf and -inf."""
    kinds = [np.isnan(values)]
    if not kinds[0].any():
        kinds = [np.isposinf(values), np.isneginf(values)]
    flat = [np.flatnonzero(kind) for kind in kinds]
    places = [int(f[0]) for f in flat if len(f)]
    return [tuple(int(i) for i in np.unravel_index(k, values.shape)) for k in places]
