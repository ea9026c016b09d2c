"""What must round alike in every kernel: sums and products there are not contracted.

The gradient of max(f(i) for i in range(n)) goes to those i where f(i) equals the maximum, and f(i) is
computed again for that, often in another kernel. The device's compiler makes one operation of a product and
a sum, rounded once, where the product has no other use: in one kernel and not in the other, so that nobody
would be equal to the maximum (`passes/exact.py` is about the same in passes). What extrema are taken of, what
is compared for equality, and all that these are made of is therefore written with operations that round on
their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from adcompiler.codegen.nests import Recurrence, Schedule, Task
from adcompiler.ir.call import Call
from adcompiler.ir.nodes import Array, Node, Read
from adcompiler.ir.walk import elements_of
from adcompiler.passes.exact import compared

CALLS = {
    "add": "add_rn({0}, {1})",
    "subtract": "sub_rn({0}, {1})",
    "multiply": "mul_rn({0}, {1})",
    "square": "mul_rn({0}, {0})",
    "divide": "div_rn({0}, {1})",
}
STEPS = {"sum": "add_rn", "prod": "mul_rn"}  # of reductions


def rounded(made: Schedule) -> set[Node]:
    """The elements of a program that are rounded on their own, and the arrays that they make."""
    tasks = list(_all_tasks(made))
    makers = {array: task for task in tasks for array in _given(task)}
    plain = (task for task in tasks if not isinstance(task, Recurrence))
    elements = [e for task in plain for e in compared(task.array, task.elements)]
    found: set[Node] = set()
    done: set[Task] = set()
    while elements:
        new = [e for e in elements_of(elements) if e not in found]
        found.update(new)
        elements = []
        pending = [makers[e.array] for e in new if isinstance(e, Read) and e.array in makers]
        while pending:
            task = pending.pop()
            if task not in done:
                done.add(task)
                found.update(task.arrays)
                elements += () if isinstance(task, Recurrence) else task.elements
                pending += _inside(task)
                pending += (makers[a] for a in _operands(task) if a in makers)
    return found


def _all_tasks(made: Schedule | None) -> Iterator[Task]:
    """The tasks of a schedule, and those of the turns of its loops."""
    for task in () if made is None else made.tasks:
        yield task
        yield from _inside(task)


def _given(task: Task) -> tuple[Array, ...]:
    """The arrays that a task gives; a loop gives its turns what stands for its operands, too."""
    if not isinstance(task, Recurrence):
        return task.arrays
    return *task.arrays, *task.slots, *task.rows, *task.whole, *task.consts


def _inside(task: Task) -> Iterator[Task]:
    """What the turns of a loop do."""
    for made in (task.before, task.turn) if isinstance(task, Recurrence) else ():
        yield from _all_tasks(made)


def _operands(task: Task) -> tuple[Array, ...]:
    """The arrays that a loop or a routine takes whole."""
    if isinstance(task, Recurrence):
        return task.loop.operands
    return task.array.operands if isinstance(task.array, Call) else ()
