"""What a turn of a loop does to an array that it carries, when that is less than to make another one.

`x[e] = v` leaves x as it is but at one place: it is a *store* there. A sum that is scattered onto what is
carried adds to it in place. All else is a new array, which may take the place of the old one if nothing
reads that afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adcompiler.analysis.predicates import ties
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Element,
    Index,
    Map,
    Read,
    closed,
    const,
    identity,
    is_const,
)
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, rewrite, substitute
from adcompiler.passes.fold import folded

MOST_STORES = 8


@dataclass(frozen=True)
class Store:
    """`array` is stored at `indices`, where None stands for a whole axis."""

    indices: tuple[Element | None, ...]
    array: Array


def stores(slot: Array, result: Array) -> list[Store] | None:
    """The stores that make `slot` the `result`; None if it differs at more than some places."""
    if not isinstance(result, Map) or not result.rank:
        return None
    found: list[Store] = []
    work: list[tuple[tuple[Element | None, ...], Element]] = [((None,) * result.rank, result.body)]
    while work:
        indices, body = work.pop()
        split = _split(slot, indices, body)
        if split is None:
            if all(i is None for i in indices):
                return None
            found.append(_store(result, indices, body))
        else:
            axis, places = split
            for place in places:
                there = (*indices[:axis], place, *indices[axis + 1 :])
                work.append((there, substitute(body, {axis: place})))
        if len(found) + len(work) > MOST_STORES:
            return None
    return found


def _split(slot: Array, indices: Sequence[Element | None], body: Element) -> tuple[int, list[Element]] | None:
    """An axis, and the places on it outside of which `body` is what the slot holds."""
    for axis, index in enumerate(indices):
        if index is None:
            places = _places(body, axis)
            if places and _elsewhere(body, axis) is _unchanged(slot, indices):
                return axis, places
    return None


def _places(body: Element, axis: int) -> list[Element]:
    """The places that an axis is compared with."""
    found: dict[Element, None] = {}
    for e in elements_of((body,)):
        place = _place(e, axis)
        if place is not None:
            found[place] = None
    return list(found)


def _place(element: Element, axis: int) -> Element | None:
    """The place that an axis is compared with, if it is one place in the whole array."""
    places = (place for k, place in ties(element) if k == axis)
    return next((p for p in places if not any(a >= 0 for a in p.axes)), None)


def _elsewhere(body: Element, axis: int) -> Element:
    """What a body is where the axis is at none of the places that it is compared with."""
    never = const(False, "bool")
    found = folded(rewrite((body,), lambda e: never if _place(e, axis) is not None else e)[0])
    return rewrite((found,), _without_zeros)[0]


def _without_zeros(element: Element) -> Element:
    """x + 0 as x: here the sign of a zero does not count."""
    if isinstance(element, Apply) and element.op == "add":
        x, y = element.args
        return x if is_const(y, 0) else y if is_const(x, 0) else element
    return element


def _unchanged(slot: Array, indices: Sequence[Element | None]) -> Element:
    own = identity(slot.shape)
    return Read(slot, tuple(own[k] if i is None else i for k, i in enumerate(indices)))


def _store(result: Map, indices: tuple[Element | None, ...], body: Element) -> Store:
    free = [k for k, i in enumerate(indices) if i is None]
    moved: dict[int, Element] = {k: Index(p) for p, k in enumerate(free)}
    return Store(indices, closed(tuple(result.shape[k] for k in free), folded(substitute(body, moved))))


def scattered(slot: Array, result: Array, roots: Sequence[Array]) -> Accumulate | None:
    """The sum that a turn scatters onto what it carries, if nothing else reads either."""
    if not isinstance(result, Map):
        return None
    match result.body:
        case Apply(op="add", args=(Read() as x, Read() as y)):
            own, total = (x, y) if x.array is slot else (y, x)
        case _:
            return None
    added = total.array
    plain = own.array is slot and own.args == total.args == identity(slot.shape)
    if not (plain and isinstance(added, Accumulate) and added.shape == slot.shape):
        return None
    readers = [a for a in arrays_of(roots) if slot in arrays_read(a) or added in arrays_read(a)]
    return added if readers == [result] and roots.count(result) == 1 else None
