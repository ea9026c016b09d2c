"""Bufferisation of loops: what an iteration makes is put where it stays, if nothing reads afterwards what was
there.

Else an iteration computes beside what it carries, and copies: every element of it in every iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Accumulate, Array, Const, Element, Index, Map, Read, Select
from adcompiler.ir.walk import postorder, substitute
from adcompiler.kernels.emit.writer import Row, axis_name
from adcompiler.kernels.schedule.carried_updates import Store
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Task, computed, reads_of, tasks_of
from adcompiler.loopir.nodes import Expr, Var, literal


@dataclass
class Memory:
    """The names of arrays, and the row of that name which an array is; `grown` are sums that are added to
    what is there; `fresh` makes a name."""

    labels: dict[Array, str]
    rows: dict[Array, Row]
    grown: set[Array]
    fresh: Callable[[Array], str]

    def put(self, array: Array, where: Array, spot: Row = ()) -> None:
        """Keep an array where another one is, at a spot of it."""
        self.labels[array] = self.labels[where]
        self.rows[array] = (*self.rows.get(where, ()), *spot)

    def same(self, array: Array, other: Array) -> bool:
        """Whether two arrays are in one place."""
        rows = self.rows.get(array, ()), self.rows.get(other, ())
        return self.labels[array] == self.labels[other] and rows[0] == rows[1]


class Places:
    """Decides on the places of what an iteration of a loop makes."""

    def __init__(self, rec: Recurrence, memory: Memory) -> None:
        assert rec.iteration is not None
        self.rec, self.memory = rec, memory
        items = rec.loop.items
        self.finals, self.stacks = items[: len(rec.slots)], items[len(rec.slots) :]
        self.order = self.ordered()
        self.tasks = {a: t for t in self.order for a in t.arrays}
        self.reads = {t: reads_of(t) for t in self.order}
        self.over: dict[Task, set[Array]] = {}  # the slots that a task overwrites

    def ordered(self) -> dict[Task, int]:
        """The tasks of an iteration in order, each with the number of its nest."""
        assert self.rec.iteration is not None
        return {t: k for k, item in enumerate(self.rec.iteration.body) for t in tasks_of(item)}

    def decide(self, parts: bool) -> None:
        """Give places to what can have one; `parts`, also to a part of what is carried."""
        self.inner_loops()
        self.outs()
        for slot, final, update in self.updates():
            if isinstance(update, tuple):
                for store in update:
                    if parts:
                        self.part(slot, final, store)
            else:
                self.whole(slot, final, update)
        self.starts()

    def updates(self) -> list[tuple[Array, Array, Array | tuple[Store, ...]]]:
        """What is carried: slot, final array, and what an iteration does to it; numbers have no place."""
        found = zip(self.rec.slots, self.finals, self.rec.results, strict=True)
        return [(s, f, u) for s, f, u in found if f.rank]

    def inner_loops(self) -> None:
        """An inner loop carries in the place of what this one carries, and it replaces."""
        for slot, final, update in self.updates():
            if not isinstance(update, Item) or update in self.memory.labels:
                continue
            loop, task = update.loop, self.tasks[update]
            own = update.k < len(loop.inits) and loop.inits[update.k] is slot
            if update.k < len(loop.inits) and loop.operands.count(slot) == own and self.free(slot, task):
                self.memory.put(update, final)
                self.over.setdefault(task, set()).add(slot)

    def free(self, slot: Array, task: Task) -> bool:
        """Whether nothing reads what is carried beside a task, or after it."""
        place = self.order[task]
        return not any(
            r.array is slot
            for t, reads in self.reads.items()
            if t is not task and self.order[t] >= place
            for r in reads
        )

    def outs(self) -> None:
        """An out is computed in its row."""
        axis = Var(axis_name(self.rec.number))
        for out, stack in zip(self.rec.outs, self.stacks, strict=False):
            if out.rank and out not in self.memory.labels:
                self.memory.put(out, stack, (axis,))

    def whole(self, slot: Array, final: Array, update: Array) -> None:
        """A new array, or a sum, takes the place of what is carried."""
        task = self.tasks.get(update)
        if update in self.memory.labels or isinstance(update, Item):
            return
        if isinstance(update, Accumulate) or (task and self.overwrites(slot, task, task.kept)):
            self.memory.put(update, final)
            self.memory.grown.add(update)

    def part(self, slot: Array, final: Array, store: Store) -> None:
        """What is stored in the first rows is computed there, if these surely exist."""
        task = self.tasks.get(store.array)
        fixed = [i for i in store.indices if isinstance(i, Element)]
        leading = list(store.indices) == [*fixed, *[None] * (len(store.indices) - len(fixed))]
        if not (task and store.array.rank and leading) or store.array in self.memory.labels:
            return
        if all(map(self.exists, fixed, final.shape)) and self.overwrites(slot, task, (*fixed, *task.kept)):
            self.memory.put(store.array, final, tuple(map(_spot, fixed)))

    def exists(self, index: Element, size: Element) -> bool:
        """Whether an index is surely inside an axis."""
        if isinstance(index, Const):
            return isinstance(size, Const) and 0 <= index.value < size.value
        return isinstance(index, Index) and index.axis == self.rec.number and size is self.rec.loop.length

    def overwrites(self, slot: Array, task: Task, spot: Sequence[Element]) -> bool:
        """Whether a new array can be written over a spot of what is carried: it reads only the element that
        it replaces, and all else that reads the spot does so in earlier nests, or just before in one
        iteration."""
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
                if not (own and at == tuple(spot)) and not _apart(at, spot):
                    return False
        self.over.setdefault(task, set()).add(slot)
        return True

    def places(self, slot: Array, task: Task) -> list[tuple[Element, ...]]:
        """Where a task reads what is carried."""
        return [tuple(substitute(i, task.index) for i in r.args) for r in self.reads[task] if r.array is slot]

    def holds(self, slot: Array, task: Task, spot: Sequence[Element]) -> bool:
        """Whether a task reads a spot of what is carried in any case: then a variable has it, or what is made
        of it, for tasks that come after."""
        reads = [r for r in _sure(task.array.elements) if isinstance(r, Read) and r.array is slot]
        return any(tuple(substitute(i, task.index) for i in r.args) == tuple(spot) for r in reads)

    def put_off(self, slot: Array, task: Task) -> None:
        """Let a task be the last in its loop, if later ones read the slot and none of them what it makes."""
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
        """Let a nest be the last one, if later ones read the slot and none of them what it makes."""
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
        """Whether tasks may be done after later ones in a body, of which some read the slot."""
        read = {r.array for t in later for r in self.reads[t]}
        own = {r.array for t in tasks for r in self.reads[t]}
        made = {a for t in tasks for a in t.arrays}
        gone = {s for item in body for t in tasks_of(item) for s in self.over.get(t, ())}
        return slot in read and not made & read and not own & gone

    def starts(self) -> None:
        """What an inner loop starts with is made where the loop carries it, if nothing else reads it then."""
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
                    continue  # its place is made where the loop begins
                taken = [s for s, f, _ in self.updates() if item in memory.labels and memory.same(item, f)]
                if all(self.free(s, maker) and s not in {r.array for r in self.reads[maker]} for s in taken):
                    if item not in memory.labels:
                        memory.labels[item] = memory.fresh(item)
                    memory.put(init, item)

    def stored(self) -> list[Array]:
        """The arrays that are carried on."""
        results = self.rec.results
        return [a for r in results for a in ([s.array for s in r] if isinstance(r, tuple) else [r])]


def _sure(elements: Sequence[Element]) -> set[Element]:
    """What is evaluated in any case: of a choice its condition, and what both of its sides evaluate."""
    found: dict[Element, set[Element]] = {}
    for e in postorder(elements, lambda e: e.args):
        parts = [found[a] for a in e.args]
        if isinstance(e, Select):
            condition, one, other = parts
            parts = [condition, one & other]
        found[e] = {e}.union(*parts)
    return set().union(*(found[e] for e in elements))


def _apart(one: Sequence[Element], other: Sequence[Element]) -> bool:
    """Whether two places are surely not the same."""
    return any(
        isinstance(a, Const) and isinstance(b, Const) and a is not b for a, b in zip(one, other, strict=True)
    )


def _spot(index: Element) -> Expr:
    """An index that surely exists."""
    if isinstance(index, Index):
        return Var(axis_name(index.axis))
    assert isinstance(index, Const)
    return literal(index.value)
