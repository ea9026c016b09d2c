"""Fuse the arrays of a program into loop nests: which loops there are, and what runs in each.

Every array is a task with an order of loops over its domain. Tasks are taken producers first, and
each joins the first loop of its length that stands at or after all its producers; after, if it needs
a producer's value from another turn of that loop: a sum over it, or an element read elsewhere. The
same rule is applied inside each loop. What a task reads from the same turn stays in a register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from adcompiler.codegen.bounds import Bound, bound, common, switch, without
from adcompiler.codegen.inplace import Store, scattered, stores
from adcompiler.ir import loop as loop_node
from adcompiler.ir.bodies import Replace, fresh, like
from adcompiler.ir.call import Call
from adcompiler.ir.loop import Item, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Node,
    Read,
    Reduce,
    const,
    identity,
)
from adcompiler.ir.walk import arrays_read, elements_of, postorder, substitute
from adcompiler.passes.conditions import conditions
from adcompiler.passes.loops import loop_order

HERE = -(10**9)  # the axis of a loop that has no number yet


@dataclass(eq=False)
class Task:
    """One array to compute; `order` are the axes of its domain from the outermost loop inwards."""

    array: Array
    order: tuple[int, ...]
    loops: list[Loop] = field(default_factory=list)
    stored: bool = True
    seen_to: list[Element] = field(default_factory=list)  # conditions that bounds of the loops see to

    @property
    def index(self) -> dict[int, Element]:
        """What each axis of the domain is in the program's loops."""
        found: dict[int, Element] = {k: const(0, "i64") for k in range(len(self.array.domain))}
        return found | {k: Index(loop.number) for k, loop in zip(self.order, self.loops, strict=True)}

    @property
    def elements(self) -> tuple[Element, ...]:
        """The array's elements in terms of the program's loops."""
        memo: dict[Element, Element] = {}
        found = tuple(substitute(e, self.index, memo) for e in self.array.elements)
        if self.seen_to and isinstance(self.array, Reduce):
            return (without(self.array.op, found[0], self.seen_to),)
        return found

    @property
    def written(self) -> tuple[Element, ...]:
        """What is written for the task: its elements, and what the bounds of its loops read."""
        return (*self.elements, *(e for e in elements_of(self.seen_to) if isinstance(e, Read)))

    def conditions(self, depth: int) -> frozenset[Element]:
        """The conditions of a reduction on its axis at `depth`, in terms of the loops around it."""
        if not isinstance(self.array, Reduce) or self.order[depth] < self.array.rank:
            return frozenset()
        axis, outer = self.order[depth], self.order[:depth]
        places: dict[int, Element] = {
            k: Index(loop.number) for k, loop in zip(outer, self.loops, strict=False)
        }
        places[axis] = Index(HERE)
        found = conditions(self.array.op, self.array.elements[0])
        own = [c for c in found if axis in c.axes and c.axes <= {axis, *outer}]
        return frozenset(substitute(c, places) for c in own if bound(c, axis, frozenset(outer)) is not None)

    def named(self, names: Mapping[Node, str]) -> dict[Element, str]:
        """The names of the array's elements, in terms of the program's loops."""
        memo: dict[Element, Element] = {}
        found = [e for e in elements_of(self.array.elements) if e in names]
        return {substitute(e, self.index, memo): names[e] for e in found}

    @property
    def kept(self) -> tuple[Element, ...]:
        """The indices at which the array's element of the current turn stands."""
        return tuple(self.index[k] for k in range(self.array.rank))

    @property
    def first_reduced(self) -> int:
        """The depth of the outermost loop that reduces; the number of loops if none does."""
        if not isinstance(self.array, Reduce):
            return len(self.order)
        return next((d for d, k in enumerate(self.order) if k >= self.array.rank), len(self.order))

    @property
    def in_register(self) -> bool:
        """Whether a reduction needs one accumulator only: no kept axis lies inside a reduced one."""
        assert isinstance(self.array, Reduce)
        return all(k >= self.array.rank for k in self.order[self.first_reduced :])


