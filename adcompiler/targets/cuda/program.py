"""The kernels of a program, and calls of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from math import prod
from typing import Any

import numpy as np
from numba import cuda

from adcompiler.interpreter.reference import extent, require
from adcompiler.ir.nodes import Array, Element, Input, const
from adcompiler.ir.types import NUMPY
from adcompiler.ir.walk import read_by, substitute
from adcompiler.kernels.emit.block_partition import Lengths, lengths
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.kernels.schedule.schedule_tree import computed
from adcompiler.lazy import Memo, cached_property
from adcompiler.targets.cuda.device.arrays import handle, is_half
from adcompiler.targets.cuda.device.copies import Row, copy_row
from adcompiler.targets.cuda.device.copies import copy as copy_array
from adcompiler.targets.cuda.device.device import SIMULATED, captured, launcher, loaded
from adcompiler.targets.cuda.device.header import with_header
from adcompiler.targets.cuda.device.memory import Memory, empty, shaped
from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter
from adcompiler.targets.cuda.emit.hosted import numbering
from adcompiler.targets.cuda.emit.steps import Copy, HostLoop, KernelText, Nest, Product, Scatter, Step
from adcompiler.targets.cuda.emit.tiles import is_wide, iterations_of
from adcompiler.targets.cuda.plan import DEVICE, SIMULATOR, Launch, launch, points_of
from adcompiler.targets.cuda.product import multiply
from adcompiler.targets.cuda.scatter import fill, scatter
from adcompiler.targets.limits import FEWEST_CAPTURED_ITERATIONS

MACHINE = SIMULATOR if SIMULATED else DEVICE
ONE_BLOCK = 4 if SIMULATED else 256  # threads of a single block
STEPS = {
    "sum": "total + part[k, i]",
    "prod": "total * part[k, i]",
    "min": "reduce_min(total, part[k, i])",
    "max": "reduce_max(total, part[k, i])",
}
TEXT = """@kernel
def add_slices(part, out{numbers}):
    i = uint64(cuda.blockIdx.x) * uint64(cuda.blockDim.x) + uint64(cuda.threadIdx.x)
    while i < uint64(part.shape[1]):
        total = part[0, i]
        for k in range(1, part.shape[0]):
            total = {step}
        out[{row}i] = narrow(out, total)
        i += uint64(cuda.gridDim.x) * uint64(cuda.blockDim.x)
