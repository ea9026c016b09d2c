"""Loop tiling, for inner loops that go through an array against its layout.

    for i:                                  for tiles of j:
        for j:                                  for i:
            t[i, j] = x[j, i]                       for j in the tile:
                                                        t[i, j] = x[j, i]

Each x[j, i] is in another cache line. The next i needs the same lines, which stay in the cache if j takes few
steps. This is strip-mining of the inner loop and interchange of its strips with the outer one (M. E. Wolf and
M. S. Lam, PLDI 1991). It requires that iterations of the outer loop are independent except for sums. Each
element, and each sum of an array, is then computed as before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from adcompiler.loopir.dependence import are_independent, loop_variant
from adcompiler.loopir.nodes import Assign, For, Function, Stmt, Var
from adcompiler.loopir.rewrite import Restructurer
from adcompiler.loopir.short_loops import short
from adcompiler.loopir.transformed_loops import Jam, Lanes, Tiled, chain
from adcompiler.loopir.transforms.unroll_and_jam import depends
from adcompiler.loopir.walk import accesses, assigned, mentions


def tiled(function: Function) -> Function:
    """The function with tiles of the loops that go through arrays against their layout."""
    body = _Tiling(assigned(*function.body)).body(function.body)
    return replace(function, body=body, tiled=any(isinstance(s, Tiled) for s in body))


class _Tiling(Restructurer):
    """`stored` is the number of assignments to each variable in the function."""

    def __init__(self, stored: Counter[str]) -> None:
        self.stored = stored

    def stmt(self, s: Stmt) -> Stmt:
        if type(s) is For and goes_against(s) and self.is_legal(s):
            return Tiled(s.axis, s.start, s.stop, s.body, s.step, s.kind, mark=s.mark)
        return s if isinstance(s, Jam | Lanes) else super().stmt(s)

    def is_legal(self, loop: For) -> bool:
        """Whether tiling is legal: all iterations run one tile of the innermost loop before any runs the next
        one. Statements before inner loops are repeated for each tile."""
        *around, inner = chain(loop)
        before = (s for n in around for s in n.body[:-1])
        return (
            all(short(n) is None for n in (*around, inner))
            and not depends(inner, loop_variant(loop))
            and all(self.is_only(s) for s in before)
            and are_independent(loop, self.stored)
        )

    def is_only(self, statement: Stmt) -> bool:
        """Whether a statement is the only assignment to a variable."""
        match statement:
            case Assign(name=name):
                return self.stored[name] == 1
        return False


def goes_against(loop: For) -> bool:
    """Whether the innermost loop goes across the rows of an array while this loop goes along them."""
    *around, inner = chain(loop)
    for at, _ in accesses(*inner.body) if around else ():
        *rows, last = at.indices
        if last == Var(loop.axis) and mentions([inner.axis], *rows):
            return True
    return False
