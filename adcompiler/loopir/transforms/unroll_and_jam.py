"""Unroll and jam: several iterations of an outer loop at once share what an inner loop loads or stores.

    for i:                                  for i by fours:
        for j:                                  for j:
            t[j] += a[i] * b[i, j]                  t[j] += a[i] * b[i, j] + ... + a[i + 3] * b[i + 3, j]

reads and writes t once for four i. This is *unroll and jam* (D. Callahan, S. Carr and K. Kennedy, PLDI 1990).
It is done if the inner loop spends much of its time on values that do not depend on i, and if iterations of i
are independent except for sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from adcompiler.loopir.dependence import are_independent, inner_axes, loop_variant, only_added, updated
from adcompiler.loopir.intrinsics import CHEAP
from adcompiler.loopir.limits import (
    ITERATIONS_AT_ONCE,
    LEAST_GAIN,
    MOST_JAMMED_COST,
    MOST_STATEMENTS,
    NOMINAL_TRIPS,
)
from adcompiler.loopir.nodes import Access, Assign, Binary, Call, Expr, For, Function, If, Stmt
from adcompiler.loopir.rewrite import Renamed, numbered
from adcompiler.loopir.short_loops import has_loops, short
from adcompiler.loopir.transformed_loops import LANE, Jam, Lanes
from adcompiler.loopir.walk import accesses, assigned, mentions, read_by, statements

LOAD, STORE, OPERATION, DIVISION, CALL = 1.0, 3.0, 0.5, 4.0, 10.0


def jammed(function: Function) -> Function:
    """The function with its loops unrolled and jammed where that pays."""
    return replace(function, body=_each(function.body, assigned(*function.body)))


def _chosen(statement: Stmt, stored: Counter[str], gains: Mapping[Stmt, float] | None = None) -> Stmt:
    """The statement with those of its loops jammed that gain most, none inside another one.

    `stored` is the number of assignments to each variable in the function; `gains` are those of the enclosing
    loops.
    """
    if isinstance(statement, Lanes):
        totals = Counter(statement.totals.keys())
        lanes = Counter(name + LANE for name in totals)
        return replace(
            statement,
            body=_each(statement.body, assigned(*statement.body) + totals),
            together=_each(statement.together, assigned(*statement.together) + lanes),
        )
    if isinstance(statement, For):
        gains = dict(_gains(statement, stored)) if gains is None else gains
        best = max((gains.get(s, 0.0) for s in statements([statement])), default=0.0)
        if best >= LEAST_GAIN and gains.get(statement) == best:
            return _jam(statement)
    if isinstance(statement, For | If):
        return replace(statement, body=_each(statement.body, stored, gains))
    return statement


def _each(
    body: Sequence[Stmt], stored: Counter[str], gains: Mapping[Stmt, float] | None = None
) -> list[Stmt]:
    return [_chosen(s, stored, gains) for s in body]


def _gains(loop: For, stored: Counter[str]) -> Iterator[tuple[For, float]]:
    """The loops in a loop that may be jammed, and their speedups."""
    inner = [s for s in loop.body if isinstance(s, For)]
    for s in inner:
        yield from _gains(s, stored)
    lanes = any(isinstance(s, Lanes) for s in statements([loop]))
    if (
        inner
        and not lanes
        and len(statements(loop.body)) <= MOST_STATEMENTS
        and are_independent(loop, stored)
    ):
        yield loop, _gain(loop)


# -- whether it pays -------------------------------------------------------------------------------


def _gain(loop: For) -> float:
    """The speedup of the innermost loops if iterations share computations that are independent of the
    iteration."""
    own, before, after = loop_variant(loop), 0.0, 0.0
    for inner, depth in _innermost(loop, own, 0):
        alone, shared = _costs(inner, own)
        if alone > MOST_JAMMED_COST or _stores(inner, own):
            return 0.0
        weight = float(NOMINAL_TRIPS**depth)
        before += weight * ITERATIONS_AT_ONCE * (alone + shared)
        after += weight * (ITERATIONS_AT_ONCE * alone + shared)
    return before / after if after else 0.0


def _innermost(loop: For, own: Collection[str], depth: int) -> Iterator[tuple[For, int]]:
    """The innermost loops whose bounds do not depend on the outer loop."""
    for s in loop.body:
        if isinstance(s, For) and not depends(s, own) and short(s) is None:
            if has_loops(s.body):
                yield from _innermost(s, own, depth + 1)
            else:
                yield s, depth


def depends(loop: For, own: Collection[str]) -> bool:
    """Whether the bounds of a loop depend on any of some variables."""
    return mentions(own, *loop.bounds)


def _stores(loop: For, own: Collection[str]) -> bool:
    """Whether an innermost loop stores to elements of one iteration: LLVM cannot prove that several rows of
    an array do not alias, and would check it before each loop over them."""
    return any(
        stored and mentions(own, *at.indices)
        for at, stored in accesses(*loop.body)
        if type(at) is Access  # elements of lanes are vectors, which LLVM does not vectorise
    )


def _costs(loop: For, own: Collection[str]) -> tuple[float, float]:
    """The cost of an iteration of an innermost loop: of what depends on `own`, and of the rest."""
    found: dict[tuple[Expr, bool], tuple[float, bool]] = {}
    for at, stored in accesses(*loop.body):
        found[at, stored] = STORE if stored else LOAD, mentions(own, *at.indices)
    for node in (n for s in statements(loop.body) for n in read_by(s)):
        match node:
            case Binary(op=op):
                cost = DIVISION if op in ("/", "//", "%") else OPERATION
                found[node, False] = cost, mentions(own, node)
            case Call(name=name):
                cheap = name in CHEAP or name.startswith("np.")
                found[node, False] = OPERATION if cheap else CALL, mentions(own, node)
    alone = sum(cost for cost, depends in found.values() if depends)
    return alone, sum(cost for cost, _ in found.values()) - alone


# -- doing it --------------------------------------------------------------------------------------


def _jam(loop: For) -> Jam:
    """The loop with several iterations at once."""
    stored = assigned(*loop.body)
    totals = only_added(statements(loop.body))
    names = {loop.axis, *stored} - inner_axes(loop) - totals
    own = loop_variant(loop)
    copies = [numbered(names, k) for k in range(ITERATIONS_AT_ONCE)]
    return jam(loop, list(_together(loop.body, own, copies)))


def jam(loop: For, together: list[Stmt]) -> Jam:
    """A loop with statements for several iterations."""
    axes = [f"{loop.axis}.{k}" for k in range(ITERATIONS_AT_ONCE)]
    head = loop.axis, loop.start, loop.stop, loop.body, loop.step, loop.kind, loop.note
    return Jam(*head, together, axes, mark=loop.mark)


def _together(body: Sequence[Stmt], own: Collection[str], copies: Sequence[Renamed]) -> Iterator[Stmt]:
    """Each statement repeated for all iterations; a loop with common bounds once, with its body repeated."""
    for s in body:
        if isinstance(s, For) and not depends(s, own):
            yield common(s, copies[0], list(_together(s.body, own, copies)))
        elif (extremum := _extremum(s, copies)) is not None:
            yield extremum
        else:
            yield from (copy.stmt(s) for copy in copies)


def common(loop: For, first: Renamed, body: list[Stmt]) -> For:
    """A loop that several iterations share, with the bounds of the first: all have the same."""
    start, stop = first.expr(loop.start), first.expr(loop.stop)
    return replace(loop, start=start, stop=stop, step=loop.step and first.expr(loop.step), body=body)


def _extremum(statement: Stmt, copies: Sequence[Renamed]) -> Assign | None:
    """The extremum of a total and the values of all iterations, if the statement updates an extremum: the
    dependence chain has one operation for all iterations, not one each. Extrema do not depend on the
    order."""
    match statement:
        case Assign(name=name, value=Call(name="reduce_min" | "reduce_max" as how, args=(old, new))) if (
            updated(statement) == name and name not in copies[0].names
        ):
            values = [copy.expr(new) for copy in copies]
            while len(values) > 1:
                values = [Call(how, pair) for pair in zip(values[::2], values[1::2], strict=True)]
            return Assign(name, Call(how, (old, *values)), mark=statement.mark)
    return None
