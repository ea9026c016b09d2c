"""Short loops: those that are unrolled, and those for which there is another kernel.

Loops with a small known trip count, over coordinates and small matrices, are unrolled: the surrounding loop
can then be vectorised, and values stay in registers.

LLVM compiles innermost loops for long arrays: several vectors at a time, then single vectors, then a scalar
remainder. If the state of a recurrence is a few numbers, as in most filters and small systems, the vector
code never runs, but takes most of the compile time. So loops inside program loops have another kernel for low
trip counts, selected by lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from adcompiler.analysis.limits import MOST_THAT_FOLD, SHORT_ITERATIONS
from adcompiler.lazy import WeakMemo
from adcompiler.loopir.limits import MOST_ITERATIONS, MOST_LOW_TRIPS, MOST_NODES, MOST_NODES_THAT_FOLD
from adcompiler.loopir.nodes import Call, Compare, For, Function, If, Literal, Node, Stmt, Var, While
from adcompiler.loopir.walk import is_of_program, statements, variables, walk

_known: WeakMemo[For, range | None] = WeakMemo()  # lives as long as the kernel


def short(loop: Node) -> range | None:
    """The iterations of an unrolled loop; None for any other."""
    return _known.made(loop, lambda: _short(loop)) if isinstance(loop, For) else None


def _short(loop: For) -> range | None:
    match loop:
        case For(
            axis=axis,
            start=Call(name="uint64", args=(Literal(value=int(first)),)),
            stop=Call(name="uint64", args=(Literal(value=int(stop)),)),
            body=body,
        ) if stop - first <= MOST_THAT_FOLD:
            found, asks = range(first, stop), _compares(body, axis)
            if len(found) <= SHORT_ITERATIONS or asks:
                folds = asks and len(found) * _iterations(body) <= MOST_ITERATIONS
                nodes = MOST_NODES_THAT_FOLD if folds else MOST_NODES
                return found if len(found) * _size(body) <= nodes else None
    return None


def has_loops(body: Sequence[Stmt]) -> bool:
    """Whether loops remain after the short ones are unrolled."""
    return any(isinstance(s, For | While) and short(s) is None for s in statements(body))


def _compares(body: Sequence[Stmt], axis: str) -> bool:
    """Whether a body compares the loop's variable with something."""
    compared = (n for n in walk(*body) if isinstance(n, Compare))
    return any(n == Var(axis) for c in compared for n in walk(c))


def _iterations(body: Sequence[Stmt]) -> int:
    """How often the innermost short loop in a body is repeated."""
    inner = [(found, s.body) for s in body if isinstance(s, For) and (found := short(s)) is not None]
    return max((len(found) * _iterations(s) for found, s in inner), default=1)


def _size(body: Sequence[Stmt]) -> int:
    """The number of nodes of a body with its short loops unrolled."""
    total = 0
    for s in body:
        if isinstance(s, For):
            found = short(s)
            total += _size(s.body) * (1 if found is None else len(found))
        elif isinstance(s, If):
            total += _size(s.body)
        else:
            total += len(walk(s))
    return total


# -- low trip counts --------------------------------------------------------------------------------


def low_trip_guard(
    functions: Sequence[Function], sizes: Sequence[str]
) -> Callable[[Sequence[int]], bool] | None:
    """Whether all loops in the iterations of a kernel are short, by the sizes of a call; None if there are no
    such loops, or their lengths are not known before the kernel runs."""
    found = [s for f in functions for s in statements(f.body)]
    inner = [loop for s in found if isinstance(s, For | While) and is_of_program(s) for loop in _inside(s)]
    known = {*sizes, *(loop.axis for loop in inner)}
    used = set().union(*(variables(*loop.bounds) for loop in inner))
    places = [k for k, size in enumerate(sizes) if size in used]
    if not places or not used <= known:
        return None
    return lambda given: all(given[k] <= MOST_LOW_TRIPS for k in places)


def _inside(loop: For | While) -> Iterator[For]:
    """The loops over elements in an iteration."""
    for s in statements(loop.body):
        if isinstance(s, For) and not is_of_program(s):
            yield s
