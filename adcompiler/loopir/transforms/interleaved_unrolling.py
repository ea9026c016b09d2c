"""Interleaved unrolling: several iterations in order, element by element, share loads and stores.

    for t:                                  for t by fours:
        for i:                                  for i:
            p[i] = p[i] * x[i] + a[t]               p[i] = (...(p[i] * x[i] + a[t]) ... + a[t + 3]

Each element goes through the iterations in the same order as before; LLVM keeps it in a register between
them. This is legal if an element reads no other element, and iterations communicate only through elements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from adcompiler.loopir.dependence import may_interleave
from adcompiler.loopir.limits import ITERATIONS_AT_ONCE, LEAST_GAIN, MOST_INTERLEAVED_COST
from adcompiler.loopir.nodes import (
    Allocate,
    Assign,
    AssignAll,
    Binary,
    Call,
    Choice,
    For,
    Function,
    Node,
    Stmt,
    Store,
)
from adcompiler.loopir.rewrite import Restructurer, numbered
from adcompiler.loopir.short_loops import short
from adcompiler.loopir.transformed_loops import Jam, Lanes
from adcompiler.loopir.transforms.unroll_and_jam import (
    DIVISION,
    LOAD,
    OPERATION,
    STORE,
    common,
    jam,
)
from adcompiler.loopir.walk import accesses, assigned, names, read_by, statements, variables


def interleaved(function: Function) -> Function:
    """The function with its loops unrolled by several iterations where that pays."""
    return replace(function, body=_InOrder(names(*function.body)).body(function.body))


class _InOrder(Restructurer):
    """`mentioned` counts the uses of names in the function."""

    def __init__(self, mentioned: Counter[str]) -> None:
        self.mentioned = mentioned

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, Jam | Lanes):
            return s
        if isinstance(s, For):
            inner = _inner(s)
            if (
                inner is not None
                and may_interleave(s, inner, self.mentioned)
                and _gain(s, inner) >= LEAST_GAIN
            ):
                return _together(s, inner)
        return super().stmt(s)


def _inner(loop: For) -> For | None:
    """The only loop in a loop, if it and the statements beside it are assignments only."""
    loops = [s for s in loop.body if isinstance(s, For)]
    if len(loops) != 1 or isinstance(loops[0], Jam) or short(loop) is not None or short(loops[0]) is not None:
        return None
    found = [*(s for s in loop.body if s is not loops[0]), *loops[0].body]
    return loops[0] if all(isinstance(s, Assign | AssignAll | Allocate | Store) for s in found) else None


# -- whether it pays -------------------------------------------------------------------------------


def _gain(loop: For, inner: For) -> float:
    """The factor by which an iteration gets cheaper if several share loads and stores."""
    own = set(assigned(loop)) - set(assigned(inner))
    found = dict.fromkeys(accesses(*inner.body))
    shared = sum(_moved(stored) for at, stored in found if not variables(*at.indices) & own)
    alone = sum(_moved(stored) for at, stored in found if variables(*at.indices) & own)
    alone += sum(map(_computed, (n for s in statements([inner]) for n in read_by(s))))
    return (
        ITERATIONS_AT_ONCE * (alone + shared) / (ITERATIONS_AT_ONCE * alone + shared)
        if alone <= MOST_INTERLEAVED_COST
        else 0.0
    )


def _moved(stored: bool) -> float:
    return STORE if stored else LOAD


def _computed(node: Node) -> float:
    match node:
        case Binary(op="+" | "-" | "*") | Call(name="reduce_add"):
            return OPERATION
        case Binary() | Choice() | Call(name="select"):
            return DIVISION
        case Call(name=name) if "." in name:
            return DIVISION
    return 0.0


# -- doing it --------------------------------------------------------------------------------------


def _together(loop: For, inner: For) -> Jam:
    """The loop with several iterations per element."""
    local = set(assigned(loop)) - {inner.axis}
    copies = [numbered(local, k) for k in range(ITERATIONS_AT_ONCE)]

    def each(found: list[Stmt]) -> list[Stmt]:
        return [copy.stmt(s) for copy in copies for s in found]

    at = loop.body.index(inner)
    middle = common(inner, copies[0], each(inner.body))
    return jam(loop, [*each(loop.body[:at]), middle, *each(loop.body[at + 1 :])])
