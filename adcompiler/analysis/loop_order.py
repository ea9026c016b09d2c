"""The order of loops over an array's domain, and the parts of its body that they repeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from adcompiler.analysis.affine import linear, shifted
from adcompiler.analysis.limits import MOST_THAT_FOLD, SHORT_ITERATIONS
from adcompiler.analysis.predicates import COMPARISONS
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Const,
    Element,
    Index,
    Input,
    Put,
    Read,
    Reduce,
    Select,
    is_const,
)
from adcompiler.ir.walk import elements_of, is_computed
from adcompiler.ops.costs import is_costly
from adcompiler.passes.limits import MOST_REPEATED


def is_short(length: Element) -> bool:
    """Whether a loop of this length is unrolled."""
    return isinstance(length, Const) and length.value <= SHORT_ITERATIONS


def is_written_out(array: Array, axis: int) -> bool:
    """Whether a loop along an axis of an array is unrolled, also because it compares its counter."""
    length = array.domain[axis]
    if is_short(length) or not isinstance(length, Const) or length.value > MOST_THAT_FOLD:
        return is_short(length)
    operations = (e for e in elements_of(array.elements) if isinstance(e, Apply) and axis in e.axes)
    return any(e.op in COMPARISONS for e in operations)


def long_axes(array: Array) -> list[int]:
    """The axes of the domain along which loops are not unrolled."""
    return [k for k, n in enumerate(array.domain) if not is_short(n)]


def natural_order(array: Array) -> tuple[int, ...]:
    """The axes of the domain in order, without those of length 1."""
    return tuple(k for k, n in enumerate(array.domain) if not is_const(n, 1))


def loop_order(array: Array) -> tuple[int, ...]:
    """The axes of the domain, outermost first: those of the access with most axes in their order, the rest
    after them, and innermost the axis that most accesses have last, so that they are contiguous.

    The store comes first among equals: the sums of a pairwise reduction stay in a register. A scatter to rows
    at computed places adds a whole row at each: this axis is innermost, and places are computed once. If the
    length of the reduction's array is known only when the kernel runs, blocks have no partial arrays: an axis
    of the result comes first.
    """
    axes = natural_order(array)
    own = array.indices if isinstance(array, Accumulate | Put) else tuple(map(Index, range(array.rank)))
    places = [_along(own, array)]
    places += [_along(e.args, e.array) for e in elements_of(array.elements) if isinstance(e, Read)]
    ordered = places[isinstance(array, Accumulate) :]
    accesses = [tuple(i.axis for i in at if isinstance(i, Index) and i.axis in axes) for at in ordered]
    order: list[int] = []
    for access in sorted(accesses, key=len, reverse=True):
        order.extend(k for k in access if k not in order)
    order.extend(k for k in axes if k not in order)
    found = [(at, _contiguous(at, axes)) for at in places]
    votes = [(at, axis) for at, axis in found if axis is not None]
    if votes:
        last = [axis for _, axis in votes]
        added = found[0][1] if isinstance(array, Accumulate) and _is_placed(own) else None
        innermost = max(reversed(order), key=last.count) if added is None else added
        order.remove(innermost)
        order.append(innermost)
    if isinstance(array, Accumulate):  # what a point adds to several places is computed once
        along = {k for access in accesses for k in access}.union(axis for _, axis in votes)
        order.sort(key=lambda k: k not in along and is_short(array.domain[k]))
    if any(map(is_computed, array.shape)) and isinstance(array, Reduce) and order[0] >= array.rank:
        outermost = next(k for k in order if k < array.rank)
        order.remove(outermost)
        order.insert(0, outermost)
    return _hoisting(array, order, votes)


def _is_placed(at: Sequence[Element]) -> bool:
    """Whether rows are at computed places."""
    return any(map(is_computed, at[:-1]))


def _along(at: Sequence[Element], array: Array) -> tuple[Element, ...]:
    """The indices of an access on axes longer than one."""
    return tuple(i for i, n in zip(at, array.shape, strict=True) if not is_const(n, 1))


def _contiguous(at: Sequence[Element], axes: Sequence[int]) -> int | None:
    """The axis along which an access to rows of several elements goes: it moves the last index by one from
    iteration to iteration, and no other; of plain indices alone, the last axis. An access to one column goes
    along none."""
    if not at or isinstance(at[-1], Const):
        return None
    rows, plain = at[:-1], [i.axis for i in at if isinstance(i, Index) and i.axis in axes]
    beside = frozenset[int]().union(*(i.axes for i in rows)).intersection(axes)
    own = at[-1].axes.intersection(axes) if rows else frozenset()
    if len(own) == 1 and beside and not own & beside:
        (axis,) = own
        if linear(at[-1]).terms.get(Index(axis)) in (1, -1):
            return axis
    return plain[-1] if len(plain) > 1 else None


def _strided(array: Array, axis: int) -> int:
    """How many accesses go along an axis, but are not contiguous along it."""
    return sum(axis in own and axis != last for own, last in _accesses(array))


def _accesses(array: Array) -> Iterator[tuple[frozenset[int], int]]:
    """The axes of each access, and the one along which it is contiguous, -1 if there is none."""
    if not isinstance(array, Accumulate | Put):
        yield frozenset(range(array.rank)), array.rank - 1
    for e in elements_of(array.elements):
        if isinstance(e, Read) and e.args:
            last, _ = shifted(e.args[-1])
            yield e.axes, last.axis if isinstance(last, Index) else -1


def _hoisting(
    array: Array, order: Sequence[int], votes: Sequence[tuple[Sequence[Element], int]]
) -> tuple[int, ...]:
    """`order` with the axes of loop-invariant parts first, so that inner loops do not repeat them.

    Such a part is costly or many operations, and over two axes or more, or is an array of pairs that the
    loops can contract; axes of a program's loop around the array do not count. The outermost axis remains an
    axis of the result, if it has any: else each block needs an array of partial sums. The innermost axis of
    a loop that is not written out remains one that accesses have last, if there is one, except those within
    such parts; and no more accesses may go against it than before: parts that loops repeat become arrays
    (`passes/arrays/hoist.py`).
    """
    within = [(e, e.axes.intersection(order)) for e in elements_of(array.elements)]
    long = {*long_axes(array)}
    repeated = [(e, axes) for e, axes in within if 1 < len(axes) < len(order)]
    parts = {axes for e, axes in repeated if _contracts(e) or is_costly(e)}
    if len(long) > 1:
        parts |= {axes for e, axes in repeated if long <= axes and takes_more(e, MOST_REPEATED)}
    chain = sorted(parts, key=len)
    if not chain or any(not small <= large for small, large in pairwise(chain)):
        return tuple(order)
    better = sorted(order, key=lambda k: -sum(k in axes for axes in chain))
    inside = [axis for at, axis in votes if not _is_within(at, chain)]
    new, old = (_innermost(array, axes) for axes in (better, order))
    contiguous = new in inside or old not in inside
    contiguous = contiguous and _strided(array, new) <= _strided(array, old)
    return tuple(better if contiguous and (not array.rank or better[0] < array.rank) else order)


def _innermost(array: Array, order: Sequence[int]) -> int:
    """The innermost axis whose loop is not written out, if there is one."""
    return next((k for k in reversed(order) if not is_short(array.domain[k])), order[-1])


def takes_more(part: Element, most: int) -> bool:
    """Whether computing a part takes more than `most` operations that depend on axes."""
    operations = (e for e in elements_of((part,)) if e.axes and isinstance(e, Apply | Select))
    return sum(1 for _ in islice(operations, most + 1)) > most


def _is_within(at: Sequence[Element], parts: Sequence[frozenset[int]]) -> bool:
    """Whether an access depends on the axes of a part only."""
    own = frozenset[int]().union(*(index.axes for index in at))
    return any({k for k in own if k >= 0} <= part for part in parts)


def _contracts(element: Element) -> bool:
    """Whether an element reads an array over several plain axes, in their order."""
    if not isinstance(element, Read) or isinstance(element.array, Input):
        return False
    axes = [i.axis for i in element.args if isinstance(i, Index)]
    return len(axes) == len(element.args) and axes == sorted(set(axes))
