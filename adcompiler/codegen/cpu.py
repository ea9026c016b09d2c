"""Compile a program with numba and call it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from adcompiler.codegen import cache
from adcompiler.codegen.buffers import POOL, Into
from adcompiler.codegen.emit import emit
from adcompiler.codegen.kernel import Kernel
from adcompiler.codegen.llvm.entry import Param, Source
from adcompiler.codegen.llvm.machine import Native, compiled, threads
from adcompiler.codegen.llvm.values import UnsupportedError
from adcompiler.codegen.nests import Loop
from adcompiler.codegen.reference import length, require
from adcompiler.ir.nodes import Apply, Array, Const, Element, Func, Input, Shape, Size
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.ir.walk import is_computed

BLOCK = 8192  # points a block: partial sums stay accurate, and a block stays in cache
MOST_BLOCKS = 1024
MOST_WIDE_BLOCKS = 64  # where each block has partial sums of a whole array
LONGEST = 2**62
PARALLEL = 65536  # points from which the blocks of a program run in parallel

MOST_LAYOUTS = 1000  # that are remembered

# How each nest is cut (blocks, and turns a block), whether blocks run in parallel, and what arrays it takes.
Layout = tuple[tuple[int, ...], bool, list[tuple[tuple[int, ...], np.dtype]]]
Lengths = Callable[[Sequence[int]], tuple[int, ...]]
_one_at_a_time = threading.Lock()  # numba's thread pool may not be entered twice


class Compiled:
    """A program and its kernels: a serial one, and a parallel one compiled when first worth it."""

    def __init__(self, func: Func, precise: bool = False, kernel: Kernel | None = None) -> None:
        self.kernel = kernel or emit(func)
        func = self.kernel.func
        self.func, self.precise = func, precise
        self.shapes = [(b, lengths(b.shape), NUMPY[b.dtype]) for b in self.kernel.buffers]
        self.plans = [_plan(loop, k, self.kernel) for k, loop in enumerate(self.kernel.nests)]
        # A program of scalars has no loops and no buffers: its results are picked from what it returns.
        scalars = self.kernel.scalars
        plain = not self.plans and not self.shapes and all(r in scalars for r in func.roots)
        self.picks = [scalars.index(r) for r in func.results] if plain else None
        self.checked = bool(func.checks)
        self.places = {b.name: p for p, b in enumerate(self.kernel.buffers)}
        self.out = [self.places.get(self.kernel.arrays[r]) for r in func.results]
        self.layouts: dict[tuple[int, ...], Layout] = {}

    @cached_property
    def source(self) -> Source:
        """The kernel, for the compiler without numba."""
        kernel, nests = self.kernel, range(len(self.plans))
        params = [Param(name, "i64") for name in kernel.sizes]
        params += [Param(kernel.arrays[i], i.dtype, _known(i.shape)) for i in self.func.inputs]
        params += [
            Param(b.name, b.dtype, (None,) * (b.nest is not None) + _known(b.shape)) for b in kernel.buffers
        ]
        params += [Param(f"{what}{k}", "i64") for k in nests for what in ("blocks", "rows")]
        shared = [f"nest{k}" for k in nests if k not in kernel.sequential]
        results: list[Dtype] = [s.dtype for s in kernel.scalars]
        results += ["i64"] * kernel.stamps
        return Source(kernel.text, params, results, shared, self.precise)

    @cached_property
    def native(self) -> Native | None:
        """The kernel compiled without numba, if that can be."""
        try:
            return compiled(self.source)
        except UnsupportedError:
            return None

    @cached_property
    def serial(self) -> Callable[..., Sequence[Any]]:
        """The kernel that runs its blocks one after the other."""
        run = self.native
        if run is None:
            return _loaded(self.kernel.source)
        return (lambda *args: run(*args, 0, 1)) if self.source.shared else run

    @cached_property
    def parallel(self) -> Callable[..., Sequence[Any]]:
        """The kernel that runs its blocks on all threads; without numba it is the same machine code."""
        run = self.native
        if run is not None:
            return lambda *args: run(*args, *threads())
        # BLAS has threads of its own, and numba takes twice as long for what calls it.
        return self.serial if "library_" in self.kernel.text else _loaded(self.kernel.parallel_source)

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results: arrays, or scalars where the rank is 0."""
        if self.picks is not None:
            scalars = self.serial(*sizes, *args)
            if self.checked:
                self.check(scalars)
            return [scalars[k] for k in self.picks]
        buffers, scalars = self.launch(sizes, args, into)
        if self.checked:
            self.check(scalars)
        return self.results(args, buffers, scalars)

    def launch(
        self, sizes: Sequence[int], args: Sequence[Any], into: Into = None
    ) -> tuple[list[np.ndarray], Sequence[Any]]:
        """Run the kernel: its buffers, and what it returns."""
        key = tuple(sizes)
        blocks, parallel, needed = self.layouts.get(key) or self.layout(key)
        given = dict(zip(self.out, into or (), strict=False))
        buffers = [POOL.empty(*need) if (b := given.get(p)) is None else b for p, need in enumerate(needed)]
        if not parallel:
            return buffers, self.serial(*sizes, *args, *buffers, *blocks)
        with _one_at_a_time:
            return buffers, self.parallel(*sizes, *args, *buffers, *blocks)

    def in_parallel(self, sizes: Sequence[int]) -> bool:
        """Whether blocks run in parallel for these lengths."""
        return self.layout(tuple(sizes))[1]

    def at(self, sizes: Sequence[int]) -> Compiled:
        """The kernel for these lengths: there is one only."""
        return self

    def layout(self, sizes: tuple[int, ...]) -> Layout:
        """What follows from the lengths of a call; the same lengths are likely to come again."""
        plans = [plan(sizes) for plan in self.plans]
        blocks = tuple([n for count, rows, _ in plans for n in (count, rows)])
        long = sum(points for _, _, points in plans) >= PARALLEL
        needed = [
            (shape(sizes) if b.nest is None else (blocks[2 * b.nest], *shape(sizes)), dtype)
            for b, shape, dtype in self.shapes
        ]
        made = blocks, long and len(self.kernel.sequential) < len(plans), needed
        if len(self.layouts) < MOST_LAYOUTS:
            self.layouts[sizes] = made
        return made

    def check(self, scalars: Sequence[Any]) -> None:
        """Raise the error of the first check that does not hold."""
        require(self.func, [scalars[self.kernel.scalars.index(c.holds)] for c in self.func.checks])

    def results(self, args: Sequence[Any], buffers: list[np.ndarray], scalars: Sequence[Any]) -> list[Any]:
        """Results in order."""
        values: dict[Array, Any] = dict(zip(self.kernel.scalars, scalars, strict=True))
        return [
            buffers[p] if p is not None else args[r.position] if isinstance(r, Input) else values[r]
            for r, p in zip(self.func.results, self.out, strict=True)
        ]