@dataclass(eq=False)
class Loop:
    """`for Index(number) in range(size)`."""

    size: Element
    number: int
    tasks: list[Task] = field(default_factory=list)
    body: list[Loop | Task] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)  # where it starts and stops, besides 0 and its size
    under: frozenset[Element] = frozenset()  # the conditions on its axis that all its tasks stand under
    shut: bool = False  # whether no other task may join it

    def bind(self, outer: frozenset[int]) -> None:
        """Turn conditions on the axis into bounds, in this loop and all inside it."""
        if outer and all(isinstance(t.array, Reduce) for t in self.tasks):
            bodies = [(t.array, t.elements[0]) for t in self.tasks if isinstance(t.array, Reduce)]
            for condition in common(bodies):
                found = bound(condition, self.number, outer) or self.switch(condition, outer)
                if found is not None:
                    self.bounds.append(found)
                    for task in self.tasks:
                        task.seen_to.append(condition)
        for item in self.body:
            if isinstance(item, Loop):
                item.bind(outer | {self.number})

    def switch(self, condition: Element, outer: frozenset[int]) -> Bound | None:
        """A condition that lets the loop run or not, if it only adds to what begins before it."""
        begun = all(t.first_reduced <= t.loops.index(self) for t in self.tasks)
        return switch(condition, outer) if begun else None

    def walk(self) -> Iterator[Loop]:
        """This loop and all inside it."""
        yield self
        for item in self.body:
            if isinstance(item, Loop):
                yield from item.walk()


@dataclass(eq=False)
class Recurrence(Task):
    """A loop of the program, turn by turn; `array` is the first of what it gives, and `number` is that of its
    own axis. Placeholders stand for the slots of its body; those of rows for the scanned arrays."""

    number: int = 0
    slots: tuple[Array, ...] = ()
    rows: tuple[Array, ...] = ()
    consts: tuple[Array, ...] = ()
    results: tuple[Array | tuple[Store, ...], ...] = ()
    outs: tuple[Array, ...] = ()
    test: Array | None = None
    before: Schedule | None = None
    turn: Schedule | None = None

    @property
    def loop(self) -> loop_node.Loop:
        """The loop."""
        assert isinstance(self.array, Item)
        return self.array.loop


@dataclass
class Schedule:
    """The loop nests of a program, or of a turn of a loop, in order."""

    body: list[Loop | Task]
    tasks: list[Task]


@dataclass(frozen=True)
class Style:
    """What a kind of processor asks of a schedule: the orders of the loops over arrays that are computed
    together, and the arrays whose loops hold nothing else."""

    orders: Callable[[Sequence[Array]], Mapping[Array, tuple[int, ...]]]
    alone: Callable[[Array], bool]


CPU = Style(lambda arrays: {a: loop_order(a) for a in arrays}, lambda array: False)


def schedule(func: Func, style: Style = CPU) -> Schedule:
    """The loop nests of `func`."""
    return _arranged(func.roots, {}, count(), style)


def _arranged(
    roots: Sequence[Array], given: Mapping[Array, object], numbers: Iterator[int], style: Style
) -> Schedule:
    """The loop nests that compute `roots`; arrays `given` are there already."""
    tasks: list[Task] = []
    loops: dict[loop_node.Loop, Recurrence] = {}
    found = postorder(roots, lambda a: () if a in given else _made_before(a))
    made = [a for a in found if not (isinstance(a, Input) or a in given)]
    orders = style.orders([a for a in made if not isinstance(a, Item | Call)])
    for array in made:
        if not isinstance(array, Item):
            tasks.append(Task(array, orders.get(array, ())))
        elif array.loop not in loops:
            loops[array.loop] = _recurrence(array.loop, numbers, style)
            tasks.append(loops[array.loop])
    placer = _Placer(tasks, numbers, style)
    body = placer.place(tasks, 0)
    for item in body:
        if isinstance(item, Loop):
            item.bind(frozenset())
    for task in tasks:
        if isinstance(task, Recurrence):
            continue
        task.stored = task.array.rank > 0 and (task.array in roots or placer.escapes(task))
    return Schedule(body, tasks)


