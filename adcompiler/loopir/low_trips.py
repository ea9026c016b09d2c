"""Low trip counts of loops inside program loops: a separate kernel, selected by lengths.

LLVM compiles innermost loops for long arrays: several vectors at a time, then single vectors, then a scalar
remainder. If the state of a recurrence is a few numbers, as in most filters and small systems, the vector
code never runs, but takes most of the compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from adcompiler.loopir.nodes import (
    Allocate,
    Assign,
    Call,
    Choice,
    For,
    Function,
    Stmt,
    Store,
    Update,
    Var,
    While,
)
from adcompiler.loopir.walk import is_of_program, mentions, statements, variables, walk

MOST_LOW_TRIPS = 8  # iterations of an innermost loop; from 12 on kernels for long ones are faster
LANES = 4  # of the vectors in that kernel


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


def are_unordered(loop: For, changing: Collection[str]) -> bool:
    """Whether the iterations of a loop store to their own elements, or add in any order. Forced vectorisation
    allows LLVM to reorder everything in the loop."""
    return all(_has_no_order(loop.axis, s, changing) for s in loop.body) and not _chooses_extremum(loop)


def _chooses_extremum(loop: For) -> bool:
    """Whether a loop reduces chosen values to an extremum. LLVM turns `min(s, v if c else inf)` into a choice
    of minima, which it cannot vectorise; if vectorisation is forced, it warns on stderr."""
    calls = {n.name for n in walk(*loop.body) if isinstance(n, Call)}
    chooses = "select" in calls or any(isinstance(n, Choice) for n in walk(*loop.body))
    return chooses and not calls.isdisjoint(("reduce_max", "reduce_min"))


def _has_no_order(axis: str, statement: Stmt, changing: Collection[str]) -> bool:
    match statement:
        case Store(at=at) | Update(at=at):
            return mentions([axis], *at.indices)
        case Assign(name=name, value=Call(name=function, args=(Var(name=same), _))) if name == same:
            return function.startswith("reduce_")
        case Assign(name=name) | Allocate(name=name):
            return name not in changing
    return False
