"""Scale the weights of sums out of the range of subnormal numbers.

Weights such as exp(b - max b) decay without limit, and some are smaller than the smallest normal number of
their type. A processor takes a hundred times as long for an operation on such a number, or on a vector that
contains one; in a sum of p[i] y[i, a] z[i, b] that happens for each a and b. Therefore

    sum p y z = sum (s p) y z / s        where s is a large power of two, or 1

in which multiplying by s and by 1 / s does not round. s is 1 unless the largest weight, and a bound on the
factors of the weights (`passes/order/structural_zeros.py`), leave enough room. Factors that do not depend on
the innermost kept axis of the sum are multiplied once, in a separate array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from adcompiler.analysis.demand import read_whole
from adcompiler.analysis.predicates import guarded
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Const, Element, Func, Index, Read, Reduce, const, is_const, select
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, separate, substitute
from adcompiler.ops.build import apply, product
from adcompiler.ops.costs import is_function
from adcompiler.passes.algebra.factor import factors_of
from adcompiler.passes.order.structural_zeros import Zeros

# Exponents of two: of the scale, of the largest weight to scale, and of the largest bound on other factors.
# This leaves room for sums of 2^20 terms and more.
SCALES = {"f64": (200, 100, 600), "f32": (40, 20, 40)}


class _Parts(NamedTuple):
    """The factors of a sum, and its conditions: `numbers` includes the sign."""

    conditions: list[Element]
    numbers: Element
    weights: list[Element]
    others: list[Element]


def scaled(func: Func) -> Func:
    """The program with weights scaled in the sums with chosen lanes."""
    scaling = _Scaled(func)
    made = scaling.func(func)
    return made.with_(across={**made.across, **scaling.across})


class _Scaled(Rewriter):
    def __init__(self, func: Func) -> None:
        super().__init__()
        fixed = {*func.roots, *(b for a in arrays_of(func.roots) for b in read_whole(a))}
        self.lanes = {a: k for a, k in func.across.items() if a not in fixed}
        self.zeros = Zeros()
        self.across: dict[Array, int] = {}
        self.undone: dict[Array, Element] = {}  # factors that undo scaling, in terms of the sums' axes

    def inner(self, loop: Loop | Ruled) -> None:
        """Loop bodies are unchanged."""

    def _visit(self, element: Element) -> Element:
        made = super()._visit(element)
        if isinstance(element, Read) and element.array in self.undone:
            back = self.undone[element.array]
            return apply("multiply", made, substitute(back, dict(enumerate(element.args))))
        return made

    def _rebuilt(self, array: Array) -> Array:
        made = super()._rebuilt(array)
        lanes = self.lanes.get(array)
        if lanes is None or not isinstance(made, Reduce) or lanes < made.rank:
            return made
        parts = _parts(made, lanes)
        most = None if parts is None else self.most([*parts.others, parts.numbers])
        if parts is None or most is None:
            return made
        changed, self.undone[array] = self.scale(made, lanes, parts, most)
        self.across[changed] = lanes
        return changed

    def most(self, others: Sequence[Element]) -> Element | None:
        """A bound on the product of the weights' other factors."""
        found = [self.zeros.magnitude(f) for f in others]
        known = [f for f in found if f is not None]
        return _product(known) if len(known) == len(found) else None

    def scale(self, array: Reduce, lanes: int, parts: _Parts, most: Element) -> tuple[Reduce, Element]:
        """A sum of scaled weights, and the factor that undoes the scaling."""
        by, largest, room = (const(2.0**p, array.dtype) for p in SCALES[array.dtype])
        weight = _stored(array, _product(parts.weights), lanes)
        inside = Read(weight.array, tuple(map(Index, range(weight.array.rank))))
        top = Reduce("max", weight.array.shape[:-1], weight.array.shape[-1:], apply("abs", inside))
        fits = apply("less", Read(top, weight.args[:-1]), largest)
        fits = apply("logical_and", apply("less", most, room), fits)
        one = const(1, array.dtype)
        factors = [_stored(array, _product([weight, select(fits, by, one), parts.numbers]), lanes)]
        last = array.rank - 1
        outer = [f for f in parts.others if last not in f.axes]
        rest = [f for f in parts.others if last in f.axes]
        if outer and rest:
            factors = [_stored(array, _product([*factors, *outer]), lanes)]
        else:
            rest = [*outer, *rest]
        body = _product([*factors, *rest])
        for condition in reversed(parts.conditions):
            body = select(condition, body, const(0, array.dtype))
        back = select(fits, apply("divide", one, by), one)
        return Reduce("sum", array.shape, array.reduced, body), back


def _parts(array: Reduce, lanes: int) -> _Parts | None:
    """The factors of a sum, if they include weights that do not depend on some of its kept axes."""
    found, body = guarded(array.body)
    negated, factors = factors_of(body)
    numbers = [f for f in factors if isinstance(f, Const)]
    others = [f for f in factors if not isinstance(f, Const)]
    weights = [f for f in others if lanes in f.axes and any(map(is_function, elements_of((f,))))]
    rest = [f for f in others if f not in weights]
    axes = frozenset[int]().union(*(f.axes for f in weights))
    if not (weights and rest) or any(k >= array.rank for k in axes - {lanes}):
        return None
    if not set(range(array.rank)) - axes:
        return None
    number = prod((float(f.value) for f in numbers), start=-1.0 if negated else 1.0)
    return _Parts(found, const(number, array.dtype), weights, rest)


def _product(factors: Sequence[Element]) -> Element:
    """The product of factors, in order, without ones."""
    kept = [f for f in factors if not is_const(f, 1)] or factors[:1]
    return product(kept)


def _stored(array: Array, value: Element, lanes: int) -> Read:
    """A value as a read of an array over its own axes, the lanes last."""
    return separate(value, array.domain, (*sorted(value.axes - {lanes}), lanes))
