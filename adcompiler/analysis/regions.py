"""Regions of index spaces: bounds on differences of indices, x - y <= c, that follow from conditions.

A region such as the lower triangle of a matrix is a set of such bounds, a *difference-bound matrix* (D. Dill,
CAV 1989). If two conditions hold, so do all bounds of both; if one of two holds, only the bounds in both sets
do, each with the looser constant. An empty region is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.analysis.affine import shifted
from adcompiler.analysis.predicates import OPPOSITE
from adcompiler.ir.nodes import Apply, Element, Index
from adcompiler.ir.walk import postorder

Bounds = Mapping[tuple[Element, Element], int]  # (x, y): c, where x - y <= c
Region = Bounds | None
EVERYWHERE: Bounds = {}

ORDERS = {  # what x op y says: x - y <= c, or y - x <= c
    "less": ((False, -1),), "less_equal": ((False, 0),),
    "greater": ((True, -1),), "greater_equal": ((True, 0),),
    "equal": ((False, 0), (True, 0)),
}  # fmt: skip
LOGIC = ("logical_and", "logical_or", "logical_not")


def both(a: Region, b: Region) -> Region:
    """The intersection of two regions."""
    if a is None or b is None:
        return None
    found = {key: min(r[key] for r in (a, b) if key in r) for key in (*a, *b)}
    return None if any(found.get((y, x), -c) < -c for (x, y), c in found.items()) else found


def either(a: Region, b: Region) -> Region:
    """A region that contains both."""
    if a is None or b is None:
        return b if a is None else a
    return {key: max(c, b[key]) for key, c in a.items() if key in b}


def where(guard: Element, holds: bool = True) -> Region:
    """The region in which a guard holds, or does not."""
    found: dict[Element, tuple[Region, Region]] = {}
    for e in postorder((guard,), lambda e: e.args if isinstance(e, Apply) and e.op in LOGIC else ()):
        match e:
            case Apply(op="logical_not", args=(x,)):
                found[e] = found[x][::-1]
            case Apply(op="logical_and", args=(x, y)):
                found[e] = both(found[x][0], found[y][0]), either(found[x][1], found[y][1])
            case Apply(op="logical_or", args=(x, y)):
                found[e] = either(found[x][0], found[y][0]), both(found[x][1], found[y][1])
            case Apply(op=op, args=(x, y)) if x.dtype == y.dtype == "i64":
                found[e] = _compared(op, x, y), _compared(OPPOSITE.get(op, ""), x, y)
            case _:
                found[e] = EVERYWHERE, EVERYWHERE
    return found[guard][not holds]


def _compared(op: str, x: Element, y: Element) -> Region:
    """The region in which a comparison of two integers holds."""
    found: Region = EVERYWHERE
    for exchanged, most in ORDERS.get(op, ()):
        found = both(found, at_most(*((y, x) if exchanged else (x, y)), most))
    return found


def at_most(x: Element, y: Element, most: int) -> Region:
    """The region in which x - y <= most."""
    (x0, more), (y0, less) = shifted(x), shifted(y)
    if x0 is y0:
        return EVERYWHERE if more - less <= most else None
    return EVERYWHERE if x0 is None or y0 is None else {(x0, y0): most - more + less}


def at(region: Region, places: Sequence[Element]) -> Region:
    """A region of an array, in terms of the indices at which the array is read."""
    found: Region = EVERYWHERE
    for (x, y), most in (region or {}).items():
        if _is_known(x, places) and _is_known(y, places):
            found = both(found, at_most(_placed(x, places), _placed(y, places), most))
    return None if region is None else found


def _is_known(x: Element, places: Sequence[Element]) -> bool:
    return not x.axes or (isinstance(x, Index) and x.axis < len(places))


def _placed(x: Element, places: Sequence[Element]) -> Element:
    return places[x.axis] if isinstance(x, Index) else x
