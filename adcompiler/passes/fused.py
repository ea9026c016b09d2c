"""Fused multiply-adds in bodies of loops, chosen here and not by LLVM.

LLVM contracts a product and a sum where it sees fit, which depends on what else a loop computes. The body of
a loop is compiled several times: as it is, with the stacks that its reverse needs, in segments. So that all
of these carry the same bits, the products of its maps are fused by their form alone: x * y + z becomes
fma(x, y, z), of two products the first one is fused, and the rest is strict (`strict.py`). Sums over axes
keep their own contraction.
"""

from __future__ import annotations

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Apply, Array, Element, Func, Map
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, elements_of, with_elements
from adcompiler.ops.build import apply
from adcompiler.passes.strict import STRICT, strict_elements


def fused(func: Func) -> Func:
    """The program with fused multiply-adds in the maps of its loops."""
    return _Outside().func(func)


class _Outside(Rewriter):
    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return _Body(loop) if isinstance(loop, Loop) else None


class _Body(Rewriter):
    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.strict = strict_elements(loop.roots)

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return type(self)(loop) if isinstance(loop, Loop) else None

    def array(self, array: Array) -> Array:
        if not (isinstance(array, Map) and any(map(_is_product, elements_of((array.body,))))):
            return array
        return with_elements(array, lambda elements: tuple(apply(STRICT, e) for e in elements), lambda n: n)

    def element(self, element: Element) -> Element:
        if not (isinstance(element, Apply) and is_float(element.dtype)) or element in self.strict:
            return element
        match element:
            case Apply(op="add", args=(x, y)) if _is_product(x):
                return apply("fma", *_factors(x), y)
            case Apply(op="add", args=(x, y)) if _is_product(y):
                return apply("fma", *_factors(y), x)
            case Apply(op="subtract", args=(x, y)) if _is_product(x):
                return apply("fma", *_factors(x), apply("negative", y))
            case Apply(op="subtract", args=(x, y)) if _is_product(y):
                first, second = _factors(y)
                return apply("fma", apply("negative", first), second, x)
        return element


def _is_product(element: Element) -> bool:
    return isinstance(element, Apply) and element.op in ("multiply", "square") and is_float(element.dtype)


def _factors(product: Element) -> tuple[Element, Element]:
    return product.args[0], product.args[-1]
