"""Choose the order of the axes of sums, so that loops go along contiguous elements.

The gradient of a matrix is often a sum over its axes in another order, and the result a transposed copy.
The sum of transposed terms is that result: no array is stored in between, and none is copied.

The last axis of a sum that others read at plain axes is the one that is last in most of the accesses beside
it, where it is computed and where it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from adcompiler.analysis.affine import shifted
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Element, Func, Index, Map, Read, Reduce
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, SingleReaders, arrays_of, elements_of, substitute, uses
from adcompiler.passes.algebra.strict import strict_elements


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


class _Copies(SingleReaders):
    """Replaces transposed copies of sums that nothing else reads."""

    def array(self, array: Array) -> Array:
        match array:
            case Map(body=Read(array=Reduce() as total) as read) if total in self.single and _is_plain(total):
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
    """The axes to move to the end of sums.

    Each access votes for the axis that it has last, in the sums that stand beside it; those of the sums that
    may move do not. What loops, calls and results need stays as it is.
    """
    fixed = set(roots)
    fixed.update(e.array for e in strict_elements(roots) if isinstance(e, Read))  # another order, other bits
    together: list[list[tuple[Array, list[int]]]] = []  # the accesses of each array's loop
    for array in arrays_of(roots):
        if not isinstance(array, Reduce | Map):
            fixed.update(uses((array,)))
            continue
        reads = {e: _plain(e) for e in elements_of(array.elements) if isinstance(e, Read)}
        accesses = [(array, list(range(array.rank))), *((read.array, axes) for read, axes in reads.items())]
        together.append(accesses)
        plain = _is_plain(array)
        fixed.update([] if plain else [array])
        fixed.update(
            r.array for r, axes in reads.items()
            if not plain or len(axes) != r.array.rank or _reduces(array, axes)
        )  # fmt: skip
    votes: dict[Array, Counter[int]] = {}
    for accesses in together:
        last = Counter(axes[-1] for of, axes in accesses if len(axes) > 1 and not _may_move(of, fixed))
        for of, axes in accesses:
            if _may_move(of, fixed):
                votes.setdefault(of, Counter()).update({k: last[axis] for k, axis in enumerate(axes)})
    found: dict[Array, int] = {}
    for array, count in votes.items():
        best = max(range(array.rank), key=lambda k: (count[k], k))
        if count[best] > count[array.rank - 1]:
            found[array] = best
    return found


def _may_move(array: Array, fixed: Collection[Array]) -> bool:
    return isinstance(array, Reduce) and array.rank > 1 and array not in fixed


def _reduces(array: Array, places: Sequence[int]) -> bool:
    """Whether an array reduces rows of another one, which it reads at these axes."""
    return isinstance(array, Reduce) and bool(places) and places[-1] >= array.rank


def _plain(read: Read) -> list[int]:
    """The axes at which an array is read, also at shifted places, if they are all different."""
    axes = [i.axis for i in (shifted(arg)[0] for arg in read.args) if isinstance(i, Index)]
    return axes if len(set(axes)) == len(read.args) else []


def _is_plain(array: Array) -> bool:
    """Whether an array reads others at its axes and at numbers alone, shifted or not, not at computed
    places."""
    reads = (e for e in elements_of(array.elements) if isinstance(e, Read))
    places = (shifted(i)[0] for read in reads for i in read.args)
    return all(place is None or isinstance(place, Index) for place in places)
