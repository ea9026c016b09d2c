"""Fuses the arrays of a program into loop nests.

Every array is a task with an order of loops over its domain. Tasks are placed producers first. Each joins the
first loop of its length at or after all its producers, and strictly after a producer whose value it needs
from another iteration of that loop (a sum over it, or an element read elsewhere). The same rule applies
inside each loop. Values read in the same iteration stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce as fold_left
from itertools import chain, count

from adcompiler.analysis.loop_order import long_axes, loop_order
from adcompiler.analysis.predicates import ALWAYS, Conditions, meet
from adcompiler.ir import loop as loop_node
from adcompiler.ir.bodies import Replace, const_places, fresh, made_before, standing
from adcompiler.ir.loop import Item, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Call,
    Contraction,
    Element,
    Func,
    Index,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    element_of,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    arrays_of,
    elements_of,
    is_computed,
    lengths_read,
    postorder,
    read_by,
    rewrite,
    substitute,
)
from adcompiler.kernels.schedule.branches import Needs, needs
from adcompiler.kernels.schedule.carried_updates import InPlace, in_place, scattered
from adcompiler.kernels.schedule.numbers import Numbers
from adcompiler.kernels.schedule.partly_read import partly_read
from adcompiler.kernels.schedule.puts import readers_before, with_early_reads
from adcompiler.kernels.schedule.rows import OfNest, with_rows
from adcompiler.kernels.schedule.schedule_tree import (
    UNNUMBERED,
    Loop,
    Recurrence,
    Schedule,
    Task,
    reads_of,
)
from adcompiler.kernels.schedule.store_loops import with_store_loops
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.costs import costly, is_function
from adcompiler.passes.order.orders import settled_orders


@dataclass(frozen=True)
class Style:
    """What a kind of processor requires of a schedule: the loop orders of arrays that are computed together,
    the arrays that cannot share their loops, whether a value read within one iteration only may be stored in
    a row for that iteration (as it may if iterations of a block run sequentially), and the nominal
    nanoseconds of a memory access."""

    orders: Callable[[Sequence[Array]], Mapping[Array, tuple[int, ...]]]
    alone: Callable[[Array], bool]
    rows: bool
    access: float


def _is_scatter(array: Array) -> bool:
    return isinstance(array, Accumulate) and len(long_axes(array)) < 2


# A scatter runs on one thread and is not vectorised, so it does not share its loop. Over pairs it does,
# because its operands would otherwise have to be stored; so does one that reads at computed places, as its
# operands often do, which gain little from vectors.
CPU = Style(
    lambda arrays: {a: loop_order(a) for a in arrays},
    lambda array: isinstance(array, Put) or (_is_scatter(array) and not gathers(array)),
    rows=True,
    access=0.5,  # 0.2 in a cache, and about 1 in memory
)


def schedule(func: Func, style: Style = CPU) -> Schedule:
    """The loop nests of `func`."""
    return _arranged(func.roots, {}, Numbers(count()), style, settled_orders(func))


def _arranged(
    roots: Sequence[Array],
    given: Mapping[Array, object],
    numbers: Numbers,
    style: Style,
    orders: Mapping[Array, tuple[int, ...]] | None = None,
) -> Schedule:
    """The loop nests that compute `roots`, where the arrays `given` exist already."""
    tasks: list[Task] = []
    loops: dict[loop_node.Loop, Recurrence] = {}
    order = postorder(roots, lambda a: () if a in given else made_before(a))
    found, earlier = needs(roots, order), readers_before(order)
    needed = {a: _conditions(a, found) for a in found.arrays}

    def before(array: Array) -> Iterable[Array]:
        asked = read_by(c for c, _ in needed.get(array, ALWAYS))
        found = () if array in given else (*made_before(array), *asked, *earlier.get(array, ()))
        return sorted(found, key=lambda a: isinstance(a, OfNest))  # these come with their first readers

    made = [a for a in postorder(roots, before) if not (isinstance(a, Input) or a in given)]
    loops_over = [a for a in made if not isinstance(a, Item | Call | Contraction)]
    where = partly_read(made, set(roots)) if style.rows else {}
    orders = {**style.orders(loops_over), **(orders or {})}
    for array in made:
        if not isinstance(array, Item):
            tasks.append(Task(array, orders.get(array, ()), needed=needed[array], where=where.get(array, ())))
        elif array.loop not in loops:
            loops[array.loop] = rec = _recurrence(array.loop, numbers, style)
            rec.needed = fold_left(meet, (needed[a] for a in array.loop.items if a in needed))
            tasks.append(rec)
    placer = _Placer(tasks, numbers, style)
    body = placer.place(tasks, 0)
    for item in body:
        if isinstance(item, Loop):
            item.bind(frozenset(), style.rows)
    for task in tasks:
        if isinstance(task, Recurrence):
            continue
        task.stored = task.array.rank > 0 and (task.array in roots or placer.escapes(task))
        if style.rows and task.stored and task.array not in roots:
            task.within = placer.within(task)
    return Schedule(body, tasks, found)


def _conditions(array: Array, found: Needs) -> Conditions:
    """The conditions to compute an array under: none if it is cheap or has no buffer beforehand."""
    quick = isinstance(array, Map) and not array.rank and not costly(array.body, {})
    return ALWAYS if quick or isinstance(array, Input) or lengths_read(array) else found.arrays[array]


class _Open(Replace):
    """Replaces the slots of a body: the iteration's number is an axis, and so is the first axis of a scanned
    array. Loops that read a whole row use an entry of `whole`.

    A scalar among these is copied to be the operand of an inner loop. Lengths of arrays that read it read the
    copy too, so that in the loop's body the operand and the length agree."""

    def __init__(
        self,
        roots: Sequence[Array],
        replaced: dict[Array, Array],
        step: Array,
        rows: Sequence[Array],
        whole: Sequence[Array],
        axis: int,
    ) -> None:
        super().__init__(replaced | dict(zip(whole, whole, strict=True)))
        self.step, self.rows, self.axis = step, dict(zip(rows, whole, strict=True)), axis
        self.parts = {slot: place for slot, place in replaced.items() if place is step or place in self.rows}
        found = chain.from_iterable(map(lengths_read, arrays_of(roots)))
        self.counts = {a for a in found if a in self.parts}
        self.lengths: dict[Element, Element] = {}

    def _resize(self, lengths: tuple[Element, ...]) -> tuple[Element, ...]:
        return rewrite(lengths, self.length, self.lengths)

    def length(self, element: Element) -> Element:
        """The replacement of a length, or of a part of one."""
        if isinstance(element, Read) and element.array in self.counts:
            return Read(self.run((self.copied(element.array),))[0], ())
        return self._visit(element)

    def element(self, element: Element) -> Element:
        if isinstance(element, Read) and element.array is self.step:
            return Index(self.axis)
        if isinstance(element, Read) and element.array in self.rows:
            return Read(element.array, (Index(self.axis), *element.args))
        return element

    def copied(self, array: Array) -> Array:
        """An array that is read whole; a part of another array is copied."""
        return Map(array.shape, element_of(array)) if array in self.parts else array

    def operands(self, call: Call) -> tuple[Array, ...]:
        whole = tuple(map(self.copied, call.operands))
        self.run(whole)
        return tuple(self.arrays[a] for a in whole)

    def whole(self, array: Array) -> Array:
        """An array that a loop reads."""
        row = self.rows.get(self.parts.get(array, array))
        return self.copied(array) if row is None or not row.rank or lengths_read(row) else row

    def _loop(self, loop: loop_node.Loop) -> loop_node.Loop:
        inits, scanned, consts = (
            tuple(map(self.whole, part)) for part in (loop.inits, loop.scanned, loop.consts)
        )
        self.run((*inits, *scanned, *consts))
        rest = loop.results, loop.outs, loop.test, loop.backward
        return super()._loop(loop_node.Loop(loop.length, inits, scanned, consts, *rest))


