"""Carried arrays that the reverse of a loop restores, element by element.

An iteration that stores a few elements of an array, and reads more of it, would save the whole array. It
saves the elements that it overwrites instead: the reverse loop carries the array, from its final value on,
and a reverse iteration first puts these elements back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from adcompiler.ad.final_reads import leaves
from adcompiler.ad.guards import conjunction
from adcompiler.ad.limits import MOST_RESTORED
from adcompiler.analysis.loop_order import is_short
from adcompiler.analysis.predicates import scalar_ties
from adcompiler.ir.bodies import Carried, dependents, like
from adcompiler.ir.nodes import Array, Element, Index, Map, Read, closed, element_of, identity, select
from adcompiler.ir.walk import arrays_read, postorder, read_by
from adcompiler.ops.build import apply

Places = Mapping[int, Element]  # of some axes; a store goes over the others


def stored_places(carried: Carried) -> list[Places] | None:
    """The places at which an iteration stores in a carried array; None if it changes more than that."""
    slot, result = carried.slot, carried.result
    dependent = dependents(slot, result)
    found: dict[tuple[tuple[int, Element], ...], Places] = {}
    work: list[Array] = [result]
    while work:
        array = work.pop()
        if array is slot:
            continue
        if not isinstance(array, Map) or len(found) > MOST_RESTORED:
            return None
        for leaf, where in leaves(array.body):
            if isinstance(leaf, Read) and leaf.array in dependent and leaf.args == identity(array.shape):
                work.append(leaf.array)
                continue
            places = dict(tie for condition, holds in where if holds for tie in scalar_ties(condition))
            if not places:
                return None
            found[tuple(sorted(places.items(), key=lambda place: place[0]))] = places
    return list(found.values())


def restored(carried: Carried, stores: Sequence[Places]) -> Carried:
    """A carried array of the reverse loop: after an iteration, and as it was before it."""
    slot, after = carried.slot, like(carried.slot)
    body: Element = element_of(after)
    for places in stores:
        there = conjunction(apply("equal", Index(k), place) for k, place in places.items())
        at = tuple(places.get(k, i) for k, i in enumerate(identity(slot.shape)))
        body = select(there, Read(slot, at), body)
    return Carried(carried.init, after, closed(slot.shape, body))


def are_known(stores: Iterable[Places], kept: Set[Array], long: Set[Array]) -> bool:
    """Whether what is `kept` of an iteration tells the places of its stores, without the `long` arrays but
    for single elements of them."""
    numbers = [place for places in stores for place in places.values()]
    beyond = [a for a in read_by(numbers) if a not in long]
    return long.isdisjoint(postorder(beyond, lambda a: () if a in kept - long else arrays_read(a)))


def is_long(array: Array) -> bool:
    """Whether an array has an axis that is not short."""
    return not all(map(is_short, array.shape))
