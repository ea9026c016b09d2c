"""The transforms of the loop IR, in order. They run once for each kernel, before LLVM's translation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Final

from adcompiler.loopir.contraction import contracted
from adcompiler.loopir.interleaved_unrolling import interleaved
from adcompiler.loopir.nodes import Function
from adcompiler.loopir.outer_vectorisation import vectorised
from adcompiler.loopir.rewrite import bare
from adcompiler.loopir.tiled import tiled
from adcompiler.loopir.unroll_and_jam import jammed

TRANSFORMS: Final[tuple[Callable[[Function], Function], ...]] = (
    bare,
    contracted,  # first: it depends on the program only, not on what the transforms below choose
    vectorised,  # before the others, which leave loops of lanes alone, but for the loops inside
    jammed,
    interleaved,
    tiled,
)


def transformed(functions: Iterable[Function]) -> tuple[Function, ...]:
    """The functions of a kernel as they are compiled."""
    return tuple(reduce(lambda made, transform: transform(made), TRANSFORMS, f) for f in functions)
