"""The factors of a product."""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ir.nodes import Apply, Element, const
from adcompiler.ops.build import apply


def factors_of(element: Element) -> Sequence[Element]:
    """The factors of a product in order, of a quotient and of a negated one too; empty if it is neither."""
    factors: list[Element] = []
    work = [element]
    while work:
        e = work.pop()
        match e:
            case Apply(op="multiply", args=(x, y)):
                work += (y, x)
            case Apply(op="divide", args=(x, y)):
                factors.append(apply("divide", const(1, e.dtype), y))
                work.append(x)
            case Apply(op="negative", args=(x,)):
                factors.append(const(-1, e.dtype))
                work.append(x)
            case _:
                factors.append(e)
    return factors if len(factors) > 1 else ()
