"""Stores before an inner loop become a loop of one iteration, which changes the carried array in place.

An iteration may store some elements of a carried array and then run an inner loop over it, as the adjoints of
stores after a loop do. The array between the two would be a new one, computed whole in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ir.bodies import Body, Carried, Replace, build, fresh, like
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Array, Map, const
from adcompiler.ir.walk import arrays_of, arrays_read
from adcompiler.kernels.schedule.carried_updates import in_place


def with_store_loops(loop: Loop, rows: bool) -> Sequence[Array]:
    """The roots of a loop's body, with such stores as loops; `rows` as for `in_place`."""
    roots: Sequence[Array] = loop.roots
    for k, slot in enumerate(loop.slots[1 : 1 + len(loop.inits)]):
        while slot.rank and (stored := _stored_before(slot, roots[k], roots, rows)) is not None:
            roots = Replace({stored: _as_loop(slot, stored, rows)}).run(roots)
    return roots


def _stored_before(slot: Array, result: Array, roots: Sequence[Array], rows: bool) -> Array | None:
    """The array of stores that an inner loop begins with, in the chain from `slot` to `result`."""
    found = _last_loop(slot, result, rows)
    while isinstance(found, Item) and found.k < len(found.loop.inits):
        found = found.loop.inits[found.k]
    if not isinstance(found, Map) or found is result or found in roots:
        return None
    readers = [a for a in arrays_of(roots) if found in arrays_read(a)]
    alone = len({a.loop if isinstance(a, Item) else a for a in readers}) == 1
    return found if alone and in_place(slot, found, rows) is not None else None


def _last_loop(slot: Array, result: Array, rows: bool) -> Array | None:
    """What the last inner loop makes of a carried array."""
    if isinstance(result, Item):
        return result
    update = in_place(slot, result, rows)
    return None if update is None else update.base


def _as_loop(slot: Array, stored: Array, rows: bool) -> Array:
    """The stores as the only iteration of a loop over what they change."""
    update = in_place(slot, stored, rows)
    assert update is not None
    changed = slot if update.base is None else update.base
    place = like(changed)
    (result,) = Replace({changed: place}).run((stored,))
    body = Body(const(1, "i64"), fresh("i64", ()), (Carried(changed, place, result),))
    return build(body).finals[0]
