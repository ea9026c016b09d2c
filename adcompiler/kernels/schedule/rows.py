"""Rows: costly values that several loops of one iteration of a nest read are computed once, into a row.

A costly part over two long axes is recomputed wherever it is read (`passes/arrays/hoist.py`): stored, it
could take more memory than all the inputs. If all readers run in the same iteration of a nest, one row for
each block is enough; only the schedule shows this. Such a part becomes an array if several loops compute it,
or one loop that contains others, where function calls are not vectorised. If several nests compute it, each
has its own array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from adcompiler.analysis.loop_order import is_short
from adcompiler.ir import loop as loop_node
from adcompiler.ir.nodes import Accumulate, Array, Element, Index, Map, Read, Reduce, Shape
from adcompiler.ir.origins import follow
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, rewrite, substitute, with_elements
from adcompiler.kernels.schedule.schedule_tree import Loop, Schedule, Task
from adcompiler.ops.costs import is_costly, is_function

WITH_ELEMENTS = (Accumulate, Map, Reduce)
T = TypeVar("T")
Arranged: TypeAlias = tuple[Schedule, T]  # a schedule, and what it was made of


class Part(NamedTuple):
    """An element within an array, and its axes, outermost first."""

    element: Element
    axes: tuple[int, ...]

    @property
    def places(self) -> dict[int, Element]:
        """Its axes in a separate array."""
        return {axis: Index(p) for p, axis in enumerate(self.axes)}


def separate(array: Array, part: Part, memo: dict[Element, Element] | None = None) -> Map:
    """A part of an array as an array of its own. Parts with the same axes may share a `memo`."""
    own = substitute(part.element, part.places, memo)
    return Map(tuple([array.domain[axis] for axis in part.axes]), own)


class Use(NamedTuple):
    """A part computed by a task of the schedule's item number `nest`."""

    nest: int
    task: Task
    part: Part


class Candidate(NamedTuple):
    """A value that may become an array and replace some uses. It may share the memory of the result
    `buffer`, and be stored along all axes but the first `dropped` ones, if not along one alone; and it is one
    of several arrays with these values if it belongs to a `nest`."""

    uses: tuple[Use, ...]
    buffer: Array | None = None
    dropped: int | None = None
    nest: int | None = None


class OfNest(Map):
    """A map of which other nests have their own."""

    __slots__ = ("nest",)
    fields = ("shape", "body", "nest")
    nest: int

    def changed(self, shape: Shape, body: Element) -> Map:
        return OfNest(shape, body, self.nest)


def uses(
    made: Schedule, parts: Callable[[Task], Iterable[Part]], bounded: bool = False
) -> dict[Map, list[Use]]:
    """The parts of the tasks of all nests, in schedule order, grouped by the separate array: equal elements
    of different lengths are none.

    Tasks whose loops have bounds are skipped unless they may be `bounded`: the array would be computed where
    it is not needed.
    """
    found: dict[Map, list[Use]] = {}
    for k, nest in enumerate(made.body):
        for task in nest.tasks if isinstance(nest, Loop) else ():
            bounds = not bounded and any(loop.bounds for loop in task.loops)
            if bounds or not isinstance(task.array, WITH_ELEMENTS):
                continue
            memos: dict[tuple[int, ...], dict[Element, Element]] = {}
            for part in parts(task):
                there = separate(task.array, part, memos.setdefault(part.axes, {}))
                found.setdefault(there, []).append(Use(k, task, part))
    return found


class Materialiser(Rewriter):
    """Turns parts of arrays into separate arrays, listed in `made`. Parts must come after the parts they
    contain."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__()
        self.parts: dict[Array, list[tuple[Part, int | None]]] = {}
        for candidate in candidates:
            for _, task, part in candidate.uses:
                self.parts.setdefault(task.array, []).append((part, candidate.nest))
        self.made: dict[tuple[Array, Part], Array] = {}
        self.copies: set[Array] = set()  # which only copy the array that has taken the place of their body

    def of(self, candidate: Candidate) -> Array:
        """The array of a candidate, as read by its buffer."""
        uses = candidate.uses
        task, part = next((u.task, u.part) for u in uses if candidate.buffer in (None, u.task.array))
        return self.made[task.array, part]

    def inner(self, loop: loop_node.Loop | Ruled) -> None:
        """Bodies of loops have no separate nests."""
        return None

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        places: dict[Element, Element] = {}
        for part, nest in self.parts.get(array, ()):
            (element,) = rewrite((self.elements[part.element],), lambda e: e, dict(places))
            shape, body = tuple(new.domain[k] for k in part.axes), substitute(element, part.places)
            own = Map(shape, body) if nest is None else OfNest(shape, body, nest)
            self.made[array, part] = own
            follow({part.element: own})
            places[self.elements[part.element]] = Read(own, tuple(Index(k) for k in part.axes))
        if not places:
            return new
        new = with_elements(new, lambda elements: rewrite(elements, lambda e: e, dict(places)))
        if isinstance(new, Map) and isinstance(new.body, Read):
            self.copies.add(new)
        return new

    def element(self, element: Element) -> Element:
        """A read of a copy is one of what it copies."""
        if isinstance(element, Read) and isinstance(element.array, Map) and element.array in self.copies:
            return substitute(element.array.body, dict(enumerate(element.args)))
        return element


def candidates(made: Schedule, roots: Collection[Array] = (), apart: bool = True) -> list[Candidate]:
    """The costly values over the outer axes of a nest and one other axis that several loops need. Those among
    `roots` are stored in full in any case; others have an array in each of several nests if they may be
    `apart`."""
    stored = {t.array: len(t.dropped) for t in made.tasks if t.stored}
    return [
        Candidate((use,), dropped=_dropped(use, stored, roots), nest=nest)
        for own, found in uses(made, _of_a_row, bounded=True).items()
        for nest, group in _by_nest(found, apart and own not in roots)
        if _is_shared(group)
        for use in group
    ]


def _by_nest(found: Sequence[Use], apart: bool) -> Iterator[tuple[int | None, Sequence[Use]]]:
    """The uses of a value, or those in each nest if there are several and they may be `apart`."""
    nests = dict.fromkeys(use.nest for use in found)
    if not apart or len(nests) == 1:
        yield None, found
        return
    for nest in nests:
        yield nest, [use for use in found if use.nest == nest]


def is_row(candidate: Candidate, array: Array, made: Schedule) -> bool:
    """Whether at most a row is stored of a candidate's array, or no more than was stored of what the value is
    computed from, and whether its loops are bounded where its readers' are."""
    most = array.rank - 1 if candidate.dropped is None else candidate.dropped
    bounded = any(_is_bounded(use.task, axis) for use in candidate.uses for axis in use.part.axes)
    return any(
        t.array is array
        and (not t.stored or len(t.dropped) >= most)
        and bounded <= any(_is_bounded(t, axis) for axis in t.order)
        for t in made.tasks
    )


