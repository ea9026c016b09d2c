"""Costly values that several loops of a turn read are computed once, into a row.

A costly part over two long axes is computed again wherever it is read (`passes/hoist.py`): stored, it may
take more memory than all the inputs. But where all that reads it stands in the same turn of a nest it takes
one row a block, and that is known once there is a schedule. Such a part becomes an array if several loops
compute it, or one that has loops inside, beside which mathematics is not vectorised.
"""

from __future__ import annotations

from collections.abc import Iterator

from adcompiler.codegen.nests import Loop, Schedule, Task
from adcompiler.codegen.parts import Part, Stored
from adcompiler.codegen.schedule import CPU, Style, schedule
from adcompiler.ir.nodes import Array, Element, Func, Map, Reduce
from adcompiler.ir.walk import elements_of
from adcompiler.ops.costs import is_function
from adcompiler.passes.loops import is_short


def with_rows(func: Func, style: Style = CPU) -> tuple[Func, Schedule]:
    """The program with arrays for the rows that its nests share, and its schedule."""
    made = schedule(func, style)
    parts = _shared(made) if style.rows else {}
    while parts:
        changed = Stored(parts)
        new = changed.func(func)
        again = schedule(new, style)
        short = {t.array for t in again.tasks if t.dropped or not t.stored}
        kept = {a: [p for p in found if changed.made[a, p] in short] for a, found in parts.items()}
        if kept == parts:
            return new, again
        parts = {a: found for a, found in kept.items() if found}
    return func, made


def _shared(made: Schedule) -> dict[Array, list[Part]]:
    """The parts of arrays that are rows which their nest shares."""
    found: dict[Element, list[tuple[Array, Part, Loop]]] = {}
    for nest in made.body:
        for task in nest.tasks if isinstance(nest, Loop) else ():
            for part in _parts(task):
                loop = task.loops[task.order.index(part.axes[1])]
                found.setdefault(part.own, []).append((task.array, part, loop))
    parts: dict[Array, list[Part]] = {}
    for uses in found.values():
        loops = {loop for _, _, loop in uses}
        if len(loops) > 1 or any(isinstance(item, Loop) for loop in loops for item in loop.body):
            for array, part, _ in uses:
                parts.setdefault(array, []).append(part)
    return parts


def _parts(task: Task) -> Iterator[Part]:
    """The costly operations over the axis of a nest and one other, both of them long."""
    array = task.array
    if not isinstance(array, Map | Reduce) or any(loop.bounds for loop in task.loops):
        return  # a row would be computed where it is not needed
    if len(task.order) < 2:
        return
    outer, *others = task.order
    long = {k for k in others if not is_short(array.domain[k])}
    for e in elements_of(array.elements):
        if is_function(e) and outer in e.axes and len(e.axes) == 2:
            (inner,) = e.axes - {outer}
            if inner in long:
                yield Part(e, (outer, inner))
