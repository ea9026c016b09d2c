"""Several turns of an outer loop at once, so that what an inner loop loads or stores serves all of them.

    for i:                                  for i by fours:
        for j:                                  for j:
            t[j] += a[i] * b[i, j]                  t[j] += a[i] * b[i, j] + ... + a[i + 3] * b[i + 3, j]

reads and writes t once for four i. This is *unroll and jam* (D. Callahan, S. Carr and K. Kennedy, PLDI 1990).
It is done where the inner loop spends much of its time on what does not depend on i, and where turns of i are
independent of each other but for sums.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy

from adcompiler.codegen.llvm.short import has_loops, short
from adcompiler.codegen.llvm.turns import (
    are_independent,
    inner_turns,
    mentions,
    only_added,
    own_of,
    stores_of,
    text_of,
    turn_of,
    updated,
)
from adcompiler.codegen.trees import walk

TURNS = 4
LARGEST = 80  # statements that may be written several times
LEAST = 1.25  # how many times less an inner loop must cost
WIDEST = 12.0  # the cost of what one turn does alone in an inner loop: registers are few
DEEPER = 32  # how much more often a loop inside another is taken to run

LOAD, STORE, OPERATION, DIVISION, CALL = 1.0, 3.0, 0.5, 4.0, 10.0
CHEAP = frozenset(
    ("select", "abs", "min", "max", "fma", "mul_rn", "reduce_add", "reduce_max", "reduce_min", "uint64")
)


class Jam(ast.For):
    """A loop that runs `together`, whose variables `turns` are those of consecutive turns, as long as there
    are enough of them, and then its body for those that are left."""

    _fields = (*ast.For._fields, "together")
    together: list[ast.stmt]
    turns: list[str]


def jammed(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with several turns at once of the loops where that pays."""
    stored = stores_of(function.body)
    function.body = [chosen(s, stored) for s in function.body]
    return function


def chosen(
    statement: ast.stmt, stored: Counter[str], gains: Mapping[ast.stmt, float] | None = None
) -> ast.stmt:
    """The statement with those of its loops jammed for which it pays most, none inside another one.

    `stored` is how often the function assigns each variable, `gains` what is known of the loops around.
    """
    if isinstance(statement, ast.For):
        gains = dict(_gains(statement, stored)) if gains is None else gains
        best = max((gains.get(n, 0.0) for n in walk(statement) if isinstance(n, ast.For)), default=0.0)
        if best >= LEAST and gains.get(statement) == best:
            return _jam(statement)
    if isinstance(statement, ast.For | ast.If):
        statement.body = [chosen(s, stored, gains) for s in statement.body]
    return statement


def _gains(loop: ast.For, stored: Counter[str]) -> Iterator[tuple[ast.For, float]]:
    """The loops in a loop that may be jammed, and how many times less they cost then."""
    inner = [s for s in loop.body if isinstance(s, ast.For)]
    for s in inner:
        yield from _gains(s, stored)
    size = sum(isinstance(n, ast.stmt) for s in loop.body for n in walk(s))
    if inner and size <= LARGEST and are_independent(loop, stored):
        yield loop, _gain(loop)


# -- whether it pays -------------------------------------------------------------------------------


def _gain(loop: ast.For) -> float:
    """How many times less the innermost loops cost if several turns share what does not depend on one."""
    own, before, after = own_of(loop), 0.0, 0.0
    for inner, depth in _innermost(loop, own, 0):
        alone, shared = _costs(inner, own)
        if alone > WIDEST or _stores(inner, own):
            return 0.0
        weight = float(DEEPER**depth)
        before += weight * TURNS * (alone + shared)
        after += weight * (TURNS * alone + shared)
    return before / after if after else 0.0


def _innermost(loop: ast.For, own: Collection[str], depth: int) -> Iterator[tuple[ast.For, int]]:
    """The innermost loops whose turns do not depend on those of the outer one."""
    for s in loop.body:
        if isinstance(s, ast.For) and not mentions(s.iter, own) and short(s) is None:
            if has_loops(s.body):
                yield from _innermost(s, own, depth + 1)
            else:
                yield s, depth


