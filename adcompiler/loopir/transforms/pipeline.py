"""The transforms of the loop IR, in order. They run once for each kernel, before LLVM's translation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from adcompiler.loopir.nodes import Function, If, Stmt, Store, Var
from adcompiler.loopir.rewrite import bare
from adcompiler.loopir.transforms.distribution import distributed
from adcompiler.loopir.transforms.interleaved_unrolling import interleaved
from adcompiler.loopir.transforms.outer_vectorisation import vectorised
from adcompiler.loopir.transforms.tiled import tiled
from adcompiler.loopir.transforms.unroll_and_jam import jammed
from adcompiler.loopir.transforms.versioning import versioned
from adcompiler.loopir.walk import is_of_program, reads, statements


def contracted(function: Function) -> Function:
    """The function with the variables that several operations use as `rounded`: which products and sums
    become one fused operation is decided here, not by LLVM.

    LLVM would contract in one loop and not in another, so the same expression in two loops could differ in
    the last bit. Here a sum contracts the product in its own expression, or that of a variable with no other
    use. A product with other uses is rounded: T. J. Dekker's exact product (Numerische Mathematik 18, 1971),
    p = a b and its error (a' b' - p) + ..., fails if p is rounded in one place and not in the other. In loops
    of the program a plain store does not count as a use: a loop that stores values for its reverse pass
    computes the same as one that does not, for example within a budget (`passes/recurrences/checkpoint.py`).
    """
    used = reads(*function.body)
    used.subtract(map(_stored, statements(_loops_of_program(function.body))))
    return replace(function, rounded=frozenset(name for name, count in used.items() if count > 1))


def _loops_of_program(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """The outermost loops of the program in a function."""
    for s in body:
        if is_of_program(s):
            yield s
        elif isinstance(s, If):
            yield from _loops_of_program(s.body)


def _stored(statement: Stmt) -> str:
    """The variable that a statement stores unchanged; empty for any other statement."""
    match statement:
        case Store(value=Var(name=name)):
            return name
    return ""


TRANSFORMS: Final[tuple[Callable[[Function], Function], ...]] = (
    bare,
    contracted,  # first: it depends on the program only, not on what the transforms below choose
    vectorised,  # before the others, which leave loops of lanes alone, but for the loops inside
    distributed,
    jammed,
    interleaved,
    tiled,
    versioned,
)


def transformed(functions: Iterable[Function]) -> tuple[Function, ...]:
    """The functions of a kernel as they are compiled."""
    return tuple(reduce(lambda made, transform: transform(made), TRANSFORMS, f) for f in functions)
