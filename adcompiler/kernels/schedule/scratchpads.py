"""Scratchpads: costly values that several loops of one iteration of a nest read are computed once, into a
row.

A costly part over two long axes is computed again wherever it is read (`passes/arrays/hoist.py`): stored, it
may take more memory than all the inputs. But where all that reads it stands in the same iteration of a nest
it takes one row a block, and that is known once there is a schedule. Such a part becomes an array if several
loops compute it, or one that has loops inside, beside which mathematics is not vectorised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adcompiler.analysis.loop_order import is_short
from adcompiler.ir.nodes import Array, Func
from adcompiler.ir.walk import elements_of
from adcompiler.kernels.schedule.parts import Candidate, Part, Use, uses
from adcompiler.kernels.schedule.schedule import Style
from adcompiler.kernels.schedule.schedule_tree import Loop, Schedule, Task
from adcompiler.ops.costs import is_function


class Rows:
    """Values that are rows which their nest shares."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """The costly values over the axis of a nest and one other that loops share."""
        shared = filter(_is_shared, uses(made, _parts).values() if style.rows else ())
        return [Candidate((use,)) for found in shared for use in found]

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Whether no more than a row is stored."""
        return any(t.array is array and (t.dropped or not t.stored) for t in made.tasks)

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """A row is in the cache."""
        return True


def _is_shared(found: Sequence[Use]) -> bool:
    """Whether several loops compute a value, or one with loops inside."""
    loops = {use.task.loops[use.task.order.index(use.part.axes[1])] for use in found}
    return len(loops) > 1 or any(isinstance(item, Loop) for loop in loops for item in loop.body)


def _parts(task: Task) -> Iterator[Part]:
    """The costly operations over the axis of a nest and one other, both of them long."""
    if len(task.order) < 2:
        return
    outer, *others = task.order
    long = {k for k in others if not is_short(task.array.domain[k])}
    for e in elements_of(task.array.elements):
        if is_function(e) and outer in e.axes and len(e.axes) == 2:
            (inner,) = e.axes - {outer}
            if inner in long:
                yield Part(e, (outer, inner))
