"""Which products and sums become one fused operation: a text says it, and LLVM has no leave to contract.

LLVM would contract in one loop and not in another, whatever the loops compute, and what two of them compute
would have two last bits. Here a sum contracts the product that it is written with, and that of a variable
which has no other use. One that has is rounded: of T. J. Dekker's exact product (Numerische Mathematik 18,
1971), p = a b and its error (a' b' - p) + ..., nothing is left if p is rounded in one place and not in the
other. In loops of the program, what is stored as it is has no use by that: a loop that stores what its
reverse reads computes the same as one that does not, as within a budget (`passes/checkpoint.py`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from adcompiler.codegen.llvm.turns import is_of_program, turn_of
from adcompiler.codegen.trees import walk


def rounded(function: ast.FunctionDef) -> frozenset[str]:
    """The variables of a function that several operations use."""
    used = Counter(
        n.id for n in _nodes(function.body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )
    used.subtract(map(_stored, _nodes(_loops_of_program(function.body))))
    return frozenset(name for name, count in used.items() if count > 1)


def _nodes(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    return (n for s in body for n in walk(s))


def _loops_of_program(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The outermost loops of the program in a function."""
    for s in body:
        if isinstance(s, ast.While) or (isinstance(s, ast.For) and is_of_program(turn_of(s))):
            yield s
        elif isinstance(s, ast.If):
            yield from _loops_of_program(s.body)


def _stored(node: ast.AST) -> str:
    """The variable that a statement stores as it is; empty for any other."""
    match node:
        case ast.Assign(targets=[ast.Subscript()], value=ast.Name(id=name)):
            return name
    return ""
