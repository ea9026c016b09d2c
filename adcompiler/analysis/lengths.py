"""Lengths of one size: the simplest expression with the same values."""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.analysis.exact_lengths import EXACT
from adcompiler.analysis.limits import LAST_BREAK
from adcompiler.ir.nodes import Apply, Const, Element, Size, const
from adcompiler.ir.walk import elements_of
from adcompiler.ops.build import apply

PIECEWISE_LINEAR = frozenset(("add", "subtract", "negative", "minimum", "maximum"))


def simplest(length: Element) -> Element:
    """n + c, max(n - c, 0) or a constant, if a length has the same value for every size n.

    Sums, minima and maxima of a size and constants are linear from some size on, so two of them are equal if
    they are at all sizes up to the next one.
    """
    parts = elements_of((length,))
    sizes = [e for e in parts if isinstance(e, Size)]
    rest = (e for e in parts if not isinstance(e, Size | Const))
    if len(sizes) != 1 or not all(isinstance(e, Apply) and e.op in PIECEWISE_LINEAR for e in rest):
        return length
    last = _last_break(parts)
    if not 0 < last <= LAST_BREAK:
        return length
    return _named(sizes[0], [_value(parts, n) for n in range(last + 2)]) or length


def _last_break(parts: Sequence[Element]) -> int:
    """A size after which the last of `parts`, which are in order, is linear: the constants of two linear
    pieces differ by at most this number where one of them is chosen."""
    constants: dict[Element, int] = {}
    found = 0
    for e in parts:
        most = [constants[a] for a in e.args]
        if isinstance(e, Apply) and e.op in ("minimum", "maximum"):
            found = max(found, sum(most))
        constants[e] = abs(int(e.value)) if isinstance(e, Const) else sum(most)
    return found


def _value(parts: Sequence[Element], size: int) -> int:
    """The value of the last of `parts`, which are in order, for a size."""
    found: dict[Element, int] = {}
    for e in parts:
        match e:
            case Const(value=value):
                found[e] = int(value)
            case Apply(op=op, args=args):
                found[e] = EXACT[op](*(found[a] for a in args))
            case _:
                found[e] = size
    return found[parts[-1]]


def _named(size: Size, values: Sequence[int]) -> Element | None:
    """The simple expression with these values at sizes from 0 on; None if there is none."""
    last = len(values) - 1
    if all(v == values[last] for v in values):
        return const(values[last], "i64")
    more = values[last] - last
    if values == [n + more for n in range(last + 1)] and more >= 0:
        return apply("add", size, const(more, "i64")) if more else size
    if values == [max(n + more, 0) for n in range(last + 1)]:
        return apply("maximum", apply("subtract", size, const(-more, "i64")), const(0, "i64"))
    return None
