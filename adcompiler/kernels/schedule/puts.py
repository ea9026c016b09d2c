"""The order of stores: what an iteration reads of an array, it reads before it stores there again.

Stores in a carried array are a chain, each in what the one before has made, and all are in one place in
memory. A reader of an array in this chain runs before the next store; if it needs what that has made, it
reads its elements beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.ir.bodies import Replace
from adcompiler.ir.nodes import Array, Element, Index, Put, Read
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, rewrite, separate, with_elements


def readers_before(order: Sequence[Array]) -> dict[Array, list[Array]]:
    """The arrays to compute before each store, since they read what it changes; `order` lists producers
    first."""
    stores = [a for a in order if isinstance(a, Put)]
    readers: dict[Array, list[Array]] = {put.base: [] for put in stores}
    for array in order if readers else ():
        for read in arrays_read(array):
            if read in readers:
                readers[read].append(array)
    behind = _behind(order, stores)
    return {
        put: [a for a in readers[put.base] if a is not put and put not in behind.get(a, ())] for put in stores
    }


def _behind(order: Sequence[Array], stores: Sequence[Put]) -> dict[Array, frozenset[Array]]:
    """The stores that each array depends on."""
    found: dict[Array, frozenset[Array]] = {}
    known = set(stores)
    for array in order if stores else ():
        read = [a for a in arrays_read(array) if a in found]
        own = frozenset[Array]().union(*(found[a] for a in read)) if read else frozenset()
        if array in known:
            own |= {array}
        if own:
            found[array] = own
    return found


def with_early_reads(roots: Sequence[Array]) -> tuple[Array, ...]:
    """The roots of an iteration, in which what is read of an array after the next store in it is read
    before."""
    order = arrays_of(roots)
    stores = [a for a in order if isinstance(a, Put)]
    if not stores:
        return tuple(roots)
    following = {put.base: put for put in stores}
    return _Early(following, _behind(order, stores)).run(roots)


class _Early(Replace):
    """Reads elements into arrays of their own."""

    def __init__(self, following: Mapping[Array, Put], behind: Mapping[Array, frozenset[Array]]) -> None:
        super().__init__({})
        self.following, self.behind = following, behind

    def _rebuilt(self, array: Array) -> Array:
        changed = self.prepared(array)
        if changed is not array:
            self.run(a for a in arrays_read(changed) if a not in self.arrays)
        return super()._rebuilt(changed)

    def prepared(self, array: Array) -> Array:
        """An array that reads nothing too late."""
        late: dict[Element, Element] = {}
        for e in elements_of(array.elements):
            put = self.following.get(e.array) if isinstance(e, Read) else None
            later = put is not None and put is not array and put in self.behind.get(array, ())
            if later or (put is array and self.collides(put, e)):
                late[e] = separate(e, array.domain, sorted(k for k in e.axes if k >= 0))
        if not late:
            return array
        return with_elements(
            array, lambda elements: rewrite(elements, lambda e: late.get(e, e)), lambda shape: shape
        )

    def collides(self, put: Put, read: Element) -> bool:
        """Whether a store over axes reads its own array at other places than it stores at, or may have stored
        there before."""
        assert isinstance(read, Read)
        axes = {i.axis for i in put.indices if isinstance(i, Index)}
        return bool(put.domain) and (read.args != put.indices or not axes >= {*range(len(put.domain))})
