"""Places on several axes at once: every rewriting has the values of the quotients that it replaces."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from adcompiler.analysis.exact_lengths import EXACT
from adcompiler.analysis.mixed_radix import (
    Domain,
    exact_quotients,
    is_digit,
    number,
    product_of,
    regrouped,
    take,
)
from adcompiler.ir.nodes import Apply, Const, Element, Index, Shape, Size, const
from adcompiler.ir.walk import elements_of, substitute
from adcompiler.ops.build import apply

N, M, K = Size(0), Size(1), Size(2)
FOUR = const(4, "i64")


def times(*lengths: Element) -> Element:
    return apply("multiply", lengths[0], times(*lengths[1:])) if len(lengths) > 1 else lengths[0]


def over(x: Element, y: Element) -> Element:
    return apply("floor_divide", x, y)


def value(element: Element, sizes: tuple[int, ...], point: tuple[int, ...] = ()) -> int:
    found: dict[Element, int] = {}
    for e in elements_of((element,)):
        args = [found[a] for a in e.args]
        match e:
            case Const(value=constant):
                found[e] = int(constant)
            case Size(number=k):
                found[e] = sizes[k]
            case Index(axis=axis):
                found[e] = point[axis]
            case Apply(op=op):
                found[e] = int(EXACT[op](*args))
    return found[element]


def has_quotients(*elements: Element) -> bool:
    return any(is_digit(e) and e.axes for e in elements_of(elements))


HALF = over(M, FOUR)
SHAPES: dict[str, tuple[Shape, Shape, tuple[int, ...], bool]] = {  # new, old, lengths, and whether it divides
    "joined": ((N, times(M, K)), (N, M, K), (2, 3, 4), True),
    "split": ((N, M, K), (N, times(M, K)), (2, 3, 4), False),
    "heads": ((N, FOUR, HALF), (N, M), (2, 8, 0), False),
    "heads joined": ((N, M), (N, FOUR, HALF), (2, 8, 0), True),
    "groups": ((N, FOUR, times(HALF, K)), (N, M, K), (2, 8, 3), True),
    "channels": ((N, M, K), (N, FOUR, times(HALF, K)), (2, 8, 3), True),
    "patches": ((over(N, FOUR), FOUR, HALF, FOUR), (N, M), (8, 12, 0), False),
    "of other factors": ((const(6, "i64"), N), (FOUR, M), (4, 6, 0), True),
    "unknown": ((N, M), (K, const(6, "i64")), (4, 9, 6), True),
    "ones": ((N, const(1, "i64"), M), (const(1, "i64"), N, M), (2, 3, 0), False),
    "all of it": ((times(N, M),), (N, M), (2, 3, 0), True),
}


@pytest.mark.parametrize("name", SHAPES)
def test_regrouped_places_are_in_row_major_order(name: str) -> None:
    new, old, sizes, divides = SHAPES[name]
    ones = [const(0, "i64") if isinstance(n, Const) and n.value == 1 else Index(k) for k, n in enumerate(new)]
    places = regrouped(ones, new, old)
    shape, wanted = (tuple(value(n, sizes) for n in s) for s in (new, old))
    flat = np.arange(prod(wanted)).reshape(wanted)
    for point, element in np.ndenumerate(flat.reshape(shape)):
        assert flat[tuple(value(p, sizes, point) for p in places)] == element
    assert divides == has_quotients(*places)


def test_quotients_are_exact_only_where_the_numbers_of_elements_say_so() -> None:
    assert M in exact_quotients((N, FOUR, HALF), (N, M))
    assert exact_quotients((N, HALF), (N, M)) == {}
    # 5 * (5 // 4) * 4 == 4 * (5 // 4) * 5, though 4 divides neither.
    assert exact_quotients((N, over(M, FOUR), FOUR), (FOUR, over(N, FOUR), M)) == {}


def test_a_place_that_is_regrouped_and_back_is_itself() -> None:
    new, old = (N, M, K), (N, FOUR, times(HALF, K))
    inner = regrouped([Index(0), Index(1), Index(2)], old, new)
    outer = regrouped([Index(0), Index(1), Index(2)], new, old)
    back = tuple(substitute(e, dict(enumerate(outer))) for e in inner)
    assert Domain(new).simplified(back) == (Index(0), Index(1), Index(2))


def test_digits_are_taken_only_where_no_length_is_zero() -> None:
    place = apply("add", times(Index(0), K), apply("remainder", Index(1), K))
    part = over(place, K)
    assert Domain((N, M)).simplified((part,)) == (part,), "k may be 0, and then the quotient is 0"
    assert Domain((N, times(M, K))).simplified((part,)) == (Index(0),)
    clamped = apply("maximum", K, const(1, "i64"))
    whole = apply("add", times(over(Index(0), clamped), clamped), apply("remainder", Index(0), clamped))
    assert Domain((N,)).simplified((whole,)) == (Index(0),)


@pytest.mark.parametrize(("n", "m"), [(1, 4), (2, 1), (3, 4)])
def test_the_lowest_digits_are_a_remainder(n: int, m: int) -> None:
    domain = Domain((N, M))
    place = apply("add", times(Index(0), M), Index(1))
    digits = domain.digits_of(place)
    assert digits is not None
    low = take(digits, product_of(M))
    assert low is not None
    for i, j in product(range(n), range(m)):
        assert value(low, (n, m), (i, j)) == (i * m + j) % m
        assert value(number(digits), (n, m), (i, j)) == (i * m + j) // m
    assert not has_quotients(low, number(digits))
