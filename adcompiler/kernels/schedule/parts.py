"""Parts of arrays' elements as arrays of their own: candidates for materialisation, and the rewriter for
it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from adcompiler.ir import loop as loop_node
from adcompiler.ir.nodes import Array, Element, Index, Map, Read, Reduce
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, rewrite, substitute, with_elements
from adcompiler.kernels.schedule.schedule_tree import Loop, Schedule, Task


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


class Use(NamedTuple):
    """A part of what a task of the schedule's item number `nest` computes."""

    nest: int
    task: Task
    part: Part


class Candidate(NamedTuple):
    """A value that may become an array in place of some uses, in the memory of the result `lender` if there
    is one."""

    uses: tuple[Use, ...]
    lender: Array | None = None


def uses(made: Schedule, parts: Callable[[Task], Iterable[Part]]) -> dict[Element, list[Use]]:
    """The parts of the tasks of all nests, in the order of the schedule, by the element that each is in an
    array of its own.

    Where loops have bounds there are none: a value would be computed where it is not needed.
    """
    found: dict[Element, list[Use]] = {}
    for k, nest in enumerate(made.body):
        for task in nest.tasks if isinstance(nest, Loop) else ():
            if not isinstance(task.array, Map | Reduce) or any(loop.bounds for loop in task.loops):
                continue
            memos: dict[tuple[int, ...], dict[Element, Element]] = {}
            for part in parts(task):
                own = substitute(part.element, part.places, memos.setdefault(part.axes, {}))
                found.setdefault(own, []).append(Use(k, task, part))
    return found


class Materialiser(Rewriter):
    """Makes parts of arrays arrays of their own; `made` has that of each. Those of which others are made come
    before these."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__()
        self.parts: dict[Array, list[Part]] = {}
        for candidate in candidates:
            for _, task, part in candidate.uses:
                self.parts.setdefault(task.array, []).append(part)
        self.made: dict[tuple[Array, Part], Array] = {}

    def of(self, candidate: Candidate) -> Array:
        """The array of a candidate, as its lender reads it."""
        uses = candidate.uses
        task, part = next((u.task, u.part) for u in uses if candidate.lender in (None, u.task.array))
        return self.made[task.array, part]

    def inner(self, loop: loop_node.Loop | Ruled) -> None:
        """Bodies of loops have no nests of their own."""
        return None

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        places: dict[Element, Element] = {}
        for part in self.parts.get(array, ()):
            (element,) = rewrite((self.elements[part.element],), lambda e: e, dict(places))
            own = Map(tuple(new.domain[k] for k in part.axes), substitute(element, part.places))
            self.made[array, part] = own
            places[self.elements[part.element]] = Read(own, tuple(Index(k) for k in part.axes))
        if not places:
            return new
        return with_elements(new, lambda elements: rewrite(elements, lambda e: e, dict(places)))
