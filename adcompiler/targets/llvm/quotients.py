"""Quotients of counters: a loop in strips in which no quotient changes.

    for i in range(n):                      for strips of i that end where i // m changes:
        y[i] = x[i // m, i % m]                 q, r = i // m, i % m, where the strip begins
                                                for i in the strip: y[i] = x[q, r + i - begin]

A division of integers takes as long as tens of additions, and has no vector form. In strips there is one for
each, and places in memory follow each other. Iterations run in the same order. If a divisor is not positive,
each strip is one iteration.
"""

from __future__ import annotations

from dataclasses import replace

from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.dependence import Iteration
from adcompiler.loopir.nodes import (
    Binary,
    Break,
    Call,
    Expr,
    For,
    Invoke,
    Literal,
    Name,
    Return,
    Var,
    literal,
)
from adcompiler.loopir.rewrite import Rewriter
from adcompiler.loopir.short_loops import has_loops
from adcompiler.loopir.walk import read_by, statements
from adcompiler.targets.llvm.limits import LEAST_DIVISOR


@dataclass(frozen=True)
class Quotient:
    """A number that grows by `step` in each iteration of a loop, and its divisor, in variables from outside
    of the loop and its counter."""

    numerator: Expr
    divisor: Expr
    step: int


def quotients(loop: For) -> dict[Quotient, list[Binary]]:
    """The quotients and remainders of counters in an innermost loop, each with where it stands."""
    found: dict[Quotient, list[Binary]] = {}
    inside = statements(loop.body)
    if has_loops(loop.body) or any(isinstance(s, Invoke | Break | Return) for s in inside):
        return found
    nodes = [n for s in inside for n in read_by(s) if isinstance(n, Binary) and n.op in ("//", "%")]
    nodes = [n for n in nodes if not isinstance(n.right, Literal) or n.right.value >= LEAST_DIVISOR]
    if nodes:
        outside = Iteration(loop)
        for node in nodes:
            step = outside.step(node.left)
            if not step or outside.step(node.right) != 0:
                continue
            numerator, divisor = map(outside.written_out, (node.left, node.right))
            if numerator is not None and divisor is not None:
                found.setdefault(Quotient(numerator, divisor, step), []).append(node)
    return found


def in_strip(loop: For, found: dict[Quotient, list[Binary]], begin: Name) -> tuple[For, list[str]]:
    """The loop over a strip, and the names of the quotient and of the remainder of each number, as they are
    where the strip begins."""
    made: dict[Binary, Expr] = {}
    names: list[str] = []
    beyond = Binary("-", Call("np.int64", (Var(loop.axis),)), Var(begin))
    for k, (quotient, nodes) in enumerate(found.items()):
        names += f"{loop.axis}.quotient{k}", f"{loop.axis}.remainder{k}"
        whole, rest = map(Var, names[-2:])
        further: Expr = beyond if quotient.step == 1 else Binary("*", literal(quotient.step), beyond)
        for node in nodes:
            made[node] = whole if node.op == "//" else Binary("+", rest, further, mark=node.mark)
    return replace(loop, body=_Counting(made).body(loop.body)), names


class _Counting(Rewriter):
    """Quotients and remainders replaced by what counts them."""

    def __init__(self, made: dict[Binary, Expr]) -> None:
        self.made = made

    def expr(self, e: Expr) -> Expr:
        return self.made[e] if isinstance(e, Binary) and e in self.made else super().expr(e)
