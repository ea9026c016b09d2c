"""Reads of elements that no earlier iteration has stored: they are those of the initial value.

`for j in range(m): p[j] = p[j] / s` reads each element before the only iteration that sets it, and the cells
of a table that `for a in range(m): table[i, j, a] = ...` reads may be others than table[i, j]. Where such a
loop is not a recurrence otherwise, it only stores (`stores.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import NamedTuple

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import Range, Ranges, never_negative, up_to
from adcompiler.analysis.predicates import scalar_ties
from adcompiler.ir.bodies import Body, Carried, Replace, dependents, roots_of, with_roots
from adcompiler.ir.nodes import Array, Element, Index, Map, Read, Size
from adcompiler.ir.walk import operands, read_by, rewrite, substitute
from adcompiler.passes.algebra.fold import folded
from adcompiler.passes.recurrences.changes import changes, separated


class Place(NamedTuple):
    """The place along an axis at which iterations store: `step` times the iteration's number, and `rest`."""

    axis: int
    step: int
    rest: Linear


def places_of(guard: Element, number: Element) -> Iterable[tuple[Element, Place]]:
    """The conditions of a guard that tie an axis to a place which moves on from iteration to iteration."""
    for condition, place in _tied(guard, number):
        if place.step > 0 and all(a is None or isinstance(a, Size) for a in place.rest.terms):
            yield condition, place


def _tied(guard: Element, number: Element) -> Iterable[tuple[Element, Place]]:
    """The conditions of a guard that tie an axis to a place."""
    for condition in operands(guard, "logical_and"):
        for axis, place in scalar_ties(condition):
            form = linear(place)
            step = form.terms.get(number, 0)
            yield condition, Place(axis, step, form - Linear({number: step}) if step else form)


def stored_places(carried: Carried, body: Body, inside: Set[Array]) -> list[list[Place]]:
    """The places of each store of an iteration in an array, along the axes where these move on or stay the
    same; none if there is a store without such a place. `inside` changes from iteration to iteration."""
    number = Read(body.step, ())
    found = [
        [p for _, p in _tied(guard, number) if p.step >= 0 and inside.isdisjoint(read_by(p.rest.atoms))]
        for guard, _ in changes(carried) or ()
    ]
    return found if all(any(p.step for p in places) for places in found) else []


def with_initial_reads(body: Body, places: Mapping[Array, list[list[Place]]]) -> Body:
    """An iteration that reads initial values of the carried arrays with these slots, where it stores."""
    rewriter = _Initial(body, places)
    return with_roots(body, rewriter.run(roots_of(body)), body.carried)


class _Initial(Replace):
    def __init__(self, body: Body, places: Mapping[Array, list[list[Place]]]) -> None:
        super().__init__({})
        self.number = Read(body.step, ())
        chosen = [c for c in body.carried if c.slot in places]
        self.inits = {c.slot: c.init for c in chosen}
        self.places = {a: places[c.slot] for c in chosen for a in _versions(c)}
        self.around: Ranges = {} if body.length is None else {self.number: up_to(body.length)}
        self.ranges: dict[Element, Range] = {}

    def _rebuilt(self, array: Array) -> Array:
        self.ranges = dict(self.around)
        self.ranges |= {Index(k): replace(up_to(n), depth=k + 1) for k, n in enumerate(array.domain)}
        new = super()._rebuilt(array)
        if array in self.places:
            self.places[new] = self.places[array]
        return new

    def _change(self, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        """Elements at the points of one array: what is early depends on its axes."""
        own: dict[Element, Element] = {}
        made = rewrite(elements, self._visit, own)
        self.elements |= own
        return made

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
        stores = self.places.get(read.array)
        return stores is not None and all(any(self.is_apart(p, read) for p in places) for places in stores)

    def is_apart(self, place: Place, read: Read) -> bool:
        """Whether no iteration before stores at the place that is read."""
        distance = linear(read.args[place.axis]) - place.rest - Linear({self.number: place.step})
        if place.step:
            return never_negative(distance, self.ranges, ())
        sides = distance - linear_constant(1), distance * -1 - linear_constant(1)
        return any(never_negative(side, self.ranges, ()) for side in sides)


def _versions(carried: Carried) -> Iterable[Array]:
    """A carried array, and what each store of an iteration makes of it."""
    slot = carried.slot
    found = dependents(slot, carried.result)
    return (a for a in found if a is slot or (isinstance(a, Map) and a.shape == slot.shape))
