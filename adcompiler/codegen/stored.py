"""Values that several nests need are stored where computing them again takes longer.

`passes/inline.py` puts the bodies of arrays where they are read, so that a nest computes all that it needs
from inputs and sums, and what nests have in common is computed in each of them. For a function or two that
costs no more than an array does, which is written and read. But where sums over all points stand between
layers, as in y = f(y, sum(y)) again and again, each nest would compute all layers before it: time, and text,
would grow with the square of their number.

No array is made that is larger than those which a nest reads: what a loop over pairs makes of points is
computed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from adcompiler.codegen.nests import Loop, Schedule, Task
from adcompiler.codegen.parts import Part, Stored
from adcompiler.codegen.schedule import Style, schedule
from adcompiler.ir.nodes import Apply, Array, Element, Func, Index, Map, Read, Reduce, Select
from adcompiler.ir.walk import elements_of, is_computed, postorder, substitute
from adcompiler.ops.costs import nanoseconds

# By what a part is in an array of its own: the nests, and their tasks, that have it.
Uses = dict[Element, list[tuple[int, Task, Part]]]


def with_stored(func: Func, made: Schedule, style: Style) -> tuple[Func, Schedule]:
    """The program with arrays for values that its nests would compute again and again, and its schedule."""
    parts: dict[Array, list[Part]] = {}
    for uses in _chosen(_uses(made), style):
        for _, task, part in uses:
            parts.setdefault(task.array, []).append(part)
    if not parts:
        return func, made
    new = Stored(parts).func(func)
    return new, schedule(new, style)


def _uses(made: Schedule) -> Uses:
    """The operations over all axes of arrays, those before that others are made of."""
    found: Uses = {}
    for k, nest in enumerate(made.body):
        for task in nest.tasks if isinstance(nest, Loop) else ():
            for own, part in _parts(task):
                found.setdefault(own, []).append((k, task, part))
    return found


def _parts(task: Task) -> Iterator[tuple[Element, Part]]:
    array = task.array
    if not isinstance(array, Map | Reduce) or any(loop.bounds for loop in task.loops):
        return  # a value would be computed where it is not needed
    if not task.order or any(map(is_computed, array.domain)):
        return
    places: dict[int, Element] = {axis: Index(p) for p, axis in enumerate(task.order)}
    memo: dict[Element, Element] = {}
    for e in elements_of(array.elements):
        if isinstance(e, Apply | Select) and e.axes == set(task.order):
            yield substitute(e, places, memo), Part(e, task.order)


def _chosen(uses: Uses, style: Style) -> Iterator[list[tuple[int, Task, Part]]]:
    """The uses of each value that is stored, smaller values first."""
    nests = {own: {k for k, _, _ in found} for own, found in uses.items()}
    inner = {a for own, where in nests.items() for a in own.args if nests.get(a) == where}
    stored: set[Element] = set()
    for own, where in nests.items():
        if len(where) < 2 or own in inner or not _is_small(own):
            continue
        again = postorder((own,), lambda e: () if e in stored else e.args)
        time = sum(nanoseconds(e) for e in again if isinstance(e, Apply | Select) and e not in stored)
        if time * (len(where) - 1) > style.access * (len(where) + 1):
            stored.add(own)
            yield uses[own]


def _is_small(own: Element) -> bool:
    """Whether an array of a value is no larger than one that it is made of."""
    reads = (e for e in elements_of((own,)) if isinstance(e, Read))
    plain = ({i.axis for i in r.args if isinstance(i, Index)} for r in reads)
    return len(own.axes) == 1 or any(axes == own.axes for axes in plain)
