"""Which products and sums become one fused operation: the loop IR says it, and LLVM has no leave to.

LLVM would contract in one loop and not in another, whatever the loops compute, and what two of them compute
would have two last bits. Here a sum contracts the product that it is written with, and that of a variable
which has no other use. One that has is rounded: of T. J. Dekker's exact product (Numerische Mathematik 18,
1971), p = a b and its error (a' b' - p) + ..., nothing is left if p is rounded in one place and not in the
other. In loops of the program, what is stored as it is has no use by that: a loop that stores what its
reverse reads computes the same as one that does not, as within a budget (`passes/recurrences/checkpoint.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adcompiler.loopir.nodes import Function, If, Stmt, Store, Var
from adcompiler.loopir.walk import is_of_program, reads, statements


def rounded(function: Function) -> frozenset[str]:
    """The variables of a function that several operations use."""
    used = reads(*function.body)
    used.subtract(map(_stored, statements(_loops_of_program(function.body))))
    return frozenset(name for name, count in used.items() if count > 1)


def _loops_of_program(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """The outermost loops of the program in a function."""
    for s in body:
        if is_of_program(s):
            yield s
        elif isinstance(s, If):
            yield from _loops_of_program(s.body)


def _stored(statement: Stmt) -> str:
    """The variable that a statement stores as it is; empty for any other."""
    match statement:
        case Store(value=Var(name=name)):
            return name
    return ""
