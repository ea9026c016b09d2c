"""Branches: values that only one side of a scalar condition reads are computed only on that side.

A program has no branches: `if c: y = A else: y = B` is one array that selects, and so is its derivative. The
conditions under which arrays and elements are needed follow from their readers: the readers' own conditions,
and those of selects around the reads. Only conditions that are one number for the whole array count. The
schedule then computes such arrays under an `if`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeVar

from adcompiler.analysis.predicates import decides, is_scalar
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Apply, Array, Call, Element, Read, Select
from adcompiler.ir.walk import elements_of, postorder, read_by, rewrite
from adcompiler.kernels.limits import MOST_SWITCHES
from adcompiler.ops.costs import costly

N = TypeVar("N", bound="Array | Element")
Conditions = tuple[tuple[Element, bool], ...]  # a conjunction: each condition once, and whether it holds
ALWAYS: Conditions = ()


@dataclass
class Needs:
    """The conditions under which arrays, and elements without axes, are read."""

    arrays: dict[Array, Conditions] = field(default_factory=dict)
    elements: dict[Element, Conditions] = field(default_factory=dict)


def needs(roots: Iterable[Array], order: Sequence[Array]) -> Needs:
    """The conditions under which `roots` need each array of `order`, which lists producers first."""
    found = Needs(dict.fromkeys(roots, ALWAYS))
    for array in reversed(order):
        here = found.arrays.get(array, ALWAYS)
        own = _within(array, here)
        for element, where in own.items():
            if isinstance(element, Read):
                _meet(found.arrays, element.array, where)
            if is_scalar(element):
                _meet(found.elements, element, where)
        for read in _whole(array):
            _meet(found.arrays, read, here)
        iterations = (array.loop.length,) if isinstance(array, Item) and array.loop.length is not None else ()
        for read in read_by((*array.shape, *array.domain, *iterations)):
            _meet(found.arrays, read, ALWAYS)
    return found


def _meet(found: dict[N, Conditions], key: N, where: Conditions) -> None:
    found[key] = meet(found[key], where) if key in found else where


def meet(a: Conditions, b: Conditions) -> Conditions:
    """The conditions common to two lists."""
    return tuple(c for c in a if c in b)


def join(a: Conditions, b: Conditions) -> Conditions:
    """The facts that hold under both."""
    return (*a, *(c for c in b if c not in a))


def _whole(array: Array) -> Sequence[Array]:
    """The arrays that a loop or a call reads entirely."""
    if isinstance(array, Item):
        return array.loop.operands
    return array.operands if isinstance(array, Call) else ()


def _within(array: Array, here: Conditions) -> dict[Element, Conditions]:
    """The conditions under which each element of an array is needed, if the array is needed under `here`."""
    found: dict[Element, Conditions] = dict.fromkeys(array.elements, here)
    for element in reversed(elements_of(array.elements)):
        where = found[element]
        sides = [where] * len(element.args)
        if isinstance(element, Select) and decides(element.guard):
            sides[1:] = (join(where, facts(element.guard, holds)) for holds in (True, False))
        for arg, side in zip(element.args, sides, strict=True):
            _meet(found, arg, side)
    return found


def facts(guard: Element, holds: bool) -> Conditions:
    """The facts implied by a guard that holds, or does not."""
    found: dict[tuple[Element, bool], None] = {}
    work = [(guard, holds)]
    while work:
        part, true = work.pop()
        if isinstance(part, Apply) and part.op == "logical_not":
            work.append((part.args[0], not true))
        elif isinstance(part, Apply) and part.op == ("logical_and" if true else "logical_or"):
            work.extend((a, true) for a in reversed(part.args))
        else:
            found[part, true] = None
    return tuple(found)


def assume(elements: tuple[Element, ...], known: Conditions) -> tuple[Element, ...]:
    """Elements simplified under the conditions `known`: selects that these decide are replaced by one
    side."""
    if not known:
        return elements
    truth = dict(known)

    def visit(element: Element) -> Element:
        if isinstance(element, Select):
            holds = _truth(element.guard, truth)
            return element if holds is None else element.then if holds else element.otherwise
        return element

    return rewrite(elements, visit)


def _truth(guard: Element, known: Mapping[Element, bool]) -> bool | None:
    """Whether a guard holds; None if `known` does not decide it."""
    found: dict[Element, bool | None] = {}
    for part in postorder((guard,), lambda e: e.args if e not in known and _is_logical(e) else ()):
        logical = part not in known and _is_logical(part)
        found[part] = _of_parts(part, [found[a] for a in part.args]) if logical else known.get(part)
    return found[guard]


def _is_logical(element: Element) -> bool:
    return isinstance(element, Apply) and element.op in ("logical_not", "logical_and", "logical_or")


def _of_parts(element: Element, parts: Sequence[bool | None]) -> bool | None:
    """Whether a negation, conjunction or disjunction holds; None if its parts do not decide it."""
    assert isinstance(element, Apply)
    if element.op == "logical_not":
        return None if parts[0] is None else not parts[0]
    decides = element.op == "logical_or"
    if decides in parts:
        return decides
    return None if None in parts else not decides


def cases(elements: Iterable[Element]) -> Iterator[Conditions]:
    """The cases to write a loop for, so that only one side of costly selects is computed."""
    guards: dict[Element, None] = {}
    costs: dict[Element, bool] = {}
    for element in elements_of(elements):
        if isinstance(element, Select) and decides(element.guard):
            sides = (element.then, element.otherwise)
            if any(not is_scalar(side) and costly(side, costs) for side in sides):
                guards |= dict.fromkeys(g for g, _ in facts(element.guard, True))
    chosen = list(guards)[:MOST_SWITCHES]
    for values in product((True, False), repeat=len(chosen)):
        yield tuple(zip(chosen, values, strict=True))
