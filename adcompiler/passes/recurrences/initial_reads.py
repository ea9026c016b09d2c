"""Reads of elements that no earlier iteration has stored: they are those of the initial value.

`for j in range(m): p[j] = p[j] / s` reads each element before the only iteration that sets it. Where such a
loop is not a recurrence otherwise, it only stores (`stores.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from adcompiler.analysis.affine import Linear, linear
from adcompiler.analysis.predicates import scalar_ties
from adcompiler.ir.bodies import Body, Carried, Replace, dependents, roots_of, with_roots
from adcompiler.ir.nodes import Array, Element, Map, Read, Size
from adcompiler.ir.walk import operands, substitute
from adcompiler.passes.algebra.fold import folded
from adcompiler.passes.recurrences.changes import changes, separated


class Place(NamedTuple):
    """The place along an axis at which iterations store: `step` times the iteration's number, and `rest`."""

    axis: int
    step: int
    rest: Linear


def places_of(guard: Element, number: Element) -> Iterable[tuple[Element, Place]]:
    """The conditions of a guard that tie an axis to a place which moves on from iteration to iteration."""
    for condition in operands(guard, "logical_and"):
        for axis, place in scalar_ties(condition):
            form = linear(place)
            step = form.terms.get(number, 0)
            rest = form - Linear({number: step}) if step else form
            if step > 0 and all(a is None or isinstance(a, Size) for a in rest.terms):
                yield condition, Place(axis, step, rest)


def only_place(carried: Carried, body: Body) -> Place | None:
    """The place at which each iteration stores whatever it stores in an array; None if there are several."""
    number = Read(body.step, ())
    found = [[place for _, place in places_of(guard, number)] for guard, _ in changes(carried) or ()]
    first = found[0] if found else ()
    return next((place for place in first if all(place in others for others in found)), None)


def with_initial_reads(body: Body, places: Mapping[Array, Place]) -> Body:
    """An iteration that reads initial values of the carried arrays with these slots, where it stores."""
    rewriter = _Initial(body, places)
    return with_roots(body, rewriter.run(roots_of(body)), body.carried)


class _Initial(Replace):
    def __init__(self, body: Body, places: Mapping[Array, Place]) -> None:
        super().__init__({})
        self.number = Read(body.step, ())
        chosen = [c for c in body.carried if c.slot in places]
        self.inits = {c.slot: c.init for c in chosen}
        self.places = {a: places[c.slot] for c in chosen for a in _versions(c)}

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        if array in self.places:
            self.places[new] = self.places[array]
        return new

    def element(self, element: Element) -> Element:
        if (apart := separated(element)) is not None and apart.before.array in self.places:
            return apart.stored(self.element(apart.there))
        while isinstance(element, Read) and self.is_early(element):
            if element.array in self.inits:
                return Read(self.inits[element.array], element.args)
            stored = element.array.elements[-1]
            element = folded(substitute(stored, dict(enumerate(element.args))))
        return element

    def is_early(self, read: Read) -> bool:
        """Whether no iteration before has stored the element that is read."""
        place = self.places.get(read.array)
        if place is None:
            return False
        distance = linear(read.args[place.axis]) - place.rest - Linear({self.number: place.step})
        return distance.constant is not None and distance.constant >= 0


def _versions(carried: Carried) -> Iterable[Array]:
    """A carried array, and what each store of an iteration makes of it."""
    slot = carried.slot
    found = dependents(slot, carried.result)
    return (a for a in found if a is slot or (isinstance(a, Map) and a.shape == slot.shape))
