"""Expand primitives without a kernel into others, using the rule table."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adcompiler.frontend.lowering.rule_texts import element_of
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.types import DTYPES, NUMPY, is_float
from adcompiler.ir.walk import Rewriter, rewrite, substitute
from adcompiler.ops.build import apply, operands
from adcompiler.ops.table import TABLE
from adcompiler.passes.limits import LARGEST_EXPONENT


def expand(func: Func) -> Func:
    """The program in primitives that have a kernel."""
    return _Expand().func(func)


class _Expand(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[Array, _Exponentials] = {}  # the parts of each expanded logsumexp

    def array(self, array: Array) -> Array:
        if not isinstance(array, Reduce) or array.op != "logsumexp":
            return array
        parts = _exponentials(array)
        made = Map(array.shape, apply("add", parts.shift, apply("log", parts.total)))
        self.sums[made] = parts
        return made

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="exp", args=(Apply(op="subtract", args=(b, Read(array=made) as whole)),)):
                if made in self.sums:
                    return self.sums[made].share(b, whole) or element
        if isinstance(element, Apply) and element.op == "power":
            return _power(element)
        if not isinstance(element, Apply) or element.op in DTYPES or not TABLE[element.op].expand:
            return element
        said = element_of(TABLE[element.op].expand, operands(element), element.dtype)
        # The text may use primitives that also expand; its operands are expanded already.
        memo: dict[Element, Element] = {a: a for a in element.args}
        return rewrite((said,), lambda e: e if e is element else self.element(e), memo)[0]


class _Exponentials(NamedTuple):
    """The parts of log(sum exp b) = m + log(sum exp(b - m)), as elements; m is the `shift`."""

    array: Reduce
    shift: Element
    total: Element

    def share(self, b: Element, whole: Read) -> Element | None:
        """exp(b - log(sum exp b)) as exp(b - m) / sum exp(b - m), which reuses the exponentials; None for
        another b, whose exponential may overflow."""
        reduced = sorted(b.axes - frozenset().union(*(i.axes for i in whole.args)))
        if len(reduced) != len(self.array.reduced):
            return None
        places = dict(enumerate((*whole.args, *map(Index, reduced))))
        if substitute(self.array.body, places) is not b:
            return None
        shift, total = (substitute(e, places) for e in (self.shift, self.total))
        return apply(
            "multiply", apply("exp", apply("subtract", b, shift)), apply("divide", const(1, b.dtype), total)
        )


def _exponentials(array: Reduce) -> _Exponentials:
    """Shift by m, the greatest b, so that no exponential overflows. If m is infinite, the shift is the
    largest finite number or 0: finite values next to an infinity then have share 0, and the sum is infinite
    or 0."""
    greatest = Read(Reduce("max", array.shape, array.reduced, array.body), identity(array.shape))
    largest = const(float(np.finfo(NUMPY[array.dtype]).max), array.dtype)
    none = apply("equal", greatest, const(-math.inf, array.dtype))
    shift = select(none, const(0, array.dtype), apply("minimum", greatest, largest))
    exponentials = apply("exp", apply("subtract", array.body, shift))
    total = Read(Reduce("sum", array.shape, array.reduced, exponentials), identity(array.shape))
    return _Exponentials(array, shift, total)


def _power(element: Apply) -> Element:
    """Expand a power with a small exponent, an integer or an integer plus one half, by repeated squaring and
    a square root: exact up to some roundings, and fast."""
    base, exponent = element.args
    if not isinstance(exponent, Const) or 2 * exponent.value not in range(
        -2 * LARGEST_EXPONENT, 2 * LARGEST_EXPONENT + 1
    ):
        return element
    count, half = divmod(int(2 * abs(exponent.value)), 2)
    if exponent.value < 0 and not is_float(element.dtype):
        return element
    power = _squared(apply("abs", base) if half and count else base, count)
    if half:
        root = apply("sqrt", base) if exponent.value == 0.5 else _root(base)  # NumPy's own exception
        power = apply("multiply", power, root) if count else root
    return power if exponent.value >= 0 else apply("divide", const(1, element.dtype), power)


def _squared(base: Element, count: int) -> Element:
    """`base` to an integer power."""
    power: Element = const(1, base.dtype)
    while count:
        if count & 1:
            power = base if is_const(power, 1) else apply("multiply", power, base)
        count >>= 1
        if count:
            base = apply("multiply", base, base)
    return power


def _root(base: Element) -> Element:
    """`base` to the power 0.5 as a factor. This is not quite its square root, because pow(-inf, 1.5) is
    inf."""
    infinite = apply("equal", base, const(-math.inf, base.dtype))
    return select(infinite, const(math.inf, base.dtype), apply("abs", apply("sqrt", base)))
