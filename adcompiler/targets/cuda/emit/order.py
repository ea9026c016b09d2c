"""The order of loops on a device: kept axes are outside, so sums stay in registers.

The threads of a warp take adjacent points of the last kept axis. A map, or a sum of everything, follows the
order of the sums over the same axes, so they share a kernel: the gradients of a bias and of the array it was
added to read their arrays once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.analysis.loop_order import loop_order
from adcompiler.ir.nodes import Accumulate, Array, Element, Index, Read, Reduce
from adcompiler.ir.walk import elements_of
from adcompiler.kernels.schedule.schedule import Style

Order = tuple[int, ...]


def orders(arrays: Sequence[Array]) -> Mapping[Array, Order]:
    """The orders of the loops over arrays of one program."""
    own = {a: _own(a) for a in arrays}
    guides = [_sizes(a, own[a]) for a in arrays if _partial(a)]
    return {a: o if _partial(a) else _following(a, o, guides) for a, o in own.items()}


# Relative to arithmetic, a device's memory accesses are four times as slow as a processor's.
STYLE = Style(orders, lambda array: isinstance(array, Accumulate), rows=False, access=4.0)


def _partial(array: Array) -> bool:
    """Whether an array is a sum that keeps axes."""
    return isinstance(array, Reduce) and array.rank > 0


def _own(array: Array) -> Order:
    """Kept axes in their order, then the reduced ones."""
    order = loop_order(array)
    if not _partial(array):
        return order
    return (*sorted(k for k in order if k < array.rank), *(k for k in order if k >= array.rank))


def _sizes(array: Array, order: Order) -> tuple[Element, ...]:
    return tuple(array.domain[k] for k in order)


def _following(array: Array, order: Order, guides: Sequence[tuple[Element, ...]]) -> Order:
    """The order of a sum over the same lengths, if these are distinct, threads stay adjacent in memory, and
    no other sum has the current order."""
    sizes = _sizes(array, order)
    if len(set(sizes)) < len(sizes) or isinstance(array, Accumulate) or sizes in guides:
        return order
    for guide in guides:
        if len(guide) == len(sizes) and set(guide) == set(sizes) and last_read(array, order[-1]):
            found = tuple(order[sizes.index(n)] for n in guide)
            if order[-1] in found[:-1]:
                return found
    return order


def last_read(array: Array, axis: int) -> bool:
    """Whether some access has the axis last, so that adjacent threads read adjacent elements."""
    reads = [e for e in elements_of(array.elements) if isinstance(e, Read) and e.args]
    return any(isinstance(r.args[-1], Index) and r.args[-1].axis == axis for r in reads)
