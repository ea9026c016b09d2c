"""Parts of arrays that become arrays of their own: rows, loans, and what is stored (`rows.py`, `loans.py`,
`stored.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adcompiler.ir import loop as loop_node
from adcompiler.ir.nodes import Array, Element, Index, Map, Read
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, rewrite, substitute, with_elements


class Part(NamedTuple):
    """A part of an array's elements, and its axes, outermost first."""

    element: Element
    axes: tuple[int, ...]

    @property
    def places(self) -> dict[int, Element]:
        """What its axes are in an array of its own."""
        return {axis: Index(p) for p, axis in enumerate(self.axes)}

    @property
    def own(self) -> Element:
        """The element of an array of its own."""
        return substitute(self.element, self.places)


class Stored(Rewriter):
    """Makes parts of arrays arrays of their own; `made` has that of each. Those of which others are made come
    before these."""

    def __init__(self, parts: Mapping[Array, Sequence[Part]]) -> None:
        super().__init__()
        self.parts = parts
        self.made: dict[tuple[Array, Part], Array] = {}

    def inner(self, loop: loop_node.Loop | Ruled) -> None:
        """Bodies of loops have no nests of their own."""
        return None

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        places: dict[Element, Element] = {}
        for part in self.parts.get(array, ()):
            (element,) = rewrite((self.elements[part.element],), lambda e: e, dict(places))
            own = Map(tuple(new.domain[k] for k in part.axes), substitute(element, part.places))
            self.made[array, part] = own
            places[self.elements[part.element]] = Read(own, tuple(Index(k) for k in part.axes))
        if not places:
            return new
        return with_elements(new, lambda elements: rewrite(elements, lambda e: e, dict(places)))