def _made_before(array: Array) -> Sequence[Array]:
    """What must be there before an array; a loop fills what starts as a constant itself."""
    if not isinstance(array, Item):
        return arrays_read(array)
    loop = array.loop
    whole = {*loop.scanned, *loop.consts}
    return [a for a in arrays_read(array) if a in whole or a not in loop.inits or filling(a) is None]


def filling(array: Array) -> Const | None:
    """The constant that an array is everywhere, if it is one."""
    return array.body if isinstance(array, Map) and isinstance(array.body, Const) else None


class _Open(Replace):
    """Puts what stands for the slots of a body in their place: the turn's number is an axis, and so is the
    first one of a scanned array."""

    def __init__(self, replaced: dict[Array, Array], step: Array, rows: Sequence[Array], axis: int) -> None:
        super().__init__(replaced)
        self.step, self.rows, self.axis = step, set(rows), axis
        self.parts = {slot for slot, place in replaced.items() if place is step or place in self.rows}

    def element(self, element: Element) -> Element:
        if isinstance(element, Read) and element.array is self.step:
            return Index(self.axis)
        if isinstance(element, Read) and element.array in self.rows:
            return Read(element.array, (Index(self.axis), *element.args))
        return element

    def whole(self, array: Array) -> Array:
        """An array that is read whole; what stands for a part of another is copied."""
        return Map(array.shape, Read(array, identity(array.shape))) if array in self.parts else array

    def operands(self, call: Call) -> tuple[Array, ...]:
        whole = tuple(map(self.whole, call.operands))
        self.run(whole)
        return tuple(self.arrays[a] for a in whole)

    def _loop(self, loop: loop_node.Loop) -> loop_node.Loop:
        inits, scanned, consts = (
            tuple(map(self.whole, part)) for part in (loop.inits, loop.scanned, loop.consts)
        )
        self.run((*inits, *scanned, *consts))
        rest = loop.results, loop.outs, loop.test, loop.backward
        return super()._loop(loop_node.Loop(loop.length, inits, scanned, consts, *rest))


def _recurrence(loop: loop_node.Loop, numbers: Iterator[int], style: Style) -> Recurrence:
    """A loop with its body opened and scheduled."""
    number = -1 - next(numbers)
    step, *slots = loop.slots
    carried = tuple(like(a) for a in loop.inits)
    rows, consts = tuple(like(a) for a in loop.scanned), tuple(like(a) for a in loop.consts)
    stand = fresh("i64", ())
    new: dict[Array, Array] = {step: stand}
    new |= dict(zip(slots, (*carried, *rows, *consts), strict=True))
    read = [Map(r.shape, Read(r, identity(r.shape))) if isinstance(r, Slot) else r for r in loop.roots]
    roots = _Open(new, stand, rows, number).run(read)
    results, outs = roots[: len(carried)], roots[len(carried) : len(carried) + len(loop.outs)]
    given: dict[Array, object] = dict.fromkeys((*carried, *rows, *consts))
    before: Schedule | None = None
    if loop.test is not None:
        before = _arranged(roots[-1:], given, numbers, style)
        for task in before.tasks:
            task.stored = task.array.rank > 0
        given |= dict.fromkeys(t.array for t in before.tasks)
    kept = (*results, *outs, *roots[len(results) + len(outs) :])
    updates = tuple(_update(s, r, kept) for s, r in zip(carried, results, strict=True))
    made = [a for u in updates for a in ([s.array for s in u] if isinstance(u, tuple) else [u])]
    turn = _arranged([*made, *outs], given, numbers, style)
    test = None if loop.test is None else roots[-1]
    found = carried, rows, consts, updates, outs, test, before, turn
    return Recurrence(loop.items[0], (), [], True, [], number, *found)


