"""Predicated liveness: the condition under which each element of an array is read.

A value that is read only in a branch may be anything where that branch is not taken. A condition is an
element of type bool over the axes of its array; TRUE means that an element may always be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from adcompiler.ad.guards import TRUE, both, either, negation
from adcompiler.ad.limits import MOST_CONDITIONS
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Index,
    Put,
    Read,
    Select,
    Shape,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_read, elements_of, postorder, read_by, substitute


def liveness(
    roots: Sequence[Array], leaves: Collection[Array], known: Callable[[Element], bool]
) -> dict[Array, Element]:
    """The conditions under which `roots` read the elements of each array, down to `leaves`.

    Only conditions that are `known` at the use refine it.
    """
    order = postorder(roots, lambda a: () if a in leaves else arrays_read(a))
    found: dict[Array, list[Element]] = {a: [] for a in order}
    for root in roots:
        found[root].append(TRUE)
    live: dict[Array, Element] = {}
    for array in reversed(order):
        here = live[array] = _either(found[array])
        if array not in leaves:
            for read, condition in _reads(array, here, known):
                found[read].append(condition)
    return live


def _reads(array: Array, here: Element, known: Callable[[Element], bool]) -> Iterable[tuple[Array, Element]]:
    """The arrays that an array reads, each with the condition under which it does, over the axes of the array
    read."""
    lengths = set(read_by((*array.shape, *array.domain)))
    for a in lengths:
        yield a, TRUE
    if isinstance(array, Item | Call | Ruled):
        for a in arrays_read(array):
            yield a, TRUE if here.axes else here
        return
    # A scatter's own axes are not those of its domain.
    start = TRUE if isinstance(array, Accumulate | Put) and here.axes else here
    conditions: dict[Element, list[Element]] = {e: [start] for e in array.elements}
    if isinstance(array, Put):
        yield array.base, here
        if _refines(array.guard, known):
            conditions[array.value] = [both(start, array.guard)]
    for e in reversed(elements_of(array.elements)):
        under = _either(conditions[e])
        for arg, condition in zip(e.args, _arguments(e, under, known), strict=True):
            conditions.setdefault(arg, []).append(condition)
        if isinstance(e, Read):
            yield e.array, _over(e, under, array.domain)


def _arguments(element: Element, under: Element, known: Callable[[Element], bool]) -> list[Element]:
    """The conditions under which an element's arguments are read."""
    conditions = [under] * len(element.args)
    guard = element.args[0] if element.args else element
    if isinstance(element, Select) and _refines(guard, known):
        conditions[1:] = both(under, guard), both(under, negation(guard))
    elif isinstance(element, Apply) and element.op == "logical_and" and _refines(guard, known):
        conditions[1] = both(under, guard)
    return conditions


def _refines(condition: Element, known: Callable[[Element], bool]) -> bool:
    """Whether a condition depends on values, all of which are known at the use."""
    return bool(read_by((condition,))) and known(condition)


def _over(read: Read, condition: Element, domain: Shape) -> Element:
    """A condition over the axes of a domain, as one over the axes of the array read there."""
    places: dict[int, Element] = {i.axis: Index(k) for k, i in enumerate(read.args) if isinstance(i, Index)}
    distinct = len(places) == sum(isinstance(i, Index) for i in read.args)
    whole = all(isinstance(i, Const | Index) for i in read.args)
    same = all(
        is_const(n, 1) if isinstance(i, Const) else domain[i.axis] is n
        for n, i in zip(read.array.shape, read.args, strict=True)
        if isinstance(i, Const | Index)
    )
    if not condition.axes:
        return condition
    if distinct and whole and same and condition.axes <= places.keys():
        return substitute(condition, places)
    return TRUE


def _either(conditions: Sequence[Element]) -> Element:
    distinct = dict.fromkeys(conditions)
    if TRUE in distinct or not 0 < len(distinct) <= MOST_CONDITIONS:
        return TRUE
    return either(distinct)