def _recurrence(loop: loop_node.Loop, numbers: Numbers, style: Style) -> Recurrence:
    """A loop with its body opened and scheduled."""
    number = -1 - next(numbers.fresh)
    step, *slots = loop.slots
    places = const_places(loop)  # read by lengths in the body
    consts, stand = tuple(places.values()), fresh("i64", ())
    carried = tuple(standing(s, places) for s in slots[: len(loop.inits)])
    whole = tuple(standing(s, places) for s in slots[len(carried) : len(slots) - len(consts)])
    rows = tuple(fresh(a.dtype, (a.shape[0], *r.shape)) for a, r in zip(loop.scanned, whole, strict=True))
    new: dict[Array, Array] = {step: stand}
    new |= dict(zip(slots, (*carried, *rows, *consts), strict=True))
    read = [
        Map(r.shape, element_of(r)) if isinstance(r, Slot) else r for r in with_store_loops(loop, style.rows)
    ]
    roots = with_early_reads(_Open(read, new, stand, rows, whole, number).run(read))
    given: dict[Array, object] = dict.fromkeys((*carried, *rows, *consts))
    before: Schedule | None = None
    if loop.test is not None:
        before = _arranged(roots[-1:], given, numbers.inside(loop, number, consts), style)
        for task in before.tasks:
            task.stored, task.within = task.array.rank > 0, 0  # the iteration may read it
        given |= dict.fromkeys(t.array for t in before.tasks)
    inner = numbers.inside(loop, number, consts)

    def arranged(roots: Sequence[Array]) -> tuple[Schedule, tuple[Array | InPlace, ...]]:
        pairs = zip(carried, roots, strict=False)
        outs = roots[len(carried) : len(carried) + len(loop.outs)]
        updates = tuple(_update(s, r, roots, style.rows, inner) for s, r in pairs)
        made = [a for u in updates for a in (u.arrays if isinstance(u, InPlace) else [u])]
        made += _placing([u for u in updates if isinstance(u, InPlace)], {*arrays_of([*made, *outs]), *given})
        return _arranged([*made, *outs], given, inner, style), updates

    made = arranged(roots)
    opened, (iteration, updates) = with_rows(roots, made, arranged) if style.rows else (roots, made)
    outs = tuple(opened[len(carried) : len(carried) + len(loop.outs)])
    test = None if loop.test is None else opened[-1]
    return Recurrence(
        loop.items[0],
        (),
        number=number,
        slots=carried,
        rows=rows,
        whole=whole,
        consts=consts,
        results=updates,
        outs=outs,
        test=test,
        before=before,
        iteration=iteration,
    )


