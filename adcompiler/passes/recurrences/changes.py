"""What an iteration stores in a carried array: conditions on places, and values."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from adcompiler.ad.guards import TRUE, conjunction, negation, within
from adcompiler.ir.bodies import Carried, dependents
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    identity,
    select,
)
from adcompiler.ir.walk import read_by, substitute
from adcompiler.ops.build import apply
from adcompiler.passes.limits import MOST_STORES

Change = tuple[Element, Element]  # where elements are set, and to what


def changes(carried: Carried) -> list[Change] | None:
    """The stores of an iteration, those that hold last first; None if there are too many, or if it changes
    the array in any other way."""
    slot, result = carried.slot, carried.result
    if not slot.rank or not isinstance(result, Map):
        return None
    return _Changes(slot, dependents(slot, result)).of(result.body, TRUE)


class _Changes:
    def __init__(self, slot: Array, dependent: Collection[Array]) -> None:
        self.slot, self.dependent = slot, dependent

    def of(self, body: Element, guard: Element) -> list[Change] | None:
        """What makes an element where a condition holds."""
        if isinstance(body, Read) and body.args == identity(self.slot.shape):
            if body.array is self.slot:
                return []
            if isinstance(body.array, Map) and body.array in self.dependent:
                return self.of(body.array.body, guard)
        if (apart := separated(body)) is not None and self.reads(apart.before):
            body = apart.stored(apart.there)
        if not isinstance(body, Select) or self.reads(body.guard) or not self.reads(body.otherwise):
            return [(guard, body)]
        then = self.of(body.then, within(guard, body.guard))
        if then is None:
            return None
        # What a store sets is not set again by an earlier one.
        rest = guard if not self.reads(body.then) else within(guard, negation(body.guard))
        otherwise = self.of(body.otherwise, rest)
        found = None if otherwise is None else [*then, *otherwise]
        return None if found is None or len(found) > MOST_STORES else found

    def reads(self, element: Element) -> bool:
        """Whether an element depends on the slot."""
        return not set(read_by((element,))).isdisjoint(self.dependent)


class Separated(NamedTuple):
    """An element `before` it gets sums, which are added where `ties` hold, to the element `there`."""

    ties: Element
    there: Element
    sums: Element
    before: Read

    def stored(self, there: Element) -> Element:
        """The element as one that is stored; `there` is the value that gets the sums."""
        return select(self.ties, apply("add", there, self.sums), self.before)


def separated(body: Element) -> Separated | None:
    """An element of an array to which sums at one place are added, as by an inner loop."""
    match body:
        case Apply(op="add", args=(Read() as before, Read(array=Accumulate() as sums, args=args))):
            fixed = {k: place for k, place in enumerate(sums.indices) if not place.axes}
            if fixed and before.args == args == identity(sums.shape):
                ties = conjunction(apply("equal", Index(k), place) for k, place in fixed.items())
                return Separated(ties, substitute(before, fixed), _at(sums, fixed), before)
    return None


def _at(sums: Accumulate, fixed: Collection[int]) -> Element:
    """An element of sums that are all at the same place along some axes, at this place."""
    free = [k for k in range(sums.rank) if k not in fixed]
    shape, indices = tuple(sums.shape[k] for k in free), tuple(sums.indices[k] for k in free)
    if not free:
        return Read(Reduce("sum", (), sums.domain, sums.body), ())
    return Read(Accumulate(shape, sums.domain, indices, sums.body), tuple(map(Index, free)))
