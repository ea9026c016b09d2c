"""Divide once: if several quotients share a denominator, multiply by its reciprocal.

This is done only if the denominator is far from the subnormal numbers, so that its reciprocal is not infinite
where the quotients are finite: a square root, a positive constant plus something nonnegative, or products of
these.

Other denominators occur in derivatives of quotients. With r = x / y and the cotangent g, x gets g / y and y
gets -g (r / y). The latter is -(g / y) r, where g / y exists already (if that overflows, it is the result for
x in any case). log(x / y) sends g / r through the quotient, so x gets (g / r) / y, which is g / (r y). Here r
y is about x and so in range, and 0, infinities and NaN give the same result. A quotient changes by one
rounding; strict ones do not change (`strict.py`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from adcompiler.ir.nodes import Apply, Array, Const, Element, Func, Index, const, is_const
from adcompiler.ir.walk import arrays_of, elements_of, postorder, substitute
from adcompiler.ops.build import apply
from adcompiler.passes.algebra.strict import StrictRewriter
from adcompiler.passes.limits import SMALLEST_DIVISOR

# A lower bound of a value, derived from its form (0 if the form gives none), and whether it is known to be
# nonnegative.
Bounds = tuple[float, bool]
NOT_NEGATIVE = frozenset(("square", "abs", "exp", "exp2", "sqrt", "cosh", "hypot"))


def reciprocal(func: Func) -> Func:
    """The program with one division for each denominator shared by several quotients."""
    return _Reciprocal(func.roots).func(func)


class _Reciprocal(StrictRewriter):
    def __init__(self, roots: Iterable[Array]) -> None:
        roots = tuple(roots)
        super().__init__(roots)
        quotients: dict[Element, set[Element]] = defaultdict(set)
        divisors: dict[Element, Element] = {}
        memo: dict[Element, Element] = {}
        bounds: dict[Element, Bounds] = {}
        self.numerators: dict[Element, list[Element]] = defaultdict(list)  # by divisor
        for element in elements_of(e for array in arrays_of(roots) for e in array.elements):
            if not isinstance(element, Apply) or element.op != "divide":
                continue
            x, divisor = element.args
            self.numerators[divisor].append(x)
            if _is_normal(divisor, bounds):
                # In another array the same divisor may have other axes.
                anywhere = substitute(element, dict.fromkeys(element.axes, Index(0)), memo)
                divisors[divisor] = anywhere.args[1]
                quotients[anywhere.args[1]].add(anywhere)
        self.shared = [divisor for divisor, anywhere in divisors.items() if len(quotients[anywhere]) > 1]

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="divide", args=(x, divisor)) if not is_const(x, 1):
                return self.quotient(x, divisor) or element
            case Apply(op="multiply", args=(x, y)):
                for g, other in ((x, y), (y, x)):
                    match other:
                        case Apply(op="divide", args=(r, divisor)) if self.divides(g, divisor):
                            known = self.quotient(g, divisor) or apply("divide", g, divisor)
                            return apply("multiply", known, r)
        return element

    def quotient(self, x: Element, divisor: Element) -> Element | None:
        """x / divisor with one division fewer, if there is such a form."""
        if any(self.elements.get(d) is divisor for d in self.shared):
            return apply("multiply", x, apply("divide", const(1, x.dtype), divisor))
        match x:
            case Apply(op="divide", args=(g, Apply(op="divide", args=(_, y)) as ratio)) if y is divisor:
                return apply("divide", g, apply("multiply", ratio, y))
        return None

    def divides(self, x: Element, divisor: Element) -> bool:
        """Whether the program has x / divisor, both as rewritten so far."""
        new = self.elements.get
        found = (xs for d, xs in self.numerators.items() if new(d) is divisor)
        return any(new(numerator) is x for xs in found for numerator in xs)


def _is_normal(element: Element, known: dict[Element, Bounds]) -> bool:
    """Whether a value is 0 or far from the subnormal numbers; `known` caches the bounds of elements."""
    return (isinstance(element, Apply) and element.op == "sqrt") or least(element, known) > SMALLEST_DIVISOR


def least(element: Element, known: dict[Element, Bounds]) -> float:
    """A lower bound of a value, 0 if its form gives none; `known` caches the bounds."""
    for e in postorder((element,), lambda e: () if e in known else e.args):
        if e not in known:
            known[e] = _bounds(e, known)
    return known[element][0]


def _bounds(element: Element, known: Mapping[Element, Bounds]) -> Bounds:
    """The bounds of an element, from those of its arguments."""
    match element:
        case Const(value=value):
            return float(value), value >= 0
        case Apply(op="add" | "multiply" | "divide" as op, args=(x, y)):
            (one, positive), (other, also) = known[x], known[y]
            both = positive and also
            if op == "multiply":
                return max(one, 0.0) * max(other, 0.0), both or x is y
            return one + other if op == "add" and both else 0.0, both
        case Apply(op="sqrt", args=(x,)):
            return math.sqrt(max(known[x][0], 0.0)), True
        case Apply(op=op):
            return 0.0, op in NOT_NEGATIVE
    return 0.0, False
