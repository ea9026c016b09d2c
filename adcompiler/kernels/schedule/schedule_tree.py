"""The schedule tree: tasks, the loops that run them, and program loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby

from adcompiler.analysis.affine import linear, shifted
from adcompiler.analysis.loop_order import is_short, is_written_out
from adcompiler.analysis.predicates import (
    ALWAYS,
    MIRRORED,
    Conditions,
    conditions,
    guarded,
    join,
    without_negation,
)
from adcompiler.analysis.puts import conjunction
from adcompiler.ir import loop as loop_node
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Contraction,
    Element,
    Index,
    Map,
    Node,
    Put,
    Read,
    Reduce,
    Select,
    Shape,
    const,
    element_of,
    identity,
    neutral,
)
from adcompiler.ir.walk import elements_of, is_computed, operands, substitute
from adcompiler.kernels.schedule.branches import Needs, assume
from adcompiler.kernels.schedule.carried_updates import InPlace
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

# -- bounds ------------------------------------------------------------------------------------------
# Conditions on an axis as bounds of its loop: the sum over j < n where j < i runs to i.
#
# A reduction or a scatter adds nothing where its condition does not hold, so those iterations may be
# skipped. A condition becomes a bound if it compares the axis with values that the outer loops determine,
# and everything added up inside the loop depends on it. If the outer loops decide it without the axis,
# the loop runs completely or not at all.


Bound = tuple[str, Element]  # "start" or "stop", and its value; or "if", and what must hold


def without(op: str, body: Element, dropped: Sequence[Element]) -> Element:
    """A body without the conditions that loop bounds ensure."""
    outside = neutral(op, body.dtype)
    found, body = guarded(body, outside.value)
    guard: Element | None = None
    for condition in (c for c in found if c not in dropped):
        guard = condition if guard is None else apply("logical_and", guard, condition)
    return body if guard is None else Select((guard, body, outside))


def bound(condition: Element, axis: int, outer: frozenset[int]) -> Bound | None:
    """The bound that a condition imposes on a loop over `axis`, if the loops `outer` around it decide it."""
    condition = without_negation(condition)
    if not (isinstance(condition, Apply) and condition.op in STRICTER and condition.args[0].dtype == "i64"):
        return None
    (x, y), op = condition.args, condition.op
    for here, there, (side, more) in ((x, y, STRICTER[op]), (y, x, STRICTER[MIRRORED[op]])):
        base, less = shifted(here)
        if base is Index(axis) and there.axes <= outer:
            return side, apply("add", there, const(more - less, "i64")) if more != less else there
    return None


def switch(condition: Element, outer: frozenset[int]) -> Bound | None:
    """The bound that enables a loop, if the loops `outer` around it decide the condition."""
    return ("if", condition) if condition.axes and condition.axes <= outer else None


STRICTER = {  # the bound, and the offset added to it
    "less": ("stop", 0), "less_equal": ("stop", 1), "greater": ("start", 1), "greater_equal": ("start", 0),
}  # fmt: skip


def common(each: Iterable[list[Element]]) -> list[Element]:
    """The conditions of some tasks that all of them share."""
    found: list[Element] | None = None
    for own in each:
        found = own if found is None else [c for c in found if c in own]
    return found or []


UNNUMBERED = -(10**9)  # the axis of a loop that has no number yet


@dataclass(eq=False)
class Task:
    """One array to compute; `order` lists the axes of its domain, outermost loop first."""

    array: Array
    order: tuple[int, ...]
    loops: list[Loop] = field(default_factory=list)
    stored: bool = True
    ensured: list[Element] = field(default_factory=list)  # conditions that loop bounds ensure
    within: int = 0  # the number of loops around it whose iterations contain all its readers
    needed: Conditions = ALWAYS  # what holds wherever the array is read
    where: tuple[Element, ...] = ()  # what holds at the places of a map that are read
    known: Conditions = ALWAYS  # what holds in the loop being written
    _elements: dict[object, tuple[Element, ...]] = field(default_factory=dict, repr=False)
    _index: dict[tuple[int, ...], dict[int, Element]] = field(default_factory=dict, repr=False)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that the task computes."""
        return (self.array,)

    @property
    def op(self) -> str | None:
        """The reduction of its iterations' values; None if each iteration computes its own element. A scatter
        sums its body, the last of its elements; the others are indices."""
        if isinstance(self.array, Accumulate):
            return "sum"
        return self.array.op if isinstance(self.array, Reduce) else None

    @property
    def index(self) -> Mapping[int, Element]:
        """The loop variable of each axis of the domain; the loops of tiles have the numbers of axes."""
        if isinstance(self.array, Contraction):
            return dict(enumerate(identity(self.array.domain)))
        numbers = tuple([loop.number for loop in self.loops])
        if numbers not in self._index:
            first: dict[int, Element] = dict.fromkeys(range(len(self.array.domain)), const(0, "i64"))
            self._index[numbers] = first | dict(zip(self.order, map(Index, numbers), strict=True))
        return self._index[numbers]

    @property
    def elements(self) -> tuple[Element, ...]:
        """The array's elements in terms of loop variables."""
        key = self.needed, self.known, len(self.ensured), len(self.loops)
        if key not in self._elements:
            self._elements[key] = self._substituted()
        return self._elements[key]

    def _substituted(self) -> tuple[Element, ...]:
        index, memo = self.index, dict[Element, Element]()
        found = tuple(substitute(e, index, memo) for e in self.array.elements)
        found = assume(found, join(self.needed, self.known))
        if self.ensured and self.op is not None:
            return (*found[:-1], without(self.op, found[-1], self.ensured))
        if self.ensured and isinstance(self.array, Put):
            *indices, guard, value = found
            rest = [c for c in operands(guard, "logical_and") if c not in self.ensured]
            return (*indices, conjunction(rest), value)
        return found

    @property
    def written(self) -> tuple[Element, ...]:
        """The elements to write for the task, including reads in the bounds of its loops."""
        return (*self.elements, *(e for e in elements_of(self.ensured) if isinstance(e, Read)))

    def spares(self, depth: int, filled: bool) -> bool:
        """Whether the loop at `depth` may skip iterations that add nothing. On an axis that a sum keeps this
        skips elements, and in a scatter entries of its list on a device; this is fine if these are
        `filled`. So it skips the elements of a map that nothing reads."""
        if isinstance(self.array, Put):
            return True
        if isinstance(self.array, Map):
            return filled and bool(self.where)
        reduced = isinstance(self.array, Reduce) and self.order[depth] >= self.array.rank
        return self.op is not None and (filled or reduced)

    def conditions(self, depth: int, filled: bool) -> frozenset[Element]:
        """The conditions on the axis at `depth` under which the task adds anything, in terms of outer loops.
        The outermost loop, which is split into blocks, has no bounds."""
        if not depth or not self.spares(depth, filled):
            return frozenset()
        axis, outer = self.order[depth], self.order[:depth]
        places: dict[int, Element] = {
            k: Index(loop.number) for k, loop in zip(outer, self.loops, strict=False)
        }
        places[axis] = Index(UNNUMBERED)
        found = self.restrictions
        own = [c for c in found if axis in c.axes and c.axes <= {axis, *outer}]
        return frozenset(substitute(c, places) for c in own if bound(c, axis, frozenset(outer)) is not None)

    @property
    def restrictions(self) -> Sequence[Element]:
        """The conditions outside of which the task has nothing to compute, in terms of its axes."""
        if isinstance(self.array, Put):
            return operands(self.array.guard, "logical_and")
        return self.where if self.op is None else conditions(self.op, self.array.elements[-1])

    @property
    def guards(self) -> list[Element]:
        """The conditions outside of which the task has nothing to compute, in terms of loop variables."""
        if isinstance(self.array, Put):
            return operands(self.elements[-2], "logical_and")
        if self.op is None:
            index = self.index
            return [substitute(c, index) for c in self.where]
        return conditions(self.op, self.elements[-1])

    def named(self, names: Mapping[Node, str]) -> dict[Element, str]:
        """The names of the array's elements, in terms of loop variables."""
        index, memo = self.index, dict[Element, Element]()
        found = [e for e in elements_of(self.array.elements) if e in names]
        return {substitute(e, index, memo): names[e] for e in found}

    @property
    def kept(self) -> tuple[Element, ...]:
        """The indices of the element that the current iteration computes."""
        index = self.index
        return tuple([index[k] for k in range(self.array.rank)])

    @property
    def first_reduced(self) -> int:
        """The depth of the outermost reduction loop: 0 for scatters, the number of loops if none reduces."""
        if not isinstance(self.array, Reduce):
            return 0 if isinstance(self.array, Accumulate | Put) else len(self.order)
        return next((d for d, k in enumerate(self.order) if k >= self.array.rank), len(self.order))

    def has_loops(self, depth: int) -> bool:
        """Whether there are loops inside the one at a depth, except short ones, which are unrolled."""
        return not all(is_written_out(self.array, k) for k in self.order[depth + 1 :])

    @property
    def dropped(self) -> frozenset[int]:
        """The axes that need no storage, because no other iteration of their loops reads the value. At least
        one axis is kept."""
        axes = frozenset(self.order[: self.within])
        return axes if len(axes) < self.array.rank else frozenset()

    @property
    def in_register(self) -> bool:
        """Whether a reduction needs only one accumulator: no kept axis is inside a reduced one."""
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
    under: frozenset[Element] = frozenset()  # the conditions on its axis common to all its tasks
    needed: Conditions = ALWAYS  # what holds wherever its results are read
    shut: bool = False  # whether no other task may join it
    calls: bool = False  # whether it calls functions, and is vectorised
    scalar: bool = False  # whether it is not vectorised: it has loops inside, or adds at computed places
    streams: bool = (
        False  # whether some of it gains from vectors: it is neither read nor made at computed places
    )

    def admits(self, other: Loop) -> bool:
        """Whether tasks of a loop like `other` may run in this one."""
        alike = (self.size, self.under, self.needed) == (other.size, other.under, other.needed)
        vectors = self.calls or other.calls or self.streams or other.streams
        mixed = vectors and (self.scalar or other.scalar)
        return alike and not (self.shut or other.shut or mixed)

    def take(self, task: Task, other: Loop) -> None:
        """Add a task that asked for a loop like `other`."""
        self.tasks.append(task)
        self.calls, self.scalar = self.calls or other.calls, self.scalar or other.scalar
        self.streams = self.streams or other.streams

    def bind(self, outer: frozenset[int], filled: bool) -> None:
        """Turn conditions on the axis into bounds, here and in all inner loops (`filled`: see `spares`)."""
        if outer and all(t.spares(t.loops.index(self), filled) for t in self.tasks):
            for condition in common(t.guards for t in self.tasks):
                found = bound(condition, self.number, outer) or self.switch(condition, outer)
                if found is not None:
                    self.bounds.append(found)
                    for task in self.tasks:
                        task.ensured.append(condition)
        for item in self.body:
            if isinstance(item, Loop):
                item.bind(outer | {self.number}, filled)

    def begins(self, task: Task) -> bool:
        """Whether a reduction starts again in each iteration."""
        return task.loops.index(self) < task.first_reduced

    def switch(self, condition: Element, outer: frozenset[int]) -> Bound | None:
        """The bound by which a condition enables the loop, if no reduction is initialised inside it. A short
        loop is written out, often in vectors, which a branch would prevent."""
        begun = not any(map(self.begins, self.tasks)) and not is_short(self.size)
        return switch(condition, outer) if begun else None

    def walk(self) -> Iterator[Loop]:
        """This loop and all inner loops."""
        yield self
        for item in self.body:
            if isinstance(item, Loop):
                yield from item.walk()


