"""Say primitives that kernels do not know by others, as the rule table says."""

from __future__ import annotations

import math

from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Func,
    Map,
    Read,
    Reduce,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import Rewriter, rewrite
from adcompiler.ops.build import apply, operands
from adcompiler.ops.table import TABLE
from adcompiler.syntax.scalar import element_of

LARGEST = 16  # the exponent up to which a power is written as multiplications


def expand(func: Func) -> Func:
    """The program in primitives that have a kernel."""
    return _Expand().func(func)


class _Expand(Rewriter):
    def array(self, array: Array) -> Array:
        return _logsumexp(array) if isinstance(array, Reduce) and array.op == "logsumexp" else array

    def element(self, element: Element) -> Element:
        if isinstance(element, Apply) and element.op == "power":
            return _power(element)
        if not isinstance(element, Apply) or element.op in DTYPES or not TABLE[element.op].expand:
            return element
        made = element_of(TABLE[element.op].expand, operands(element), element.dtype)
        # The text may use primitives that expand in turn; its operands are expanded already.
        memo: dict[Element, Element] = {a: a for a in element.args}
        return rewrite((made,), lambda e: e if e is element else self.element(e), memo)[0]


def _logsumexp(array: Reduce) -> Array:
    """m + log(sum exp(b - m)) with m the greatest b: no exponential overflows. An infinite m is left out."""
    greatest = Read(Reduce("max", array.shape, array.reduced, array.body), identity(array.shape))
    shift = select(apply("isfinite", greatest), greatest, const(0, array.dtype))
    exponentials = apply("exp", apply("subtract", array.body, shift))
    total = Read(Reduce("sum", array.shape, array.reduced, exponentials), identity(array.shape))
    return Map(array.shape, apply("add", shift, apply("log", total)))


def _power(element: Apply) -> Element:
    """A power with a small whole exponent, or one half more, by repeated squaring and a square root: exact up
    to some roundings, and fast."""
    base, exponent = element.args
    if not isinstance(exponent, Const) or 2 * exponent.value not in range(-2 * LARGEST, 2 * LARGEST + 1):
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
    """`base` to a whole power."""
    power: Element = const(1, base.dtype)
    while count:
        if count & 1:
            power = base if is_const(power, 1) else apply("multiply", power, base)
        count >>= 1
        if count:
            base = apply("multiply", base, base)
    return power


def _root(base: Element) -> Element:
    """`base` to the power 0.5 as a factor: not quite its square root, for pow(-inf, 1.5) is inf."""
    infinite = apply("equal", base, const(-math.inf, base.dtype))
    return select(infinite, const(math.inf, base.dtype), apply("abs", apply("sqrt", base)))
