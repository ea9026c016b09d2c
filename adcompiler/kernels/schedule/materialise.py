"""Materialisation: which values of loop nests become arrays, decided on a schedule, before emission.

Passes inline the bodies of arrays where they are read (`passes/arrays/inline.py`), so a nest computes
everything from inputs and sums. Only the schedule shows where this repeats work. Candidates found in it
become arrays, and the program is scheduled again; candidates that the new schedule does not confirm are
inlined again. In order: rows of one iteration of a nest, values that take longer to recompute than to read,
and values in the memory of results.

Bodies of program loops are left unchanged: an iteration has no separate nests, except those that threads
share, and a value of one iteration is in cache when the next statement reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from adcompiler.analysis.loop_order import is_short
from adcompiler.ir import loop as loop_node
from adcompiler.ir.nodes import Apply, Array, Element, Func, Index, Map, Read, Reduce, Select
from adcompiler.ir.origins import follow
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import (
    Rewriter,
    elements_of,
    is_computed,
    is_small,
    postorder,
    rewrite,
    substitute,
    with_elements,
)
from adcompiler.kernels.schedule.schedule import CPU, Style, schedule
from adcompiler.kernels.schedule.schedule_tree import Loop, Schedule, Task, reads_of
from adcompiler.ops.costs import is_costly, is_function, nanoseconds


class Part(NamedTuple):
    """An element within an array, and its axes, outermost first."""

    element: Element
    axes: tuple[int, ...]

    @property
    def places(self) -> dict[int, Element]:
        """Its axes in a separate array."""
        return {axis: Index(p) for p, axis in enumerate(self.axes)}

    @property
    def own(self) -> Element:
        """The element of a separate array."""
        return substitute(self.element, self.places)


class Use(NamedTuple):
    """A part computed by a task of the schedule's item number `nest`."""

    nest: int
    task: Task
    part: Part


class Candidate(NamedTuple):
    """A value that may become an array and replace some uses. It may share the memory of the result
    `buffer`, and be stored along all axes but the first `dropped` ones, if not along one alone."""

    uses: tuple[Use, ...]
    buffer: Array | None = None
    dropped: int | None = None


def uses(made: Schedule, parts: Callable[[Task], Iterable[Part]]) -> dict[Element, list[Use]]:
    """The parts of the tasks of all nests, in schedule order, grouped by the element of the separate array.

    Tasks whose loops have bounds are skipped: the array would be computed where it is not needed.
    """
    found: dict[Element, list[Use]] = {}
    for k, nest in enumerate(made.body):
        for task in nest.tasks if isinstance(nest, Loop) else ():
            if not isinstance(task.array, Map | Reduce) or any(loop.bounds for loop in task.loops):
                continue
            memos: dict[tuple[int, ...], dict[Element, Element]] = {}
            for part in parts(task):
                own = substitute(part.element, part.places, memos.setdefault(part.axes, {}))
                found.setdefault(own, []).append(Use(k, task, part))
    return found


class Materialiser(Rewriter):
    """Turns parts of arrays into separate arrays, listed in `made`. Parts must come after the parts they
    contain."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__()
        self.parts: dict[Array, list[Part]] = {}
        for candidate in candidates:
            for _, task, part in candidate.uses:
                self.parts.setdefault(task.array, []).append(part)
        self.made: dict[tuple[Array, Part], Array] = {}

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
        for part in self.parts.get(array, ()):
            (element,) = rewrite((self.elements[part.element],), lambda e: e, dict(places))
            own = Map(tuple(new.domain[k] for k in part.axes), substitute(element, part.places))
            self.made[array, part] = own
            follow({part.element: own})
            places[self.elements[part.element]] = Read(own, tuple(Index(k) for k in part.axes))
        if not places:
            return new
        return with_elements(new, lambda elements: rewrite(elements, lambda e: e, dict(places)))


# -- scratchpads -------------------------------------------------------------------------------------
# Scratchpads: costly values that several loops of one iteration of a nest read are computed once, into
# a row.
#
# A costly part over two long axes is recomputed wherever it is read (`passes/arrays/hoist.py`): stored,
# it could take more memory than all the inputs. If all readers run in the same iteration of a nest, one
# row per block is enough; only the schedule shows this. Such a part becomes an array if several loops
# compute it, or one loop that contains others, where function calls are not vectorised.


class Rows:
    """Values stored as rows shared within one iteration of the loops around."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """The costly values over the outer axes of a nest and one other axis that several loops need."""
        shared = filter(_is_shared, uses(made, _of_a_row).values() if style.rows else ())
        stored = {t.array: len(t.dropped) for t in made.tasks if t.stored}
        return [
            Candidate((use,), dropped=_dropped_below(use.part, stored)) for found in shared for use in found
        ]

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Whether at most a row is stored, or no more than was stored of what the value is computed from."""
        most = array.rank - 1 if candidate.dropped is None else candidate.dropped
        return any(t.array is array and (not t.stored or len(t.dropped) >= most) for t in made.tasks)

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """Always: a row is in cache."""
        return True


