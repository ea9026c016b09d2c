"""Materialisation: which values of loop nests become arrays, decided on a schedule, before emission.

Passes inline the bodies of arrays where they are read (`passes/arrays/inline.py`), so a nest computes
everything from inputs and sums. Only the schedule shows where this repeats work. Candidates found in it
become arrays, and the program is scheduled again; candidates that the new schedule does not confirm are
inlined again. In order: rows of one iteration of a nest, values that take longer to recompute than to read,
rows of each of several nests and again what these compute, and values in the memory of results.

Bodies of program loops have rows alone (`_recurrence` in `schedule.py`): an iteration has no separate nests,
except those that threads share, and a value of one iteration is in cache when the next statement reads it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Protocol

from adcompiler.analysis.puts import Dissolved
from adcompiler.ir.nodes import Apply, Array, Element, Func, Map, Read, Select, Shape
from adcompiler.ir.walk import (
    elements_of,
    is_computed,
    is_small,
    postorder,
)
from adcompiler.kernels.limits import MOST_ROUNDS
from adcompiler.kernels.schedule import rows
from adcompiler.kernels.schedule.rows import Candidate, Materialiser, Part, Use, uses
from adcompiler.kernels.schedule.schedule import CPU, Style, schedule
from adcompiler.kernels.schedule.schedule_tree import Loop, Schedule, Task, reads_of
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.costs import is_function, nanoseconds


class Rows:
    """Values stored as rows shared within one iteration of the loops around: those of one nest, or those of
    which each nest has its own (`apart`)."""

    def __init__(self, apart: bool = False) -> None:
        self.apart = apart

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """The costly values that several loops of an iteration need, if a block has an order."""
        return rows.candidates(made, apart=self.apart) if style.rows else ()

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Whether a row is enough."""
        return rows.is_row(candidate, array, made)

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """Always: a row is in cache."""
        return True


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
        stored = {t.array for t in made.tasks if _is_stored(t)}
        found = uses(made, lambda task: _repeated(task, stored))
        return [Candidate(tuple(of)) for of in _chosen(found, stored, style)]

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Always: a stored value is never recomputed."""
        return True

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """Always: candidates were chosen by time."""
        return True


def _repeated(task: Task, stored: Collection[Array]) -> Iterator[Part]:
    """The operations over all axes of an array, operands first, and those over some that are stored."""
    if not task.order or any(map(is_computed, task.array.domain)):
        return
    ranks, whole = {array.rank for array in stored}, frozenset(task.order)
    memos: dict[tuple[int, ...], dict[Element, Element]] = {}
    for e in elements_of(task.array.elements):
        if not isinstance(e, Apply | Select) or not e.axes:
            continue
        part = Part(e, tuple([axis for axis in task.order if axis in e.axes]))
        memo = memos.setdefault(part.axes, {})
        if e.axes == whole or (len(e.axes) in ranks and rows.separate(task.array, part, memo) in stored):
            yield part


def _chosen(
    found: Mapping[Map, Sequence[Use]], made: Collection[Array], style: Style
) -> Iterator[Sequence[Use]]:
    """The uses of each value to store, or to read from the arrays `made`, smaller values first."""
    nests = {own: {use.nest for use in of} for own, of in found.items()}
    inner = {
        part for own, where in nests.items() for e in own.body.args
        if nests.get(part := Map(own.shape, e)) == where
    }  # fmt: skip
    stored: dict[Shape, set[Element]] = defaultdict(set)
    for own, where in nests.items():
        if len(where) < 2 or own in inner or not (own in made or is_small(own.body)):
            continue
        loaded = stored[own.shape]
        time = _nanoseconds(own.body, loaded, style)
        readers = [use for use in found[own] if not (use.task.array is own and own in made)]
        if own in made:
            pays = time >= style.access
        else:
            pays = time * (len(where) - 1) > style.access * (len(where) + 1)
        if pays and readers:
            loaded.add(own.body)
            yield readers


def _nanoseconds(element: Element, loaded: Collection[Element], style: Style) -> float:
    """The nominal time of the operations at each point of an element, and of its reads at places that other
    arrays hold, but those of values that are loaded."""
    time = 0.0
    for e in postorder((element,), lambda e: () if e in loaded else e.args):
        if e.axes == element.axes and e not in loaded:
            if isinstance(e, Apply | Select):
                time += nanoseconds(e)
            elif isinstance(e, Read) and any(map(is_computed, e.args)):
                time += style.access
    return time


def _is_stored(task: Task) -> bool:
    """Whether an array is stored as a whole in any case: others read its elements from there."""
    whole = task.stored and not task.dropped and task.order == tuple(range(task.array.rank))
    return whole and isinstance(task.array, Map)


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
    made: Schedule, found: Mapping[Map, Sequence[Use]], results: AbstractSet[Array]
) -> Iterator[Candidate]:
    taken: set[Element] = set()
    for k, nest in enumerate(made.body):
        for task in nest.tasks if isinstance(nest, Loop) else ():
            if task.array not in results or not _is_whole(task):
                continue
            shared = [
                own for own in (rows.separate(task.array, part) for part in _reusable(task))
                if own.dtype == task.array.dtype and own.body not in taken
                and (use := found.get(own)) and use[0].nest < k == use[-1].nest
            ]  # fmt: skip
            if shared:
                best = max(shared, key=lambda own: sum(map(is_function, elements_of((own.body,)))))
                taken |= set(elements_of((best.body,)))
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


REASONS: tuple[Reason, ...] = (Rows(), Recomputed(), Rows(apart=True), Recomputed(), BufferReuse())


def scheduled(func: Func, style: Style = CPU) -> Scheduled:
    """The program in loop nests, with values materialised where it pays."""
    if not style.rows:
        func = Dissolved().func(func)
    made = Scheduled(func, schedule(func, style))
    for reason in REASONS:
        for _ in range(MOST_ROUNDS if isinstance(reason, Recomputed) else 1):
            before, made = made, materialised(made, reason, style)
            if made is before:
                break
    return made


def materialised(made: Scheduled, reason: Reason, style: Style) -> Scheduled:
    """The program with arrays for the candidates of one kind that the new schedule confirms."""
    wanted = list(reason.candidates(made.func, made.schedule, style))

    def again(changed: Materialiser) -> tuple[Func, Schedule]:
        func = changed.func(made.func)
        return func, schedule(func, style)

    def result(candidate: Candidate, changed: Materialiser) -> Array | None:
        return None if candidate.buffer is None else changed.arrays[candidate.buffer]

    def holds(candidate: Candidate, changed: Materialiser, now: tuple[Func, Schedule]) -> bool:
        return reason.holds(candidate, changed.of(candidate), result(candidate, changed), now[1])

    found = rows.confirmed(wanted, again, holds)
    if found is None:
        return made
    kept, changed, (func, after) = found
    buffers = {changed.of(c): array for c in kept if (array := result(c, changed)) is not None}
    return Scheduled(func, after, buffers) if reason.pays(made.schedule, after, len(kept)) else made
