"""Specialise a program for known lengths: short lengths become constants, equal lengths one symbol.

Sums over a constant axis are unrolled (`unroll.py`), and its elements are known to exist. If two lengths are
equal, a read of one array at an index of the other needs no bounds check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adcompiler.ir.nodes import Element, Func, Size, const
from adcompiler.ir.walk import Resized
from adcompiler.passes.limits import MOST_COORDINATES
from adcompiler.passes.pipeline import SIMPLIFY, run

Pairs = tuple[tuple[int, int], ...]


class Known(NamedTuple):
    """Known facts about the lengths of a call, by the numbers of their symbols.

    constant pairs of a number and its value equal pairs of numbers whose values are equal
    """

    constant: Pairs = ()
    equal: Pairs = ()


NOTHING = Known()


def short(sizes: Sequence[int], axes: frozenset[int] | None = None) -> Pairs:
    """The lengths to unroll sums over, restricted to `axes` if given. A length of 1 is part of the argument
    types."""
    within = range(len(sizes)) if axes is None else sorted(axes)
    return tuple((k, sizes[k]) for k in within if 1 < sizes[k] <= MOST_COORDINATES)


def for_lengths(func: Func, known: Known) -> Func:
    """The program specialised for such calls: size symbols keep their numbers."""
    if known == NOTHING:
        return func
    same: dict[Size, Size] = {}

    def find(number: int) -> Size:
        size = Size(number)
        while size in same:
            size = same[size]
        return size

    for pair in known.equal:
        first, second = sorted(map(find, pair), key=lambda size: size.number)
        if first is not second:
            same[second] = first
    values = {find(number): const(value, "i64") for number, value in known.constant}
    roots = {size: find(size.number) for size in (*same, *values)}
    mapping: dict[Size, Element] = {size: values.get(root, root) for size, root in roots.items()}
    made = Resized(mapping).func(func)
    return run(SIMPLIFY, made) if values else made