def _update(slot: Array, result: Array, roots: Sequence[Array]) -> Array | tuple[Store, ...]:
    """What a turn does to what it carries: a new array, a sum to add in place, or stores at some places."""
    found = stores(slot, result)
    return tuple(found) if found is not None else scattered(slot, result, roots) or result


class _Placer:
    """Builds the loops; remembers who reads whom."""

    def __init__(self, tasks: Sequence[Task], numbers: Iterator[int], style: Style) -> None:
        self.numbers, self.style = numbers, style
        by_array: dict[Array, Task] = {}
        for task in tasks:
            arrays = task.loop.items if isinstance(task, Recurrence) else (task.array,)
            by_array |= dict.fromkeys(arrays, task)
        self.reads: dict[Task, dict[Task, list[Read]]] = {task: {} for task in tasks}
        for task in tasks:
            for read in reads_of(task):
                if read.array in by_array:
                    self.reads[task].setdefault(by_array[read.array], []).append(read)

    def place(self, tasks: Sequence[Task], depth: int) -> list[Loop | Task]:
        """The items that run `tasks`, which share the loops above `depth`."""
        items: list[Loop | Task] = []
        position: dict[Task, int] = {}
        for task in tasks:
            if depth == len(task.order):
                position[task] = len(items)
                items.append(task)
                continue
            size = task.array.domain[task.order[depth]]
            start = 0
            for producer, reads in self.reads[task].items():
                if producer in position:
                    start = max(start, position[producer] + (not self.together(producer, task, reads, depth)))
            alone = depth == 0 and self.style.alone(task.array)
            position[task] = self.join(items, len(items) if alone else start, size, task.conditions(depth))
            loop = items[position[task]]
            assert isinstance(loop, Loop)
            loop.shut = loop.shut or alone
            loop.tasks.append(task)
            task.loops.append(loop)
        for item in items:
            if isinstance(item, Loop):
                item.body = self.place(item.tasks, depth + 1)
        return items

    def join(self, items: list[Loop | Task], start: int, size: Element, under: frozenset[Element]) -> int:
        """The position of the first loop of this length, under the same conditions, from `start` on; a new
        one at the end if none is."""
        for p in range(start, len(items)):
            item = items[p]
            if isinstance(item, Loop) and item.size is size and item.under == under and not item.shut:
                return p
        items.append(Loop(size, next(self.numbers), under=under))
        return len(items) - 1

    def together(self, producer: Task, consumer: Task, reads: Sequence[Read], depth: int) -> bool:
        """Whether each turn of the loop at `depth` gives the consumer all it reads from the producer."""
        if depth >= len(producer.order) or isinstance(producer.array, Accumulate):
            return False
        axis = producer.order[depth]
        if axis >= producer.array.rank:
            return False
        return all(read.args[axis] is Index(consumer.order[depth]) for read in reads)

    def escapes(self, task: Task) -> bool:
        """Whether a reader stands outside the loops over the task's own axes, or reads elsewhere."""
        if isinstance(task.array, Accumulate | Item | Call) or (
            isinstance(task.array, Reduce) and not task.in_register
        ):
            return True
        own = task.loops[: task.first_reduced]
        if not own:
            return True
        for reader, reads in self.reads.items():
            for read in reads.get(task, ()):
                here = tuple(substitute(i, reader.index) for i in read.args)
                if reader.loops[: len(own)] != own or here != task.kept:
                    return True
        return False


def reads_of(task: Task) -> list[Read]:
    """What a task reads; a loop, or a call, reads all of its operands."""
    if isinstance(task, Recurrence):
        length = () if task.loop.length is None else (task.loop.length,)
        whole = [Read(a, identity(a.shape)) for a in task.loop.operands]
        return whole + [e for e in elements_of(length) if isinstance(e, Read)]
    array = task.array
    if isinstance(array, Call):
        return [Read(a, identity(a.shape)) for a in array.operands]
    return [e for e in elements_of((*array.domain, *array.elements)) if isinstance(e, Read)]
