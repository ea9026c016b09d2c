"""Quotients by roots as products: x / sqrt(x) is sqrt(x), any other a / sqrt(x) is a rsqrt(x).

x / sqrt(x) is what derivatives of x sqrt(x) and the like leave. It becomes a root only where x is surely a
positive normal number or not finite, so that nothing becomes of 0 / 0; where x is infinite that is infinite,
and the quotient was no number.

The reciprocal of a root is one operation, much faster than a root and a division on vectors
(`codegen/llvm/newton.py`), and never too large or too small for a number. So a / (x sqrt(x)) is a rsqrt(x)^3.
All of these change by rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce as fold_left

from adcompiler.ir.nodes import Apply, Array, Element, Func, is_const
from adcompiler.ops.build import apply
from adcompiler.passes.reciprocal import TINY, Bounds, least
from adcompiler.passes.strict import StrictRewriter


def roots(func: Func) -> Func:
    """The program without quotients of values and roots."""
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
                        return fold_left(_times, (apply("rsqrt", square),) * 3, x)
            case Apply(op="multiply", args=(x, y)):
                for one, other in ((x, y), (y, x)):
                    match other:
                        case Apply(op="rsqrt", args=(square,)):
                            return self.product(one, square) or element
                        case Apply(op="multiply", args=(number, Apply(op="rsqrt", args=(square,)))):
                            made = self.product(one, square)
                            return element if made is None else _times(number, made)
        return element

    def product(self, x: Element, square: Element) -> Element | None:
        """x / sqrt(square), if the square is a factor of x."""
        if least(square, self.bounds) <= TINY:
            return None
        root = apply("sqrt", square)
        match x:
            case Apply(op="multiply", args=(one, other)) if square in (one, other):
                return apply("multiply", other if one is square else one, root)
        return root if x is square else None


def _times(x: Element, y: Element) -> Element:
    """x y, where x may be 1."""
    return y if is_const(x, 1) else apply("multiply", x, y)
