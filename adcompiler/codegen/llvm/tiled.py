"""Loop tiling, where an inner loop goes through an array against its layout.

    for i:                                  for tiles of j:
        for j:                                  for i:
            t[i, j] = x[j, i]                       for j in the tile:
                                                        t[i, j] = x[j, i]

Each x[j, i] lies in another line of the cache. The next i need the same lines, which stay there as long as j
takes few steps. This is strip-mining of the inner loop and interchange of its strips with the outer one
(M. E. Wolf and M. S. Lam, PLDI 1991). It is done where iterations of the outer loop are independent of each
other but for sums, so that each element, and each sum of an array, is computed as before.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from adcompiler.codegen.llvm.jam import Jam
from adcompiler.codegen.llvm.short import short
from adcompiler.codegen.llvm.turns import are_independent, mentions, own_of, stores_of, turn_of
from adcompiler.codegen.trees import walk

TILE = 16  # iterations: rows that are a power of two apart lie in few sets of a cache


class Tiled(ast.For):
    """A loop that takes one tile of its innermost loop after the other."""

    @property
    def inner(self) -> ast.For:
        """The innermost loop."""
        return list(chain(self))[-1]

    def over(self, first: str, stop: str) -> Sequence[ast.stmt]:
        """Its body for the iterations of the innermost loop between the values of two variables."""
        return _narrowed(self, ast.Call(ast.Name("range"), [ast.Name(first), ast.Name(stop)], [])).body


def tiled(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with tiles of the loops that go through arrays against their layout."""
    _Tiling(stores_of(function.body)).visit(function)
    return function


class _Tiling(ast.NodeTransformer):
    """`stored` is how often the function assigns each variable."""

    def __init__(self, stored: Counter[str]) -> None:
        self.stored = stored

    def visit_For(self, loop: ast.For) -> ast.AST:
        if type(loop) is ast.For and goes_against(loop) and self.may(loop):
            return Tiled(loop.target, loop.iter, loop.body, [])
        return loop if isinstance(loop, Jam) else self.generic_visit(loop)

    def may(self, loop: ast.For) -> bool:
        """Whether all iterations may take a tile of the innermost loop before any takes the next one. What
        stands before inner loops is computed again for each tile."""
        *around, inner = chain(loop)
        before = (s for n in around for s in n.body[:-1])
        return (
            all(short(n) is None for n in (*around, inner))
            and not mentions(inner.iter, own_of(loop))
            and all(self.is_only(s) for s in before)
            and are_independent(loop, self.stored)
        )

    def is_only(self, statement: ast.stmt) -> bool:
        """Whether a statement gives a variable the only value that it has."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                return self.stored[name] == 1
        return False


def chain(loop: ast.For) -> Iterator[ast.For]:
    """A loop and those inside it, as long as each ends with the next one."""
    yield loop
    if type(loop.body[-1]) is ast.For:
        yield from chain(loop.body[-1])


def goes_against(loop: ast.For) -> bool:
    """Whether the innermost loop goes from row to row of an array of which this one goes along the rows."""
    *around, inner = chain(loop)
    row, column = turn_of(inner), turn_of(loop)
    for node in (n for s in inner.body for n in walk(s)) if around else ():
        match node:
            case ast.Subscript(slice=ast.Tuple(elts=[*rows, ast.Name(id=name)])) if name == column:
                if any(mentions(r, [row]) for r in rows):
                    return True
    return False


def _narrowed(loop: ast.For, bounds: ast.expr) -> ast.For:
    """A loop with other bounds of its innermost loop."""
    *before, last = loop.body
    if type(last) is not ast.For:
        return ast.For(loop.target, bounds, loop.body, [])
    return ast.For(loop.target, loop.iter, [*before, _narrowed(last, bounds)], [])