@dataclass(eq=False)
class Recurrence(Task):
    """A program loop, run iteration by iteration. `array` is the first of its results, and `number` that of
    its own axis. Placeholders replace the slots of its body: `rows` the scanned arrays, `whole` the row of
    one iteration."""

    number: int = 0
    slots: tuple[Array, ...] = ()
    rows: tuple[Array, ...] = ()
    whole: tuple[Array, ...] = ()
    consts: tuple[Array, ...] = ()
    results: tuple[Array | InPlace, ...] = ()
    outs: tuple[Array, ...] = ()
    test: Array | None = None
    before: Schedule | None = None
    iteration: Schedule | None = None

    @property
    def loop(self) -> loop_node.Loop:
        """The loop."""
        assert isinstance(self.array, Item)
        return self.array.loop

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.loop.items


@dataclass
class Schedule:
    """The loop nests of a program, or of an iteration of a loop, in order."""

    body: list[Loop | Task]
    tasks: list[Task]
    needs: Needs

    def groups(self) -> Iterator[tuple[Conditions, Iterator[Loop | Task]]]:
        """The nests in order, grouped by the conditions they are needed under."""
        return groupby(self.body, lambda item: item.needed)


def tasks_of(item: Loop | Task) -> list[Task]:
    """The tasks that an item of a schedule runs."""
    return [item] if isinstance(item, Task) else item.tasks


