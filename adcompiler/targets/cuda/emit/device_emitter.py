"""Lowers a schedule to the kernels of a device.

A nest of the program is a kernel over the points of its outermost loops: one thread per point, or a team (a
warp or a block) per point that shares the inner loops. Sums over these points leave one partial sum per
block. Scalars and program loops, which are in no nest, are computed by one block, which also adds partial
sums in order. The threads of a nest are chosen when lengths are known (`plan.py`); every choice is
reproducible bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from adcompiler.ir.nodes import Accumulate, Array, Call, Element, Reduce
from adcompiler.ir.types import Dtype
from adcompiler.kernels.emit.statements import kept, neutral, update
from adcompiler.kernels.emit.writer import Row
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Task, computed, tasks_of
from adcompiler.loopir.nodes import Access, Assign, Store, Var, Verbatim
from adcompiler.loopir.printer import text as text_of
from adcompiler.targets.cuda.device.header import with_header
from adcompiler.targets.cuda.emit import tiles
from adcompiler.targets.cuda.emit.cooperative_groups import TeamEmitter
from adcompiler.targets.cuda.emit.device_writer import DeviceWriter, Slot
from adcompiler.targets.cuda.emit.hosted import host_loop
from adcompiler.targets.cuda.emit.order import last_read
from adcompiler.targets.cuda.emit.steps import (
    LANES,
    ONE_BLOCK,
    POINTS,
    KernelText,
    Nest,
    Product,
    Scatter,
    Step,
    chained,
    computes_lengths,
    is_product,
)


class DeviceEmitter(TeamEmitter):
    """Writes the kernels of a program. With `alone` one block computes everything in one kernel; with
    `hosted` the host runs program loops; with `half` float32 inputs may be stored in 16 bits, and so may the
    results `narrow`."""

    def __init__(
        self,
        made: Scheduled,
        alone: bool = False,
        fast: bool = False,
        hosted: bool = False,
        half: bool = False,
        narrow: Collection[int] = (),
    ) -> None:
        super().__init__(made, narrow)
        self.alone, self.fast, self.hosted, self.half = alone, fast, hosted, half
        self.prefixes: dict[Array, Row] = {}  # rows, and sums added in place, of loops that the host runs
        self.grown: set[Array] = set()
        self.iterations: dict[str, Slot] = {}  # the slots of these loops' iteration numbers
        self.blocks = 0
        self.slots: dict[Array, Slot] = {}
        self.slot_buffers: dict[Dtype, str] = {}
        self.counts: dict[Dtype, int] = {}
        self.steps: list[Step] = []
        self.block: DeviceWriter | None = None  # work of one block, until its kernel is written
        self.made: dict[Slot, str] = {}  # the scalars it computes, and their names there
        for item in self.schedule.body:
            self.step(item)
        self.flush()

    # -- steps ---------------------------------------------------------------------------------

    def step(self, item: Loop | Task) -> None:
        """Add the steps that compute one item of the schedule."""
        if isinstance(item, Recurrence) and (self.hosted or computes_lengths(item)):
            host_loop(self, item)
        elif isinstance(item, Loop) and not self.alone:
            self.flush()
            if isinstance(item.tasks[0].array, Accumulate):
                self.steps.append(self.scattered(item))
            else:
                self.steps.append(self.nest_of(item))
        elif isinstance(item, Task) and is_product(item.array) and not self.alone:
            self.flush()
            assert isinstance(item.array, Call)
            self.steps.append(Product(item.array))
        else:
            self.in_block(item)

    def in_block(self, item: Loop | Task) -> None:
        """Add an item to the work of one block."""
        tasks = tasks_of(item)
        if any(computed(a.shape) for t in tasks for a in t.arrays):
            self.flush()  # lengths are read back first
        writer = self.one_block()
        writer.names = {**writer.names, **self.local(tasks)}
        writer.expect(e for t in tasks if not isinstance(t, Recurrence) for e in t.written)
        self.prepare(writer, item)
        self.body(writer, [item], {})
        for task in tasks:
            self.give(writer, task.arrays)

    def one_block(self) -> DeviceWriter:
        """The writer for the work of one block."""
        if self.block is None:
            self.block = self.writer({})
            self.block.team = "block"
            for line in ONE_BLOCK:
                self.block.line(line)
        return self.block

    def give(self, writer: DeviceWriter, arrays: Iterable[Array]) -> None:
        """Publish scalars computed by a block to later kernels."""
        for array in arrays:
            if not array.rank:
                writer.local.add(array)
                self.made[self.slot(array)] = self.labels[array]

    def slot(self, array: Array) -> Slot:
        """The slot of a scalar between kernels."""
        if array not in self.slots:
            self.slots[array] = self.new_slot(array.dtype)
        return self.slots[array]

    def new_slot(self, dtype: Dtype) -> Slot:
        """A slot for one more scalar of this type."""
        place = self.counts.get(dtype, 0)
        self.counts[dtype] = place + 1
        return self.slot_buffers.setdefault(dtype, f"_slots_{dtype}"), place

    def flush(self) -> None:
        """Write the kernel for the work of one block."""
        writer, self.block = self.block, None
        if writer is None:
            return
        writer.sync()  # scalars are read before they change
        writer.line("if _lane == 0:")
        for (buffer, place), text in self.made.items():
            writer.line(f"    {writer.use(buffer)}[{place}] = {text}")
        if not self.made:
            writer.line("    pass")
        self.made = {}
        self.blocks += 1
        self.steps.append(self.text(f"block{self.blocks}", writer))

    def text(self, name: str, writer: DeviceWriter, more: Sequence[str] = ()) -> KernelText:
        """The module of one kernel. Scalars that it computes are not parameters; iteration numbers of loops
        on the host are read from their slots."""
        words = set(re.findall(r"\biteration\d+", "\n".join(writer.scopes[0])))
        iterations = [(iteration, *slot) for iteration, slot in self.iterations.items() if iteration in words]
        body = [
            f"{iteration} = uint64({writer.use(buffer)}[{place}])" for iteration, buffer, place in iterations
        ]
        body += writer.scopes[0]
        known = {*self.sizes, *(self.labels[i] for i in self.func.inputs), *(b.name for b in self.buffers)}
        params = [*(name for name in writer.used if name in known or name.startswith("_")), *more]
        lines = [f"@kernel\ndef {name}({', '.join(params)}):", *("    " + line for line in body)]
        source = with_header(self.comment(), "\n".join(lines) + "\n", self.fast)
        return KernelText(name, params, source, writer.origins)

    # -- nests ---------------------------------------------------------------------------------

    def nest_of(self, loop: Loop) -> Nest:
        """A nest, with buffers and names for its sums over all points."""
        number = len(self.nests)
        self.nests.append(loop)
        chain = chained(loop, 0)
        reduces = [t for t in loop.tasks if isinstance(t.array, Reduce)]
        full = [t for t in reduces if t.first_reduced == 0]
        sums = [t for t in reduces if t.first_reduced == len(chain) and t not in full]
        inside = chain[-1].body
        inner = inside[0] if len(inside) == 1 and isinstance(inside[0], Loop) else None
        shared = tiles.tiles_of(chain)
        # A block reads rows of other points together, by loading tiles of them.
        neighbours = self.neighbours(loop, chain) and not tiles.is_wide(shared)
        found = Nest(number, loop, chain, full, sums, inner, shared, neighbours)
        found.names = self.local(loop.tasks)
        for task in full:
            writer = self.one_block()
            self.combine_blocks(writer, task, number)
        return found

    def neighbours(self, loop: Loop, chain: Sequence[Loop]) -> bool:
        """Whether more accesses of the loops inside have an inner axis last than the points' last axis."""
        inside = outside = 0
        for task in loop.tasks:
            if len(task.order) == len(chain):
                continue  # once a point, and not in each iteration
            for depth, axis in enumerate(task.order):
                if last_read(task.array, axis):
                    inside += depth >= len(chain)
                    outside += depth == len(chain) - 1
        return inside > outside

    def combine_blocks(self, writer: DeviceWriter, task: Task, number: int) -> None:
        """One block adds the partial sums of a nest: a strided loop in its threads, then a tree."""
        register, array = self.registers[task], task.array
        assert isinstance(array, Reduce)
        part = writer.use(self.part(task))
        writer.add(Assign(register, neutral(array)))
        writer.line(f"for _b in range(_lane, uint64({writer.use(f'_blocks{number}')}), _lanes):")
        value = update(array, Var(register), Access(part, (Var("_b"),)))
        writer.line(f"    {register} = {text_of(value)}")
        writer.line(f"{register} = _block_{array.op}({register})")
        if array.rank:
            writer.add(Store(self.place(writer, task), self.kept(task, Var(register))))
        self.give(writer, [array])

    def part(self, task: Task) -> str:
        """The buffer of the partial sums of a task."""
        return f"_part_{self.labels[task.array]}"

    def nest_text(self, nest: Nest, team: str, sliced: bool, tiled: bool = False) -> KernelText:
        """The kernel of a nest for single threads or teams, its inner loop sliced or not. With `tiled`,
        single threads read shared operands from tiles."""
        writer = self.nest_writer(nest.loop.tasks, nest.names)
        for task in nest.full:
            writer.add(Assign(self.registers[task], neutral(task.array)))
        for line in LANES[team]:
            writer.line(line)
        if tiled:
            tiles.allocate(writer, nest.tiles)
        writer.enter_points(nest.chain, *POINTS[team], together=tiled)
        writer.team = team
        if tiled:
            self.tiled(writer, nest, sliced)
        elif sliced:
            assert nest.inner is not None
            self.slice(writer, nest, nest.inner)
        else:
            self.body(writer, nest.chain[-1].body, {})
        writer.team = ""
        writer.leave_points(nest.chain, not team)
        for task in nest.full:
            assert isinstance(task.array, Reduce)
            writer.line(f"{self.registers[task]} = _block_{task.array.op}({self.registers[task]})")
            writer.line("if cuda.threadIdx.x == 0:")
            spot = "cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x"
            writer.line(f"    {writer.use(self.part(task))}[{spot}] = {self.registers[task]}")
        name = f"nest{nest.number}{'_' * bool(team)}{team}{'_tiled' * tiled}{'_sliced' * sliced}"
        wide = ["_iterations"] if tiled and tiles.is_wide(nest.tiles) else []
        return self.text(name, writer, [*(["_chunk"] if sliced else []), *wide])

    def writer(self, names: Mapping[Element, str]) -> DeviceWriter:
        """A writer of one kernel; it shares the state of loops that the host runs."""
        writer = DeviceWriter(self.labels, self.sizes, names, self.slots)
        writer.prefixes, writer.grown, writer.half = self.prefixes, self.grown, self.half
        writer.uncontracted = self.uncontracted
        return writer

    def nest_writer(self, tasks: Sequence[Task], names: dict[Element, str]) -> DeviceWriter:
        """A writer of one nest."""
        writer = self.writer(names)
        writer.expect(e for t in tasks for e in t.written)
        return writer

    def slice(self, writer: DeviceWriter, nest: Nest, inner: Loop) -> None:
        """One slice of the loop inside a point, with partial sums."""
        team, writer.team = writer.team, ""
        for task in nest.sums:
            self.begin(writer, task)
        low, high = map(text_of, writer.limits(inner))
        first = writer.assign(Verbatim(f"{low} + uint64(cuda.blockIdx.y) * uint64(_chunk)"))
        last = writer.assign(Verbatim(f"min({high}, {first} + uint64(_chunk))"))
        begin, step = (f"{first} + _lane", "_lanes") if team else (first, "uint64(1)")
        writer.enter_part(inner, begin, last, step)
        super().body(writer, inner.body, {})
        writer.leave_points([inner], several=True)
        self.store_slice(writer, nest, team)

    def store_slice(self, writer: DeviceWriter, nest: Nest, team: str = "") -> None:
        """Store the partial sums of a slice."""
        for task in nest.sums:
            assert isinstance(task.array, Reduce)
            register = self.registers[task]
            if team:
                writer.line(f"{register} = _{team}_{task.array.op}({register})")
            spot = Access(writer.use(self.part(task)), (Verbatim("cuda.blockIdx.y"), *kept(task)))
            writer.add(Store(spot, Var(register)))

    def tiled(self, writer: DeviceWriter, nest: Nest, sliced: bool) -> None:
        """The work of a point, or one slice of it, with tiled loops."""
        start = len(writer.scopes[-1])
        for item in nest.chain[-1].body:
            shared = nest.tiles.get(item) if isinstance(item, Loop) else None
            if not isinstance(item, Loop) or shared is None:
                self.body(writer, [item], {})
                continue
            for task in (sums := nest.sums_of(item)):
                self.begin(writer, task)
            stretch = "uint64(0)", f"uint64({writer.text(item.size)})"
            if sliced:
                first = "uint64(cuda.blockIdx.y) * uint64(_chunk)"
                stretch = first, writer.assign(Verbatim(f"min({stretch[1]}, {first} + uint64(_chunk))"), 0)
            inside = partial(super().body, writer, item.body, {})
            start = tiles.write(writer, item, shared, stretch, start, inside)
            for task in () if sliced else sums:
                self.finish(writer, task)
        if sliced:
            self.store_slice(writer, nest)
        tiles.guard(writer.scopes[-1], start)

    def scattered(self, loop: Loop) -> Scatter:
        """A nest that adds at computed indices."""
        (task,) = loop.tasks
        number = len(self.nests)
        self.nests.append(loop)
        return Scatter(number, loop, chained(loop, 0, whole=True), task, self.local([task]))

    def scatter_text(self, scatter: Scatter) -> KernelText:
        """The kernel that computes flat indices and values; an index beyond the end is ignored."""
        writer = self.nest_writer([scatter.task], scatter.names)
        writer.enter_points(scatter.chain, *POINTS[""])
        array = scatter.task.array
        *indices, body = scatter.task.elements
        _, inside = writer.place(array, indices, [writer.written(i) for i in indices])
        writer.used.pop(self.labels[array], None)
        lengths = [f"uint64({writer.text(n)})" for n in array.shape]
        place, total = "uint64(0)", " * ".join(lengths)
        for index, n in zip(indices, lengths, strict=True):
            place = f"({place} * {n} + uint64({writer.text(index)}))"
        value = writer.text(body)
        point = writer.after[-1].split()[0]
        if inside is not None:
            place = f"select({text_of(inside)}, {place}, {total})"
        writer.line(f"_places[{point}] = {place}")
        writer.line(f"_values[{point}] = {value}")
        writer.leave_points(scatter.chain, True)
        return self.text(f"scatter{scatter.number}", writer, ["_places", "_values"])
