"""Choose the order of the axes of sums, so that loops go along contiguous elements.

The gradient of a matrix is often a sum over its axes in another order, and the result a transposed copy.
The sum of transposed terms is that result: no array is stored in between, and none is copied.

The last axis of a sum that others read is the one that is last in most of the accesses beside it, where it is
computed and where it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Element, Func, Index, Map, Read, Reduce
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, substitute, uses


def transpose(func: Func) -> Func:
    """The program with sums whose axes are in the order of their readers."""
    copied = _Copies(func.roots).func(func)
    return _Moved(copied.roots).func(copied)


def in_order(array: Reduce, axes: Iterable[int]) -> Reduce:
    """A sum with its kept axes in another order."""
    order = tuple(axes)
    places = {k: Index(p) for p, k in enumerate(order)}
    reduced = tuple(substitute(n, places) for n in array.reduced)
    shape = tuple(array.shape[k] for k in order)
    return Reduce(array.op, shape, reduced, substitute(array.body, places))


class _Copies(Rewriter):
    """Replaces transposed copies of sums that nothing else reads."""

    def __init__(self, roots: Iterable[Array]) -> None:
        super().__init__()
        self.single = {array for array, count in uses(tuple(roots)).items() if count == 1}

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return _Copies(loop.roots)

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        if array in self.single:
            self.single.add(new)
        return new

    def array(self, array: Array) -> Array:
        match array:
            case Map(body=Read(array=Reduce() as total) as read) if total in self.single:
                places = _plain(read)
                if array.rank == len(places) == total.rank and places != sorted(places):
                    return in_order(total, [places.index(axis) for axis in range(array.rank)])
        return array


class _Moved(Rewriter):
    """Moves axes of sums to the end."""

    def __init__(self, roots: Iterable[Array]) -> None:
        super().__init__()
        self.last = _last_axes(tuple(roots))
        self.orders: dict[Array, tuple[int, ...]] = {}

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return _Moved(loop.roots)

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        axis = self.last.get(array)
        if axis is None or not isinstance(new, Reduce):
            return new
        order = (*(k for k in range(new.rank) if k != axis), axis)
        moved = in_order(new, order)
        self.orders[moved] = order
        return moved

    def element(self, element: Element) -> Element:
        if isinstance(element, Read) and element.array in self.orders:
            return Read(element.array, tuple(element.args[k] for k in self.orders[element.array]))
        return element


def _last_axes(roots: tuple[Array, ...]) -> dict[Array, int]:
    """The axes to move to the end of sums."""
    votes: dict[Array, Counter[int]] = {}
    order = arrays_of(roots)
    given = set(roots)
    for array in order:
        if isinstance(array, Reduce | Map):
            reads = dict.fromkeys(e for e in elements_of(array.elements) if isinstance(e, Read))
        else:
            given.update(array for array in uses((array,)))
            continue
        accesses = {read: _plain(read) for read in reads}
        last = Counter(places[-1] for places in accesses.values() if len(places) > 1)
        if array.rank > 1:
            last[array.rank - 1] += 1
        for read, places in accesses.items():
            if len(places) != read.array.rank:
                given.add(read.array)
            elif len(places) > 1:
                beside = last - Counter(places[-1:])
                votes.setdefault(read.array, Counter()).update(
                    {k: beside[axis] for k, axis in enumerate(places)}
                )
        if isinstance(array, Reduce) and array.rank > 1:
            beside = last - Counter((array.rank - 1,))
            votes.setdefault(array, Counter()).update({k: beside[k] for k in range(array.rank)})
    found: dict[Array, int] = {}
    for array, count in votes.items():
        if isinstance(array, Reduce) and array not in given:
            best = max(range(array.rank), key=lambda k: (count[k], k))
            if count[best] > count[array.rank - 1]:
                found[array] = best
    return found


def _plain(read: Read) -> list[int]:
    """The axes at which an array is read, if they are all different."""
    axes = [i.axis for i in read.args if isinstance(i, Index)]
    return axes if len(set(axes)) == len(read.args) else []
