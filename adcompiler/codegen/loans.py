"""Results lend their memory to costly values that several nests need.

A costly value over a long axis, as exp(x[i] - a) where a sum and then a gradient need it, is computed again
in each nest that reads it: an array of its own costs about as much traffic as the function. But where the
last of these nests makes a result from it, element by element, the value may stand in the result's memory
until then. That memory would have come to the processor in any case, to be written.

A loan is found in a schedule, and the schedule made again must bear it out: the value is stored by a nest
before that of the result, and whatever reads it stands in nests before, or in the same turn as the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adcompiler.codegen.nests import Loop, Schedule, Task, reads_of
from adcompiler.codegen.parts import Part, Stored
from adcompiler.codegen.schedule import Style, schedule
from adcompiler.ir.nodes import Array, Element, Func, Map, Reduce
from adcompiler.ir.walk import elements_of, is_computed
from adcompiler.ops.costs import is_function

Loans = Mapping[Array, Array]  # the results in whose memory other arrays stand


def with_loans(func: Func, made: Schedule, style: Style) -> tuple[Func, Schedule, Loans]:
    """The program with arrays for values that results lend their memory to, its schedule, and the loans."""
    if not style.rows:
        return func, made, {}
    uses = _uses(made)
    results = {r for k, r in enumerate(func.results) if k not in func.adding}
    asked = {task.array: part for task, part in _borrowers(made, uses, results)}
    while asked:
        parts: dict[Array, list[Part]] = {}
        for borrowed in asked.values():
            for task, part in uses[borrowed.own]:
                parts.setdefault(task.array, []).append(part)
        changed = Stored(parts)
        new = changed.func(func)
        again = schedule(new, style)
        loans = {changed.made[array, part]: changed.arrays[array] for array, part in asked.items()}
        kept = {
            array: part for array, part in asked.items()
            if _bears_out(again, changed.made[array, part], changed.arrays[array])
        }  # fmt: skip
        if kept == asked:  # what else would have to be stored for it costs more than it saves
            return (new, again, loans) if _stored(again) == _stored(made) + len(loans) else (func, made, {})
        asked = kept
    return func, made, {}


def _stored(made: Schedule) -> int:
    """How many arrays are stored whole."""
    return sum(t.stored and not t.dropped for t in made.tasks)


def _uses(made: Schedule) -> dict[Element, list[tuple[Task, Part]]]:
    """The calls of functions over all axes of an array, by what they are in an array of their own, in the
    order of the nests."""
    found: dict[Element, list[tuple[Task, Part]]] = {}
    for nest in made.body:
        for task in nest.tasks if isinstance(nest, Loop) else ():
            for part in _parts(task):
                found.setdefault(part.own, []).append((task, part))
    return found


def _parts(task: Task) -> Iterator[Part]:
    array = task.array
    if not isinstance(array, Map | Reduce) or any(loop.bounds for loop in task.loops):
        return  # a value would be computed where it is not needed
    for e in elements_of(array.elements):
        if is_function(e) and e.axes == set(task.order):
            yield Part(e, task.order)


def _borrowers(
    made: Schedule, uses: Mapping[Element, list[tuple[Task, Part]]], results: set[Array]
) -> Iterator[tuple[Task, Part]]:
    """Results that may lend their memory, and the costliest value that an earlier nest has too."""
    nests = {task: k for k, nest in enumerate(made.body) if isinstance(nest, Loop) for task in nest.tasks}
    taken: set[Element] = set()
    for task in nests:
        array = task.array
        whole = array in results and task.order == tuple(range(array.rank))
        if not (whole and isinstance(array, Map)) or any(map(is_computed, array.shape)):
            continue
        shared = [
            part for part in _parts(task)
            if part.element.dtype == array.dtype and part.own not in taken
            and nests[uses[part.own][0][0]] < nests[task] == nests[uses[part.own][-1][0]]
        ]  # fmt: skip
        if shared:
            best = max(shared, key=lambda part: sum(map(is_function, elements_of((part.element,)))))
            taken |= set(elements_of((best.own,)))
            yield task, best


def _bears_out(made: Schedule, value: Array, result: Array) -> bool:
    """Whether the value is stored whole, and nobody reads it once the result is in its place."""
    nests = {task: k for k, nest in enumerate(made.body) if isinstance(nest, Loop) for task in nest.tasks}
    by_array = {task.array: task for task in made.tasks}
    own, last = by_array.get(value), by_array.get(result)
    if own is None or last is None or not own.stored or own.dropped or own not in nests:
        return False
    readers = [t for t in made.tasks if any(read.array is value for read in reads_of(t))]
    return nests[own] < nests[last] and all(
        t.loops == last.loops if nests.get(t) == nests[last] else nests.get(t, nests[last]) < nests[last]
        for t in readers
    )
