"""Buffer reuse: results lend their memory to costly values that several nests need.

A costly value over a long axis, as exp(x[i] - a) where a sum and then a gradient need it, is computed again
in each nest that reads it: an array of its own costs about as much traffic as the function. But where the
last of these nests makes a result from it, element by element, the value may stand in the result's memory
until then. That memory would have come to the processor in any case, to be written.

The value must be stored by a nest before that of the result, and whatever reads it stand in nests before, or
in the same iteration as the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from adcompiler.ir.nodes import Array, Element, Func, Map
from adcompiler.ir.walk import elements_of, is_computed
from adcompiler.kernels.schedule.parts import Candidate, Part, Use, uses
from adcompiler.kernels.schedule.schedule import Style
from adcompiler.kernels.schedule.schedule_tree import Loop, Schedule, Task, reads_of
from adcompiler.ops.costs import is_function


class Loans:
    """Values that stand in the memory of a result until it is made."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """For each result that may lend its memory the costliest value that an earlier nest has too."""
        results = {r for k, r in enumerate(func.results) if k not in func.adding}
        return list(_lent(made, uses(made, _parts), results)) if style.rows else []

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Whether the value is stored whole, and nobody reads it once the result is in its place."""
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
        """Whether nothing else has to be stored for it: that would cost more than it saves."""
        return _stored(after) == _stored(before) + count


def _stored(made: Schedule) -> int:
    """How many arrays are stored whole."""
    return sum(t.stored and not t.dropped for t in made.tasks)


def _parts(task: Task) -> Iterator[Part]:
    """The calls of functions over all axes of an array."""
    for e in elements_of(task.array.elements):
        if is_function(e) and e.axes == set(task.order):
            yield Part(e, task.order)


def _lent(
    made: Schedule, found: Mapping[Element, Sequence[Use]], results: AbstractSet[Array]
) -> Iterator[Candidate]:
    taken: set[Element] = set()
    for k, nest in enumerate(made.body):
        for task in nest.tasks if isinstance(nest, Loop) else ():
            if task.array not in results or not _is_whole(task):
                continue
            shared = [
                own for own in (part.own for part in _parts(task))
                if own.dtype == task.array.dtype and own not in taken
                and (use := found.get(own)) and use[0].nest < k == use[-1].nest
            ]  # fmt: skip
            if shared:
                best = max(shared, key=lambda own: sum(map(is_function, elements_of((own,)))))
                taken |= set(elements_of((best,)))
                yield Candidate(tuple(found[best]), task.array)


def _is_whole(task: Task) -> bool:
    """Whether a task makes a map element by element, in the order of its axes and of known lengths."""
    array = task.array
    in_order = isinstance(array, Map) and task.order == tuple(range(array.rank))
    return in_order and not any(map(is_computed, array.shape))
