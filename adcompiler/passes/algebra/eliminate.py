"""Eliminate axes of a logsumexp one after the other, as variables of a probabilistic model.

In logsumexp(r[a, b] + x[k, b] for k for b) the term r does not depend on k. The logsumexp of the other terms
over k is the same for all a: an array over b. What remains is a logsumexp over b. This needs k * b and a * b
exponentials instead of a * k * b.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

from adcompiler.analysis.loop_order import is_short
from adcompiler.ir.nodes import Apply, Array, Element, Func, Index, Read, Reduce
from adcompiler.ir.walk import Rewriter, substitute
from adcompiler.ops.build import apply


def eliminate(func: Func) -> Func:
    """The program with each logsumexp over one axis at a time where this needs fewer exponentials."""
    return _Eliminate().func(func)


class _Eliminate(Rewriter):
    def array(self, array: Array) -> Array:
        while isinstance(array, Reduce) and array.op == "logsumexp":
            made = _without_axes(array)
            if made is None:
                break
            array = made
        return array


class _Part(NamedTuple):
    """Terms that alone depend on the axes `gone`, and the other axes on which they depend."""

    gone: list[int]
    kept: list[int]
    terms: list[Element]


def _without_axes(array: Reduce) -> Reduce | None:
    """A logsumexp over fewer axes of what is a logsumexp over the others; None if that takes no less time."""
    terms, lengths = _terms(array.body), array.domain
    parts = (_part(terms, axis, array) for axis in range(array.rank, len(lengths)))
    found = [part for part in parts if part is not None]
    if not found:
        return None
    gone, kept, own = min(found, key=lambda part: len(part.gone) + len(part.kept))
    shape, reduced = tuple(lengths[k] for k in kept), tuple(lengths[k] for k in gone)
    inner = Reduce("logsumexp", shape, reduced, _renamed(_sum(own), (*kept, *gone)))
    left = [k for k in range(len(lengths)) if k not in gone]
    rest = [t for t in terms if t not in own]
    body = _renamed(_sum([*rest, Read(inner, tuple(map(Index, kept)))]), left)
    return Reduce("logsumexp", array.shape, tuple(lengths[k] for k in left if k >= array.rank), body)


def _part(terms: list[Element], axis: int, array: Reduce) -> _Part | None:
    """The terms along a reduced axis; None if they depend on all long axes, or would be all that is left."""
    lengths = array.domain
    own = [t for t in terms if axis in t.axes]
    around = _axes(own)
    gone = sorted(k for k in around - _axes([t for t in terms if t not in own]) if k >= array.rank)
    missing = set(range(len(lengths))) - around
    worth = all(any(not is_short(lengths[k]) for k in axes) for axes in (gone, missing))
    return _Part(gone, sorted(around - set(gone)), own) if worth and len(gone) < len(array.reduced) else None


def _axes(terms: list[Element]) -> frozenset[int]:
    return frozenset[int]().union(*(t.axes for t in terms))


def _sum(terms: list[Element]) -> Element:
    return reduce(partial(apply, "add"), terms)


def _renamed(element: Element, axes: Sequence[int]) -> Element:
    """An element with the axis `axes[p]` called p."""
    return substitute(element, {k: Index(p) for p, k in enumerate(axes)})


def _terms(body: Element) -> list[Element]:
    """The terms of a sum, those that are subtracted as negative ones."""
    found: list[Element] = []
    work = [(body, False)]
    while work:
        element, is_negative = work.pop()
        match element:
            case Apply(op="add", args=(x, y)):
                work += (y, is_negative), (x, is_negative)
            case Apply(op="subtract", args=(x, y)):
                work += (y, not is_negative), (x, is_negative)
            case Apply(op="negative", args=(x,)):
                work.append((x, not is_negative))
            case _:
                found.append(apply("negative", element) if is_negative else element)
    return found
