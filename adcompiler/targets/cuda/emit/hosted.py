"""Program loops whose iterations are too large for one block, or have arrays of computed lengths: the host
launches the kernels of each iteration.

An iteration consists of steps, like a program. Its counter stays on the device: kernels read it there, and
the last kernel of an iteration increments it. The launches of all iterations are therefore the same and can
be captured (`program.py`), unless lengths are computed or the host must find a row of an iteration. Carried
scalars stay in their slots between kernels, carried arrays in the buffers of the final ones; rows of outs are
stored in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from adcompiler.ir.bodies import filling
from adcompiler.ir.nodes import Array, Const, Read, Shape
from adcompiler.ir.types import Dtype
from adcompiler.kernels.emit.recurrence import Emitter as EmitterLike
from adcompiler.kernels.emit.writer import Row, axis_name, constant
from adcompiler.kernels.schedule.carried_updates import InPlace
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Schedule, Task, computed
from adcompiler.loopir.nodes import Access, Var
from adcompiler.loopir.printer import text as text_of
from adcompiler.targets.cuda.emit.device_writer import DeviceWriter, Slot
from adcompiler.targets.cuda.emit.recurrence import DeviceRecurrence
from adcompiler.targets.cuda.emit.steps import Copy, HostLoop, Step


class Stepper(EmitterLike, Protocol):
    """The part of the device emitter used by loops."""

    steps: list[Step]
    slots: dict[Array, Slot]
    iterations: dict[str, Slot]
    made: dict[Slot, str]

    def one_block(self) -> DeviceWriter: ...
    def step(self, item: Loop | Task) -> None: ...
    def flush(self) -> None: ...
    def give(self, writer: DeviceWriter, arrays: list[Array]) -> None: ...
    def new_slot(self, dtype: Dtype) -> Slot: ...


def host_loop(emitter: Stepper, rec: Recurrence) -> None:
    """Add a loop to the steps of a program."""
    emitter.flush()
    _HostWriter(emitter, emitter.one_block(), rec).write()


class _HostWriter(DeviceRecurrence):
    def __init__(self, emitter: Stepper, writer: DeviceWriter, rec: Recurrence) -> None:
        super().__init__(emitter, writer, rec)
        self.stepper = emitter

    def write(self) -> None:
        rec, emitter = self.rec, self.stepper
        axis = axis_name(rec.number)
        for slot, final, init in zip(rec.slots, self.finals, rec.loop.inits, strict=True):
            value = filling(init)
            if final.rank and value is None and self.there(init, final):
                continue
            if final.rank:
                self.copy(self.labels[init] if value is None else value, final, init.shape, self.row(init))
            else:
                self.assign(final, init, value)
                emitter.slots[slot] = emitter.slots[final]
        emitter.iterations[axis] = emitter.new_slot("i64")
        if rec.loop.test is not None:
            emitter.slots[self.stacks[-1]] = emitter.iterations[axis]  # the number of iterations
        self.place()
        for made in (rec.before, rec.iteration):
            if made is not None:
                emitter.adopt(made.tasks, self.writer.prefixes)
        before = self.collected(lambda: self.test())
        iteration = self.collected(lambda: self.whole_iteration(axis))
        emitter.flush()
        kept = {
            self.labels[a] for a in rec.loop.items
        }  # these persist across iterations: some results are computed in place
        inside = {self.labels[a] for a in self.arrays() if a.rank and computed(a.shape)}
        fresh = sorted(inside - kept)
        emitter.steps.append(
            HostLoop(axis, rec.loop.length, rec.loop.backward, before, rec.test, iteration, fresh)
        )

    def collected(self, write: Callable[[], None]) -> list[Step]:
        """The steps that `write` adds."""
        emitter = self.stepper
        emitter.flush()
        outer, emitter.steps = emitter.steps, []
        write()
        emitter.flush()
        found, emitter.steps = emitter.steps, outer
        return found

    def test(self) -> None:
        if self.rec.before is not None:
            self.run(self.rec.before)

    def whole_iteration(self, axis: str) -> None:
        assert self.rec.iteration is not None
        self.run(self.rec.iteration)
        self.carry()
        self.stepper.one_block()
        step = "- 1" if self.rec.loop.backward else "+ 1"
        self.stepper.made[self.stepper.iterations[axis]] = f"np.int64({axis}) {step}"

    def run(self, made: Schedule) -> None:
        for item in made.body:
            self.stepper.step(item)

    def assign(self, final: Array, init: Array, value: Const | None) -> None:
        """Initialise a carried scalar from a computed one or a constant."""
        writer = self.stepper.one_block()
        text = writer.text(Read(init, ())) if value is None else text_of(constant(value))
        writer.line(f"{self.labels[final]} = {text}")
        self.stepper.give(writer, [final])

    def carry(self) -> None:
        rec, emitter = self.rec, self.stepper
        axis = axis_name(rec.number)
        for out, stack in zip(rec.outs, self.stacks, strict=False):
            if not out.rank:
                self.writer = emitter.one_block()
                spot = Access(self.writer.label(stack), (*self.row(stack), Var(axis)))
                self.writer.line(f"{text_of(spot)} = {self.number(out)}")
            elif self.labels[out] != self.labels[stack]:
                self.copy(self.labels[out], stack, out.shape, self.row(out), (Var(axis),))
        pairs = [(f, r) for f, r in zip(self.finals, rec.results, strict=True) if isinstance(r, Array)]
        scalars = [(f, r) for f, r in pairs if not f.rank]
        if scalars:
            self.writer = emitter.one_block()
            values = [self.number(r) for _, r in scalars]
            self.writer.line(f"{', '.join(self.labels[f] for f, _ in scalars)} = {', '.join(values)}")
            emitter.give(self.writer, [f for f, _ in scalars])
        for final, result in zip(self.finals, rec.results, strict=True):
            whole = result.base if isinstance(result, InPlace) else result
            if whole is not None and final.rank and not self.there(whole, final):
                self.copy(self.labels[whole], final, whole.shape, self.row(whole))
        for final, result in zip(self.finals, rec.results, strict=True):
            if isinstance(result, InPlace):
                self.writer = emitter.one_block()
                for store in result.stores:
                    self.writer.expect(store.numbers)
                    self.store(final, store)

    def number(self, array: Array) -> str:
        """The text of a scalar in the current kernel."""
        return self.writer.text(Read(array, ()))

    def label(self, array: Array) -> str:
        return self.writer.label(array) if array.rank else self.number(array)

    def copy(self, source: str | Const, target: Array, shape: Shape, row: Row = (), to_row: Row = ()) -> None:
        """Copy whole arrays, or fill them with a constant."""
        self.stepper.flush()
        value = source.value if isinstance(source, Const) else source
        self.stepper.steps.append(
            Copy(value, numbering(row), self.labels[target], numbering((*self.row(target), *to_row)))
        )


def numbering(row: Row) -> list[str]:
    """The loops whose iteration numbers select a row."""
    return [index.name for index in row if isinstance(index, Var)]
