"""Unroll short axes: the coordinates of a point become terms, and their sums stay in registers.

A reduction over an axis of constant length becomes an expression: sum(| k < 3) f(k) is f(0) + f(1) + f(2). A
sum for each element of such an axis becomes several sums. An addition at one place of such an axis becomes a
map with zeros at the others.
"""

from __future__ import annotations

from functools import reduce as fold_left
from itertools import product

from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Const,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    const,
    select,
)
from adcompiler.ir.walk import Rewriter, elements_of, substitute
from adcompiler.ops.build import apply
from adcompiler.passes.limits import MOST_COORDINATES, MOST_MADE_ELEMENTS

STEP = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def unroll(func: Func) -> Func:
    """The program without reductions over short axes."""
    return _Unroll().func(func)


def lanes(func: Func) -> Func:
    """The program with a separate reduction for each element of a short axis."""
    return _Lanes().func(func)


def _short(array: Array) -> list[int]:
    """The axes of the domain to unroll."""
    axes = [k for k, n in enumerate(array.domain) if isinstance(n, Const) and 0 < n.value <= MOST_COORDINATES]
    count = len(elements_of(array.elements))
    short: list[int] = []
    for k in axes:
        count *= int(_length(array, k))
        if count <= MOST_MADE_ELEMENTS:
            short.append(k)
    return short


def _length(array: Array, axis: int) -> int:
    size = array.domain[axis]
    assert isinstance(size, Const)
    return int(size.value)


class _Unroll(Rewriter):
    def array(self, array: Array) -> Array:
        if isinstance(array, Accumulate):
            return _one_hot(array)
        if not isinstance(array, Reduce) or array.op not in STEP:
            return array
        short = [k for k in _short(array) if k >= array.rank]
        if not short:
            return array
        kept = [k for k in range(len(array.domain)) if k not in short]
        places: dict[int, Element] = {k: Index(p) for p, k in enumerate(kept)}
        terms = [
            substitute(array.body, places | {k: const(i, "i64") for k, i in zip(short, point, strict=True)})
            for point in product(*(range(_length(array, k)) for k in short))
        ]
        step = STEP[array.op]
        body = fold_left(lambda a, b: apply(step, a, b), terms)
        reduced = tuple(array.domain[k] for k in kept if k >= array.rank)
        return Reduce(array.op, array.shape, reduced, body) if reduced else Map(array.shape, body)


def _one_hot(array: Accumulate) -> Array:
    """A scatter along plain axes at one place of short axes, as a map that is zero elsewhere."""
    places: dict[int, Element] = {}
    guard: Element = const(True, "bool")
    for k, (index, size) in enumerate(zip(array.indices, array.shape, strict=True)):
        if isinstance(index, Index) and array.domain[index.axis] is size and index.axis not in places:
            places[index.axis] = Index(k)
        elif isinstance(index, Const) and isinstance(size, Const) and size.value <= MOST_COORDINATES:
            guard = apply("logical_and", guard, apply("equal", Index(k), index))
        else:
            return array
    if len(places) < len(array.domain):
        return array
    return Map(array.shape, select(guard, substitute(array.body, places), const(0, array.dtype)))


class _Lanes(Rewriter):
    def array(self, array: Array) -> Array:
        if not isinstance(array, Reduce):
            return array
        short = [k for k in _short(array) if k < array.rank and _length(array, k) > 1]
        if not short:
            return array
        axis = short[-1]
        kept = [k for k in range(len(array.domain)) if k != axis]
        places: dict[int, Element] = {k: Index(p) for p, k in enumerate(kept)}
        shape = tuple(array.shape[k] for k in kept if k < array.rank)
        spot = tuple(Index(k) for k in range(array.rank) if k != axis)
        sums: list[Element] = []
        for lane in range(_length(array, axis)):
            body = substitute(array.body, places | {axis: const(lane, "i64")})
            sums.append(Read(self.array(Reduce(array.op, shape, array.reduced, body)), spot))
        chosen = sums[-1]
        for lane in reversed(range(len(sums) - 1)):
            chosen = select(apply("equal", Index(axis), const(lane, "i64")), sums[lane], chosen)
        return Map(array.shape, chosen)
