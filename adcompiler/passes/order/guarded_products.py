"""Products of matrices under a guard: the mask becomes part of a factor where all other factors are finite.

The gradient of the weights behind maximum(h, 0) is a sum of products that count only where h > 0:

    Σ_n (d[n, j] x[n, i] if h[n, j] > 0 else 0)  =  Σ_n (d[n, j] if h[n, j] > 0 else 0) x[n, i]

The right side is a product of matrices, for which there are libraries, and whose factors are computed once.
But 0 times infinity is NaN, so it holds only if x is finite. One number decides that beforehand
(`passes/order/structural_zeros.py`). The kernel has both sums, and runs one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from adcompiler.ad.guards import mask
from adcompiler.analysis.loop_order import long_axes
from adcompiler.analysis.predicates import facts, stated
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
    Array,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    const,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, elements_of, is_computed
from adcompiler.ops.build import apply, product
from adcompiler.passes.order.factors import factors_of
from adcompiler.passes.order.structural_zeros import Zeros, finite


def guarded_products(func: Func) -> Func:
    """The program with such sums as products, if their other factors are known to be finite."""
    return _Guarded().func(func)


class _Guarded(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.zeros = Zeros()

    def inner(self, loop: Loop | Ruled) -> None:
        """Loop bodies are unchanged: what is finite there is not known before."""

    def array(self, array: Array) -> Array:
        if not (isinstance(array, Reduce) and array.op == "sum" and is_float(array.dtype)):
            return array
        parts = None if any(map(is_computed, array.domain)) else _parts(array)
        most = None if parts is None else self.zeros.magnitude(parts.other)
        holds = None if most is None else finite((most,))
        if parts is None or holds is None:
            return array
        body = apply("multiply", reduce(mask, parts.guards, parts.own), parts.other)
        fast = Reduce("sum", array.shape, array.reduced, reduce(mask, parts.places, body))
        at = tuple(const(0, "i64") if is_const(n, 1) else Index(k) for k, n in enumerate(array.shape))
        return Map(array.shape, select(holds, Read(fast, at), Read(array, at)))


class _Parts(NamedTuple):
    """A product under guards: those on values, which `own` shares the axes of, and those on places."""

    guards: Sequence[Element]
    places: Sequence[Element]
    own: Element
    other: Element


def _parts(array: Reduce) -> _Parts | None:
    """The parts of a guarded product of two matrices, if a sum is one."""
    guards: dict[Element, None] = {}
    body = array.body
    while isinstance(body, Select) and is_const(body.otherwise, 0):
        guards |= dict.fromkeys(stated(facts(body.guard, True)))
        body = body.then
    values = [g for g in guards if any(isinstance(e, Read) for e in elements_of((g,)))]
    factors = factors_of(body) if values else ()
    axes = frozenset[int]().union(*(g.axes for g in values))
    own, other = ([f for f in factors if (f.axes <= axes) == inside] for inside in (True, False))
    reached, long = frozenset[int]().union(*(f.axes for f in other)), set(long_axes(array))
    if not own or not other or not long - axes or not (axes - reached) & long:
        return None
    return _Parts(values, [g for g in guards if g not in values], product(own), product(other))