def reads_of(task: Task) -> list[Read]:
    """The reads of a task, including its conditions; a loop or a call reads all of its operands."""
    asked = [e for e in elements_of(c for c, _ in task.needed) if isinstance(e, Read)]
    if isinstance(task, Recurrence):
        length = () if task.loop.length is None else (task.loop.length,)
        whole = [element_of(a) for a in task.loop.operands]
        return asked + whole + [e for e in elements_of(length) if isinstance(e, Read)]
    array = task.array
    if isinstance(array, Call):
        return asked + [element_of(a) for a in array.operands]
    whole = [element_of(array.base)] if isinstance(array, Put) else []
    return asked + whole + [e for e in elements_of((*array.domain, *array.elements)) if isinstance(e, Read)]


def computed(shape: Shape) -> bool:
    """Whether a length is known only while the kernel runs."""
    return any(n.axes or is_computed(n) for n in shape)


def is_divisible(loop: Loop) -> bool:
    """Whether a loop inside an iteration may be a nest that threads share."""
    long = any(not is_short(n) for t in loop.tasks for n in t.array.domain)
    return long and not computed((loop.size,)) and not adds_anywhere(loop)


def adds_anywhere(loop: Loop) -> bool:
    """Whether several iterations of a loop may add to the same element."""
    iteration = Index(loop.number)
    scatters = [t.elements[:-1] for t in loop.tasks if isinstance(t.array, Accumulate)]
    scatters += [t.elements[:-2] for t in loop.tasks if isinstance(t.array, Put)]
    return not all(any(_is_own(index, iteration) for index in indices) for indices in scatters)


def _is_own(index: Element, iteration: Index) -> bool:
    """Whether an index differs between all iterations of a loop, whatever those of the loops inside."""
    if iteration.axis not in index.axes:
        return False
    form = linear(index)
    factor = form.terms.get(iteration, 0)
    return factor != 0 and all(axis < 0 for axis in (form - linear(iteration) * factor).axes)