"""


@cache
def add_slices(op: str, row: tuple[int, ...] = ()) -> Any:
    """The kernel that reduces the first axis of a matrix into a row of the output; numbers at the places
    `row` select the row."""
    spot = "".join(f"uint64(numbers[{place}]), " for place in row)
    text = TEXT.format(step=STEPS[op], row=spot, numbers=", numbers" * bool(row))
    return loaded(with_header("# Sums of slices.\n", text), "add_slices")


class DeviceProgram:
    """The kernels of a program, and their memory other than inputs and results."""

    def __init__(
        self,
        made: Scheduled,
        alone: bool,
        atomics: bool,
        fast: bool = False,
        hosted: bool = False,
        half: bool = False,
        narrow: Collection[int] = (),
    ) -> None:
        self.atomics = atomics
        self.emitter = DeviceEmitter(made, alone, fast, hosted, half, narrow)
        self.func = self.emitter.func
        self.steps: list[Step] = self.emitter.steps
        self.labels = self.emitter.labels
        self.memory = Memory()
        self.stream: Any = None  # of the last call
        self.kernels: dict[Any, tuple[Callable[..., Any], list[str]]] = {}
        self.out = {self.labels[a] for a in self.func.results if not isinstance(a, Input) and a.rank}
        self.known: Memo[tuple[Element, ...], Lengths | None] = Memo()
        self.plans: Memo[tuple[int, tuple[int, ...]], tuple[int, Launch]] = Memo()

    @cached_property
    def wide(self) -> bool:
        """Whether there is work unsuitable for one block: scatters and products."""
        return any(isinstance(s, Scatter | Product) for s in self.steps)

    def points(self, sizes: Sequence[int]) -> int:
        """The points of the largest nest, from lengths known before the call."""
        return max((points_of(of(sizes)) for of in self.domains), default=1)

    def iteration_points(self, sizes: Sequence[int]) -> int:
        """The points of the largest nest in an iteration, from lengths known before the call."""
        return max((points_of(of(sizes)) for of in self.iteration_domains), default=0)

    @cached_property
    def iteration_domains(self) -> list[Lengths]:
        """The lengths of all loops shared by the threads of one block."""
        return [lengths(tuple(n for n in d if not computed((n,)))) for d in self.emitter.shared_domains]

    @cached_property
    def domains(self) -> list[Lengths]:
        """The lengths of all loops of nests that are known before the call."""
        found = [t.array.domain for s in self.steps if isinstance(s, Nest) for t in s.loop.tasks]
        return [lengths(tuple(n for n in domain if not computed((n,)))) for domain in dict.fromkeys(found)]

    def lengths(self, shape: tuple[Element, ...]) -> Lengths | None:
        """A function from the values of the size symbols to lengths; None if the program computes them."""
        return self.known.made(shape, lambda: None if computed(shape) else lengths(shape))

    def fills(self, k: int, target: Any) -> bool:
        """Whether kernels may store a result directly in the caller's array; others are copied."""
        array = self.func.results[k]
        own = array.rank > 0 and self.func.results.index(array) == k and self.labels[array] in self.out
        return own and target.is_c_contiguous() and (array in self.emitter.narrowed or not is_half(target))

    def call(
        self,
        sizes: Sequence[int],
        args: Sequence[Any],
        stream: Any,
        into: Mapping[int, Any] | None = None,
        disjoint: Collection[int] = (),
    ) -> list[Any]:
        """The results on the device; those of rank 0 are NumPy scalars. Results in `into` are written there:
        directly by kernels if they are `apart` from arguments."""
        if self.stream is not stream:  # kept memory may be in use on the other stream
            if self.stream is not None:
                cuda.synchronize()
            self.stream = stream
        into = into or {}
        direct = {k: a for k, a in into.items() if k in disjoint and self.fills(k, a)}
        results = _Call(self, sizes, args, stream, direct).results()
        for k, target in into.items():
            if k not in direct:
                copy_array(results[k], target, stream)
            results[k] = target
        return results

    def kernel(self, key: Any, text: Callable[[], KernelText]) -> tuple[Callable[..., Any], list[str]]:
        """A kernel and the names of its parameters, loaded once."""
        if key not in self.kernels:
            made = text()
            self.kernels[key] = loaded(made.source, made.name), made.params
        return self.kernels[key]


