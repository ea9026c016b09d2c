"""Impossible lengths: those that overflow 64 bits, or need more memory than there can be.

The lengths in a program are expressions in the lengths of a call. Here they are computed exactly and checked
before a kernel runs, which would use a length modulo 2**64, or take years.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from adcompiler.analysis.limits import MOST_ELEMENTS
from adcompiler.errors import LimitError
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Apply, Array, Const, Element, Func, Select, Shape, Size
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of, is_computed

LONG = "more memory than available"
BOUNDS = tuple(2**k for k in range(56, 0, -4))

EXACT: Mapping[str, Callable[..., int]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negative": operator.neg,
    "floor_divide": lambda a, b: a // b if b else 0, "remainder": lambda a, b: a % b if b else 0,
    "minimum": min, "maximum": max, "less": operator.lt, "less_equal": operator.le, "equal": operator.eq,
    "greater": operator.gt, "greater_equal": operator.ge, "not_equal": operator.ne,
}  # fmt: skip


class Lengths:
    """The lengths of the axes of all arrays of a program, except those computed from values."""

    def __init__(self, func: Func, whole: bool = False) -> None:
        """If `whole`, the number of points of each domain is limited too."""
        self.func, self.whole = func, whole
        self.domains: dict[Shape, Array] = {}
        axes = {n for i in func.inputs for n in i.shape}  # lengths of arguments, which exist
        for array in _arrays(func):
            known = tuple(n for n in array.domain if not is_computed(n))
            if whole or any(n not in axes for n in known):
                self.domains.setdefault(known, array)
        # If no length of a call is greater than this, no length is too long.
        self.bound = next(
            (b for b in BOUNDS if all(self.most(d, b) <= MOST_ELEMENTS for d in self.domains)), 0
        )

    def most(self, domain: Shape, bound: int) -> int:
        """An upper bound of the lengths of a domain, and of their subexpressions, if no length of a call
        exceeds `bound`."""
        found: dict[Element, int] = {}
        for e in elements_of(domain):
            args = [found[a] for a in e.args]
            match e:
                case Const():
                    found[e] = abs(int(e.value))
                case Apply(op="multiply"):
                    found[e] = prod(args)
                case Apply(op="add" | "subtract"):
                    found[e] = sum(args)
                case Apply():
                    found[e] = max(args)
                case _:
                    found[e] = max(bound, *args) if args else bound
        return max((*found.values(), prod(found[n] for n in domain) if self.whole else 0), default=0)

    def check(self, sizes: Sequence[int]) -> None:
        """Raise LimitError if these lengths of a call lead to a length that is too long."""
        if max(sizes, default=0) <= self.bound:
            return
        for domain, array in self.domains.items():
            lengths = exact(tuple(elements_of(domain)), lambda size: sizes[size.number])
            longest = max((abs(n) for n in lengths.values()), default=0)
            points = prod(max(lengths[n], 0) for n in domain)
            if longest >= 2**63 or (
                points > MOST_ELEMENTS if self.whole else any(lengths[n] > MOST_ELEMENTS for n in domain)
            ):
                most = points if self.whole and longest < 2**63 else longest
                raise LimitError(
                    f"{most:,} elements take {LONG}",
                    remedy="pass smaller lengths",
                    source=self.func.source,
                    span=self.func.spans.get(array),
                )


def _arrays(func: Func) -> Iterator[Array]:
    """The arrays with a domain, including those in bodies of loops."""
    todo: list[Sequence[Array]] = [func.roots]
    seen: set[Any] = set()
    while todo:
        for array in arrays_of(todo.pop()):
            inner = array.loop if isinstance(array, Item) else array if isinstance(array, Ruled) else None
            if inner is None:
                yield array
            elif inner not in seen:
                seen.add(inner)
                todo.append(inner.roots)


def exact(parts: Sequence[Element], size: Callable[[Size], int]) -> dict[Element, int]:
    """The values of lengths and of their subexpressions, which are given in order, as unbounded integers."""
    found: dict[Element, int] = {}
    for e in parts:
        args = [found[a] for a in e.args]
        match e:
            case Const():
                found[e] = int(e.value)
            case Size():
                found[e] = size(e)
            case Select():
                found[e] = args[1] if args[0] else args[2]
            case Apply() if e.op in EXACT:
                found[e] = int(EXACT[e.op](*args))
            case _:
                found[e] = args[0] if args else 0
    return found
