"""Compiles a program with our own compiler or with numba, and calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler.interpreter.reference import require
from adcompiler.ir.nodes import Array, Const, Shape
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.kernels.emit.block_partition import Partition, is_long, lengths
from adcompiler.kernels.emit.call_plan import Kind
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.emit.kernel import Kernel
from adcompiler.kernels.limits import PARALLEL_POINTS, POLLED_POINTS
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.lazy import Memo, cached_property
from adcompiler.loopir.limits import MOST_LANES
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.loopir.short_loops import low_trip_guard
from adcompiler.progress import compiling
from adcompiler.targets.buffers import POOL, Into
from adcompiler.targets.cpu.threads import region
from adcompiler.targets.llvm.runtime.entry import KernelSource, Param
from adcompiler.targets.llvm.runtime.jit import Native, compiled, report
from adcompiler.targets.llvm.values import BrokenModuleError
from adcompiler.targets.numba import modules

# The blocks of each nest and their iterations; whether blocks run in parallel; the buffers; and whether an
# iteration has so many points that loops inside it poll.
Layout = tuple[tuple[int, ...], bool, list[tuple[tuple[int, ...], np.dtype]], bool]


class Mode(NamedTuple):
    """The variant a kernel is compiled as.

    - divided: program loops divide their iterations among threads
    - low_trips: loops in their iterations are short (`short_loops.py`)
    - polled: a block of a nest has so many points that loops inside it poll for signals
    """

    divided: bool = False
    low_trips: bool = False
    polled: bool = False


PLAIN = Mode()


class CpuKernel:
    """A program and one kernel of it. `threads` threads share its blocks if there are enough points (None: as
    many as the process has). `plain` is the kernel in the plain mode, if it exists. Kernels compiled
    `by_numba` run on one thread."""

    def __init__(
        self,
        made: Scheduled,
        precise: bool = False,
        threads: int | None = None,
        mode: Mode = PLAIN,
        plain: CpuKernel | None = None,
        kernel: Kernel | None = None,
        by_numba: bool = False,
    ) -> None:
        self.made, self.threads, self.mode, self.by_numba = made, threads, mode, by_numba
        if plain is not None and plain.mode.divided == mode.divided:
            kernel = plain.kernel
        self.kernel: Kernel = kernel or emit(made, divides=mode.divided)
        func = made.func
        self.func, self.precise = func, precise
        self.plan = self.kernel.plan.widened(self.kernel.wide, MOST_LANES)
        self.partitions = [Partition(self.kernel, k, transformed=True) for k in range(self.plan.nests)]
        self.shapes = [(b.nest, lengths(b.shape), NUMPY[b.dtype]) for b in self.plan.buffers]
        self.picks = [r.number for r in self.plan.results] if self.plan.is_scalar else None
        self.checks = self.plan.checks
        self.places = [(r.kind.value, r.number) for r in self.plan.results]
        self.out = [r.number if r.kind is Kind.BUFFER else None for r in self.plan.results]
        self.layouts: Memo[tuple[int, ...], Layout] = Memo()
        self.is_long = is_long(self.kernel.whole) if self.kernel.whole else None
        self.are_low = low_trip_guard(self.kernel.functions, self.plan.sizes)

    @cached_property
    def source(self) -> KernelSource:
        """The kernel, for the compiler other than numba."""
        kernel, plan, inputs = self.kernel, self.plan, self.func.inputs
        params = [Param(name, "i64") for name in plan.sizes]
        params += [Param(n, i.dtype, _known(i.shape)) for n, i in zip(plan.inputs, inputs, strict=True)]
        written = len(params)
        for b in plan.buffers:
            params.append(Param(b.name, b.dtype, (None,) * (b.nest is not None) + _known(b.shape)))
        params += [Param(name, "i64") for name in plan.blocks]
        shared = [f"nest{k}" for k in range(plan.nests) if k not in kernel.sequential]
        results: list[Dtype] = [v.dtype for v in plan.returned]
        results += ["i64"] * plan.stamps
        how = self.precise, written, self.mode.polled, self.mode.low_trips
        short = [f"nest{k}" for k, p in enumerate(self.partitions) if p.is_bounded]
        return KernelSource(tuple(kernel.transformed.values()), params, results, shared, *how, short=short)

    @cached_property
    def native(self) -> Native | None:
        """The kernel compiled without numba, if possible."""
        if self.by_numba:
            return None
        try:
            with compiling(self.func.name):
                return compiled(self.source)
        except (BrokenModuleError, UnsupportedError) as error:
            report(self.func.name, error)
            return None

    @cached_property
    def serial(self) -> Callable[..., Sequence[Any]]:
        """The kernel that runs its blocks in order."""
        run = self.native
        if run is None:
            return _loaded(self.kernel.source)
        return (lambda *args: run(*args, 0, 1)) if self.source.shared else run

    @cached_property
    def parallel(self) -> Callable[..., Sequence[Any]]:
        """The same machine code with blocks shared by threads; kernels compiled by numba run on one."""
        run = self.native
        if run is None:
            return self.serial
        return lambda *args: run(*args, *region(self.threads))

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results: arrays, or scalars where the rank is 0."""
        if self.picks is not None:
            scalars = self.serial(*sizes, *args)
            if self.checks:
                self.check(scalars)
            return [scalars[k] for k in self.picks]
        buffers, scalars = self.launch(sizes, args, into)
        if self.checks:
            self.check(scalars)
        return self.results(args, buffers, scalars)

    def launch(
        self, sizes: Sequence[int], args: Sequence[Any], into: Into = None
    ) -> tuple[list[np.ndarray], Sequence[Any]]:
        """Run the kernel; return its buffers and return values."""
        key = tuple(sizes)
        blocks, parallel, needed, _ = self.layouts.get(key) or self.layout(key)
        given = dict(zip(self.out, into or (), strict=False))
        buffers = [POOL.empty(*need) if (b := given.get(p)) is None else b for p, need in enumerate(needed)]
        run = self.parallel if parallel else self.serial
        return buffers, run(*sizes, *args, *buffers, *blocks)

    def in_parallel(self, sizes: Sequence[int]) -> bool:
        """Whether blocks run in parallel for these lengths."""
        return self.layout(tuple(sizes))[1]

    def mode_at(self, sizes: Sequence[int]) -> Mode:
        """The mode for these lengths."""
        if self.is_long is not None and self.is_long(sizes):
            return Mode(divided=True, polled=self.divided.polls(sizes))
        if self.polls(sizes):
            return Mode(polled=True)
        return Mode(low_trips=self.are_low is not None and self.are_low(sizes))

    @cached_property
    def divided(self) -> CpuKernel:
        """The kernel whose program loops divide their iterations, for its layouts."""
        return CpuKernel(self.made, self.precise, self.threads, Mode(divided=True))

    def polls(self, sizes: Sequence[int]) -> bool:
        """Whether a block of a nest has so many points that loops inside it poll."""
        return self.layout(tuple(sizes))[3]

    def layout(self, sizes: tuple[int, ...]) -> Layout:
        """The layout for the lengths of a call, cached because lengths tend to repeat."""
        cuts = [partition.plan(sizes) for partition in self.partitions]
        blocks = tuple([n for count, rows, _, _ in cuts for n in (count, rows)])
        long = sum(points for _, _, points, _ in cuts) >= PARALLEL_POINTS
        heavy = any(min(rows * points, total) > POLLED_POINTS for _, rows, total, points in cuts)
        needed = [
            (shape(sizes) if nest is None else (blocks[2 * nest], *shape(sizes)), dtype)
            for nest, shape, dtype in self.shapes
        ]
        made = blocks, long and len(self.kernel.sequential) < len(cuts), needed, heavy
        self.layouts[sizes] = made
        return made

    def check(self, scalars: Sequence[Any]) -> None:
        """Raise the error of the first check that fails."""
        require(self.func, [scalars[k] for k in self.checks])

    def results(self, args: Sequence[Any], buffers: list[np.ndarray], scalars: Sequence[Any]) -> list[Any]:
        """Results in order."""
        made = [*map(_array, scalars, self.plan.returned)] if self.plan.computed else scalars
        values = buffers, scalars, made, args
        return [values[kind][k] for kind, k in self.places]


def _array(value: Any, made: Array) -> Any:
    """An array that a kernel has allocated, from its bytes and lengths; any other value as it is."""
    if not isinstance(value, tuple):
        return value
    contents, *shape = value
    return np.frombuffer(contents, NUMPY[made.dtype]).reshape(shape)


def _loaded(source: str) -> Callable[..., Any]:
    """The kernel of a source, loaded at its first call."""
    run: Callable[..., Any] | None = None

    def call(*args: Any) -> Any:
        nonlocal run
        if run is None:
            run = modules.load(source).run
        return run(*args)

    return call


def _known(shape: Shape) -> tuple[int | None, ...]:
    """The lengths that are constant."""
    return tuple(int(n.value) if isinstance(n, Const) else None for n in shape)
