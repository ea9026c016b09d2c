"""Loops of a program in a kernel: iteration by iteration.

What is carried lives in variables, or in the buffers of the loop's final arrays; an iteration stores its outs
in the rows of theirs. A carried array is overwritten in place where nothing reads it afterwards; else an
iteration computes the new one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from adcompiler.ir.nodes import Array, Const, Shape, const
from adcompiler.kernels.emit.carried_places import Memory, Places
from adcompiler.kernels.emit.writer import Row, Writer, axis_name, constant
from adcompiler.kernels.schedule import carried_updates as inplace
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Schedule, Task, filling
from adcompiler.loopir.nodes import (
    Access,
    Assign,
    AssignAll,
    Binary,
    Break,
    Call,
    Expr,
    For,
    If,
    Stmt,
    Store,
    Unary,
    Var,
    While,
    all_of,
    counted,
    literal,
    unsigned,
)


class Emitter(Protocol):
    """What the emitter of kernels does for a loop."""

    labels: dict[Array, str]

    def fresh(self, array: Array) -> str: ...
    def adopt(self, tasks: Sequence[Task], rows: Collection[Array]) -> None: ...
    def run(self, writer: Writer, made: Schedule, write: Callable[[Loop | Task], None]) -> None: ...
    def in_iteration(self, writer: Writer, item: Loop | Task) -> None: ...


def recurrence(emitter: Emitter, writer: Writer, rec: Recurrence) -> None:
    """A loop, and its iterations."""
    RecurrenceWriter(emitter, writer, rec).write()


class RecurrenceWriter:
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
            writer.prefixes[row] = (*self.row(array), Var(axis_name(rec.number)))

    def write(self) -> None:
        """The whole loop."""
        writer, rec = self.writer, self.rec
        for final, init in zip(self.finals, rec.loop.inits, strict=True):
            value = filling(init)
            if value is not None or not self.there(init, final):
                self.copy(self.label(init) if value is None else value, final, init.shape, self.row(init))
        axis = axis_name(rec.number)
        size = None if rec.loop.length is None else writer.written(rec.loop.length)
        inner = len(writer.loops) + 1
        for array in (*rec.slots, *rec.whole, *self.arrays()):
            writer.floors[array] = inner
        self.place()
        self.adopt()
        self.open(axis, size)
        writer.base += 1
        self.iteration(axis)
        writer.base -= 1
        writer.close()
        if rec.loop.test is not None:
            writer.add(Assign(self.labels[self.stacks[-1]], Call("np.int64", (Var(axis),))))

    def adopt(self) -> None:
        """Names, and space, for what an iteration makes."""
        for made in (self.rec.before, self.rec.iteration):
            if made is not None:
                self.emitter.adopt(made.tasks, self.writer.prefixes)
                self.writer.expect(e for t in made.tasks if not isinstance(t, Recurrence) for e in t.written)

    def open(self, axis: str, size: Expr | None) -> None:
        """Enter the loop over the iterations."""
        writer, rec = self.writer, self.rec
        loop = Loop(rec.loop.length or const(0, "i64"), rec.number)
        if size is None:
            writer.add(Assign(axis, unsigned(literal(0))))
            writer.open(loop, While(literal(True)))
        elif rec.loop.backward:
            back, last = f"{axis}_back", Binary("-", unsigned(size), unsigned(literal(1)))
            writer.open(loop, counted(back, size, kind="program"))
            writer.add(Assign(axis, Binary("-", last, Var(back))))
        else:
            writer.open(loop, counted(axis, size, kind="program"))

    def iteration(self, axis: str) -> None:
        """One iteration: the test, the body, and what is carried on."""
        rec, writer = self.rec, self.writer
        if rec.before is not None and rec.test is not None:
            self.run(rec.before)
            writer.add(If(Unary("not", Var(self.label(rec.test))), [Break()]))
        assert rec.iteration is not None
        self.run(rec.iteration)
        self.carry()
        if rec.test is not None:
            writer.add(Assign(axis, Binary("+", Var(axis), unsigned(literal(1)))))

    def run(self, made: Schedule) -> None:
        self.emitter.run(self.writer, made, lambda item: self.emitter.in_iteration(self.writer, item))

    def arrays(self) -> list[Array]:
        """The arrays of an iteration."""
        tasks = [t for made in (self.rec.before, self.rec.iteration) if made is not None for t in made.tasks]
        return [a for t in tasks for a in t.arrays]

    def place(self) -> None:
        """Let what an iteration makes be made where it stays, if it can be."""
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
                self.copy(self.label(out), stack, out.shape, self.row(out), (Var(axis_name(rec.number)),))
        scalars = [
            (f, r)
            for f, r in zip(self.finals, rec.results, strict=True)
            if not (f.rank or isinstance(r, tuple))
        ]
        if scalars:
            values = [Var(self.label(r)) for _, r in scalars]
            writer.add(assignments([self.labels[f] for f, _ in scalars], values))
        for final, result in zip(self.finals, rec.results, strict=True):
            if isinstance(result, tuple):
                for store in result:
                    self.store(final, store)
            elif final.rank and not self.there(result, final):
                self.copy(self.label(result), final, result.shape, self.row(result))

    def collect(self, out: Array, stack: Array) -> None:
        """A number of each iteration."""
        spot = *self.row(stack), Var(axis_name(self.rec.number))
        self.writer.add(Store(Access(self.writer.label(stack), spot), Var(self.label(out))))

    def store(self, final: Array, store: inplace.Store) -> None:
        """Store an element, or a row, at a place of what is carried, if there is such a place."""
        writer = self.writer
        spots: list[Expr] = []
        inside: list[Expr] = []
        loops: list[For] = []
        for index, size in zip(store.indices, final.shape, strict=True):
            axis = f"c{len(loops)}"
            if index is None:
                spots.append(Var(axis))
                loops.append(writer.over(axis, size, len(loops)))
                continue
            if isinstance(index, inplace.Part):
                start = unsigned(writer.name(index.start, writer.written(index.start)))
                spots.append(Binary("+", start, Var(axis)))
                loops.append(writer.over(axis, index.length, len(loops)))
                continue
            spot, condition = writer.spot(index, writer.written(index), size)
            spots.append(spot)
            inside += [] if condition is None else [condition]
        row = *self.row(final), *spots[: len(spots) - len(loops)]
        if self.labels[store.array] == self.labels[final] and self.row(store.array) == row:
            return  # it has been computed there
        label, at = self.label(store.array), (*self.row(store.array), *(Var(loop.axis) for loop in loops))
        value = Access(label, at) if at else Var(label)
        heads: list[For | If] = [*([If(all_of(inside))] if inside else []), *loops]
        writer.headed(heads, Store(Access(writer.label(final), (*self.row(final), *spots)), value))

    def there(self, array: Array, place: Array) -> bool:
        """Whether an array is made where it is wanted."""
        return self.labels[array] == self.labels[place] and self.row(array) == self.row(place)

    def label(self, array: Array) -> str:
        return self.writer.label(array)

    def row(self, array: Array) -> Row:
        return self.writer.row(array)

    def copy(self, source: str | Const, target: Array, shape: Shape, row: Row = (), to_row: Row = ()) -> None:
        """Copy an array of a shape element by element, or a scalar; or fill it with a constant."""
        writer = self.writer
        into = writer.label(target)
        if not shape:
            writer.add(Assign(into, constant(source) if isinstance(source, Const) else Var(source)))
            return
        axes = [f"c{d}" for d in range(len(shape))]
        heads = [self.over(target, axis, shape, d) for d, axis in enumerate(axes)]
        spot = (*map(Var, axes),)
        value = constant(source) if isinstance(source, Const) else Access(source, (*row, *spot))
        writer.headed(heads, Store(Access(into, (*self.row(target), *to_row, *spot)), value))

    def over(self, target: Array, axis: str, shape: Shape, d: int) -> For:
        """The head of a loop over an axis of what is copied."""
        return self.writer.over(axis, shape[d], d)


def assignments(names: Sequence[str], values: Sequence[Expr]) -> Stmt:
    """Variables get values that are all read before."""
    if len(names) == 1:
        return Assign(names[0], values[0])
    return AssignAll(tuple(map(Var, names)), tuple(values))
