"""The inline cache of calls: the data for the fast path of calls that resemble an earlier one.

`targets/llvm/runtime/inline_cache.py` is that fast path.
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adcompiler.ir.types import NUMPY
from adcompiler.kernels.emit.call_plan import Kind as Where
from adcompiler.kernels.emit.call_plan import Result
from adcompiler.pytree.kinds import ArgType, Kind, Static
from adcompiler.targets.buffers import POOL
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.kernels import kernel_at
from adcompiler.targets.llvm.limits import MOST_WORDS
from adcompiler.targets.llvm.runtime.inline_cache import (
    ARRAY,
    FROM_FLOAT,
    NUMBERS,
    SAME,
    SIZES,
    TO_FLOAT,
    TO_INTEGER,
    TUPLE,
)
from adcompiler.targets.llvm.runtime.jit import guarded


def fast_path(
    executable: Any,
    sizes: Sequence[int],
    types: Sequence[Kind],
    args: Sequence[Any],
    structure: Any,
    plain: bool,
    general: Callable[..., Any],
) -> Callable[..., Any] | None:
    """The fast path for calls with arguments like these, which `fit`; all others call `general`.

    `structure` is the nesting of results, and `plain` whether scalars among them are Python numbers. None if
    there is no fast path: for containers as results, many threads, arrays of computed lengths, and other
    backends.
    """
    kernel = kernel_at(executable, sizes)
    if not (isinstance(kernel, CpuKernel) and kernel.native is not None and _nests(structure)):
        return None
    plan = kernel.plan
    if plan.computed or kernel.mode.polled or any(r.kind is Where.INPUT for r in plan.results):
        return None
    blocks, parallel, needed, _ = kernel.layout(tuple(sizes))
    if parallel:
        return None
    table = _Table(kernel)
    table.words = plan.frame(
        sizes, [np.shape(a) for k, a in zip(types, args, strict=True) if isinstance(k, ArgType)],
        [shape for shape, _ in needed], blocks,
    )  # fmt: skip
    places = iter(plan.words.inputs)
    for kind, arg in zip(types, args, strict=True):
        table.argument(kind, arg, places)
    for need, place in zip(needed, plan.words.buffers, strict=True):
        table.makers += [table.address(POOL.maker(*need)), place]
    table.nest(structure, iter(plan.results), plain)
    if max(plan.words.count, len(table.outputs)) > MOST_WORDS:
        return None
    return guarded(table.text(kernel.native.packed), general, table.held)


def fits(kind: Kind, arg: Any) -> bool:
    """Whether fast paths accept an argument of a type: a number, an array that kernels use in place, or a
    value known at compile time."""
    if type(arg) is np.ndarray and isinstance(kind, ArgType):
        known = arg.ndim > 0 and arg.dtype == NUMPY[kind.dtype]
        return known and arg.flags.c_contiguous and arg.flags.aligned
    return type(arg) in (float, int, np.float64) or isinstance(kind, Static)


def _nests(structure: Any) -> bool:
    """Whether fast paths support a nesting of results: tuples only."""
    if isinstance(structure, tuple):
        return all(map(_nests, structure))
    return structure is None


class _Table:
    """The parts of the table, and the objects whose addresses it contains."""

    def __init__(self, kernel: CpuKernel) -> None:
        self.plan = kernel.plan
        self.arguments: list[int] = []
        self.makers: list[int] = []
        self.words: list[int] = []
        self.outputs: list[int] = []
        self.held: list[Any] = [kernel.native]  # the table has its address, too

    def address(self, held: Any) -> int:
        """The address of an object, which is kept alive."""
        self.held.append(held)
        return id(held)

    def argument(self, kind: Kind, arg: Any, places: Iterator[int]) -> None:
        """Add an argument of the call; `places` yields the words of those that kernels take."""
        if isinstance(kind, Static):
            self.arguments += [self.address(arg), 0, SAME, 0]
            return
        assert isinstance(kind, ArgType)
        taken = FROM_FLOAT if type(arg) is not int else TO_FLOAT if kind.dtype == "f64" else TO_INTEGER
        how = self.address(arg.dtype) if np.ndim(arg) else taken
        self.arguments += [self.address(type(arg)), next(places), how, np.ndim(arg)]

    def nest(self, structure: Any, flat: Iterator[Result], plain: bool) -> None:
        """Add the results; `flat` yields those of the program."""
        if isinstance(structure, tuple):
            for part in structure:
                self.nest(part, flat, plain)
            self.outputs += [TUPLE, len(structure), 0]
            return
        result = next(flat)
        if result.kind is Where.BUFFER:
            self.outputs += [ARRAY, result.number, 0]
            return
        own = plain and result.dtype != "f32"
        kind = 0 if own else self.address(NUMPY[result.dtype].type)
        self.outputs += [NUMBERS[result.dtype], self.plan.words.returned[result.number], kind]

    def text(self, run: int) -> bytes:
        """The table for a kernel at an address."""
        checks = [self.plan.words.returned[k] for k in self.plan.checks]
        parts = self.arguments, self.makers, self.words, checks, self.outputs
        counts = [len(part) // size for part, size in zip(parts, SIZES, strict=True)]
        loops = bool(self.makers) or any(i.rank for i in self.plan.func.inputs)
        return packed("q", [*counts, run, loops, *(word for part in parts for word in part)]).tobytes()
