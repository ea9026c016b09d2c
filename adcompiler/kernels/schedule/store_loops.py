"""Changes of a carried array before others become loops of one iteration, each of which is in place.

An iteration may store some elements of a carried array and then run an inner loop over it, as the adjoints of
stores after a loop do, or add at computed places, as the adjoint of `x[i] = f(x[at[i]])` does. The array
between the two would be a new one, computed whole in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ir.bodies import Body, Carried, Replace, build, fresh, like
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Element,
    Map,
    Read,
    Select,
    closed,
    const,
    element_of,
    identity,
    is_const,
    select,
)
from adcompiler.ir.walk import arrays_of, arrays_read
from adcompiler.kernels.schedule.carried_updates import in_place
from adcompiler.ops.build import apply


def with_store_loops(loop: Loop, rows: bool) -> Sequence[Array]:
    """The roots of a loop's body, with such stores as loops; `rows` as for `in_place`."""
    roots: Sequence[Array] = loop.roots
    for k, slot in enumerate(loop.slots[1 : 1 + len(loop.inits)]):
        if rows and slot.rank:
            roots = _with_scatter_loop(slot, roots[k], roots)
            roots = _with_store_loop(slot, roots[k], roots)
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


def _with_store_loop(slot: Array, result: Array, roots: Sequence[Array]) -> Sequence[Array]:
    """The roots with stores in a carried array as a loop, if the iteration reads the array after them."""
    after = [a for a in arrays_of(roots) if result in arrays_read(a)]
    if not after or not isinstance(result, Map) or in_place(slot, result, True) is None:
        return roots
    *made, result = _Early(slot).run((*roots, result))
    before = [a for a in arrays_of(made) if a is not result and slot in arrays_read(a)]
    if any(a.rank or not isinstance(a, Map) for a in before):
        return roots
    return Replace({result: _as_loop(slot, result, True)}).run(made)


def _with_scatter_loop(slot: Array, result: Array, roots: Sequence[Array]) -> Sequence[Array]:
    """The roots with a sum that is added to a carried array in place: after stores in it, in a loop."""
    match result:
        case Map(body=Apply(op="add", args=(before, Read(array=term, args=args)))):
            added, stored = _added(term), closed(result.shape, before)
        case _:
            return roots
    if added is None or args != identity(slot.shape) or added.shape != slot.shape:
        return roots
    readers = [a for a in arrays_of(roots) if not {result, term}.isdisjoint(arrays_read(a))]
    alone = readers == [result] and roots.count(result) == 1 and term not in roots
    if not alone or (stored is slot and added is term):
        return roots
    if stored is slot:
        return Replace({result: _plus(slot, added)}).run(roots)
    if in_place(slot, stored, True) is None:
        return roots
    *made, stored, result, added = _Early(slot).run((*roots, stored, result, added))
    if slot in arrays_read(added):
        return roots
    changed = _as_loop(slot, stored, True)
    place = like(changed)
    body = Body(const(1, "i64"), fresh("i64", ()), (Carried(changed, place, _plus(place, added)),))
    return Replace({result: build(body, {added}).finals[0]}).run(made)


def _added(term: Array) -> Array | None:
    """The scatter that an array is, with the condition under which it is one."""
    match term:
        case Map(body=Select(guard=guard, then=Read(array=Accumulate() as sums, args=args), otherwise=zero)):
            if not guard.axes and args == identity(sums.shape) and is_const(zero, 0):
                return Accumulate(sums.shape, sums.domain, sums.indices, select(guard, sums.body, zero))
    return term if isinstance(term, Accumulate) else None


def _plus(array: Array, added: Array) -> Array:
    return Map(array.shape, apply("add", element_of(array), element_of(added)))


class _Early(Replace):
    """Reads single elements of a carried array into variables, before it changes."""

    def __init__(self, slot: Array) -> None:
        super().__init__({})
        self.slot = slot

    def element(self, element: Element) -> Element:
        if isinstance(element, Read) and element.array is self.slot and element.args and not element.axes:
            return Read(Map((), element), ())
        return element
