"""Quotients by roots as products: x / sqrt(x) is sqrt(x), any other a / sqrt(x) is a rsqrt(x).

x / sqrt(x) comes from derivatives of x sqrt(x) and similar terms. It becomes a root only if x is proved to be
a positive normal number or not finite, so 0 / 0 does not change. For infinite x the root is infinite; the
quotient was NaN.

The reciprocal root is one operation, much faster than a root and a division on vectors
(`targets/llvm/vectormath/newton.py`), and never overflows or underflows. So a / (x sqrt(x)) is a rsqrt(x)^3,
and all quotients by it share the cube. sqrt(x) rsqrt(x)^6, which occurs in their derivatives, needs no root
if x is proved to be such a number. All of these change by rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce as fold_left

from adcompiler.ir.nodes import Apply, Array, Element, Func, const, is_const
from adcompiler.ops.build import apply
from adcompiler.passes.algebra.reciprocal import Bounds, least
from adcompiler.passes.algebra.strict import StrictRewriter
from adcompiler.passes.limits import MOST_ROOTS, SMALLEST_DIVISOR


def roots(func: Func) -> Func:
    """The program without quotients by roots."""
    return _Roots(func.roots).func(func)


class _Roots(StrictRewriter):
    def __init__(self, roots: Iterable[Array]) -> None:
        super().__init__(roots)
        self.bounds: dict[Element, Bounds] = {}

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="divide", args=(x, Apply(op="sqrt", args=(square,)))):
                return self.product(x, square) or _times(x, apply("rsqrt", square))
            case Apply(op="divide", args=(x, Apply(op="multiply", args=(y, z)))):
                for square, root in ((y, z), (z, y)):
                    if root is apply("sqrt", square):
                        return _times(x, _cube(apply("rsqrt", square)))
            case Apply(op="multiply", args=(x, y)):
                for one, other in ((x, y), (y, x)):
                    match other:
                        case Apply(op="rsqrt", args=(square,)):
                            return self.product(one, square) or element
                        case Apply(op="sqrt", args=(square,)):
                            return self.cancelled(one, square) or element
                        case Apply(op="multiply", args=(number, Apply(op="rsqrt", args=(square,)))):
                            made = self.product(one, square)
                            return element if made is None else _times(number, made)
        return element

    def product(self, x: Element, square: Element) -> Element | None:
        """x / sqrt(square), if `square` is a factor of x."""
        if least(square, self.bounds) <= SMALLEST_DIVISOR:
            return None
        root = apply("sqrt", square)
        match x:
            case Apply(op="multiply", args=(one, other)) if square in (one, other):
                rest = other if one is square else one
                return _without(rest, apply("rsqrt", square)) or apply("multiply", rest, root)
        return root if x is square else None

    def cancelled(self, x: Element, square: Element) -> Element | None:
        """x sqrt(square), if the reciprocal root is a factor of x."""
        if least(square, self.bounds) <= SMALLEST_DIVISOR:
            return None
        return _without(x, apply("rsqrt", square))


def _without(x: Element, factor: Element) -> Element | None:
    """A product without one of its factors; None if that is not among the first."""
    work: list[tuple[Element, tuple[Element, ...]]] = [(x, ())]
    for _ in range(MOST_ROOTS):
        if not work:
            break
        element, others = work.pop()
        if element is factor:
            one: Element = const(1, x.dtype)
            return fold_left(_times, reversed(others), one)
        if isinstance(element, Apply) and element.op == "multiply":
            y, z = element.args
            work += [(y, (*others, z)), (z, (*others, y))]
    return None


def _cube(x: Element) -> Element:
    """x x x, associated so that all products with it share it."""
    return apply("multiply", apply("multiply", x, x), x)


def _times(x: Element, y: Element) -> Element:
    """x y, where x may be 1."""
    return y if is_const(x, 1) else apply("multiply", x, y)
