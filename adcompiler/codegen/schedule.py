"""Fuse the arrays of a program into loop nests: which loops there are, and what runs in each.

Every array is a task with an order of loops over its domain. Tasks are taken producers first, and
each joins the first loop of its length that stands at or after all its producers; after, if it needs
a producer's value from another turn of that loop: a sum over it, or an element read elsewhere. The
same rule is applied inside each loop. What a task reads from the same turn stays in a register.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from adcompiler.ir.nodes import Accumulate, Array, Element, Func, Index, Input, Node, Read, Reduce, const
from adcompiler.ir.walk import arrays_of, elements_of, substitute
from adcompiler.passes.loops import loop_order


@dataclass(eq=False)
class Task:
    """One array to compute; `order` are the axes of its domain from the outermost loop inwards."""

    array: Array
    order: tuple[int, ...]
    loops: list[Loop] = field(default_factory=list)
    stored: bool = True

    @property
    def index(self) -> dict[int, Element]:
        """What each axis of the domain is in the program's loops."""
        found: dict[int, Element] = {k: const(0, "i64") for k in range(len(self.array.domain))}
        return found | {k: Index(loop.number) for k, loop in zip(self.order, self.loops, strict=True)}

    @property
    def elements(self) -> tuple[Element, ...]:
        """The array's elements in terms of the program's loops."""
        memo: dict[Element, Element] = {}
        return tuple(substitute(e, self.index, memo) for e in self.array.elements)

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

    def walk(self) -> Iterator[Loop]:
        """This loop and all inside it."""
        yield self
        for item in self.body:
            if isinstance(item, Loop):
                yield from item.walk()


@dataclass
class Schedule:
    """The loop nests of a program, in order."""

    func: Func
    body: list[Loop | Task]
    tasks: list[Task]


def schedule(func: Func) -> Schedule:
    """The loop nests of `func`."""
    tasks = [Task(a, loop_order(a)) for a in arrays_of(func.roots) if not isinstance(a, Input)]
    placer = _Placer(tasks)
    body = placer.place(tasks, 0)
    for task in tasks:
        task.stored = task.array in func.roots or (task.array.rank > 0 and placer.escapes(task))
    return Schedule(func, body, tasks)


class _Placer:
    """Builds the loops; remembers who reads whom."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.number = 0
        by_array = {task.array: task for task in tasks}
        self.reads: dict[Task, dict[Task, list[Read]]] = {task: {} for task in tasks}
        for task in tasks:
            for element in elements_of((*task.array.domain, *task.array.elements)):
                if isinstance(element, Read) and element.array in by_array:
                    self.reads[task].setdefault(by_array[element.array], []).append(element)

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
            position[task] = self.join(items, start, size)
            loop = items[position[task]]
            assert isinstance(loop, Loop)
            loop.tasks.append(task)
            task.loops.append(loop)
        for item in items:
            if isinstance(item, Loop):
                item.body = self.place(item.tasks, depth + 1)
        return items

    def join(self, items: list[Loop | Task], start: int, size: Element) -> int:
        """The position of the first loop of this length from `start` on; a new one at the end if none is."""
        for p in range(start, len(items)):
            item = items[p]
            if isinstance(item, Loop) and item.size is size:
                return p
        items.append(Loop(size, self.number))
        self.number += 1
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
        if isinstance(task.array, Accumulate) or (isinstance(task.array, Reduce) and not task.in_register):
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
