"""Program loops in a kernel, iteration by iteration.

Carried values are in variables, or in the buffers of the loop's final arrays. An iteration stores its outs in
their rows. A carried array is overwritten in place if nothing reads it afterwards; otherwise an iteration
computes the new one in a second buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from adcompiler.ir.bodies import filling
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Const,
    Element,
    Index,
    Map,
    Put,
    Read,
    Select,
    Shape,
    const,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import postorder, substitute
from adcompiler.kernels.emit.writer import Row, Writer, axis_name, constant
from adcompiler.kernels.schedule import carried_updates
from adcompiler.kernels.schedule.schedule_tree import (
    Loop,
    Recurrence,
    Schedule,
    Task,
    computed,
    reads_of,
    tasks_of,
)
from adcompiler.lazy_dataclass import dataclass
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

# -- carried places ----------------------------------------------------------------------------------
# Bufferisation of loops: an iteration writes a result to its final place if nothing reads the old value
# afterwards.
#
# Otherwise it writes to a second buffer and copies every element in every iteration.


@dataclass
class Memory:
    """The names of arrays, and the row of the named buffer that each array occupies. Arrays in `grown` are
    sums added to the old contents. `fresh` makes a name."""

    labels: dict[Array, str]
    rows: dict[Array, Row]
    grown: set[Array]
    fresh: Callable[[Array], str]

    def put(self, array: Array, where: Array, spot: Row = ()) -> None:
        """Place an array in the memory of another one, at a spot of it."""
        self.labels[array] = self.labels[where]
        self.rows[array] = (*self.rows.get(where, ()), *spot)

    def same(self, array: Array, other: Array) -> bool:
        """Whether two arrays share a place."""
        rows = self.rows.get(array, ()), self.rows.get(other, ())
        return self.labels[array] == self.labels[other] and rows[0] == rows[1]


class Places:
    """Decides where the results of an iteration of a loop are stored."""

    def __init__(self, rec: Recurrence, memory: Memory) -> None:
        assert rec.iteration is not None
        self.rec, self.memory = rec, memory
        items = rec.loop.items
        self.finals, self.stacks = items[: len(rec.slots)], items[len(rec.slots) :]
        self.order = self.ordered()
        self.tasks = {a: t for t in self.order for a in t.arrays}
        self.reads = {t: reads_of(t) for t in self.order}
        self.over: dict[Task, set[Array]] = {}  # the slots that each task overwrites

    def ordered(self) -> dict[Task, int]:
        """The tasks of an iteration in order, each with the number of its nest."""
        assert self.rec.iteration is not None
        return {t: k for k, item in enumerate(self.rec.iteration.body) for t in tasks_of(item)}

    def decide(self, parts: bool) -> None:
        """Assign places where possible; with `parts`, also inside carried arrays and to carried numbers."""
        self.inner_loops()
        self.outs()
        for slot, final, update in self.updates():
            if isinstance(update, carried_updates.InPlace):
                if parts and update.base is None:
                    for store in update.stores:
                        self.part(slot, final, store)
            else:
                self.whole(slot, final, update)
        self.starts()
        if parts:
            self.sums()

    def updates(self) -> list[tuple[Array, Array, Array | carried_updates.InPlace]]:
        """The slot, final array and update of each carried array. Scalars have no place."""
        found = zip(self.rec.slots, self.finals, self.rec.results, strict=True)
        return [(s, f, u) for s, f, u in found if f.rank]

    def inner_loops(self) -> None:
        """An inner loop reuses the place of a carried array that it replaces."""
        for slot, final, update in self.updates():
            made = update.base if isinstance(update, carried_updates.InPlace) else update
            if not isinstance(made, Item | Put) or made in self.memory.labels:
                continue
            links = self.chain(slot, made)
            for before, after in links:
                if not self.free(before, self.tasks[after]):
                    self.advance(self.tasks[after])
            if all(self.free(before, self.tasks[after]) for before, after in links):
                gone = {slot}
                for before, after in links:
                    gone.add(before)
                    self.memory.put(after, final)
                    self.over.setdefault(self.tasks[after], set()).update(gone)

    def chain(self, slot: Array, made: Array) -> list[tuple[Array, Item | Put]]:
        """The stores and inner loops that make `made` of a carried array in turn, each with what it begins
        with; none if anything else keeps an array between them."""
        links: list[tuple[Array, Item | Put]] = []
        kept = {*self.rec.outs, *self.stored()} - {made}
        while (before := _changed(made)) is not None:
            assert isinstance(made, Item | Put)
            shares = isinstance(made, Item) and made.loop.operands.count(before) != 1
            if made in kept or made in self.memory.labels or shares:
                return []
            links.append((before, made))
            made = before
        return links[::-1] if made is slot else []

    def advance(self, task: Task) -> None:
        """Move what does not depend on an inner loop, or on a store, before it."""
        assert self.rec.iteration is not None
        body = self.rec.iteration.body
        own_item: Loop | Task = task.loops[0] if task.loops else task
        place = body.index(own_item)
        made, stay, move = set(task.arrays), list[Loop | Task](), list[Loop | Task]()
        for item in body[place + 1 :]:
            own = tasks_of(item)
            waits = any(
                r.array in made for t in own for r in self.reads[t]
            ) or not self.over.keys().isdisjoint(own)
            (stay if waits else move).append(item)
            made.update(a for t in own for a in t.arrays if waits)
        body[place:] = [*move, own_item, *stay]
        self.order = self.ordered()

    def free(self, slot: Array, task: Task) -> bool:
        """Whether no other task reads the carried value in this nest or later."""
        place = self.order[task]
        return not any(
            r.array is slot
            for t, reads in self.reads.items()
            if t is not task and self.order[t] >= place
            for r in reads
        )

    def outs(self) -> None:
        """Outs are computed directly in their rows."""
        axis = Var(axis_name(self.rec.number))
        for out, stack in zip(self.rec.outs, self.stacks, strict=False):
            if out.rank and out not in self.memory.labels:
                self.memory.put(out, stack, (axis,))

    def whole(self, slot: Array, final: Array, update: Array) -> None:
        """A new array, or a sum, takes the place of the carried one."""
        task = self.tasks.get(update)
        if update in self.memory.labels or isinstance(update, Item | Put):
            return
        if isinstance(update, Accumulate) or (task and self.overwrites(slot, task, task.kept)):
            self.memory.put(update, final)
            self.memory.grown.add(update)

    def part(self, slot: Array, final: Array, store: carried_updates.CarriedStore) -> None:
        """An array stored at leading indices is computed there, if these are surely valid."""
        task = self.tasks.get(store.array)
        fixed = [i for i in store.indices if isinstance(i, Element)]
        leading = list(store.indices) == [*fixed, *[None] * (len(store.indices) - len(fixed))]
        if not (task and store.array.rank and leading) or store.array in self.memory.labels:
            return
        if all(map(self.exists, fixed, final.shape)) and self.overwrites(slot, task, (*fixed, *task.kept)):
            self.memory.put(store.array, final, tuple(map(_spot, fixed)))

    def exists(self, index: Element, size: Element) -> bool:
        """Whether an index is known to be inside an axis."""
        if isinstance(index, Const):
            return isinstance(size, Const) and 0 <= index.value < size.value
        return isinstance(index, Index) and index.axis == self.rec.number and size is self.rec.loop.length

    def overwrites(self, slot: Array, task: Task, spot: Sequence[Element]) -> bool:
        """Whether a new array can overwrite a spot of a carried one: it reads only the element that it
        replaces, and all other readers of the spot run in earlier nests, or earlier in the same iteration."""
        if not isinstance(task.array, Map):
            return False
        if task.loops:
            self.put_off_nest(slot, task)
            self.put_off(slot, task)
        beside = [t for t in self.order if t.loops == task.loops and self.order[t] == self.order[task]]
        held = any(self.holds(slot, t, spot) for t in beside[: beside.index(task) + 1])
        for other, place in self.order.items():
            own = other in beside and (held or beside.index(other) <= beside.index(task))
            for at in self.places(slot, other) if place >= self.order[task] else ():
                if not (own and at == tuple(spot)) and not _are_apart(at, spot):
                    return False
        self.over.setdefault(task, set()).add(slot)
        return True

    def places(self, slot: Array, task: Task) -> list[tuple[Element, ...]]:
        """The places where a task reads carried values."""
        return [tuple(substitute(i, task.index) for i in r.args) for r in self.reads[task] if r.array is slot]

    def holds(self, slot: Array, task: Task, spot: Sequence[Element]) -> bool:
        """Whether a task reads a carried spot unconditionally. A variable then holds it, or the result
        computed from it, for later tasks."""
        reads = [r for r in _unconditional(task.array.elements) if isinstance(r, Read) and r.array is slot]
        return any(tuple(substitute(i, task.index) for i in r.args) == tuple(spot) for r in reads)

    def put_off(self, slot: Array, task: Task) -> None:
        """Move a task to the end of its loop, if later ones read the slot and none reads its result."""
        body = task.loops[-1].body
        behind = body[body.index(task) + 1 :]
        later = [t for t in behind if isinstance(t, Task)]
        if len(later) == len(behind) and self.may_wait([task], later, slot, body):
            body.remove(task)
            body.append(task)
            task.loops[0].tasks.remove(task)
            task.loops[0].tasks.append(task)
            self.order = self.ordered()

    def put_off_nest(self, slot: Array, task: Task) -> None:
        """Move a nest to the end, if later ones read the slot and none reads its results."""
        assert self.rec.iteration is not None
        body = self.rec.iteration.body
        behind = body[body.index(task.loops[0]) + 1 :]
        later = [t for item in behind for t in tasks_of(item)]
        if self.may_wait(task.loops[0].tasks, later, slot, body):
            body.remove(task.loops[0])
            body.append(task.loops[0])
            self.order = self.ordered()

    def may_wait(
        self, tasks: Sequence[Task], later: Sequence[Task], slot: Array, body: Sequence[Loop | Task]
    ) -> bool:
        """Whether tasks may run after `later` tasks of a body, some of which read the slot."""
        read = {r.array for t in later for r in self.reads[t]}
        own = {r.array for t in tasks for r in self.reads[t]}
        made = {a for t in tasks for a in t.arrays}
        gone = {s for item in body for t in tasks_of(item) for s in self.over.get(t, ())}
        return slot in read and not made & read and not own & gone

    def starts(self) -> None:
        """The initial value of an inner loop is computed in the loop's own buffer, if nothing else needs
        it."""
        memory, kept = self.memory, {*self.rec.outs, *self.stored()}
        for task in self.order:
            if not isinstance(task, Recurrence):
                continue
            for item, init in zip(task.loop.items, task.loop.inits, strict=False):
                maker = self.tasks.get(init)
                if not init.rank or maker is None or init in memory.labels or init in kept:
                    continue
                if task.loop.operands.count(init) > 1 or not self.free(init, task):
                    continue
                if item not in memory.labels and computed(item.shape):
                    continue  # its buffer is allocated where the loop begins
                taken = [s for s, f, _ in self.updates() if item in memory.labels and memory.same(item, f)]
                if all(self.free(s, maker) and s not in {r.array for r in self.reads[maker]} for s in taken):
                    if item not in memory.labels:
                        memory.labels[item] = memory.fresh(item)
                    memory.put(init, item)

    def sums(self) -> None:
        """A number that a reverse loop only adds to has one variable. The terms may be added in any order, as
        those of other sums of a derivative, so iterations need not wait for each other."""
        assert self.rec.iteration is not None
        if not self.rec.loop.backward:
            return  # a value is the same number whether its derivative is asked for or not
        carried = [a for a in self.stored() if not a.rank]
        for slot, final, result in zip(self.rec.slots, self.finals, self.rec.results, strict=True):
            task = self.tasks.get(result) if isinstance(result, Array) and not result.rank else None
            if task is None or task.needed or task.array is not result or not is_sum_of(slot, task.array):
                continue
            read = [r.array for reads in self.reads.values() for r in reads]
            if read.count(slot) == 1 and carried.count(result) == 1 and result not in {*read, *self.rec.outs}:
                self.memory.put(result, final)
                self.memory.grown.add(result)

    def stored(self) -> list[Array]:
        """The arrays carried to the next iteration."""
        results = self.rec.results
        return [a for r in results for a in (r.arrays if isinstance(r, carried_updates.InPlace) else [r])]


def _changed(array: Array) -> Array | None:
    """The array that a store or an inner loop changes in place."""
    if isinstance(array, Put):
        return array.base
    if isinstance(array, Item) and array.k < len(array.loop.inits):
        return array.loop.inits[array.k]
    return None


def is_sum_of(slot: Array, array: Array) -> bool:
    """Whether a number is a carried one plus or minus something."""
    return (
        isinstance(array, Map)
        and is_float(array.dtype)
        and isinstance(body := array.elements[0], Apply)
        and body.op in ("add", "subtract")
        and body.args[0] is Read(slot, ())
    )


def _unconditional(elements: Sequence[Element]) -> set[Element]:
    """The elements evaluated unconditionally: for a select, its condition and what both sides evaluate."""
    found: dict[Element, set[Element]] = {}
    for e in postorder(elements, lambda e: e.args):
        parts = [found[a] for a in e.args]
        if isinstance(e, Select):
            condition, one, other = parts
            parts = [condition, one & other]
        found[e] = {e}.union(*parts)
    return set().union(*(found[e] for e in elements))


def _are_apart(one: Sequence[Element], other: Sequence[Element]) -> bool:
    """Whether two places differ at one axis by constants, so that no iterations of loops meet there."""
    pairs = zip(one, other, strict=True)
    return any(isinstance(a, Const) and isinstance(b, Const) and a is not b for a, b in pairs)


def _spot(index: Element) -> Expr:
    """The expression of an index known to be valid."""
    if isinstance(index, Index):
        return Var(axis_name(index.axis))
    assert isinstance(index, Const)
    return literal(index.value)


class Emitter(Protocol):
    """The part of the kernel emitter used by loops."""

    labels: dict[Array, str]

    def fresh(self, array: Array) -> str: ...
    def adopt(self, tasks: Sequence[Task], rows: Collection[Array]) -> None: ...
    def run(self, writer: Writer, made: Schedule, write: Callable[[Loop | Task], None]) -> None: ...
    def in_iteration(self, writer: Writer, item: Loop | Task) -> None: ...


def recurrence(emitter: Emitter, writer: Writer, rec: Recurrence) -> None:
    """Write a loop and its iterations."""
    RecurrenceWriter(emitter, writer, rec).write()


class RecurrenceWriter:
    """Writes a program loop into a function."""

    parts = True  # whether an array may be placed inside a carried one

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
        writer.stands |= zip(rec.consts, rec.loop.consts, strict=True)
        for row, array in zip(rec.whole, rec.loop.scanned, strict=True):
            self.labels[row] = self.labels[array]
            writer.prefixes[row] = (*self.row(array), Var(axis_name(rec.number)))

    def write(self) -> None:
        """Write the whole loop."""
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
        """Names and buffers for the arrays of an iteration."""
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
        """One iteration: the test, the body, and the updates of carried values."""
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
        """Write what a schedule runs in an iteration."""
        self.emitter.run(self.writer, made, lambda item: self.emitter.in_iteration(self.writer, item))

    def arrays(self) -> list[Array]:
        """The arrays of an iteration."""
        tasks = [t for made in (self.rec.before, self.rec.iteration) if made is not None for t in made.tasks]
        return [a for t in tasks for a in t.arrays]

    def place(self) -> None:
        """Let results of an iteration be computed in their final place where possible."""
        writer = self.writer
        memory = Memory(self.labels, writer.prefixes, writer.grown, self.emitter.fresh)
        Places(self.rec, memory).decide(self.parts)

    def carry(self) -> None:
        """Copy outs that are computed elsewhere to their rows, then update the carried values."""
        rec = self.rec
        for out, stack in zip(rec.outs, self.stacks, strict=False):
            if not out.rank:
                self.collect(out, stack)
            elif self.labels[out] != self.labels[stack]:
                self.copy(self.label(out), stack, out.shape, self.row(out), (Var(axis_name(rec.number)),))
        for final, result in zip(self.finals, rec.results, strict=True):
            whole = result.base if isinstance(result, carried_updates.InPlace) else result
            if whole is not None and final.rank and not self.there(whole, final):
                self.copy(self.label(whole), final, whole.shape, self.row(whole))
        for final, result in zip(self.finals, rec.results, strict=True):
            for store in result.stores if isinstance(result, carried_updates.InPlace) else ():
                self.store(final, store)
        self.scalars()  # last: the places of stores read them

    def scalars(self) -> None:
        """Update carried scalars."""
        pairs = zip(self.finals, self.rec.results, strict=True)
        found = [(f, r) for f, r in pairs if isinstance(r, Array) and not f.rank and not self.there(r, f)]
        if found:
            values = [Var(self.label(r)) for _, r in found]
            self.writer.add(assignments([self.labels[f] for f, _ in found], values))

    def collect(self, out: Array, stack: Array) -> None:
        """Store a scalar of each iteration."""
        spot = *self.row(stack), Var(axis_name(self.rec.number))
        self.writer.add(Store(Access(self.writer.label(stack), spot), Var(self.label(out))))

    def store(self, final: Array, store: carried_updates.CarriedStore) -> None:
        """Store an element or a row in a carried array, if the place is inside it."""
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
            if isinstance(index, carried_updates.AxisRange):
                start = unsigned(writer.name(index.start, writer.written(index.start)))
                spots.append(Binary("+", start, Var(axis)))
                loops.append(writer.over(axis, index.length, len(loops)))
                continue
            spot, condition = writer.spot(index, writer.written(index), size)
            spots.append(spot)
            inside += [] if condition is None else [condition]
        row = *self.row(final), *spots[: len(spots) - len(loops)]
        if self.labels[store.array] == self.labels[final] and self.row(store.array) == row:
            return  # computed in place
        label, at = self.label(store.array), (*self.row(store.array), *(Var(loop.axis) for loop in loops))
        value = Access(label, at) if at else Var(label)
        heads: list[For | If] = [*([If(all_of(inside))] if inside else []), *loops]
        writer.headed(heads, Store(Access(writer.label(final), (*self.row(final), *spots)), value))

    def there(self, array: Array, place: Array) -> bool:
        """Whether an array is computed in its final place."""
        return self.labels[array] == self.labels[place] and self.row(array) == self.row(place)

    def label(self, array: Array) -> str:
        """The name of an array."""
        return self.writer.label(array)

    def row(self, array: Array) -> Row:
        """The row that an array is in an iteration."""
        return self.writer.row(array)

    def copy(self, source: str | Const, target: Array, shape: Shape, row: Row = (), to_row: Row = ()) -> None:
        """Copy an array or a scalar, or fill an array with a constant."""
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
        """The head of a loop over one axis of a copy."""
        return self.writer.over(axis, shape[d], d)


def assignments(names: Sequence[str], values: Sequence[Expr]) -> Stmt:
    """Assign all variables at once: all values are read first."""
    if len(names) == 1:
        return Assign(names[0], values[0])
    return AssignAll(tuple(map(Var, names)), tuple(values))
