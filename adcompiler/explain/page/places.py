"""Places in the source, numbered, and the nodes of programs that come from them.

The table of origins (`ir/origins.py`) follows nodes through rewriting and differentiation. A node without
an origin in the source that is shown has no place: a page lights nothing rather than something wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from adcompiler.errors import Source, Span
from adcompiler.frontend.grammar import tree
from adcompiler.ir.nodes import Array, Func, Node, Read
from adcompiler.ir.origins import Origin, Origins


class Found(NamedTuple):
    """The places that something comes from, and whether it is part of their derivatives."""

    places: tuple[int, ...] = ()
    derivative: bool = False


class Mark(NamedTuple):
    """Columns `start` to `end` of a line, and the places that they come from. `values` are further places:
    those where the value of a name was computed."""

    start: int
    end: int
    places: tuple[int, ...]
    values: tuple[int, ...] = ()
    derivative: bool = False


class Line(NamedTuple):
    """A line of a listing; its marks are nested."""

    text: str
    marks: tuple[Mark, ...] = ()

    @property
    def places(self) -> set[int]:
        """All the places that parts of the line come from."""
        return {place for mark in self.marks for place in mark.places}


class Places:
    """The places of one source: spans, numbered from 1 in the order of the text, outer ones first."""

    def __init__(self, source: Source, table: Origins, func: Func) -> None:
        self.source, self.table = source, table
        trees = (span for key, span in table.trees if key == id(source))
        found = (self._span(origin) for origin in chain(table.nodes.values(), table.lowered))
        spans = dict.fromkeys(chain(trees, (span for span in found if span is not None)))
        self.spans = sorted(spans, key=_order)
        self.numbers = {span: k for k, span in enumerate(self.spans, 1)}
        self.inputs = {name: len(self.spans) + k for k, name in enumerate(func.input_names, 1)}
        self.values = self._values(self.inputs_of(func))

    def by(self, table: Origins) -> Places:
        """The same places, for nodes whose origins are in another table."""
        found = copy(self)
        found.table = table
        return found

    def _span(self, origin: Origin) -> Span | None:
        """The place of an origin; of what a function elsewhere computes, the call in this source."""
        around = ((w.source, w.span) for w in reversed(origin.within) if w.kind == "call")
        places = chain(((origin.source, origin.span),), around)
        return next((span for source, span in places if source == self.source), None)

    def inputs_of(self, func: Func) -> dict[Array, int]:
        """The places of parameters of the function that are inputs of a program, and of their gradients."""
        given = zip(func.input_names, func.inputs, strict=True)
        found = {array: self.inputs[name] for name, array in given if name in self.inputs}
        made = zip(func.result_names, func.results, strict=True)
        gradients = {f"d{name}": place for name, place in self.inputs.items()}
        return found | {array: gradients[name] for name, array in made if name in gradients}

    def _values(self, inputs: Mapping[Array, int]) -> dict[int, tuple[int, ...]]:
        """The places of what was computed elsewhere, by the places of names and repeated expressions."""
        found: dict[int, dict[int, None]] = {}
        for origin, lowered in self.table.lowered.items():
            span = self._span(origin)
            if span is not None:
                here = self.numbers[span]
                for element, _ in lowered:
                    others = (p for p in self.of(element, inputs) if p != here)
                    found.setdefault(here, {}).update(dict.fromkeys(others))
        return {place: tuple(others) for place, others in found.items() if others}

    def of(self, node: Node, inputs: Mapping[Array, int] = MappingProxyType({})) -> tuple[int, ...]:
        """The places of a node: one, or those of the terms of a sum; for `inputs`, also the parameter."""
        if isinstance(node, Read):
            return self.of(node.array, inputs)
        origin = self.table.origin(node)
        origins = () if origin is None else (origin, *origin.beside)
        spans = dict.fromkeys(span for o in origins if (span := self._span(o)) is not None)
        own = tuple(self.numbers[span] for span in spans)
        return (*own, inputs[node]) if isinstance(node, Array) and node in inputs else own

    def found(self, inputs: Mapping[Array, int], *nodes: Node) -> Found:
        """The places of several nodes."""
        places = sorted({place for node in nodes for place in self.of(node, inputs)})
        origins = [o for node in nodes if (o := self.table.origin(node)) is not None]
        return Found(tuple(places), bool(origins) and all(o.order for o in origins))

    def of_all(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        """The places of several nodes, in order."""
        return tuple(sorted({place for node in nodes for place in self.of(node)}))

    def is_name(self, place: int) -> bool:
        """Whether a variable stands at a place."""
        return isinstance(self.table.trees.get((id(self.source), self.spans[place - 1])), tree.Name)

    @property
    def numbered(self) -> dict[int, str]:
        """The text of each place, parameters last."""
        return {k: self.text(k) for k in self.numbers.values()} | {k: n for n, k in self.inputs.items()}

    def inside(self, place: int) -> tuple[int, ...]:
        """The places inside another one."""
        if place > len(self.spans):
            return ()
        outer = self.spans[place - 1]
        return tuple(k for k, s in enumerate(self.spans, 1) if k != place and contains(outer, s))

    def text(self, place: int) -> str:
        """The source at a place, on one line."""
        return self.source.text_of(self.spans[place - 1])

    def line(self, place: int) -> int | None:
        """The number of the line of the file that a place begins in; None for a parameter."""
        return None if place > len(self.spans) else self.source.at(self.spans[place - 1])[0]

    def listing(self) -> list[Line]:
        """The source, its expressions marked."""
        lines = self.source.text.rstrip("\n").split("\n")
        marks: list[list[Mark]] = [[] for _ in lines]
        for place, span in enumerate(self.spans, 1):
            for number in range(span.line, min(span.end_line, len(lines)) + 1):
                text = lines[number - 1]
                start = span.column - 1 if number == span.line else len(text) - len(text.lstrip())
                end = span.end_column - 1 if number == span.end_line else len(text.rstrip())
                if start < end:
                    marks[number - 1].append(self._mark(start, end, place))
        return [Line(text, tuple(nested(m))) for text, m in zip(lines, marks, strict=True)]

    def _mark(self, start: int, end: int, place: int) -> Mark:
        values = self.values.get(place, ())
        parameters = tuple(v for v in values if v > len(self.spans))
        if self.is_name(place):
            return Mark(start, end, (place, *parameters), tuple(v for v in values if v not in parameters))
        return Mark(start, end, (place, *values))


def _order(span: Span) -> tuple[int, int, int, int]:
    return span.line, span.column, -span.end_line, -span.end_column


def contains(outer: Span, inner: Span) -> bool:
    """Whether a span lies within another one."""
    starts = (outer.line, outer.column) <= (inner.line, inner.column)
    return starts and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)


def nested(marks: Iterable[Mark]) -> Iterator[Mark]:
    """Marks in order, outer ones first, without those that cross one before."""
    ends: list[int] = []
    for mark in sorted(marks, key=lambda m: (m.start, -m.end)):
        while ends and ends[-1] <= mark.start:
            ends.pop()
        if not ends or mark.end <= ends[-1]:
            ends.append(mark.end)
            yield mark