def _is_bounded(task: Task, axis: int) -> bool:
    """Whether the loop over an axis has bounds."""
    return axis in task.order and bool(task.loops[task.order.index(axis)].bounds)


def confirmed(
    wanted: Sequence[Candidate],
    schedule: Callable[[Materialiser], T],
    holds: Callable[[Candidate, Materialiser, T], bool],
) -> tuple[Sequence[Candidate], Materialiser, T] | None:
    """The candidates that hold in a schedule with all of them, with that schedule; None if there are none."""
    while wanted:
        changed = Materialiser(wanted)
        again = schedule(changed)
        kept = [c for c in wanted if holds(c, changed, again)]
        if kept == wanted:
            return wanted, changed, again
        wanted = kept
    return None


def with_rows(
    roots: Sequence[Array], made: Arranged[T], schedule: Callable[[Sequence[Array]], Arranged[T]]
) -> tuple[Sequence[Array], Arranged[T]]:
    """The roots of an iteration of a loop, which `made` computes, with the rows that a schedule of them
    confirms, and that schedule."""
    known = set(arrays_of(roots))
    wanted = [c for c in candidates(made[0], roots) if all(use.task.array in known for use in c.uses)]

    def again(changed: Materialiser) -> tuple[Sequence[Array], Arranged[T]]:
        new = changed.run(roots)
        return new, schedule(new)

    found = confirmed(wanted, again, lambda c, changed, now: is_row(c, changed.of(c), now[1][0]))
    return (roots, made) if found is None else found[2]


def _dropped(use: Use, stored: Mapping[Array, int], roots: Collection[Array]) -> int | None:
    """How many axes are dropped of an array that is stored in any case: the value itself, or one in cache
    from which a function is computed point by point. As much of the function may be stored, and often takes
    its place."""
    part = use.part
    if separate(use.task.array, part) in roots:
        return 0
    if not is_function(part.element):
        return None
    places = {Index(axis) for axis in part.axes}
    reads = (e for e in elements_of((part.element,)) if isinstance(e, Read))
    plain = (r.array for r in reads if r.array.rank == len(places) and {*r.args} == places)
    return min((k for k in map(stored.get, plain) if k), default=None)


def _is_shared(found: Sequence[Use]) -> bool:
    """Whether several loops compute a value, or one that is not vectorised: it has loops inside, or adds a
    function's values at computed places."""
    loops = {use.task.loops[use.task.order.index(use.part.axes[-1])] for use in found}
    scatters = any(
        isinstance(item, Task) and isinstance(item.array, Accumulate) for p in loops for item in p.body
    )
    nested = any(isinstance(item, Loop) for loop in loops for item in loop.body)
    return len(loops) > 1 or nested or (scatters and is_function(found[0].part.element))


def _of_a_row(task: Task) -> Iterator[Part]:
    """The costly operations over outer axes and one other, which is long."""
    for e in elements_of(task.array.elements):
        axes = e.axes.intersection(task.order)  # others are those of loops around an iteration
        outer = task.order[: len(axes) - 1]
        inner = axes.difference(outer)
        if outer and len(inner) == 1 and is_costly(e):
            (axis,) = inner
            if not is_short(task.array.domain[axis]) and _is_no_longer(task, axis):
                yield Part(e, (*outer, axis))


def _is_no_longer(task: Task, axis: int) -> bool:
    """Whether a row along an axis is no longer than other arrays. A loop that scatters may run any number of
    times."""
    if not isinstance(task.array, Accumulate):
        return True
    reads = (e for e in elements_of(task.array.elements) if isinstance(e, Read))
    shapes = (task.array.shape, *(read.array.shape for read in reads))
    return any(task.array.domain[axis] is length for shape in shapes for length in shape)
