"""The search for cuts in a graph: back from the output, as far as derivatives pass.

Where the walk ends, at a leaf, a constant, or a zero derivative, it checks whether the value there was
computed from the input after all: by the graph if it still exists, otherwise by the mask of its leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import CodeType, MappingProxyType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from adcompiler.eager.aggregates.aggregate import Aggregate
from adcompiler.eager.aggregates.fusion_plan import Fused
from adcompiler.eager.graph.graph import Edge, Entry, Recorded, Variable, live, reachable, setting, walk
from adcompiler.eager.graph.provenance import Origin, Taken, roots_of, taken
from adcompiler.eager.graph.user_lines import UserLine
from adcompiler.eager.variable.elementwise import Elementwise
from adcompiler.errors import Error
from adcompiler.explain.limits import SPARSE_BITS


class Cut(NamedTuple):
    """Where a path ends that would have led to the input."""

    how: str  # a key of cutwords.WORDS
    place: UserLine | None
    name: str  # of what was cut off
    link: str  # the line of the path that says so
    certain: bool


class Step(NamedTuple):
    """How the walk came to a value: from which output of which operation."""

    serial: int
    entry: Entry


class Search:
    """The walk from one output towards one input."""

    target: Any
    via: dict[int, Step | None]
    names: Mapping[int, str] = MappingProxyType({})  # what the user's line calls Variables, by id

    def __init__(self, output: Variable, target: Variable) -> None:
        self.output, self.target = output, target
        self.entries = reachable([output])
        self.makers = {o.serial: e for e in live() for o in e.outputs}
        self.taken = taken()
        self.cached: dict[int, bool] = {}
        self.unknown: list[Recorded] = []  # operations whose propagate would have to run to know
        self.walk()
        if target.serial in self.via and all(e.state == "live" for e in self.entries):
            self.probe()
            self.walk()

    # -- the walk ------------------------------------------------------------------------------

    def walk(self) -> None:
        """Follow derivatives: `via` says how each value was reached, `ends` where they stop."""
        self.via = {self.output.serial: None}
        self.passed: list[Entry] = []
        self.ends: list[tuple[Step | None, Edge, str]] = []
        if self.output.entry is None:
            self.ends.append((None, Edge(self.output.serial, None, False, self.output.origin), "leaf"))
        work, seen = [(self.output.serial, self.output.entry)], set()
        for serial, entry in work:
            if entry is None or entry.number in seen:
                continue
            seen.add(entry.number)
            self.passed.append(entry)
            if entry.state == "reset":
                self.ends.append((Step(serial, entry), Edge(serial, None, False, None), "reset"))
            for k, edge in enumerate(entry.edges):
                why = blocked(entry, k)
                if why is not None or edge.entry is None:
                    self.ends.append((Step(serial, entry), edge, why or "leaf"))
                if why is None and edge.serial not in self.via:
                    self.via[edge.serial] = Step(serial, entry)
                    work.append((edge.serial, edge.entry))

    def probe(self) -> None:
        """Walk back with numbers, which finds derivatives that are zero for these values."""
        self.unknown = [e for e in self.entries if isinstance(e, Recorded)]
        if self.unknown or any(o.hooks for e in self.entries for o in e.outputs):
            return  # what a user wrote is not run; what the last pass has found stays
        for entry in self.entries:
            entry.zeros = []
        ones = type(self.output).made(np.ones(self.output.shape, self.output.dtype))
        with setting(tracing=False), suppress(Error):
            walk(self.entries, {self.output.serial: ones}, {self.target.serial: None}, False)

    @property
    def found(self) -> bool:
        """Whether a derivative reaches the input."""
        return self.target.serial in self.via

    def path(self, step: Step | None) -> list[Entry]:
        """The operations from the output to a step, the output's first."""
        found: list[Entry] = []
        while step is not None:
            found.append(step.entry)
            step = self.via[step.serial]
        return found[::-1]

    # -- what ends have to do with the input -----------------------------------------------------

    def cuts(self) -> list[tuple[Step | None, Cut]]:
        """The cuts, those that are certain first."""
        found = [(step, cut) for step, edge, why in self.ends for cut in self.cut(step, edge, why)]
        for entry in self.passed:
            step = Step(entry.outputs[0].serial, entry)
            for given in entry.given:
                found += [(step, cut) for cut in self.of_given(given, entry.place, entry.number)]
        found.sort(key=lambda pair: not pair[1].certain)
        return found

    def cut(self, step: Step | None, edge: Edge, why: str) -> Iterator[Cut]:
        """The cut at an edge, if gradients of the target flow to it."""
        if why == "leaf":
            yield from self.of_leaf(edge)
        elif why == "reset":
            assert step is not None
            yield Cut("reset", None, step.entry.outputs[0].name, "", True)
        elif self.leads(edge.serial, edge.entry):
            assert step is not None
            yield Cut(why, step.entry.place, self.name(edge.serial), "", True)

    def of_leaf(self, edge: Edge) -> Iterator[Cut]:
        """A leaf that was made of the input, or that has its value."""
        origin = edge.origin
        if origin is None or (edge.serial == self.target.serial):
            return
        if origin.sources:
            sure = self.of_sources(origin)
            if sure is not None:
                link = f"{origin.name} <- {', '.join(self.name(n) for n in origin.sources)}"
                yield Cut(origin.how, origin.place, origin.name, link, sure)
        else:
            given = [self.made_of(origin, c) for c in self.of_given(origin.given, origin.place, edge.serial)]
            yield from [c for c in given if c.certain] or [*self.alike(origin)] or given

    def made_of(self, origin: Origin, cut: Cut) -> Cut:
        """The cut where a leaf was made of a value that had been taken from a Variable."""
        link = f"{origin.name} <- {cut.link.partition(' <- ')[2]}"
        return cut._replace(how="Variable()", place=origin.place, name=origin.name, link=link)

    def of_sources(self, origin: Origin) -> bool | None:
        """Whether a leaf's sources were computed from the input: surely, perhaps, or (None) not."""
        known = [s for s in origin.sources if s in self.makers or s == self.target.serial]
        if any(self.leads(s, self.makers.get(s)) for s in known):
            return True
        return None if len(known) == len(origin.sources) else self.masked(origin.roots)

    def masked(self, roots: int) -> bool | None:
        """What a mask says: surely for a leaf among few, perhaps, or (None) that there is no connection."""
        mask = roots_of(self.target)
        if roots & mask != mask:
            return None
        return self.target.entry is None and roots.bit_count() <= SPARSE_BITS

    def leads(self, serial: int, entry: Entry | None) -> bool:
        """Whether a value was computed from the input, also where no derivative passes."""
        if serial not in self.cached:
            self.cached[serial] = self.leads_edge(Edge(serial, entry, False, None))
        return self.cached[serial]

    def leads_edge(self, edge: Edge) -> bool:
        """Whether an edge leads to the target."""
        seen: set[int] = set()
        work = [edge]
        while work:
            e = work.pop()
            if e.serial == self.target.serial:
                return True
            if e.serial in seen:
                continue
            seen.add(e.serial)
            if e.entry is not None:
                work += e.entry.edges
            elif e.origin is not None:
                if self.masked(e.origin.roots):
                    return True
                work += [Edge(s, self.makers.get(s), False, None) for s in e.origin.sources]
        return False

    def of_given(self, given: Any, place: UserLine | None, number: int) -> Iterator[Cut]:
        """A constant that is a value taken from what was computed from the input, or equals one: taken before
        there was what has this serial number, which reads it."""
        if given is None:
            return
        earlier = [t for t in self.taken if t.number < number]
        for t in earlier:
            if t.was(given) and (sure := self.of_taken(t)) is not None:
                yield self.at(t, sure)
                return
        if literal(given, place):
            return
        for t in earlier:
            if equal(t.value, given) and self.of_taken(t) is not None:
                yield self.at(t, False)
                return

    def at(self, t: Taken, certain: bool) -> Cut:
        """The cut where a value was taken out of a Variable."""
        value = str(t.value) if not isinstance(t.value, ref) else "the array"
        return Cut(t.how, t.place, value, f"{value} <- {t.call}", certain)

    def of_taken(self, t: Taken) -> bool | None:
        """Whether a value was taken from the input or what was computed from it."""
        v = t.source()
        if v is not None:
            return True if v is self.target or self.leads_variable(v) else None
        roots = t.roots.roots if isinstance(t.roots, Origin) else t.roots
        return None if roots is None else self.masked(roots)

    def leads_variable(self, v: Variable) -> bool:
        """Whether a Variable leads to the target."""
        return (
            self.leads(v.serial, v.entry)
            if v.entry is not None
            else self.leads_edge(Edge(v.serial, None, False, v.origin))
        )

    def alike(self, origin: Origin) -> Iterator[Cut]:
        """A leaf that has the input's value."""
        v = origin.made()
        if v is not None and v is not self.target and equal(v.data, self.target.data):
            yield Cut("same value", origin.place, origin.name, f"{origin.name} is a leaf", False)

    def perhaps(self) -> list[Cut]:
        """The values that were taken from what was computed from the input: one may have been used.

        Those of the functions in which the output was computed, if there are any, the latest first; else
        those of Variables that are still there: a mask takes others for the input now and then.
        """
        lines = (p for e in self.passed for p in (e.place, *(e.places if isinstance(e, Fused) else ())))
        codes = with_inner({p.code for p in lines if p is not None})
        last = max((e.number for e in self.passed), default=self.output.serial)
        here: dict[str, Cut] = {}
        elsewhere: dict[str, Cut] = {}
        for t in self.taken:
            sure = self.of_taken(t) if t.number < last else None
            near = t.place is not None and t.place.code in codes
            if sure is not None and (near or t.source() is not None):
                (here if near else elsewhere).setdefault(str(t.place), self.at(t, False))
        return list((here or elsewhere).values())

    # -- names ---------------------------------------------------------------------------------

    def called(self, v: Variable) -> str:
        """The name that a Variable was given, else what the user's line calls it."""
        return self.names.get(id(v), str(v.name)) if unnamed(v.name) else str(v.name)

    def name(self, serial: int) -> str:
        """The name of a Variable by its serial number."""
        if serial == self.target.serial:
            return str(self.target.name)
        entry = self.makers.get(serial)
        outputs = [] if entry is None else [o for o in entry.outputs if o.serial == serial]
        return outputs[0].name if outputs else "a Variable"


