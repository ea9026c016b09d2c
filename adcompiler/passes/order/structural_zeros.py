"""Structural sparsity: where elements are zero by construction, and which values must be finite for that.

`l[i, j] if i > j else 0` is zero outside a triangle, and so is its product with x[j], if x[j] is finite: 0
times infinity is NaN. That depends on values, but one number decides it beforehand: a bound on all factors of
the zeros, computed from the largest elements of the inputs. If the bound is finite, all factors are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import NamedTuple

from adcompiler.analysis.regions import EVERYWHERE, Region, at, both, either, where
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Select,
    const,
    is_const,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import elements_of
from adcompiler.ops.build import apply, product
from adcompiler.passes.limits import MOST_LOOKED_THROUGH

SIGNS = ("negative", "abs", "strict")
BOUNDED = frozenset(("sin", "cos", "tanh", "tanh_slope", "sigmoid", "sigmoid_slope"))  # by 1


class Support(NamedTuple):
    """An element is zero outside a region, if these bounds are finite."""

    region: Region = EVERYWHERE
    finite: tuple[Element, ...] = ()

    @property
    def says(self) -> bool:
        """Whether it excludes anything."""
        return self.region is None or bool(self.region)


ANY = Support()


class Zeros:
    """Finds supports and bounds on magnitudes, and caches them."""

    def __init__(self) -> None:
        self.supports: dict[Element, Support] = {}
        self.bounds: dict[Element, Element | None] = {}

    # -- where ---------------------------------------------------------------------------------

    def support(self, root: Element, depth: int = 0) -> Support:
        """The region where an element may be nonzero."""
        for e in elements_of((root,)):
            if e not in self.supports:
                self.supports[e] = self._support(e, depth)
        return self.supports[root]

    def _support(self, element: Element, depth: int) -> Support:
        parts = [self.supports[a] for a in element.args]
        match element:
            case Const():
                return Support(None) if is_const(element, 0) else ANY
            case Select(guard=guard):
                sides = zip((True, False), parts[1:], strict=True)
                then, other = (Support(both(where(guard, h), p.region), p.finite) for h, p in sides)
                return _either(then, other)
            case Apply(op="add" | "subtract"):
                return _either(*parts)
            case Apply(op="multiply", args=(x, y)):
                return parts[0] if x is y else self._product(element.args, parts)
            case Apply(op=op) if op in SIGNS:
                return parts[0]
            case Apply(op="f32" | "f64", args=(x,)) if is_float(x.dtype):
                return parts[0]
            case Read(array=array, args=args):
                return self._read(array, args, depth)
        return ANY

    def _product(self, args: Sequence[Element], parts: Sequence[Support]) -> Support:
        """The support of a product: that of one factor, if the other is finite."""
        found = []
        for own, other in ((0, 1), (1, 0)):
            most = self.magnitude(args[other]) if parts[own].says else None
            if most is not None:
                more = () if isinstance(args[other], Const) else (most,)
                found.append(Support(parts[own].region, tuple(dict.fromkeys((*parts[own].finite, *more)))))
        return min(found, key=lambda s: len(s.finite), default=ANY)

    def _read(self, array: Array, args: Sequence[Element], depth: int) -> Support:
        summed = isinstance(array, Reduce) and array.op == "sum"
        if depth == MOST_LOOKED_THROUGH or not (isinstance(array, Map) or summed):
            return ANY
        own = self.support(array.elements[0], depth + 1)
        return Support(at(own.region, args), own.finite)

    # -- how large -----------------------------------------------------------------------------

    def magnitude(self, root: Element, depth: int = 0) -> Element | None:
        """An upper bound of the magnitude of an element, finite only if all elements are."""
        for e in elements_of((root,)):
            if e not in self.bounds:
                self.bounds[e] = self._magnitude(e, depth)
        return self.bounds[root]

    def _magnitude(self, element: Element, depth: int) -> Element | None:
        if not is_float(element.dtype):
            return None
        one = const(1, element.dtype)
        parts = [self.bounds[a] for a in element.args]
        match element:
            case Const(value=value):
                return const(abs(value), element.dtype) if isfinite(value) else None
            case Apply(op="f64" | "f32", args=(x,)) if not is_float(x.dtype):
                return const(2.0**63, element.dtype)
            case Apply(op=op) if op in BOUNDED and parts[0] is not None:
                return apply("maximum", one, parts[0])  # of infinity it is NaN
            case Select():
                return _combined("maximum", parts[1:])
            case Apply(op="add" | "subtract"):
                return _combined("add", parts)
            case Apply(op="multiply" | "negative" | "abs" | "strict" | "exp" as op):
                return parts[0] if op in SIGNS else _combined(op, parts)
            case Read(array=Input() as array):
                return _largest(array)
            case Read(array=Map() as array) if depth < MOST_LOOKED_THROUGH:
                return self.magnitude(array.body, depth + 1)
            case Read(array=Reduce(op="sum") as array) if depth < MOST_LOOKED_THROUGH:
                terms = product(apply(array.dtype, n) for n in array.reduced)
                return _combined("multiply", (terms, self.magnitude(array.body, depth + 1)))
        return None


def _either(a: Support, b: Support) -> Support:
    return Support(either(a.region, b.region), tuple(dict.fromkeys((*a.finite, *b.finite))))


def _combined(op: str, parts: Sequence[Element | None]) -> Element | None:
    known = [p for p in parts if p is not None]
    return apply(op, *known) if len(known) == len(parts) else None


def _largest(array: Input) -> Element:
    """The largest magnitude in an input; 0 if it is empty, as for reads outside it."""
    axes = [k for k, n in enumerate(array.shape) if not is_const(n, 1)]
    at = {k: Index(p) for p, k in enumerate(axes)}
    inside = Read(array, tuple(at.get(k, const(0, "i64")) for k in range(array.rank)))
    if not axes:
        return apply("abs", inside)
    most = Reduce("max", (), tuple(array.shape[k] for k in axes), apply("abs", inside))
    return apply("maximum", Read(most, ()), const(0, array.dtype))


def finite(bounds: Sequence[Element]) -> Element | None:
    """The condition that bounds are finite; None if there are no bounds."""
    found: Element | None = None
    for most in bounds:
        own = apply("less", most, const(inf, most.dtype))
        found = own if found is None else apply("logical_and", found, own)
    return found