class _Call:
    """One call: the values of the names in kernels."""

    def __init__(
        self,
        program: DeviceProgram,
        sizes: Sequence[int],
        args: Sequence[Any],
        stream: Any,
        into: Mapping[int, Any],
    ) -> None:
        self.program, self.sizes, self.args, self.stream = program, tuple(sizes), args, stream
        self.emitter = program.emitter
        self.values: dict[str, Any] = dict(zip(self.emitter.sizes, map(int, sizes), strict=True))
        for array, arg in zip(program.func.inputs, args, strict=True):
            self.values[program.labels[array]] = arg if array.rank else NUMPY[array.dtype].type(arg)
        for dtype, name in self.emitter.slot_buffers.items():
            self.values[name] = program.memory.get(name, (self.emitter.counts[dtype],), NUMPY[dtype])
        for k, array in into.items():
            self.values[program.labels[program.func.results[k]]] = array
        self.iterations: dict[str, int] = {}
        self.by_host = False  # whether launches depend on values known to, or read by, the host
        self.pending = {b.name: b for b in self.emitter.buffers}
        for step in program.steps:
            self.step(step)

    # -- what names stand for ------------------------------------------------------------------

    def value(self, name: str) -> Any:
        """The value of a name; buffers are allocated when first needed, since their lengths are known
        then."""
        if name not in self.values:
            buffer = self.pending[name]
            shape, dtype = self.lengths(buffer.shape), NUMPY[buffer.dtype]
            fresh, memory = name in self.program.out, self.program.memory
            self.values[name] = (
                empty(shape, dtype, handle(self.stream)) if fresh else memory.get(name, shape, dtype)
            )
        return self.values[name]

    def lengths(self, shape: tuple[Element, ...]) -> tuple[int, ...]:
        """The values of lengths; computed ones are read back."""
        known = self.program.lengths(shape)
        if known is not None:
            return tuple(max(n, 0) for n in known(self.sizes))
        self.by_host, reads = True, read_by(shape)
        places = {
            -1 - int(name.removeprefix("iteration")): const(k, "i64") for name, k in self.iterations.items()
        }
        shape = tuple(substitute(n, places) for n in shape)
        values = {a: np.asarray(v) for a, v in self.numbers(reads).items()}
        values |= {a: self.on_host(a) for a in reads if a not in values}
        return extent(shape, self.sizes, values)

    def on_host(self, array: Array) -> np.ndarray:
        """An array, or a scalar argument, as a NumPy array."""
        if array.rank:
            found: np.ndarray = self.array(array).copy_to_host(stream=self.stream)
            cuda.synchronize()
            return found
        return np.asarray(self.value(self.program.labels[array]))

    def numbers(self, wanted: Iterable[Array]) -> Mapping[Array, Any]:
        """The scalars among `wanted` that kernels have computed, on the host."""
        slots = {a: self.emitter.slots[a] for a in wanted if a in self.emitter.slots}
        names = dict.fromkeys(name for name, _ in slots.values())
        host = {name: self.values[name].copy_to_host(stream=self.stream) for name in names}
        if self.stream and host:
            self.stream.synchronize()
        self.by_host |= bool(host)
        return {a: host[name][place] for a, (name, place) in slots.items()}

    # -- steps ---------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        """Launch a step."""
        match step:
            case KernelText():
                self.start(step.name, lambda: step, (1, 1), ONE_BLOCK)
            case Nest():
                self.nest(step)
            case Scatter():
                self.scatter(step)
            case Copy():
                self.copy(step)
            case HostLoop():
                self.loop(step)
            case Product():
                self.by_host = True  # a library's launches are unknown
                operands = [self.array(a) for a in step.call.operands]
                multiply(step.call.op, operands, self.array(step.call), self.stream)

    def array(self, array: Array) -> Any:
        """An array of the program, or the row of this iteration."""
        return self.row_of(self.value(self.program.labels[array]), self.around(array))

    def around(self, array: Array) -> list[str]:
        """The iterations that select the row that an array is."""
        return numbering(self.emitter.prefixes.get(array, ()))

    def row_of(self, found: Any, iterations: Sequence[str]) -> Any:
        """The row of these iterations, as a separate array; the host must know their numbers."""
        self.by_host |= bool(iterations)
        for iteration in iterations:
            found = found[self.iterations[iteration]]
        return found

    def places(self, iterations: Sequence[str]) -> Row:
        """The indices of iteration numbers on the device."""
        return tuple(self.emitter.iterations[iteration][1] for iteration in iterations)

    @property
    def whole_numbers(self) -> Any:
        """The integers that kernels leave on the device, including iteration numbers."""
        return self.values[self.emitter.slot_buffers["i64"]]

    def loop(self, loop: HostLoop) -> None:
        """Run the iterations of a loop. If the first one's launches do not depend on the host, all iterations
        launch the same: one is captured if many remain."""
        length = None if loop.length is None else self.lengths((loop.length,))[0]
        iterations = count() if length is None else range(length)[:: -1 if loop.backward else 1]
        first = length - 1 if loop.backward and length else 0
        (place,) = self.places([loop.iteration])
        fill(self.whole_numbers[place : place + 1], first, self.stream)
        self.by_host, done = False, 0
        for k, iteration in enumerate(iterations):
            if k < done:
                continue
            self.iterations[loop.iteration] = iteration
            if not self.iteration(loop):
                break
            if length is not None and k == 0 and length > FEWEST_CAPTURED_ITERATIONS and not self.by_host:
                done = 1 + self.replayed(loop, length - 1)
        self.by_host = True  # for an enclosing loop: the number of launches

    def iteration(self, loop: HostLoop) -> bool:
        """Launch one iteration, if there is another."""
        for name in loop.fresh:
            self.values.pop(name, None)
        for step in loop.before:
            self.step(step)
        if loop.test is not None and not self.numbers([loop.test])[loop.test]:
            return False
        for step in loop.body:
            self.step(step)
        return True

    def replayed(self, loop: HostLoop, times: int) -> int:
        """Launch a captured iteration repeatedly; returns how many succeeded."""

        def write(stream: Any) -> None:
            before, self.stream = self.stream, stream
            try:
                self.iteration(loop)
            finally:
                self.stream = before

        with captured(write) as sequence:
            if sequence is None or self.by_host:
                return 0
            return next((k for k in range(times) if not sequence(self.stream)), times)

    def copy(self, copy: Copy) -> None:
        """Copy a whole array, or a row of it."""
        target = self.value(copy.target)
        if isinstance(copy.source, str):
            rows = self.places(copy.row), self.places(copy.to_row)
            copy_row(self.value(copy.source), target, self.stream, self.whole_numbers, *rows)
        else:
            row = self.row_of(target, copy.to_row)
            fill(shaped(row, (prod(row.shape),)), copy.source, self.stream)

    def start(
        self,
        key: Any,
        text: Callable[[], KernelText],
        blocks: tuple[int, int],
        threads: int,
        shared: int = 0,
    ) -> None:
        """Launch a kernel with the values of its parameters."""
        kernel, params = self.program.kernel(key, text)
        launcher(kernel, blocks, threads, self.stream, shared)(*[self.value(p) for p in params])

    def nest(self, nest: Nest) -> None:
        """Launch one nest, and the sums of its slices."""
        points, plan = self.plan(nest)
        blocks = plan.blocks * plan.slices if points else 0
        self.values |= {f"_blocks{nest.number}": blocks, "_chunk": plan.chunk, "_iterations": plan.iterations}
        for task in nest.full:
            name = self.emitter.part(task)
            self.values[name] = self.program.memory.get(name, (blocks,), NUMPY[task.array.dtype])
        sliced = plan.slices > 1
        parts = self.slices(nest, plan) if sliced else []
        if points:
            key = nest.number, plan.team, sliced, plan.tiled
            self.start(
                key,
                lambda: self.emitter.nest_text(nest, plan.team, sliced, plan.tiled),
                (plan.blocks, plan.slices),
                plan.threads,
                plan.memory,
            )
            for op, part, out, row in parts:
                length = prod(part.shape[1:])
                add = launcher(add_slices(op, row), -(-length // plan.threads), plan.threads, self.stream)
                where = shaped(out, (*out.shape[: len(row)], length))
                add(shaped(part, (plan.slices, length)), where, *([self.whole_numbers] if row else []))

    def plan(self, nest: Nest) -> tuple[int, Launch]:
        """The points of a nest, and its launch; cached unless lengths are computed."""
        key = nest.number, self.sizes
        if key in self.program.plans:
            return self.program.plans[key]
        points = points_of(self.lengths(nest.points))
        iterations = max(points_of(self.lengths(d)) for d in nest.inside)
        inner = None if nest.inner is None else self.lengths((nest.inner.size,))[0]
        shared = max((self.lengths((loop.size,))[0] for loop in nest.tiles), default=0)
        found = points, launch(MACHINE, points, iterations, inner, nest.neighbours, shared)
        if found[1].tiled and is_wide(nest.tiles):
            rows, memory = iterations_of(nest.tiles, lambda n: self.lengths((n,))[0])
            found = points, replace(found[1], tiled=rows > 0, iterations=rows, memory=memory)
        if all(self.program.lengths(shape) is not None for shape in (nest.points, *nest.inside)):
            self.program.plans[key] = found
        return found

    def slices(self, nest: Nest, plan: Launch) -> list[tuple[str, Any, Any, Row]]:
        """For each sum inside a point, its reduction, partial sums, output and row."""
        found = []
        for task in nest.sums:
            name, out = self.emitter.part(task), self.value(self.program.labels[task.array])
            row = self.places(self.around(task.array))
            shape = plan.slices, *out.shape[len(row) :]
            part = self.values[name] = self.program.memory.get(name, shape, NUMPY[task.array.dtype])
            found.append((getattr(task.array, "op", "sum"), part, out, row))
        return found

    def scatter(self, step: Scatter) -> None:
        """Compute indices and values, then their sums."""
        points, array = points_of(self.lengths(step.points)), step.task.array
        memory = self.program.memory
        places = self.values["_places"] = memory.get("_places", (points,), NUMPY["i64"])
        values = self.values["_values"] = memory.get("_values", (points,), NUMPY[array.dtype])
        if points:
            blocks = min(-(-points // MACHINE.threads), MACHINE.most_blocks)
            self.start(
                ("scatter", step.number),
                lambda: self.emitter.scatter_text(step),
                (blocks, 1),
                MACHINE.threads,
            )
        out = self.array(array)
        row = shaped(out, (prod(out.shape),))
        if array not in self.emitter.grown:
            fill(row, 0, self.stream)
        scatter(places, values, row, memory.rows(), self.stream, self.program.atomics)

    # -- results -------------------------------------------------------------------------------

    def results(self) -> list[Any]:
        """Results in order."""
        func = self.program.func
        numbers = self.numbers([*(c.holds for c in func.checks), *func.results])
        require(func, [numbers[c.holds] for c in func.checks])
        return [numbers[r] if r in numbers else self.array(r) for r in func.results]
