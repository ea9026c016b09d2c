"""Materialise values that several nests need, where computing them again takes longer.

For a function or two that costs no more than an array does, which is written and read. But where sums over
all points stand between layers, as in y = f(y, sum(y)) again and again, each nest would compute all layers
before it: time, and text, would grow with the square of their number.

No array is made that is larger than those which a nest reads: what a loop over pairs makes of points is
computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from adcompiler.ir.nodes import Apply, Array, Element, Func, Index, Read, Select
from adcompiler.ir.walk import elements_of, is_computed, postorder
from adcompiler.kernels.schedule.parts import Candidate, Part, Use, uses
from adcompiler.kernels.schedule.schedule import Style
from adcompiler.kernels.schedule.schedule_tree import Schedule, Task
from adcompiler.ops.costs import nanoseconds


class Recomputed:
    """Values that nests would compute again and again."""

    def candidates(self, func: Func, made: Schedule, style: Style) -> Sequence[Candidate]:
        """The values whose computation takes longer than accesses to memory, smaller ones first."""
        return [Candidate(tuple(found)) for found in _chosen(uses(made, _parts), style)]

    def holds(self, candidate: Candidate, array: Array, result: Array | None, made: Schedule) -> bool:
        """Wherever it is stored, it is not computed again."""
        return True

    def pays(self, before: Schedule, after: Schedule, count: int) -> bool:
        """The candidates were chosen by times."""
        return True


def _parts(task: Task) -> Iterator[Part]:
    """The operations over all axes of an array, those before that others are made of."""
    if not task.order or any(map(is_computed, task.array.domain)):
        return
    for e in elements_of(task.array.elements):
        if isinstance(e, Apply | Select) and e.axes == set(task.order):
            yield Part(e, task.order)


def _chosen(found: Mapping[Element, Sequence[Use]], style: Style) -> Iterator[Sequence[Use]]:
    """The uses of each value that is stored, smaller values first."""
    nests = {own: {use.nest for use in of} for own, of in found.items()}
    inner = {a for own, where in nests.items() for a in own.args if nests.get(a) == where}
    stored: set[Element] = set()
    for own, where in nests.items():
        if len(where) < 2 or own in inner or not _is_small(own):
            continue
        again = postorder((own,), lambda e: () if e in stored else e.args)
        time = sum(nanoseconds(e) for e in again if isinstance(e, Apply | Select) and e not in stored)
        if time * (len(where) - 1) > style.access * (len(where) + 1):
            stored.add(own)
            yield found[own]


def _is_small(own: Element) -> bool:
    """Whether an array of a value is no larger than one that it is made of."""
    reads = (e for e in elements_of((own,)) if isinstance(e, Read))
    plain = ({i.axis for i in r.args if isinstance(i, Index)} for r in reads)
    return len(own.axes) == 1 or any(axes == own.axes for axes in plain)
