"""Cooperative groups: a *team* is a block or warp whose threads do the same work until they share a loop.

Barriers separate stores by one thread from loads by others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from adcompiler.errors import Error
from adcompiler.ir.nodes import Accumulate, Array, Call, Element, Map, Read, Reduce, const
from adcompiler.kernels.emit.call_plan import Buffer
from adcompiler.kernels.emit.emitter import Emitter
from adcompiler.kernels.emit.statements import neutral, update
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Task, computed, reads_of, tasks_of
from adcompiler.lazy import cached_property
from adcompiler.loopir.nodes import Call as LoopCall
from adcompiler.loopir.nodes import Expr, Var
from adcompiler.loopir.printer import text
from adcompiler.targets.cuda.emit.device_writer import DeviceWriter
from adcompiler.targets.cuda.emit.recurrence import DeviceRecurrence
from adcompiler.targets.cuda.emit.steps import NO_AXIS, chained


class TeamEmitter(Emitter):
    """Writes loops that threads share, iteration by iteration."""

    fills = False  # threads share the loop over a row, or have one point of it each
    cuts = False  # threads of a warp take one way

    def __init__(self, made: Scheduled, narrow: Collection[int] = ()) -> None:
        self.narrow = narrow
        super().__init__(made)
        self.shared_domains: dict[
            tuple[Element, ...], None
        ] = {}  # domains of loops that one block runs in iterations

    def kept(self, task: Task, value: Expr) -> Expr:
        if task.array not in self.narrowed:
            return value
        return LoopCall("narrow", (Var(self.labels[task.array]), value))

    @cached_property
    def narrowed(self) -> set[Array]:
        """The requested results that kernels may store in 16 bits: nothing reads them or adds to them."""
        wanted = {self.func.results[k] for k in self.narrow}
        tasks = [t for item in self.schedule.body if isinstance(item, Loop) for t in item.tasks]
        read = {read.array for t in self.schedule.tasks for read in reads_of(t)}
        return {
            t.array for t in tasks
            if t.array in wanted and t.array not in read and isinstance(t.array, Map | Reduce)
        }  # fmt: skip

    def prepare(self, writer: Writer, item: Loop | Task) -> None:
        for task in tasks_of(item):
            if any(computed(a.shape) for a in task.arrays) and writer.base:
                raise Error(
                    f"{self.func.name} computes the length of an array inside a loop",
                    remedy='compile it with backend="cpu"',
                )
            if isinstance(task.array, Accumulate) and task.array not in writer.grown:
                row = writer.row(task.array)
                self.fill(writer, self.labels[task.array], task.array.shape, neutral(task.array), row)
                assert isinstance(writer, DeviceWriter)
                writer.sync()

    def adopt(self, tasks: Sequence[Task], rows: Collection[Array]) -> None:
        super().adopt(tasks, rows)
        known = {b.name for b in self.buffers}
        for task in tasks:
            for array in task.arrays:
                label = self.labels[array]
                if array.rank and computed(array.shape) and task.stored and label not in known:
                    self.buffers.append(Buffer(label, array.dtype, array.shape))

    def body(self, writer: Writer, items: Sequence[Loop | Task], partial: dict[Task, str]) -> None:
        assert isinstance(writer, DeviceWriter)
        if not writer.team:
            super().body(writer, items, partial)
            return
        for item in items:
            if isinstance(item, Recurrence):
                DeviceRecurrence(self, writer, item).write()
            elif isinstance(item, Task):
                self.statement(writer, item, partial)
            elif isinstance(item.tasks[0].array, Accumulate):
                self.by_one(writer, item)
            else:
                self.shared(writer, item)

    def shared(self, writer: DeviceWriter, loop: Loop) -> None:
        """A loop whose iterations the threads of a team share."""
        depth = len(writer.loops) - writer.base
        self.shared_domains |= dict.fromkeys(t.array.domain for t in loop.tasks)
        chain = [loop] if loop.bounds else chained(loop, depth)
        starting = [t for t in loop.tasks if isinstance(t.array, Reduce) and t.first_reduced == depth]
        for task in starting:
            self.begin(writer, task)
        writer.sync()
        team, writer.team = writer.team, ""
        if loop.bounds:
            low, high = map(text, writer.limits(loop))
            writer.open(loop, f"for i{loop.number} in range({low} + _lane, {high}, _lanes):")
            super().body(writer, loop.body, {})
            writer.close()
        else:
            writer.enter_points(chain, "_lane", "_lanes")
            super().body(writer, chain[-1].body, {})
            writer.leave_points(chain)
        for task in starting:
            assert isinstance(task.array, Reduce)
            register = self.registers[task]
            writer.line(f"{register} = _{team}_{task.array.op}({register})")
            self.finish(writer, task)
        writer.team = team
        writer.sync()

    def by_one(self, writer: DeviceWriter, loop: Loop) -> None:
        """A loop that scatters, run by one thread."""
        writer.sync()
        team, writer.team = writer.team, ""
        writer.open(Loop(const(1, "i64"), NO_AXIS), "if _lane == 0:")
        writer.base += 1
        super().body(writer, [loop], {})
        writer.base -= 1
        writer.close()
        writer.team = team
        writer.sync()

    def statement(self, writer: Writer, task: Task, partial: dict[Task, str] | None = None) -> None:
        assert isinstance(writer, DeviceWriter)
        if not writer.team:
            super().statement(writer, task, partial)
        elif isinstance(task.array, Reduce):
            # A sum over all points, at a team's point: one thread adds.
            value, register = writer.written(task.elements[0]), self.registers[task]
            writer.line("if _lane == 0:")
            writer.line(f"    {register} = {text(update(task.array, Var(register), value))}")
        elif isinstance(task.array, Accumulate):
            writer.sync()
            *indices, body = task.elements
            spot, inside = writer.place(task.array, indices, [writer.written(i) for i in indices])
            value = writer.written(body)
            asked = "" if inside is None else f" and {text(inside)}"
            writer.line(f"if _lane == 0{asked}:")
            writer.line(f"    {text(spot)} += {text(value)}")
            writer.sync()
        elif isinstance(task.array, Call):
            writer.sync()
            self.routine(writer, task)
            writer.sync()
        elif task.array.rank:
            self.element(writer, task)
        else:
            super().statement(writer, task, partial)

    def element(self, writer: DeviceWriter, task: Task) -> None:
        """An element of an array, possibly overwritten in place: all threads read before one stores."""
        self.note(writer, task.array)
        writer.sync()
        value = writer.written(task.elements[0])
        value = value if isinstance(value, Var) else Var(writer.assign(value))
        writer.define(Read(task.array, task.kept), value.name)
        if task.stored:
            writer.sync()
            writer.line("if _lane == 0:")
            writer.line(f"    {text(self.place(writer, task))} = {text(self.kept(task, value))}")
            writer.sync()

    def routine(self, writer: DeviceWriter, task: Task) -> None:
        """A library routine: one thread per case."""
        assert isinstance(task.array, Call)
        if task.array.cases:
            super().statement(writer, task)
            return
        team, writer.team = writer.team, ""
        writer.open(Loop(const(1, "i64"), NO_AXIS), "if _lane == 0:")
        super().statement(writer, task)
        writer.close()
        writer.team = team