def _dropped_below(part: Part, stored: Mapping[Array, int]) -> int | None:
    """How many axes are dropped of an array in cache from which a function is computed point by point: as
    much of the function may be stored, and often takes its place."""
    if not is_function(part.element):
        return None
    places = {Index(axis) for axis in part.axes}
    reads = (e for e in elements_of((part.element,)) if isinstance(e, Read))
    plain = (r.array for r in reads if r.array.rank == len(places) and {*r.args} == places)
    return min((k for k in map(stored.get, plain) if k), default=None)


def _is_shared(found: Sequence[Use]) -> bool:
    """Whether several loops compute a value, or one with loops inside."""
    loops = {use.task.loops[use.task.order.index(use.part.axes[-1])] for use in found}
    return len(loops) > 1 or any(isinstance(item, Loop) for loop in loops for item in loop.body)


def _of_a_row(task: Task) -> Iterator[Part]:
    """The costly operations over outer axes and one other, which is long."""
    for e in elements_of(task.array.elements):
        outer = task.order[: len(e.axes) - 1]
        inner = e.axes.difference(outer)
        if outer and len(inner) == 1 and is_costly(e):
            (axis,) = inner
            if not is_short(task.array.domain[axis]):
                yield Part(e, (*outer, axis))


# -- recomputation -----------------------------------------------------------------------------------
# Materialise values that several nests need, if recomputing them takes longer.
#
# One or two function calls cost no more than writing and reading an array. But if sums over all points
# separate layers, as in repeated y = f(y, sum(y)), each nest would recompute all earlier layers: time
# and code size would grow quadratically.
#
# No array larger than those that the nest reads is made: values over pairs of points are recomputed.


class Recomputed:
    """Values that several nests would recompute."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """The values that take longer to compute than to load, smaller ones first."""
        return [Candidate(tuple(found)) for found in _chosen(uses(made, _repeated), style)]

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Always: a stored value is never recomputed."""
        return True

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """Always: candidates were chosen by time."""
        return True


def _repeated(task: Task) -> Iterator[Part]:
    """The operations over all axes of an array, operands first."""
    if not task.order or any(map(is_computed, task.array.domain)):
        return
    for e in elements_of(task.array.elements):
        if isinstance(e, Apply | Select) and e.axes == set(task.order):
            yield Part(e, task.order)


def _chosen(found: Mapping[Element, Sequence[Use]], style: Style) -> Iterator[Sequence[Use]]:
    """The uses of each value to store, smaller values first."""
    nests = {own: {use.nest for use in of} for own, of in found.items()}
    inner = {a for own, where in nests.items() for a in own.args if nests.get(a) == where}
    stored: set[Element] = set()
    for own, where in nests.items():
        if len(where) < 2 or own in inner or not is_small(own):
            continue
        again = postorder((own,), lambda e: () if e in stored else e.args)
        time = sum(nanoseconds(e) for e in again if isinstance(e, Apply | Select) and e not in stored)
        if time * (len(where) - 1) > style.access * (len(where) + 1):
            stored.add(own)
            yield found[own]


# -- buffer reuse ------------------------------------------------------------------------------------
# Buffer reuse: costly values that several nests need are stored in the memory of results.
#
# A costly value over a long axis, such as exp(x[i] - a) that a sum and then a gradient need, is recomputed
# in each nest that reads it: a separate array costs about as much traffic as the function. But if the
# last of these nests computes a result from it element by element, the result's memory can hold the
# value until then. That memory is loaded to be written in any case.
#
# An earlier nest than the result's must store the value, and all readers must run in earlier nests or in
# the same iteration as the result.


