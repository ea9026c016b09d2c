"""Several turns of a loop in order, element by element: what each loads and stores serves all of them.

    for t:                                  for t by fours:
        for i:                                  for i:
            p[i] = p[i] * x[i] + a[t]               p[i] = (...(p[i] * x[i] + a[t]) ... + a[t + 3]

Each element has its turns one after the other, as before; LLVM keeps it in a register between them. That may
be done where an element reads no other one, and nothing but the elements goes from turn to turn.
"""

from __future__ import annotations

import ast
from collections import Counter
from copy import deepcopy

from adcompiler.codegen.llvm.jam import DIVISION, LEAST, LOAD, OPERATION, STORE, TURNS, Jam, Renamed, jammed
from adcompiler.codegen.llvm.short import short
from adcompiler.codegen.trees import walk

WIDEST = 4.0  # the cost of what one turn computes: registers are few


def several(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with several turns at once of the loops where that pays."""
    function = jammed(function)
    _InOrder(_names(function)).visit(function)
    return function


class _InOrder(ast.NodeTransformer):
    """`mentioned` counts the names of the function."""

    def __init__(self, mentioned: Counter[str]) -> None:
        self.mentioned = mentioned

    def visit_Jam(self, loop: Jam) -> Jam:
        return loop

    def visit_For(self, loop: ast.For) -> ast.AST:
        inner = _inner(loop)
        if inner is None or not (_may(loop, inner, self.mentioned) and _gain(loop, inner) >= LEAST):
            return self.generic_visit(loop)
        return _together(loop, inner)


def _inner(loop: ast.For) -> ast.For | None:
    """The one loop in a loop, if it has assignments only, and there are only assignments beside it."""
    loops = [s for s in loop.body if isinstance(s, ast.For)]
    if len(loops) != 1 or isinstance(loops[0], Jam) or short(loop) is not None or short(loops[0]) is not None:
        return None
    statements = [*(s for s in loop.body if s is not loops[0]), *loops[0].body]
    return loops[0] if all(isinstance(s, ast.Assign) for s in statements) else None


# -- whether it may be done ------------------------------------------------------------------------


def _may(loop: ast.For, inner: ast.For, mentioned: Counter[str]) -> bool:
    """Whether elements may have several turns each before the next element has one."""
    names, local = _names(loop), _sets(loop)
    alone = all(names[name] == mentioned[name] for name in local)
    return (
        alone and not local & set(_names(inner.iter)) and _by_turn(loop, inner) and _by_element(loop, inner)
    )


def _by_turn(loop: ast.For, inner: ast.For) -> bool:
    """Whether a turn reads no variable of an earlier turn, and nothing but the element's own statements what
    is set for an element."""
    local, known = _sets(loop), _sets(loop.target)
    for s in loop.body:
        inside = known | _sets(inner.target)
        for part in inner.body if s is inner else ():
            if not _reads(part) & local <= inside:
                return False
            inside |= _sets(part)
        if s is not inner:
            if not _reads(s) & local <= known:
                return False
            known |= _sets(s)
    return True


def _by_element(loop: ast.For, inner: ast.For) -> bool:
    """Whether an array that elements store is used at an element's own place only, and another one that is
    stored is used nowhere else."""
    names, places = _names(loop), _places(inner)
    elements = {n.value.id for n in places if isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)}
    for name in elements:
        spots = [_spots(n, inner) for n in places if isinstance(n.value, ast.Name) and n.value.id == name]
        if len(spots) != names[name] or not set.intersection(*spots):
            return False
    stored = [n.value for n in _places(loop) if isinstance(n.ctx, ast.Store)]
    return all(isinstance(n, ast.Name) and (n.id in elements or names[n.id] == 1) for n in stored)


def _names(node: ast.AST) -> Counter[str]:
    return Counter(n.id for n in walk(node) if isinstance(n, ast.Name))


def _sets(node: ast.AST) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _reads(node: ast.AST) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _places(node: ast.AST) -> list[ast.Subscript]:
    return [n for n in walk(node) if isinstance(n, ast.Subscript)]


def _spots(place: ast.Subscript, inner: ast.For) -> set[int]:
    """The indices of a place that are the number of the element."""
    indices = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
    return {k for k, i in enumerate(indices) if isinstance(i, ast.Name) and i.id in _sets(inner.target)}


# -- whether it pays -------------------------------------------------------------------------------


def _gain(loop: ast.For, inner: ast.For) -> float:
    """How many times less a turn costs if several share what they load and store."""
    turn = _sets(loop) - _sets(inner)
    found = {ast.unparse(n) + str(type(n.ctx)): n for n in _places(inner)}.values()
    shared = sum(_moved(n) for n in found if not _reads(n.slice) & turn)
    alone = sum(_moved(n) for n in found if _reads(n.slice) & turn)
    alone += sum(map(_computed, walk(inner)))
    return TURNS * (alone + shared) / (TURNS * alone + shared) if alone <= WIDEST else 0.0


def _moved(place: ast.Subscript) -> float:
    return STORE if isinstance(place.ctx, ast.Store) else LOAD


def _computed(node: ast.AST) -> float:
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()) | ast.Call(func=ast.Name(id="reduce_add")):
            return OPERATION
        case ast.BinOp() | ast.IfExp() | ast.Call(func=ast.Name(id="select") | ast.Attribute()):
            return DIVISION
    return 0.0


# -- doing it --------------------------------------------------------------------------------------


def _together(loop: ast.For, inner: ast.For) -> Jam:
    """The loop with several turns element by element."""
    names = _sets(loop) - _sets(inner.target)
    assert isinstance(loop.target, ast.Name)
    turns = [Renamed(names, k) for k in range(TURNS)]

    def each(statements: list[ast.stmt]) -> list[ast.stmt]:
        return [turn.visit(deepcopy(s)) for turn in turns for s in statements]

    at = loop.body.index(inner)
    new = Jam(loop.target, loop.iter, loop.body, [])
    middle = ast.For(inner.target, inner.iter, each(inner.body), [])
    new.together = [*each(loop.body[:at]), middle, *each(loop.body[at + 1 :])]
    new.turns = [f"{loop.target.id}.{k}" for k in range(TURNS)]
    return new
