"""Unrolls loops with a small known trip count: coordinates, small matrices.

The surrounding loop can then be vectorised, and values stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.analysis.limits import SHORT_ITERATIONS
from adcompiler.lazy import WeakMemo
from adcompiler.loopir.nodes import Call, Compare, For, If, Literal, Node, Stmt, Var, While
from adcompiler.loopir.walk import walk

MOST_NODES = 700  # nodes of an unrolled loop
MOST_NODES_THAT_FOLD = 18_000  # where it compares its axis, as in blocks of a Jacobian: most of it folds then
MOST_ITERATIONS = 32  # iterations of such a loop, including those inside


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
        ) if stop - first <= SHORT_ITERATIONS:
            found = range(first, stop)
            folds = len(found) * _iterations(body) <= MOST_ITERATIONS and _compares(body, axis)
            return (
                found if len(found) * _size(body) <= (MOST_NODES_THAT_FOLD if folds else MOST_NODES) else None
            )
    return None


def has_loops(body: Sequence[Stmt]) -> bool:
    """Whether loops remain after the short ones are unrolled."""
    return any(isinstance(n, For | While) and short(n) is None for n in walk(*body))


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
