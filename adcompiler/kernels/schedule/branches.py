"""Branches: values that only one side of a scalar condition reads are computed only on that side.

A program has no branches: `if c: y = A else: y = B` is one array that selects, and so is its derivative. The
conditions under which arrays and elements are needed follow from their readers: the readers' own conditions,
and those of selects around the reads. Only conditions that are one number for the whole array count. The
schedule then computes such arrays under an `if`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import product
from typing import TypeVar

from adcompiler.analysis.predicates import (
    ALWAYS,
    Conditions,
    decides,
    facts,
    is_scalar,
    meet,
    needed_under,
)
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Apply, Array, Call, Element, Put, Read, Select
from adcompiler.ir.walk import elements_of, postorder, read_by, rewrite
from adcompiler.kernels.limits import MOST_SWITCHES
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.costs import costly

N = TypeVar("N", bound="Array | Element")


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
        own = needed_under(array.elements, here, decides)
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


def _whole(array: Array) -> Sequence[Array]:
    """The arrays that a loop, a call or a store needs entirely."""
    if isinstance(array, Item):
        return array.loop.operands
    return array.operands if isinstance(array, Call | Put) else ()


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