def _stores(loop: ast.For, own: Collection[str]) -> bool:
    """Whether an innermost loop stores what only one turn has: LLVM cannot know that several rows of one
    array are apart, and would ask before each loop over them."""
    places = (n for s in loop.body for n in walk(s) if isinstance(n, ast.Subscript))
    return any(
        isinstance(p.ctx, ast.Store) and mentions(p.slice, own)
        for p in places
        if type(p) is ast.Subscript  # those of lanes are vectors, which LLVM leaves alone
    )


def _costs(loop: ast.For, own: Collection[str]) -> tuple[float, float]:
    """What a turn of an innermost loop costs: what depends on `own`, and what does not."""
    found: dict[str, tuple[float, bool]] = {}
    for node in (n for s in loop.body for n in walk(s)):
        match node:
            case ast.Subscript(ctx=ctx):
                store = isinstance(ctx, ast.Store)
                found[f"{store} {text_of(node)}"] = STORE if store else LOAD, mentions(node.slice, own)
            case ast.BinOp(op=op):
                cost = DIVISION if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) else OPERATION
                found[text_of(node)] = cost, mentions(node, own)
            case ast.Call(func=function):
                name = ast.unparse(function)
                cheap = name in CHEAP or name.startswith("np.")
                found[text_of(node)] = OPERATION if cheap else CALL, mentions(node, own)
    alone = sum(cost for cost, depends in found.values() if depends)
    return alone, sum(cost for cost, _ in found.values()) - alone


# -- doing it --------------------------------------------------------------------------------------


def _jam(loop: ast.For) -> Jam:
    """The loop with several turns at once."""
    stored = stores_of(loop.body)
    statements = [n for s in loop.body for n in walk(s) if isinstance(n, ast.stmt)]
    totals = only_added(statements)
    names = {turn_of(loop), *stored} - inner_turns(loop) - totals
    own = own_of(loop)
    turns = [Renamed(names, k) for k in range(TURNS)]
    new = Jam(loop.target, loop.iter, loop.body, [])
    new.together = list(_together(loop.body, own, turns))
    new.turns = [f"{turn_of(loop)}.{k}" for k in range(TURNS)]
    return new


def _together(body: Sequence[ast.stmt], own: Collection[str], turns: Sequence[Renamed]) -> Iterator[ast.stmt]:
    """Each statement for all turns; a loop that is the same for all of them once, with its statements so."""
    for s in body:
        if isinstance(s, ast.For) and not mentions(s.iter, own):
            yield ast.For(s.target, s.iter, list(_together(s.body, own, turns)), [])
        elif (extremum := _extremum(s, turns)) is not None:
            yield extremum
        else:
            yield from (turn.visit(deepcopy(s)) for turn in turns)


def _extremum(statement: ast.stmt, turns: Sequence[Renamed]) -> ast.Assign | None:
    """An extremum with a value of each turn as one with their extremum, if it is such a statement: what waits
    for what was there before is one operation, not one a turn. Extrema are the same in any order."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Name(id="reduce_min" | "reduce_max") as how, args=[old, new]),
        ) if updated(statement) == name and name not in turns[0].names:
            values: list[ast.expr] = [turn.visit(deepcopy(new)) for turn in turns]
            while len(values) > 1:
                pairs = zip(values[::2], values[1::2], strict=True)
                values = [ast.Call(how, [a, b], []) for a, b in pairs]
            made = ast.Assign(statement.targets, ast.Call(how, [old, *values], []))
            return ast.copy_location(made, statement)
    return None


class Renamed(ast.NodeTransformer):
    """The variables of one turn."""

    def __init__(self, names: Collection[str], turn: int) -> None:
        self.names, self.turn = names, turn

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.names:
            node.id = f"{node.id}.{self.turn}"
        return node
