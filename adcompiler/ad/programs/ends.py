"""Where derivatives with respect to an array end: at operations that do not propagate them.

A derivative ends at an operation without one (a comparison, a conversion to integers), and at one whose
derivative is zero everywhere. A branch or index that depends on such a value has derivatives, but not with
respect to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from adcompiler.ad.partials import differentiable, partial
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import Apply, Array, Element, Read, is_const
from adcompiler.ir.textform.notation import COMPARISONS
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of


class End(NamedTuple):
    """An operation after which nothing has a derivative with respect to the array."""

    kind: str  # "comparison", "integer" or "zero"
    element: Apply


def ends(results: Sequence[Array], wanted: Iterable[Array]) -> list[End]:
    """The ends between `wanted` and `results`, including those in the bodies of loops."""
    found: dict[End, None] = {}
    _active(results, set(wanted), found)
    return list(found)


def _active(results: Sequence[Array], active: set[Array], found: dict[End, None]) -> set[Array]:
    """The arrays that a derivative reaches, `active` among them."""
    loops: dict[Loop, set[int]] = {}
    for array in arrays_of(results):
        if isinstance(array, Item):
            if array.loop not in loops:
                loops[array.loop] = _through(array.loop, active, found)
            reached = array.k in loops[array.loop]
        elif array.elements:
            reached = _reaches(array, active, found)
        else:
            reached = any(a in active for a in arrays_read(array))
        if reached and is_float(array.dtype):
            active.add(array)
    return active


def _reaches(array: Array, active: set[Array], found: dict[End, None]) -> bool:
    """Whether a derivative reaches the body of an array."""
    *_, body = array.elements
    alive: set[Element] = set()
    for e in elements_of(array.elements):
        if isinstance(e, Read):
            if e.array in active:
                alive.add(e)
        elif isinstance(e, Apply):
            here = [k for k, a in enumerate(e.args) if a in alive]
            end = _end(e, here)
            if end is not None:
                found.setdefault(end)
            elif here:
                alive.add(e)
        elif any(a in alive for a in e.args):
            alive.add(e)
    return body in alive


def _end(e: Apply, here: Sequence[int]) -> End | None:
    """The end that an operation is for the derivatives of these arguments; None if it propagates one."""
    if not here:
        return None
    if not differentiable(e):
        whole = e.op in DTYPES or (is_float(e.args[here[0]].dtype) and e.op not in COMPARISONS)
        return End("integer" if whole else "comparison", e)
    return End("zero", e) if all(is_const(partial(e, k), 0) for k in here) else None


def _through(loop: Loop, active: set[Array], found: dict[End, None]) -> set[int]:
    """The positions of a loop's items that a derivative reaches, through any number of iterations."""
    slots = loop.slots
    inside: set[Array] = {s for s, a in zip(slots[1:], loop.operands, strict=True) if a in active}
    while True:
        reached = _active(loop.roots, set(inside), found)
        carried: set[Slot] = {slots[1 + k] for k, r in enumerate(loop.results) if r in reached}
        if carried <= inside:
            break
        inside |= carried
    given = (*loop.results, *loop.outs)
    starts = {k for k, a in enumerate(loop.inits) if a in active}
    return starts | {k for k, r in enumerate(given) if r in reached}
