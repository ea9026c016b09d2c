"""Elements of a schedule that are computed without contraction: all operands of strict values.

A product and a sum in one expression become one fused operation, but not if the product is an array that
another loop has stored. Two kernels could then compute values of one expression that differ in the last bit.
Below the marks of `passes/algebra/strict.py`, products are therefore intrinsics with their own rounding.
Parts of strict values that later passes turned into arrays (hoisted, stored, scanned) are found through the
tasks that compute them. Values that are not repeatable, such as sums and results of loops, are computed by
one task: the search stops there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adcompiler.analysis.predicates import join
from adcompiler.ir.nodes import Array, Element, Read
from adcompiler.ir.walk import elements_of
from adcompiler.kernels.schedule.schedule_tree import Recurrence, Schedule, Task
from adcompiler.ops.decisions import is_repeatable
from adcompiler.passes.algebra.strict import is_strict


def uncontracted(made: Schedule) -> tuple[set[Element], set[Task]]:
    """The elements of a program below the marks of strict values, and the tasks that compute nothing else."""
    tasks = list(_all_tasks(made))
    makers = {array: task for task in tasks for array in _given(task)}
    pending = [e for task in tasks for e in _elements(task) if is_strict(e)]
    found: set[Element] = set()
    done: set[Task] = set()
    whole: set[Task] = set()
    while pending:
        below = [e for e in elements_of(pending) if e not in found]
        found.update(below)
        pending = []
        readers = [makers[e.array] for e in below if isinstance(e, Read) and e.array in makers]
        while readers:
            task = readers.pop()
            if task in done:
                continue
            done.add(task)
            if isinstance(task, Recurrence):  # one of its slots
                readers += (makers[a] for a in task.loop.operands if a in makers)
            elif is_repeatable(task.array):
                pending += task.elements
                whole.add(task)
    return found, whole


def uncontracted_in(elements: Iterable[Element], whole: bool) -> set[Element]:
    """Those among elements that a task computes in one place, such as those that conditions leave there; all
    of them if `whole`."""
    found = elements_of(tuple(elements))
    return set(found if whole else elements_of(tuple(e for e in found if is_strict(e))))


def _elements(task: Task) -> Iterable[Element]:
    """The elements that a task computes, with the conditions that bounds and branches around them ensure."""
    if isinstance(task, Recurrence):
        return ()
    return elements_of((*task.elements, *task.ensured, *(c for c, _ in join(task.needed, task.known))))


def _all_tasks(made: Schedule | None) -> Iterator[Task]:
    """The tasks of a schedule, and those of the iterations of its loops."""
    for task in () if made is None else made.tasks:
        yield task
        for body in (task.before, task.iteration) if isinstance(task, Recurrence) else ():
            yield from _all_tasks(body)


def _given(task: Task) -> tuple[Array, ...]:
    """The arrays that a task computes; for a loop, the placeholders of its operands in its body."""
    if not isinstance(task, Recurrence):
        return task.arrays
    return *task.slots, *task.rows, *task.whole, *task.consts
