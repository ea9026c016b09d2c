"""Interchange the loops of reductions, so that they fuse with others.

*Sums over the same pairs along different axes.* With k(i, j) = exp(-(x[i] - y[j])²) the sums over j of k(i,
j) b[j] and over i of k(i, j) c[i] have the orders (i, j) and (j, i), where each adds to a register, so k is
computed twice for each pair. A sum whose loops are *interchanged* takes the order of the other: it adds to
all its elements in each iteration of the outer loop, and k is computed once. That pays if these elements stay
in cache, and if each block has many iterations, because it has its own copy of them.

*Sums of values computed in the iterations of a nest.* The gradient of the weights of an inner layer is, over
the points p, the sum of g(p, i) h(p, j), and g and h are computed point by point. In the order (i, j, p),
which adds to a register, they are stored for all points. Interchanged, in the order (p, i, j), the sum is in
the loop that computes them and reads one row per iteration. Each block adds to a matrix, which must stay in
cache and be small compared with the iterations. The same holds for the sum of the points nearest to a
centroid: it visits each point once, not once for each centroid.

`pays` decides whether to interchange the loops of a sum when the lengths are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from adcompiler.analysis.loop_order import is_short, loop_order, natural_order
from adcompiler.analysis.predicates import conditions
from adcompiler.ir.nodes import Array, Element, Func, Index, Map, Read, Reduce
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of, elements_of, is_computed, substitute
from adcompiler.ops.costs import is_function
from adcompiler.passes.limits import (
    ELEMENTS_AN_ITERATION,
    FEWEST_OUTER_ITERATIONS,
    FEWEST_WIDE_ITERATIONS,
    LONGEST_SUM,
    LONGEST_WIDE_SUM,
    SHORTEST_SUM,
)

Side = list[Array]  # arrays that compute a value in one order


def interchange(func: Func, outer: bool = True) -> Func:
    """The program with the loops of sums interchanged where a function of pairs is computed in both orders,
    and, with `outer`, of sums along outer axes."""
    sides: dict[Element, Side] = {}
    for array in arrays_of(func.roots):
        for value in _values(array):
            sides.setdefault(value, []).append(array)
    swapped: dict[Array, None] = {}
    settled: set[Array] = set()
    for value, side in sides.items():
        other = sides.get(_exchanged(value), [])
        pair = [array for array in (*side, *other) if array not in settled]
        if other and not settled.intersection((*side, *other)) and not set(side) & set(other):
            settled.update(pair)
            swapped |= dict.fromkeys(_chosen(side, other))
    if outer:
        swapped |= dict.fromkeys(a for a in arrays_of(func.roots) if a not in settled and _is_outer(a))
    return func.with_(interchanged=frozenset(swapped))


def interchanged_order(array: Array) -> tuple[int, ...]:
    """The loop order of an interchanged sum: its kept axes are innermost, in the order of memory, because the
    innermost loop adds to them. It does not depend on accesses, which later passes change."""
    return tuple(sorted(natural_order(array), key=lambda k: k < array.rank))


def pays(lengths: Sequence[int]) -> bool:
    """Whether to interchange the loops of a sum of these lengths, that of the reduced axis last."""
    *kept, reduced = lengths
    if len(kept) == 1:
        return SHORTEST_SUM <= kept[0] <= LONGEST_SUM and reduced >= FEWEST_OUTER_ITERATIONS
    return reduced >= FEWEST_WIDE_ITERATIONS and prod(kept) <= min(
        LONGEST_WIDE_SUM, ELEMENTS_AN_ITERATION * reduced
    )


def _values(array: Array) -> Iterator[Element]:
    """The functions of two long axes that an array computes, outer axis first. Other lengths make a different
    value."""
    if not isinstance(array, Map | Reduce) or any(map(is_computed, array.domain)):
        return
    order = loop_order(array)
    if len(order) != 2 or any(is_short(array.domain[k]) for k in order):
        return
    if isinstance(array, Reduce) and conditions(array.op, array.body):
        return  # a triangle of pairs: its loops have bounds
    for e in elements_of(array.elements):
        if is_function(e) and len(e.axes) == 2:
            yield substitute(e, {k: Index(p) for p, k in enumerate(order)})


def _exchanged(value: Element) -> Element:
    return substitute(value, {0: Index(1), 1: Index(0)})


def _chosen(one: Side, other: Side) -> Side:
    """The side to interchange: the one that depends on the other, otherwise the one with fewer sums."""
    before = bool(set(arrays_of(one)) & set(other)), bool(set(arrays_of(other)) & set(one))
    if all(before):
        return []
    first, last = (one, other) if before[0] or (not before[1] and len(one) < len(other)) else (other, one)
    can = [side for side in (first, last) if all(map(_is_interchangeable, side))]
    return can[0] if can and (can[0] is first or not any(before)) else []


def _is_interchangeable(array: Array) -> bool:
    """Whether an array is a sum whose loops may be interchanged: it adds to a register."""
    is_sum = isinstance(array, Reduce) and array.op == "sum" and is_float(array.dtype)
    return is_sum and array.rank == 1 and loop_order(array)[0] == 0


def _is_outer(array: Array) -> bool:
    """Whether a sum over one axis runs along the outermost loops of nests that compute its operands."""
    if not (isinstance(array, Reduce) and array.op == "sum" and is_float(array.dtype) and array.rank > 1):
        return False
    along = array.rank
    if len(array.reduced) > 1 or any(map(is_computed, array.domain)) or is_short(array.domain[along]):
        return False
    made = any(isinstance(e, Read) and _is_row(e, Index(along)) for e in elements_of(array.elements))
    return made and loop_order(array)[0] != along


def _is_row(read: Read, axis: Index) -> bool:
    """Whether a read is within a row computed by each iteration along an axis. Arrays whose outermost loop
    reduces have no such rows."""
    array = read.array
    if not isinstance(array, Map | Reduce) or sum(not is_short(n) for n in array.shape) < 2:
        return False
    outer = loop_order(array)[0]
    return outer < array.rank and read.args[outer] is axis
