"""x / sqrt(x) is sqrt(x): what derivatives of x sqrt(x) and the like leave is one root, and no division.

Only where x is surely a positive normal number or not finite, so that nothing becomes of 0 / 0. A product
changes by rounding; where x is infinite it is infinite, and the quotient was no number.
"""

from __future__ import annotations

from collections.abc import Iterable

from adcompiler.ir.nodes import Apply, Array, Element, Func
from adcompiler.ops.build import apply
from adcompiler.passes.exact import ExactRewriter
from adcompiler.passes.reciprocal import TINY, Bounds, least


def roots(func: Func) -> Func:
    """The program without quotients of values and their own roots."""
    return _Roots(func.roots).func(func)


class _Roots(ExactRewriter):
    def __init__(self, roots: Iterable[Array]) -> None:
        super().__init__(roots)
        self.bounds: dict[Element, Bounds] = {}

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="divide", args=(x, Apply(op="sqrt") as root)):
                return self.shortened(x, root) or element
            case Apply(op="multiply", args=(x, y)):
                for one, other in ((x, y), (y, x)):
                    match other:
                        case Apply(op="divide", args=(number, Apply(op="sqrt") as root)):
                            made = self.shortened(one, root)
                            return element if made is None else apply("multiply", number, made)
        return element

    def shortened(self, x: Element, root: Apply) -> Element | None:
        """x / root, if a factor of x is what the root is taken of."""
        (square,) = root.args
        if least(square, self.bounds) <= TINY:
            return None
        match x:
            case Apply(op="multiply", args=(one, other)) if square in (one, other):
                return apply("multiply", other if one is square else one, root)
        return root if x is square else None