def _update(
    slot: Array, result: Array, roots: Sequence[Array], rows: bool, numbers: Numbers
) -> Array | InPlace:
    """The update of a carried array by an iteration: a new array, a sum to add in place, or stores."""
    if isinstance(result, Put):
        return result
    found = in_place(slot, result, rows, numbers)
    if found is not None:
        return found
    if isinstance(result, Accumulate):  # it starts from zeros, not from what is carried
        return Map(result.shape, element_of(result))
    return scattered(slot, result, roots) or result


def _placing(updates: Sequence[InPlace], known: Collection[object]) -> list[Array]:
    """The arrays that only indices of stores read."""
    read = read_by(e for update in updates for store in update.stores for e in store.numbers)
    return [a for a in read if a not in known]


class _Placer:
    """Builds the loops, and records the readers of each task."""

    def __init__(self, tasks: Sequence[Task], numbers: Numbers, style: Style) -> None:
        self.numbers, self.style = numbers, style
        by_array: dict[Array, Task] = {}
        for task in tasks:
            by_array |= dict.fromkeys(task.arrays, task)
        self.reads: dict[Task, dict[Task, list[Read]]] = {task: {} for task in tasks}
        self.readers: dict[Task, list[Task]] = {task: [] for task in tasks}
        self.costs: dict[Element, bool] = {}  # which elements are costly, as far as they were looked at
        for task in tasks:
            for read in reads_of(task):
                if read.array in by_array:
                    self.reads[task].setdefault(by_array[read.array], []).append(read)
            for producer in self.reads[task]:
                self.readers[producer].append(task)

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
            for reader in (task,) if depth else self.of_nest(task):
                for producer, reads in self.reads[reader].items():
                    if producer in position:
                        apart = not self.together(producer, reader, reads, depth)
                        start = max(start, position[producer] + apart)
            wanted = Loop(size, UNNUMBERED, under=task.conditions(depth, self.style.rows))
            if not depth:
                wanted.needed, wanted.shut = task.needed, self.style.alone(task.array)
                if self.style.rows:
                    wanted.scalar = _is_scatter(task.array)
                    wanted.calls = not wanted.scalar and not task.has_loops(0) and _calls(task, 0)
                    near = any(position.get(producer) == start for producer in self.reads[task])
                    wanted.streams = not near and is_float(task.array.dtype) and not gathers(task.array)
            elif self.style.rows:  # a row connects the two
                wanted.scalar = task.has_loops(depth) or isinstance(task.array, Accumulate)
                wanted.calls = not wanted.scalar and _calls(task, depth)
            position[task] = self.join(items, start, wanted)
            loop = items[position[task]]
            assert isinstance(loop, Loop)
            loop.take(task, wanted)
            task.loops.append(loop)
        for item in items:
            if isinstance(item, Loop):
                item.body = self.place(item.tasks, depth + 1)
        return items

    def of_nest(self, task: Task) -> Iterator[Task]:
        """A task and, for an array of one nest, its first readers up to one that decides where the nest
        is."""
        yield task
        while isinstance(task.array, OfNest) and self.readers[task]:
            task = self.readers[task][0]
            yield task

    def join(self, items: list[Loop | Task], start: int, wanted: Loop) -> int:
        """The position of the first compatible loop from `start` on; a new one at the end if there is
        none."""
        for p in range(start, len(items)):
            item = items[p]
            if isinstance(item, Loop) and item.admits(wanted):
                return p
        wanted.number = next(self.numbers.fresh)
        items.append(wanted)
        return len(items) - 1

    def together(self, producer: Task, consumer: Task, reads: Sequence[Read], depth: int) -> bool:
        """Whether each iteration of the loop at `depth` computes all that the consumer reads from the
        producer."""
        if depth >= len(producer.order) or isinstance(producer.array, Accumulate | Put):
            return False
        axis = producer.order[depth]
        if axis >= producer.array.rank:
            return False
        if not depth and self.vectorises_separately(producer, consumer):
            return False
        return all(read.args[axis] is Index(consumer.order[depth]) for read in reads)

    def vectorises_separately(self, producer: Task, consumer: Task) -> bool:
        """Whether one of two tasks is a loop of costly operations that vectorises only if the other's inner
        loops are kept separate. Sums over rows and readers of these rows stay together, while a row is in
        cache."""
        if consumer.has_loops(0):
            return not self.reads[producer] and self.is_costly_loop(producer)
        if not producer.has_loops(0) or not self.is_costly_loop(consumer):
            return False
        return not any(t.has_loops(0) for t in postorder([consumer], self.readers.__getitem__))

    def is_costly_loop(self, task: Task) -> bool:
        """Whether a task is one loop of costly operations."""
        return len(task.order) > 0 and not task.has_loops(0) and costly(task.array.elements[-1], self.costs)

    def escapes(self, task: Task) -> bool:
        """Whether a reader runs outside the loops over the task's own axes, or reads another element."""
        array = task.array
        if not task.first_reduced or (isinstance(array, Reduce) and not task.in_register):
            return True
        return self.within(task) < task.first_reduced

    def within(self, task: Task) -> int:
        """The number of loops around a task that contain all its readers in the same iteration."""
        if isinstance(task.array, Accumulate | Put | Item | Call | Contraction):
            return 0
        found = (
            _loops_of_both(task, reader, read)
            for reader in self.readers[task]
            for read in self.reads[reader][task]
        )
        return min(found, default=task.first_reduced)


def _loops_of_both(task: Task, reader: Task, read: Read) -> int:
    """The number of loops around a task and a reader in which an iteration reads what it computes."""
    index = reader.index
    own = [substitute(i, index) is kept for i, kept in zip(read.args, task.kept, strict=True)]
    if not all(same for axis, same in enumerate(own) if axis not in task.order):
        return 0
    depth = task.first_reduced
    around = zip(task.order[:depth], task.loops, reader.loops, strict=False)
    return [*(loop is other and own[axis] for axis, loop, other in around), False].index(False)


def gathers(array: Array) -> bool:
    """Whether an array's elements are read at computed places."""
    reads = (e for e in elements_of(array.elements) if isinstance(e, Read))
    return any(is_computed(place) for read in reads for place in read.args)


def _calls(task: Task, depth: int) -> bool:
    """Whether a task calls functions in a loop at `depth`."""
    own = {task.order[depth]}
    return any(is_function(e) and own <= e.axes for e in elements_of(task.array.elements))
