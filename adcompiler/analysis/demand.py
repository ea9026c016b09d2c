"""Demand: the region of an array's indices that contains all reads of it.

The gradient of a matrix that is zero above its diagonal is a sum for each of its elements, but those above
the diagonal are read under a condition that never holds. Elements that are never read need not be computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from adcompiler.analysis.affine import shifted
from adcompiler.analysis.regions import EVERYWHERE, Bounds, Region, both, either, where
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Call, Element, Func, Index, Read, Select
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of, read_by


def needed(func: Func) -> dict[Array, Region]:
    """The region of each array, in terms of its axes, outside which nothing reads it."""
    order = arrays_of(func.roots)
    found: dict[Array, Region] = dict.fromkeys(func.roots, EVERYWHERE)
    for array in order:
        found |= dict.fromkeys(read_whole(array), EVERYWHERE)
        for read, here in _reads(array):
            if found.get(read.array) != EVERYWHERE:
                found[read.array] = either(found.get(read.array), _own(read, here))
    return found


def read_whole(array: Array) -> tuple[Array, ...]:
    """The reads of an array that are not elementwise: operands of loops and routines, and lengths."""
    operands: tuple[Array, ...] = ()
    length: tuple[Element, ...] = ()
    if isinstance(array, Item):
        operands = array.loop.operands
        length = () if array.loop.length is None else (array.loop.length,)
    elif isinstance(array, Ruled | Call):
        operands = tuple(array.operands)
    return (*operands, *read_by((*array.shape, *array.domain, *length)))


def _reads(array: Array) -> Iterator[tuple[Read, Region]]:
    """The reads of an array's elements, each with the region given by the conditions around it."""
    found: dict[Element, Region] = dict.fromkeys(array.elements, EVERYWHERE)
    for e in reversed(elements_of(array.elements)):
        here = found[e]
        sides = [here] * len(e.args)
        if isinstance(e, Select):
            sides[1:] = (both(here, where(e.guard, holds)) for holds in (True, False))
        for arg, side in zip(e.args, sides, strict=True):
            found[arg] = either(found[arg], side) if arg in found else side
        if isinstance(e, Read) and e.args:
            yield e, here


def _own(read: Read, here: Region) -> Region:
    """The region of the array's own axes that a read stays in."""
    if here is None:
        return None
    found: dict[tuple[Element, Element], int] = {}
    for p, q in permutations(range(len(read.args)), 2):
        most = _most(read.args[p], read.args[q], here)
        if most is not None:
            found[Index(p), Index(q)] = most
    return found


def _most(x: Element, y: Element, here: Bounds) -> int | None:
    """The least known c such that x - y <= c."""
    (x0, more), (y0, less) = shifted(x), shifted(y)
    if x0 is y0:
        return more - less
    known = None if x0 is None or y0 is None else here.get((x0, y0))
    return None if known is None else known + more - less
