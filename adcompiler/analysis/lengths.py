"""Lengths of one size: the simplest expression with the same values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from adcompiler.analysis.exact_lengths import exact
from adcompiler.analysis.limits import LAST_BREAK
from adcompiler.ir.nodes import Apply, Const, Element, Select, Size, const
from adcompiler.ir.walk import elements_of
from adcompiler.ops.build import apply

BREAKS = frozenset(("minimum", "maximum", "less", "less_equal"))
PIECEWISE_LINEAR = frozenset(("add", "subtract", "negative")) | BREAKS


def simplest(length: Element) -> Element:
    """k n + c, max(k n - c, 0) or a positive constant, if a length has the same value for every size n.

    Sums, minima, maxima and choices of multiples of a size and constants are linear from some size on, so two
    of them are equal if they are at all sizes up to the second one from there.
    """
    parts = elements_of((length,))
    sizes = [e for e in parts if isinstance(e, Size)]
    rest = (e for e in parts if not isinstance(e, Size | Const))
    if len(sizes) > 1 or not all(map(_is_piecewise_linear, rest)):
        return length
    if not sizes:
        number = exact(parts, lambda _: 0)[length]
        return const(number, "i64") if number > 0 else length
    last = _last_break(parts)
    if last > LAST_BREAK:
        return length
    values = [
        exact(parts, {sizes[0]: n}.__getitem__)[length] for n in range(last + 3)
    ]  # two on the last piece
    return (_named(sizes[0], values) if any(values) else None) or length


def _is_piecewise_linear(element: Element) -> bool:
    if not isinstance(element, Apply):
        return isinstance(element, Select)
    multiple = element.op == "multiply" and any(isinstance(a, Const) for a in element.args)
    return multiple or element.op in PIECEWISE_LINEAR


def _last_break(parts: Sequence[Element]) -> int:
    """A size after which the last of `parts`, which are in order, is linear: the constants of two linear
    pieces differ by at most this number where one of them is chosen."""
    constants: dict[Element, int] = {}
    found = 0
    for e in parts:
        most = [constants[a] for a in e.args]
        if isinstance(e, Apply) and e.op in BREAKS:
            found = max(found, sum(most))
        product = isinstance(e, Apply) and e.op == "multiply"
        constants[e] = abs(int(e.value)) if isinstance(e, Const) else prod(most) if product else sum(most)
    return found


def _named(size: Size, values: Sequence[int]) -> Element | None:
    """The simple expression with these values at sizes from 0 on; None if there is none."""
    last = len(values) - 1
    factor = values[last] - values[last - 1]
    more = values[last] - factor * last
    if not factor:
        return const(more, "i64") if all(v == more for v in values) else None
    multiple: Element = size if factor == 1 else apply("multiply", const(factor, "i64"), size)
    if factor < 0:
        return None
    if values == [factor * n + more for n in range(last + 1)] and more >= 0:
        return apply("add", multiple, const(more, "i64")) if more else multiple
    if values == [max(factor * n + more, 0) for n in range(last + 1)]:
        return apply("maximum", apply("subtract", multiple, const(-more, "i64")), const(0, "i64"))
    return None