def _loaded(source: str) -> Callable[..., Any]:
    """The kernel of a source, loaded at its first call; a damaged file of it in the cache is replaced."""
    run: Callable[..., Any] | None = None

    def call(*args: Any) -> Any:
        nonlocal run
        if run is not None:
            return run(*args)
        try:
            first = cache.load(source).run
            found = first(*args)
        except Exception:
            cache.forget(source)
            first = cache.load(source).run
            found = first(*args)
        run = first
        return found

    return call


def lengths(shape: Sequence[Element]) -> Lengths:
    """A function from the values of the size symbols to lengths."""
    if all(isinstance(n, Size) for n in shape):
        numbers = [n.number for n in shape if isinstance(n, Size)]
        return lambda sizes: tuple(sizes[k] for k in numbers)
    if all(isinstance(n, Const) for n in shape):
        fixed = tuple(int(n.value) for n in shape if isinstance(n, Const))
        return lambda sizes: fixed
    each = [_length(n) for n in shape]
    return lambda sizes: tuple(of(sizes) for of in each)


def _length(size: Element) -> Callable[[Sequence[int]], int]:
    """A function from the values of the size symbols to one length; that of plain sums is a quick one."""
    match size:
        case Size(number=number):
            return lambda sizes: sizes[number]
        case Const(value=value):
            return lambda sizes: int(value)
        case Apply(op="add" | "subtract" as op, args=(x, y)):
            left, right, sign = _length(x), _length(y), 1 if op == "add" else -1
            return lambda sizes: left(sizes) + sign * right(sizes)
    return lambda sizes: length(size, sizes)


def _known(shape: Shape) -> tuple[int | None, ...]:
    """The lengths that are constant."""
    return tuple(int(n.value) if isinstance(n, Const) else None for n in shape)


def _plan(loop: Loop, number: int, kernel: Kernel) -> Callable[[Sequence[int]], tuple[int, int, int]]:
    """How a nest is cut: the number of blocks, turns a block, and points in all; by lengths only.

    An outermost loop whose length the program computes is one block; other such lengths count as one.
    """
    if is_computed(loop.size):
        return lambda sizes: (1, LONGEST, 1)
    outer = lengths((loop.size,))
    domains = [[t.array.domain[k] for k in t.order[1:]] for t in loop.tasks]
    inner = [lengths(tuple(n for n in domain if not is_computed(n))) for domain in domains]
    wide = any(b.nest == number and b.shape for b in kernel.buffers)
    most = MOST_WIDE_BLOCKS if wide else MOST_BLOCKS

    def plan(sizes: Sequence[int]) -> tuple[int, int, int]:
        turns = outer(sizes)[0]
        points = max(prod(shape(sizes)) for shape in inner)
        rows = max(1, BLOCK // max(points, 1), -(-turns // most))
        return -(-turns // rows), rows, turns * points

    return plan
