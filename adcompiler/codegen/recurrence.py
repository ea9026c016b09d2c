"""Loops of a program in a kernel: turn by turn.

What is carried lives in variables, or in the buffers of the loop's final arrays; a turn stores its outs in
the rows of theirs. A carried array is overwritten in place where nothing reads it afterwards; else a turn
computes the new one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from adcompiler.codegen.inplace import Store
from adcompiler.codegen.nests import Loop, Recurrence, Schedule, Task, filling
from adcompiler.codegen.places import Memory, Places
from adcompiler.codegen.writer import Writer, axis_name, constant
from adcompiler.ir.nodes import Array, Const, Shape, const
from adcompiler.loopir.printer import text


class Emitter(Protocol):
    """What the emitter of kernels does for a loop."""

    labels: dict[Array, str]

    def fresh(self, array: Array) -> str: ...
    def adopt(self, tasks: Sequence[Task], rows: Mapping[Array, str]) -> None: ...
    def run(self, writer: Writer, made: Schedule, write: Callable[[Loop | Task], None]) -> None: ...
    def in_turn(self, writer: Writer, item: Loop | Task) -> None: ...


def recurrence(emitter: Emitter, writer: Writer, rec: Recurrence) -> None:
    """The text of a loop, and of its turns."""
    Turns(emitter, writer, rec).write()


class Turns:
    """Writes a loop of the program into a function."""

    parts = True  # whether a part of what is carried may be the place of an array

    def __init__(self, emitter: Emitter, writer: Writer, rec: Recurrence) -> None:
        self.emitter, self.writer, self.rec = emitter, writer, rec
        self.labels = emitter.labels
        items = rec.loop.items
        self.finals, self.stacks = items[: len(rec.slots)], items[len(rec.slots) :]
        for place, array in (
            *zip(rec.slots, self.finals, strict=True),
            *zip(rec.rows, rec.loop.scanned, strict=True),
            *zip(rec.consts, rec.loop.consts, strict=True),
        ):
            self.labels[place] = self.labels[array]
            if array in writer.prefixes:
                writer.prefixes[place] = writer.prefixes[array]
            writer.floors[place] = writer.floors.get(array, 0)
        for row, array in zip(rec.whole, rec.loop.scanned, strict=True):
            self.labels[row] = self.labels[array]
            writer.prefixes[row] = f"{self.row(array)}{axis_name(rec.number)}, "

    def write(self) -> None:
        """The whole loop."""
        writer, rec = self.writer, self.rec
        for final, init in zip(self.finals, rec.loop.inits, strict=True):
            value = filling(init)
            if value is not None or not self.there(init, final):
                self.copy(self.label(init) if value is None else value, final, init.shape, self.row(init))
        axis = axis_name(rec.number)
        size = "" if rec.loop.length is None else writer.text(rec.loop.length)
        inner = len(writer.loops) + 1
        for array in (*rec.slots, *rec.whole, *self.arrays()):
            writer.floors[array] = inner
        self.place()
        self.adopt()
        self.open(axis, size)
        writer.base += 1
        self.turn(axis)
        writer.base -= 1
        writer.close()
        if rec.loop.test is not None:
            writer.line(f"{self.labels[self.stacks[-1]]} = np.int64({axis})")

    def adopt(self) -> None:
        """Names, and space, for what a turn makes."""
        for made in (self.rec.before, self.rec.turn):
            if made is not None:
                self.emitter.adopt(made.tasks, self.writer.prefixes)
                self.writer.expect(e for t in made.tasks if not isinstance(t, Recurrence) for e in t.written)

    def open(self, axis: str, size: str) -> None:
        """Enter the loop over the turns."""
        writer, rec = self.writer, self.rec
        loop = Loop(rec.loop.length or const(0, "i64"), rec.number)
        if rec.loop.test is not None:
            writer.line(f"{axis} = uint64(0)")
            writer.open(loop, "while True:")
        elif rec.loop.backward:
            writer.open(loop, f"for {axis}_back in range(uint64(0), uint64({size})):")
            writer.line(f"{axis} = uint64({size}) - uint64(1) - {axis}_back")
        else:
            writer.open(loop, f"for {axis} in range(uint64(0), uint64({size})):")

    def turn(self, axis: str) -> None:
        """One turn: the test, the body, and what is carried on."""
        rec, writer = self.rec, self.writer
        if rec.before is not None and rec.test is not None:
            self.run(rec.before)
            writer.line(f"if not {self.label(rec.test)}:")
            writer.line("    break")
        assert rec.turn is not None
        self.run(rec.turn)
        self.carry()
        if rec.test is not None:
            writer.line(f"{axis} += uint64(1)")

    def run(self, made: Schedule) -> None:
        self.emitter.run(self.writer, made, lambda item: self.emitter.in_turn(self.writer, item))

    def arrays(self) -> list[Array]:
        """The arrays of a turn."""
        tasks = [t for made in (self.rec.before, self.rec.turn) if made is not None for t in made.tasks]
        return [a for t in tasks for a in t.arrays]

    def place(self) -> None:
        """Let what a turn makes be made where it stays, if it can be."""
        writer = self.writer
        memory = Memory(self.labels, writer.prefixes, writer.grown, self.emitter.fresh)
        Places(self.rec, memory).decide(self.parts)

    def carry(self) -> None:
        """Rows of outs that are computed elsewhere, then the new values of what is carried."""
        rec, writer = self.rec, self.writer
        for out, stack in zip(rec.outs, self.stacks, strict=False):
            if not out.rank:
                self.collect(out, stack)
            elif self.labels[out] != self.labels[stack]:
                self.copy(self.label(out), stack, out.shape, self.row(out), f"{axis_name(rec.number)}, ")
        scalars = [
            (f, r)
            for f, r in zip(self.finals, rec.results, strict=True)
            if not (f.rank or isinstance(r, tuple))
        ]
        if scalars:
            names = ", ".join(self.labels[f] for f, _ in scalars)
            writer.line(f"{names} = {', '.join(self.label(r) for _, r in scalars)}")
        for final, result in zip(self.finals, rec.results, strict=True):
            if isinstance(result, tuple):
                for store in result:
                    self.store(final, store)
            elif final.rank and not self.there(result, final):
                self.copy(self.label(result), final, result.shape, self.row(result))

    def collect(self, out: Array, stack: Array) -> None:
        """A number of each turn."""
        spot = f"{self.row(stack)}{axis_name(self.rec.number)}"
        self.writer.line(f"{self.writer.label(stack)}[{spot}] = {self.label(out)}")

    def store(self, final: Array, store: Store) -> None:
        """Store an element, or a row, at a place of what is carried, if there is such a place."""
        writer = self.writer
        spots, inside = [], []
        loops: list[str] = []
        for index, size in zip(store.indices, final.shape, strict=True):
            if index is None:
                spots.append(f"c{len(loops)}")
                loops.append(writer.over(f"c{len(loops)}", size, len(loops)))
                continue
            spot, condition = writer.spot(index, writer.written(index), size)
            spots.append(text(spot))
            inside += [text(condition)] if condition is not None else []
        fixed = spots[: len(spots) - len(loops)]
        row = self.row(final) + "".join(f"{spot}, " for spot in fixed)
        if self.labels[store.array] == self.labels[final] and self.row(store.array) == row:
            return  # it has been computed there
        value = self.label(store.array)
        if loops:
            value += f"[{self.row(store.array)}{', '.join(f'c{d}' for d in range(len(loops)))}]"
        elif self.row(store.array):
            value += f"[{self.row(store.array)}]"
        headers = [f"if {' and '.join(inside)}:", *loops] if inside else loops
        writer.headed(headers, f"{writer.label(final)}[{self.row(final)}{', '.join(spots)}] = {value}")

    def there(self, array: Array, place: Array) -> bool:
        """Whether an array is made where it is wanted."""
        return self.labels[array] == self.labels[place] and self.row(array) == self.row(place)

    def label(self, array: Array) -> str:
        return self.writer.label(array)

    def row(self, array: Array) -> str:
        return self.writer.prefixes.get(array, "")

    def copy(self, source: str | Const, target: Array, shape: Shape, row: str = "", to_row: str = "") -> None:
        """Copy an array of a shape element by element, or a scalar; or fill it with a constant."""
        writer = self.writer
        into = writer.label(target)
        value = text(constant(source)) if isinstance(source, Const) else source
        if not shape:
            writer.line(f"{into} = {value}")
            return
        axes = [f"c{d}" for d in range(len(shape))]
        headers = [self.over(target, axis, shape, d) for d, axis in enumerate(axes)]
        spot = ", ".join(axes)
        value = value if isinstance(source, Const) else f"{value}[{row}{spot}]"
        writer.headed(headers, f"{into}[{self.row(target)}{to_row}{spot}] = {value}")

    def over(self, target: Array, axis: str, shape: Shape, d: int) -> str:
        """The header of a loop over an axis of what is copied."""
        return self.writer.over(axis, shape[d], d)
