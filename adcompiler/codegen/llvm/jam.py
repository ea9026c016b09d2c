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
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy

from adcompiler.codegen.llvm.short import has_loops, short

TURNS = 4
LEAST = 1.25  # how many times less an inner loop must cost
LARGEST = 80  # statements that may be written several times
WIDEST = 12.0  # the cost of what one turn does alone in an inner loop: registers are few
DEEPER = 32  # how much more often a loop inside another is taken to run

LOAD, STORE, OPERATION, DIVISION, CALL = 1.0, 3.0, 0.5, 4.0, 10.0
CHEAP = frozenset(("select", "abs", "min", "max", "fma", "reduce_add", "reduce_max", "reduce_min", "uint64"))


class Jam(ast.For):
    """A loop that runs `together`, whose variables `turns` are those of consecutive turns, as long as there
    are enough of them, and then its body for those that are left."""

    _fields = (*ast.For._fields, "together")
    together: list[ast.stmt]
    turns: list[str]


def jammed(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with several turns at once of the loops where that pays."""
    stored = _stored(function.body)
    function.body = [_chosen(s, stored) for s in function.body]
    return function


def _chosen(statement: ast.stmt, stored: Counter[str]) -> ast.stmt:
    """The statement with those of its loops jammed for which it pays most, none inside another one."""
    if isinstance(statement, ast.For):
        gains = dict(_gains(statement, stored))
        if gains.get(statement, 0.0) >= max(LEAST, *gains.values(), 0.0):
            return _jam(statement)
    if isinstance(statement, ast.For | ast.If):
        statement.body = [_chosen(s, stored) for s in statement.body]
    return statement


def _gains(loop: ast.For, stored: Counter[str]) -> Iterator[tuple[ast.For, float]]:
    """The loops in a loop that may be jammed, and how many times less they cost then."""
    inner = [s for s in loop.body if isinstance(s, ast.For)]
    for s in inner:
        yield from _gains(s, stored)
    if inner and _may(loop, stored):
        yield loop, _gain(loop)


# -- what one turn has for itself ------------------------------------------------------------------


def _stored(body: Sequence[ast.stmt]) -> Counter[str]:
    """How often each variable is assigned."""
    names = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
    return Counter(n.id for n in names if isinstance(n.ctx, ast.Store))


def _turn(loop: ast.For) -> str:
    assert isinstance(loop.target, ast.Name)
    return loop.target.id


def _targets(loop: ast.For) -> set[str]:
    """The variables of the loops inside a loop."""
    return {_turn(n) for s in loop.body for n in ast.walk(s) if isinstance(n, ast.For)}


def _mentions(node: ast.AST, names: Collection[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))


def _own(loop: ast.For) -> set[str]:
    """The variables that depend on the turn of a loop."""
    own = {_turn(loop)}
    assigned = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Assign | ast.For)]
    before = 0
    while before < len(own):
        before = len(own)
        for n in assigned:
            target, value = (n.target, n.iter) if isinstance(n, ast.For) else (n.targets[0], n.value)
            if isinstance(target, ast.Name) and _mentions(value, own):
                own.add(target.id)
    return own


# -- whether it may be done ------------------------------------------------------------------------


def _may(loop: ast.For, stored: Counter[str]) -> bool:
    """Whether the turns of a loop are independent of each other but for sums."""
    nodes = [n for s in loop.body for n in ast.walk(s)]
    statements = [n for n in nodes if isinstance(n, ast.stmt)]
    if len(statements) > LARGEST or not all(_is_plain(s) for s in statements):
        return False
    inside = _stored(loop.body)
    outer = {name for name, count in inside.items() if stored[name] > count} - _targets(loop)
    written = {_array(n) for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    return all(_only_adds(statements, name) for name in outer) and all(
        _only_adds(statements, name) or _apart(nodes, name, _turn(loop)) for name in written
    )


def _is_plain(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name() | ast.Subscript(value=ast.Name())]):
            return True
        case ast.AugAssign(target=ast.Subscript(value=ast.Name())):
            return True
        case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name(id="range"), args=[_, _])):
            return True
        case ast.If(orelse=[]):
            return True
    return isinstance(statement, ast.Pass)


def _array(node: ast.AST) -> str:
    """The name of the array of which a subscript is an element."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)):
            return name
    return ""


def _updated(statement: ast.stmt) -> str:
    """The variable, or the array, that a statement adds to, or takes an extremum with; else nothing."""
    match statement:
        case ast.AugAssign(target=target):
            return _array(target)
        case ast.Assign(
            targets=[target],
            value=ast.BinOp(left=old, op=ast.Add() | ast.Mult()) | ast.Call(args=[old, _]),
        ) if ast.unparse(target) == ast.unparse(old):
            return target.id if isinstance(target, ast.Name) else _array(target)
    return ""


def _only_adds(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether all that is done with a variable, or with an array, is to add to it."""
    uses = updates = 0
    for s in statements:
        own = [s.test] if isinstance(s, ast.If) else [s.iter] if isinstance(s, ast.For) else [s]
        uses += sum(isinstance(n, ast.Name) and n.id == name for part in own for n in ast.walk(part))
        if _updated(s) == name:
            updates += 1 if isinstance(s, ast.AugAssign) else 2
    return uses == updates


def _apart(nodes: Sequence[ast.AST], name: str, turn: str) -> bool:
    """Whether each turn has a part of an array for itself: the turn's number is an index of every access, and
    always the same one."""
    places = [n.slice for n in nodes if isinstance(n, ast.Subscript) and _array(n) == name]
    if len(places) < sum(isinstance(n, ast.Name) and n.id == name for n in nodes):
        return False
    spots = [
        {k for k, i in enumerate(p.elts if isinstance(p, ast.Tuple) else [p])
         if isinstance(i, ast.Name) and i.id == turn}
        for p in places
    ]  # fmt: skip
    return bool(set.intersection(*spots))


# -- whether it pays -------------------------------------------------------------------------------


def _gain(loop: ast.For) -> float:
    """How many times less the innermost loops cost if several turns share what does not depend on one."""
    own, before, after = _own(loop), 0.0, 0.0
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
        if isinstance(s, ast.For) and not _mentions(s.iter, own) and short(s) is None:
            if has_loops(s.body):
                yield from _innermost(s, own, depth + 1)
            else:
                yield s, depth


def _stores(loop: ast.For, own: Collection[str]) -> bool:
    """Whether an innermost loop stores what only one turn has: LLVM cannot know that several rows of one
    array are apart, and would ask before each loop over them."""
    places = (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Subscript))
    return any(isinstance(p.ctx, ast.Store) and _mentions(p.slice, own) for p in places)


def _costs(loop: ast.For, own: Collection[str]) -> tuple[float, float]:
    """What a turn of an innermost loop costs: what depends on `own`, and what does not."""
    found: dict[str, tuple[float, bool]] = {}
    for node in (n for s in loop.body for n in ast.walk(s)):
        match node:
            case ast.Subscript(ctx=ctx):
                store = isinstance(ctx, ast.Store)
                found[f"{store} {ast.unparse(node)}"] = STORE if store else LOAD, _mentions(node.slice, own)
            case ast.BinOp(op=op):
                cost = DIVISION if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) else OPERATION
                found[ast.unparse(node)] = cost, _mentions(node, own)
            case ast.Call(func=function):
                name = ast.unparse(function)
                cheap = name in CHEAP or name.startswith("np.")
                found[ast.unparse(node)] = OPERATION if cheap else CALL, _mentions(node, own)
    alone = sum(cost for cost, depends in found.values() if depends)
    return alone, sum(cost for cost, _ in found.values()) - alone


# -- doing it --------------------------------------------------------------------------------------


def _jam(loop: ast.For) -> Jam:
    """The loop with several turns at once."""
    stored = _stored(loop.body)
    statements = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.stmt)]
    totals = {name for name in stored if _only_adds(statements, name)}
    names = {_turn(loop), *stored} - _targets(loop) - totals
    own = _own(loop)
    turns = [Renamed(names, k) for k in range(TURNS)]
    new = Jam(loop.target, loop.iter, loop.body, [])
    new.together = list(_together(loop.body, own, turns))
    new.turns = [f"{_turn(loop)}.{k}" for k in range(TURNS)]
    return new


def _together(body: Sequence[ast.stmt], own: Collection[str], turns: Sequence[Renamed]) -> Iterator[ast.stmt]:
    """Each statement for all turns; a loop that is the same for all of them once, with its statements so."""
    for s in body:
        if isinstance(s, ast.For) and not _mentions(s.iter, own):
            yield ast.For(s.target, s.iter, list(_together(s.body, own, turns)), [])
        else:
            yield from (turn.visit(deepcopy(s)) for turn in turns)


class Renamed(ast.NodeTransformer):
    """The variables of one turn."""

    def __init__(self, names: Collection[str], turn: int) -> None:
        self.names, self.turn = names, turn

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.names:
            node.id = f"{node.id}.{self.turn}"
        return node