def blocked(entry: Entry, k: int) -> str | None:
    """Why no derivative passes from an operation to its input `k`; None if one does."""
    if isinstance(entry, Elementwise):
        places = range(len(entry.primitive.params))
        if entry.given:
            places = [p for p, given in enumerate(entry.given) if given is None]  # type: ignore[assignment]
        if entry.primitive.partials[places[k]] == "0":
            return "zero"
    elif isinstance(entry, Aggregate) and not entry.program.usual.known[k]:
        return "compiled"
    if k in getattr(entry, "zeros", ()):
        return "propagate" if isinstance(entry, Recorded) else "zero here"
    return None


def unnamed(name: str) -> bool:
    """Whether a name is that of a Variable which was given none: v0, v1, ..."""
    return name[:1] == "v" and name[1:].isdigit()


def with_inner(codes: Iterable[CodeType]) -> set[CodeType]:
    """The code of functions, and of the comprehensions and functions that stand in them."""
    found, work = set(codes), list(codes)
    while work:
        inner = {c for c in work.pop().co_consts if isinstance(c, CodeType)} - found
        found |= inner
        work += inner
    return found


def equal(one: Any, other: Any) -> bool:
    """Whether two values, or what is left of them, are equal numbers or arrays."""
    a, b = (v() if isinstance(v, ref) else v for v in (one, other))
    if a is None or b is None or np.shape(a) != np.shape(b):
        return False
    with suppress(TypeError, ValueError):
        return bool(np.array_equal(a, b))
    return False


def literal(value: Any, place: UserLine | None) -> bool:
    """Whether a number stands in the source of its line."""
    return place is not None and any(value is c for c in place.code.co_consts)
