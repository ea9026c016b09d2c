"""Degrees in one array: whether a program is linear in it, by abstract interpretation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adcompiler.ir.call import Call
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Accumulate, Apply, Array, Element, Map, Read, Reduce, Select
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of, elements_of

FREE, LINEAR, OTHER = 0, 1, 2  # does not depend on it; linear, but for a part that is free; anything else
SUMS = ("add", "subtract", "negative", "strict", "f32", "f64")
Degrees = dict[Array, int]


def is_linear(roots: Iterable[Array], array: Array) -> bool:
    """Whether arrays are linear in `array`, but for parts that do not depend on it.

    Then their derivatives by it do not depend on it. A program may be linear though this says no.
    """
    roots = tuple(roots)
    degrees: Degrees = {array: LINEAR}
    _follow(arrays_of(roots), degrees)
    return all(degrees[r] <= LINEAR for r in roots)


def _follow(order: Iterable[Array], degrees: Degrees) -> None:
    for array in order:
        if array not in degrees:
            degrees[array] = _degree(array, degrees)


def _degree(array: Array, degrees: Degrees) -> int:
    match array:
        case Item(loop=loop, k=k):
            return _loop(loop, degrees)[k]
        case Ruled(value=value):
            return degrees[value]
        case Call(operands=operands):
            return _free([degrees[a] for a in operands])
        case Map() | Reduce(op="sum"):
            return _element(array.elements[-1], degrees)
        case Accumulate():
            *places, body = (_element(e, degrees) for e in array.elements)
            return OTHER if any(places) else body
        case Reduce():
            return _free([_element(array.elements[-1], degrees)])
    return FREE


def _free(degrees: Iterable[int]) -> int:
    """The degree of what is linear in nothing."""
    return OTHER if any(degrees) else FREE


def _loop(loop: Loop, degrees: Degrees) -> list[int]:
    """The degrees of what a loop gives: those of what it carries grow from iteration to iteration, to a fixed
    point."""
    step, *slots = loop.slots
    carried = [degrees[a] for a in loop.inits]
    fixed = [degrees[a] for a in (*loop.scanned, *loop.consts)]
    while True:
        inner: Degrees = {step: FREE}
        inner.update(zip(slots, (*carried, *fixed), strict=True))
        _follow(arrays_of(loop.roots), inner)
        after = [max(inner[r], d) for r, d in zip(loop.results, carried, strict=True)]
        if after == carried:
            break
        carried = after
    test = FREE if loop.test is None else inner[loop.test]
    found = [*carried, *(inner[o] for o in loop.outs)]
    return [_free([test, d]) if test else d for d in found] + [_free([test])] * (loop.test is not None)


def _element(root: Element, degrees: Mapping[Array, int]) -> int:
    found: dict[Element, int] = {}
    for element in elements_of((root,)):
        found[element] = _applied(element, [found[a] for a in element.args], degrees)
    return found[root]


def _applied(element: Element, args: list[int], degrees: Mapping[Array, int]) -> int:
    match element:
        case Read(array=array):
            return OTHER if any(args) else degrees[array]
        case Select():
            return OTHER if args[0] else max(args[1:])
        case Apply(op="multiply"):
            return min(sum(args), OTHER)
        case Apply(op="divide"):
            return OTHER if args[1] else args[0]
        case Apply(op="fma"):
            return max(min(args[0] + args[1], OTHER), args[2])
        case Apply(op=op) if op in SUMS and is_float(element.dtype):
            return max(args)
    return _free(args)
