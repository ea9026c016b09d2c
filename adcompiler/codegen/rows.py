"""Costly values that several loops of a turn read are computed once, into a row.

A costly part over two long axes is computed again wherever it is read (`passes/hoist.py`): stored, it may
take more memory than all the inputs. But where all that reads it stands in the same turn of a nest it takes
one row a block, and that is known once there is a schedule. Such a part becomes an array if several loops
compute it, or one that has loops inside, beside which mathematics is not vectorised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from adcompiler.codegen.nests import Loop, Schedule, Task
from adcompiler.codegen.schedule import CPU, Style, schedule
from adcompiler.ir import loop as loop_node
from adcompiler.ir.nodes import Array, Element, Func, Index, Map, Read, Reduce
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, elements_of, rewrite, substitute, with_elements
from adcompiler.ops.costs import is_function
from adcompiler.passes.loops import is_short


class Part(NamedTuple):
    """A part of an array's elements, and its axes, outermost first."""

    element: Element
    axes: tuple[int, ...]

    @property
    def places(self) -> dict[int, Element]:
        """What its axes are in an array of its own."""
        return {axis: Index(p) for p, axis in enumerate(self.axes)}

    @property
    def own(self) -> Element:
        """The element of an array of its own."""
        return substitute(self.element, self.places)


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


class Stored(Rewriter):
    """Makes parts of arrays arrays of their own; `made` has that of each."""

    def __init__(self, parts: Mapping[Array, Sequence[Part]]) -> None:
        super().__init__()
        self.parts = parts
        self.made: dict[tuple[Array, Part], Array] = {}

    def inner(self, loop: loop_node.Loop | Ruled) -> None:
        """Bodies of loops have no nests of their own."""
        return None

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        places: dict[Element, Element] = {}
        for part in self.parts.get(array, ()):
            element = self.elements[part.element]
            own = Map(tuple(new.domain[k] for k in part.axes), substitute(element, part.places))
            self.made[array, part] = own
            places[element] = Read(own, tuple(Index(k) for k in part.axes))
        if not places:
            return new
        return with_elements(new, lambda elements: rewrite(elements, lambda e: e, dict(places)))
