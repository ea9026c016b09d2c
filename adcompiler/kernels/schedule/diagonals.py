"""Diagonals: an axis of an array that matters only where it equals something.

The Hessian of a chain is select(j == i, f(i), select(j == i + 1, g(i), 0)): two elements of a row are
computed, and all others have the same value. The loop over j fills the row with the value of elements where
no such condition holds, and the special places are written after it. Equal places are written twice with the
same value.
"""

from __future__ import annotations

from adcompiler.analysis.affine import differ
from adcompiler.analysis.predicates import Conditions, join, ties
from adcompiler.ir.nodes import Element, Index, Map
from adcompiler.ir.walk import postorder, substitute
from adcompiler.kernels.limits import MOST_PLACES
from adcompiler.kernels.schedule.branches import assume
from adcompiler.kernels.schedule.schedule_tree import Task

Tie = tuple[Element, Element]  # the condition that an axis is at a place, and the place


def tied_places(task: Task, axis: int) -> list[Tie]:
    """The conditions that tie an axis of the loops around a map to places; none if it also matters
    otherwise."""
    if not (isinstance(task.array, Map) and axis in task.elements[0].axes):
        return []
    found: dict[Element, Element] = {}
    for element in postorder((task.elements[0],), lambda e: () if _places(e, axis) else e.args):
        if element is Index(axis):
            return []
        for place in _places(element, axis):
            found[element] = place
    (rest,) = assume(task.elements, elsewhere((), list(found.items())))
    return list(found.items()) if len(found) <= MOST_PLACES and axis not in rest.axes else []


def _places(condition: Element, axis: int) -> list[Element]:
    return [place for tied, place in ties(condition) if tied == axis]


def elsewhere(known: Conditions, found: list[Tie]) -> Conditions:
    """The facts that hold if the axis is at none of the places."""
    return join(known, tuple((condition, False) for condition, _ in found))


def at(task: Task, axis: int, tie: Tie, found: list[Tie]) -> tuple[list[Element], Element]:
    """The indices and the value of the element at a tied place."""
    condition, place = tie
    others = tuple((c, False) for c, other in found if differ(place, other))
    (value,) = assume(task.elements, ((condition, True), *others))
    return [substitute(k, {axis: place}) for k in task.kept], substitute(value, {axis: place})