class BufferReuse:
    """Values held in the memory of a result until it is computed."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """For each result with usable memory, the costliest value that an earlier nest also computes."""
        results = {r for k, r in enumerate(func.results) if k not in func.adding}
        return list(_in_results(made, uses(made, _reusable), results)) if style.rows else []

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Whether the value is stored in full, and nothing reads it after the result overwrites it."""
        nests = {task: k for k, nest in enumerate(made.body) if isinstance(nest, Loop) for task in nest.tasks}
        by_array = {task.array: task for task in made.tasks}
        own, last = by_array.get(array), by_array.get(result) if result is not None else None
        if own is None or last is None or not own.stored or own.dropped or own not in nests:
            return False
        readers = [t for t in made.tasks if any(read.array is array for read in reads_of(t))]
        return nests[own] < nests[last] and all(
            t.loops == last.loops if nests.get(t) == nests[last] else nests.get(t, nests[last]) < nests[last]
            for t in readers
        )

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """Whether nothing else must be stored for it, which would cost more than it saves."""
        return _stored(after) == _stored(before) + count


def _stored(made: Schedule) -> int:
    """The number of arrays stored in full."""
    return sum(t.stored and not t.dropped for t in made.tasks)


def _reusable(task: Task) -> Iterator[Part]:
    """The calls of functions over all axes of an array."""
    for e in elements_of(task.array.elements):
        if is_function(e) and e.axes == set(task.order):
            yield Part(e, task.order)


def _in_results(
    made: Schedule, found: Mapping[Element, Sequence[Use]], results: AbstractSet[Array]
) -> Iterator[Candidate]:
    taken: set[Element] = set()
    for k, nest in enumerate(made.body):
        for task in nest.tasks if isinstance(nest, Loop) else ():
            if task.array not in results or not _is_whole(task):
                continue
            shared = [
                own for own in (part.own for part in _reusable(task))
                if own.dtype == task.array.dtype and own not in taken
                and (use := found.get(own)) and use[0].nest < k == use[-1].nest
            ]  # fmt: skip
            if shared:
                best = max(shared, key=lambda own: sum(map(is_function, elements_of((own,)))))
                taken |= set(elements_of((best,)))
                yield Candidate(tuple(found[best]), task.array)


def _is_whole(task: Task) -> bool:
    """Whether a task computes a map element by element, in the order of its axes, with known lengths."""
    array = task.array
    in_order = isinstance(array, Map) and task.order == tuple(range(array.rank))
    return in_order and not any(map(is_computed, array.shape))


@dataclass(frozen=True)
class Scheduled:
    """A program ready for emission: the program with materialised arrays, its loop nests, and the arrays held
    in the memory of results."""

    func: Func
    schedule: Schedule
    buffers: Mapping[Array, Array] = field(default_factory=dict)


class Reason(Protocol):
    """A reason to materialise values."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """The values that may become arrays."""
        ...

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Whether a schedule with all candidates confirms one. `array` is its array there, and `result` its
        buffer."""
        ...

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """Whether the schedule with `count` candidates is better than the one without."""
        ...


REASONS: tuple[Reason, ...] = (Rows(), Recomputed(), BufferReuse())


def scheduled(func: Func, style: Style = CPU) -> Scheduled:
    """The program in loop nests, with values materialised where it pays."""
    made = Scheduled(func, schedule(func, style))
    for reason in REASONS:
        made = materialised(made, reason, style)
    return made


def materialised(made: Scheduled, reason: Reason, style: Style) -> Scheduled:
    """The program with arrays for the candidates of one kind that the new schedule confirms."""
    wanted = list(reason.candidates(made.func, made.schedule, style))
    while wanted:
        changed = Materialiser(wanted)
        func = changed.func(made.func)
        again = schedule(func, style)
        results_of = {c: None if c.buffer is None else changed.arrays[c.buffer] for c in wanted}
        kept = [c for c in wanted if reason.holds(c, changed.of(c), results_of[c], again)]
        if kept == wanted:
            buffers = {changed.of(c): result for c, result in results_of.items() if result is not None}
            return Scheduled(func, again, buffers) if reason.pays(made.schedule, again, len(wanted)) else made
        wanted = kept
    return made
