"""Products of matrices under a guard: the mask becomes part of a factor where all other factors are finite.

The gradient of the weights behind maximum(h, 0) is a sum of products that count only where h > 0:

    Σ_n (d[n, j] x[n, i] if h[n, j] > 0 else 0)  =  Σ_n (d[n, j] if h[n, j] > 0 else 0) x[n, i]

The right side is a product of matrices, for which there are libraries, and whose factors are computed once.
But 0 times infinity is NaN, so it holds only if x is finite. One number decides that beforehand
(`passes/order/structural_zeros.py`). The kernel has both sums, and runs one of them.

So it is for windows. The gradient of the image of a convolution is a sum of sums, over the offsets of a
window where it lies inside of d, and over its channels. In one sum, d is padded with zeros:

    Σ_u (Σ_o d[o, i - u] k[o, u]  if i - u in d)  =  Σ_u,o (d[o, i - u] if i - u in d) k[o, u]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import inf, prod
from typing import NamedTuple

from adcompiler.ad.guards import mask
from adcompiler.analysis.affine import Linear, linear
from adcompiler.analysis.intervals import facts_of
from adcompiler.analysis.predicates import facts, guarded, stated
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
    Array,
    Const,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    Shape,
    identity,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import SingleReaders, elements_of, is_computed, substitute
from adcompiler.ops.build import apply, product
from adcompiler.passes.limits import SHORTEST_LENGTH, SHORTEST_PACKED_LENGTH
from adcompiler.passes.order.factors import factors_of
from adcompiler.passes.order.structural_zeros import Zeros, finite


def guarded_products(func: Func, windows: bool = False) -> Func:
    """The program with such sums as products, if their other factors are known to be finite; of `windows`
    too."""
    return _Guarded(func.roots, windows).func(func)


class _Guarded(SingleReaders):
    def __init__(self, roots: Sequence[Array], windows: bool) -> None:
        super().__init__(roots)
        self.zeros, self.windows = Zeros(), windows

    def inner(self, loop: Loop | Ruled) -> None:
        """Loop bodies are unchanged: what is finite there is not known before."""

    def array(self, array: Array) -> Array:
        if not (isinstance(array, Reduce) and array.op == "sum" and is_float(array.dtype)):
            return array
        whole = (self.joined(array) if self.windows else None) or array
        parts = None if any(map(is_computed, whole.domain)) else _parts(whole, self.windows)
        most = None if parts is None else self.zeros.magnitude(parts.other)
        holds = None if most is None else finite((most,))
        if parts is None or holds is None:
            return array
        body = apply("multiply", reduce(mask, parts.guards, parts.own), parts.other)
        fast = Reduce("sum", whole.shape, whole.reduced, reduce(mask, parts.places, body))
        at = identity(array.shape)
        return Map(array.shape, select(holds, Read(fast, at), Read(whole, at)))

    def joined(self, array: Reduce) -> Reduce | None:
        """A sum of sums as one, if nothing else reads the inner ones, and this reads each of them once."""
        found, value = guarded(array.body)
        if not isinstance(value, Read) or value.array not in self.single:
            return None
        inner = value.array
        if not (isinstance(inner, Reduce) and inner.op == "sum" and inner.dtype == array.dtype):
            return None
        axes = frozenset(k for k, n in enumerate(array.domain) if not is_const(n, 1))
        if not axes <= _determined(value.args):
            return None
        count = len(array.domain)
        places = dict(enumerate(value.args))
        places |= {inner.rank + k: Index(count + k) for k in range(len(inner.reduced))}
        body = reduce(mask, found, substitute(inner.body, places))
        return Reduce("sum", array.shape, (*array.reduced, *inner.reduced), body)


def _determined(indices: Sequence[Element]) -> frozenset[int]:
    """The axes that follow from indices, one after the other: k and i from i - k and k."""
    forms = [linear(i).terms for i in indices]
    known: set[int] = set()
    for _ in forms:
        for terms in forms:
            unknown = [a for a in terms if a is not None and not a.axes <= known]
            if len(unknown) == 1 and isinstance(unknown[0], Index) and abs(terms[unknown[0]]) == 1:
                known.add(unknown[0].axis)
    return frozenset(known)


class _Parts(NamedTuple):
    """A product under guards: those of one factor, `own`, and those on places of the whole."""

    guards: Sequence[Element]
    places: Sequence[Element]
    own: Element
    other: Element


def _parts(array: Reduce, windows: bool) -> _Parts | None:
    """The parts of a guarded product of two matrices, if a sum is one."""
    guards: dict[Element, None] = {}
    body = array.body
    while isinstance(body, Select) and is_const(body.otherwise, 0):
        guards |= dict.fromkeys(stated(facts(body.guard, True)))
        body = body.then
    factors = factors_of(body) if guards else ()
    own_guards = [g for g in guards if any(isinstance(e, Read) for e in elements_of((g,)))]
    axes, shortest = frozenset[int]().union(*(g.axes for g in own_guards)), SHORTEST_LENGTH
    if windows:
        around = [g for g in guards if g not in own_guards and any(_is_around(g, f) for f in factors)]
        padded = [f.axes for f in factors if all(_is_around(g, f) for g in around)]
        if around and padded:
            own_guards += around
            axes, shortest = axes.union(*padded), SHORTEST_PACKED_LENGTH
    own, other = ([f for f in factors if (f.axes <= axes) == inside] for inside in (True, False))
    reached = frozenset[int]().union(*(f.axes for f in other))
    ends = frozenset(range(len(array.domain))) - axes, axes - reached
    if not own_guards or not own or not other or min(_least(array.domain, end) for end in ends) < shortest:
        return None
    places = [g for g in guards if g not in own_guards]
    return _Parts(own_guards, places, product(own), product(other))


def _least(domain: Shape, axes: frozenset[int]) -> float:
    """The length of axes as one, which is taken to be long if one of theirs is not constant."""
    lengths = [domain[k] for k in axes]
    known = prod(n.value for n in lengths if isinstance(n, Const))
    return known if all(isinstance(n, Const) for n in lengths) else inf


def _is_around(guard: Element, factor: Element) -> bool:
    """Whether a condition keeps an index of what a factor reads in an interval, or a place along the axis of
    one."""
    reads = (e for e in elements_of((factor,)) if isinstance(e, Read))
    indices = [_on_axes(linear(i)) for e in reads for i in e.args]
    forms = [_on_axes(form) for form in facts_of(guard)]
    return bool(forms) and all(form in indices or form * -1 in indices for form in forms)


def _on_axes(form: Linear) -> Linear:
    """The part of a form that depends on axes."""
    return Linear({a: n for a, n in form.terms.items() if a is not None and a.axes})
