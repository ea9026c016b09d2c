"""Bounds of places on several axes at once, proved and tried: each index is inside for all lengths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.analysis.intervals import Range, lowest, never_negative, up_to
from adcompiler.interpreter.reference import REAL, evaluate
from adcompiler.ir.nodes import Element, Index, Size, const
from adcompiler.ops.build import apply

(B, T, H), (I, J, K) = map(Size, range(3)), map(Index, range(3))  # noqa: E741
MOST = 4  # of each length that is tried


def times(x: Element, y: Element) -> Element:
    return apply("multiply", x, y)


def plus(x: Element, y: Element) -> Element:
    return apply("add", x, y)


BT, BTH = times(B, T), times(times(B, T), H)
FLAT = plus(times(plus(times(I, T), J), H), K)  # the place of (I, J, K)
TWO = const(2, "i64")
HALF = apply("floor_divide", T, TWO)
STEPS = plus(apply("floor_divide", plus(T, const(-3, "i64")), TWO), const(1, "i64"))  # windows of three
# An index, the length of its axis, the loops around, and whether it is inside.
PLACES = {
    "a row of a flattened axis": (plus(times(I, T), J), BT, (B, T), True),
    "a place on three axes": (FLAT, BTH, (B, T, H), True),
    "one further": (plus(FLAT, const(1, "i64")), BTH, (B, T, H), False),
    "another length": (plus(times(I, H), J), BT, (B, T), False),
    "the first of two axes": (apply("floor_divide", I, T), B, (BT,), True),
    "the second of two axes": (apply("remainder", I, T), T, (BT,), True),
    "the first of three": (apply("floor_divide", apply("floor_divide", I, H), T), B, (BTH,), True),
    "the second of three": (apply("remainder", apply("floor_divide", I, H), T), T, (BTH,), True),
    "axes in another order": (apply("floor_divide", I, B), B, (BT,), False),
    "halves of an axis": (plus(times(I, HALF), J), T, (TWO, HALF), True),
    "the second half of an axis": (plus(HALF, J), T, (B, HALF), True),
    "a window with a step": (plus(times(TWO, I), J), T, (STEPS, const(3, "i64")), True),
    "behind a window with a step": (plus(times(TWO, I), J), T, (STEPS, const(4, "i64")), False),
    "behind both halves": (plus(times(TWO, HALF), J), T, (TWO, HALF), False),
    "a remainder by another length": (apply("remainder", I, H), H, (BT,), False),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_a_place_is_inside(name: str) -> None:
    index, length, loops, inside = PLACES[name]
    ranges = {Index(k): up_to(size) for k, size in enumerate(loops)}
    room = linear(length) - linear(index) - linear_constant(1)
    assert all(never_negative(form, ranges, ()) for form in (linear(index), room)) == inside
    assert all(0 <= at < most for at, most in tried(index, length, loops)) == inside


def tried(index: Element, length: Element, loops: tuple[Element, ...]) -> list[tuple[int, int]]:
    """The index and the length of its axis in every iteration, for all short lengths."""
    found = []
    for sizes in product(range(MOST), repeat=3):
        ends = evaluate(loops, (), {}, sizes, REAL, {})
        for at in product(*(range(int(end)) for end in ends)):
            known = {Index(k): i for k, i in enumerate(at)}
            with np.errstate(divide="ignore"):  # a remainder by 0 is 0
                found.append(tuple(map(int, evaluate((index, length), (), {}, sizes, REAL, known))))
    return found


def remainder(x: Element, y: Element) -> Element:
    return apply("remainder", x, y)


THREE = const(3, "i64")
# Forms of indices below B and T, some with remainders, of which negative multiples are bounded from above.
BOUNDED = {
    "an index": I,
    "a remainder by a number": remainder(I, THREE),
    "of a number": remainder(const(2, "i64"), T),
    "by a length, which may be 0": remainder(I, T),
    "of a sum": remainder(plus(I, J), THREE),
    "a scaled remainder": times(remainder(I, THREE), T),
    "two": plus(remainder(I, THREE), times(const(2, "i64"), J)),
}


@pytest.mark.parametrize("factor", [-2, -1, 1, 2])
@pytest.mark.parametrize("name", BOUNDED)
def test_a_lower_bound_is_one(name: str, factor: int) -> None:
    """It is at most the least value, and equal to it for some lengths."""
    form = linear(BOUNDED[name]) * factor
    bound = lowest(form, {I: up_to(B), J: up_to(T)})
    assert bound is not None
    found = [(value, least) for value, least in tried(form.element(), bound.element(), (B, T))]
    assert all(least <= value for value, least in found)
    assert any(least == value for value, least in found)


def test_each_of_two_ends_bounds_an_index() -> None:
    last = apply("minimum", T, plus(I, const(1, "i64")))  # of `for j in range(1, min(T, i) + 1)`
    ranges = {I: up_to(B), J: Range(linear(last) - linear_constant(1), depth=1)}
    inside = linear(I) - linear(J)
    assert never_negative(inside, ranges, ())
    assert never_negative(linear(T) - linear(J) - linear_constant(1), ranges, ())
    assert not never_negative(inside - linear_constant(1), ranges, ())
