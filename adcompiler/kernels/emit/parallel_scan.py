"""Scans whose carry is elementwise along a parallel axis: each block of the axis runs all iterations.

    for iteration:                               for block:  (in threads)
        for i in range(n):                      for iteration:
            p[i] = p[i] * t[i] + x[iteration]            for i in range(start, stop):
                                                        p[i] = p[i] * t[i] + x[iteration]

This is legal if no elements of the axis are combined before the loop ends. An iteration must read carried and
computed values only at the element's own place on that axis. A sum over the axis must be an out that nothing
in the loop reads, and becomes a partial sum per block. A block stays in cache for all its iterations, and
threads need not synchronise in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from adcompiler.analysis.loop_order import is_short
from adcompiler.ir.nodes import Accumulate, Array, Call, Element, Index, Shape
from adcompiler.ir.walk import substitute
from adcompiler.kernels.emit.recurrence import Emitter, RecurrenceWriter
from adcompiler.kernels.emit.writer import Writer, axis_name
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Task, computed, reads_of, tasks_of
from adcompiler.loopir.nodes import BLOCK, Access, For, Store, Var, unsigned


class NestEmitter(Emitter, Protocol):
    """The part of the kernel emitter for rows of a nest."""

    def keep_rows(self, writer: Writer, tasks: Sequence[Task], number: int) -> None: ...


class ParallelScan:
    """The axis along which a loop may be split: its length, its position in each array that an iteration
    carries or computes, and the sums over it."""

    def __init__(self, rec: Recurrence) -> None:
        assert rec.iteration is not None
        self.rec = rec
        self.tasks = [t for item in rec.iteration.body for t in tasks_of(item)]
        self.loops = [item for item in rec.iteration.body if isinstance(item, Loop)]
        self.axis: dict[Array, int] = {}
        self.sums: set[Array] = set()
        for task in self.tasks:
            if task.first_reduced:
                self.axis[task.array] = task.order[0]
            elif task.loops:
                self.sums.add(task.array)
        for slot, result in zip(rec.slots, rec.results, strict=True):
            if isinstance(result, Array) and result in self.axis:
                self.axis[slot] = self.axis[result]

    @property
    def size(self) -> Element:
        """The length of the axis."""
        return self.loops[0].size

    @property
    def collected(self) -> list[tuple[Array, Array]]:
        """Each out of an iteration, with the array that collects it over all iterations."""
        return list(zip(self.rec.outs, self.rec.loop.items[len(self.rec.slots) :], strict=True))

    def legal(self) -> bool:
        """Whether the loop can be split along the axis."""
        rec = self.rec
        if rec.loop.length is None or not self.loops or is_short(self.size):
            return False
        alike = all(loop.size is self.size for loop in self.loops)
        known = not any(computed(shape) for shape in self.lengths())
        carried = all(slot in self.axis for slot in rec.slots)
        given = all(out in self.axis or out in self.sums for out in rec.outs)
        return alike and known and carried and given and all(map(self.is_private, self.tasks))

    def lengths(self) -> Iterator[Shape]:
        """The lengths of all arrays that the loop carries, computes or returns."""
        yield from (a.shape for a in self.rec.loop.items)
        yield from ((*t.array.domain, *t.array.shape) for t in self.tasks)

    def is_private(self, task: Task) -> bool:
        """Whether a task reads only at its own place and adds up nothing that the loop reads."""
        array = task.array
        if isinstance(task, Recurrence) or isinstance(array, Accumulate | Call):
            return False
        if array in self.sums and (array.rank or array not in self.rec.outs):
            return False
        own = Index(task.loops[0].number) if task.loops else None
        for read in reads_of(task):
            if read.array in self.sums:
                return False
            axis = self.axis.get(read.array)
            if axis is not None and substitute(read.args[axis], task.index) is not own:
                return False
        return True


class ParallelScanWriter(RecurrenceWriter):
    """Writes all iterations of one block of nest `number`; `partial` names the buffers of its sums."""

    def __init__(
        self,
        emitter: NestEmitter,
        writer: Writer,
        scan: ParallelScan,
        number: int,
        partial: Mapping[Array, str],
    ) -> None:
        super().__init__(emitter, writer, scan.rec)
        self.nests, self.scan, self.number, self.partial = emitter, scan, number, partial
        writer.cut = {loop.number for loop in scan.loops}
        self.axis: dict[Array, int] = {
            f: scan.axis[s] for f, s in zip(self.finals, self.rec.slots, strict=True)
        }
        self.axis |= {stack: scan.axis[out] for out, stack in scan.collected if out.rank}

    def adopt(self) -> None:
        super().adopt()
        self.writer.own |= {self.labels[t.array] for t in self.scan.tasks if not t.array.rank}
        self.nests.keep_rows(self.writer, self.scan.tasks, self.number)

    def collect(self, out: Array, stack: Array) -> None:
        name = self.writer.use(self.partial[stack])
        spot = BLOCK, Var(axis_name(self.rec.number))
        self.writer.add(Store(Access(name, spot), Var(self.label(out))))

    def over(self, target: Array, axis: str, shape: Shape, d: int) -> For:
        if self.axis.get(target) != d:
            return super().over(target, axis, shape, d)
        return For(axis, unsigned(Var("start")), unsigned(Var("stop")))
