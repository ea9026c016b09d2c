"""Order: sort, argsort, median, quantile, searchsorted and interp, against NumPy; their derivatives by finite
differences."""

from __future__ import annotations

import numpy as np
import pytest
from judges.numpy_functions import (
    VALUES,
    arguments,
    kernels_agree,
    means_what_it_means_in_numpy,
    numpy_value,
    same,
)

import adcompiler as adc

SOURCES = [
    "sort(v)",
    "sort(m)",
    "sort(s, axis=1)",
    "sort(m, axis=None)",
    "sort(v * v[::-1]) * v",
    "median(v)",
    "median(c, axis=(0, 2))",
    "median(c, (1, 2), True)",
    "quantile(c, 0.3, axis=(0, 1))",
    "median(m)",
    "median(s, axis=1)",
    "median(m, 0, keepdims=True)",
    "median(s, keepdims=True)",
    "quantile(v, 0.3)",
    "quantile(m, [0.0, 0.35, 1.0])",
    "quantile(s, 0.43 + w / 30, axis=1)",
    "quantile(s, 0.43 + w / 30, axis=0, keepdims=True)",
    "percentile(m, 35, axis=1)",
    *(
        f"quantile(s, 0.43 + w / 30, axis=1, method='{name}')"
        for name in ("lower", "higher", "nearest", "midpoint")
    ),
    "interp(m, sort(v), v)",
    "interp(w, sort(v), v, left=-1.0, right=v[0])",
    "interp(v[0], [0.0, 0.5, 2.0], w)",
    "take_along_axis(m, argsort(m, axis=0), axis=0)",
    "v[argsort(-v)]",
    "where(searchsorted(sort(w), v) > 1, v, 2 * v)",
    "where(searchsorted([-1.0, 0.0, 0.5], v, side='right') == 1, v, 2 * v)",
]


@pytest.mark.thinned(10)
@pytest.mark.parametrize("source", SOURCES)
def test_a_function_means_what_it_means_in_numpy(source):
    means_what_it_means_in_numpy(source)


@pytest.mark.slow
def test_kernels_give_the_same():
    kernels_agree(SOURCES)


EDGES = {
    "nothing": np.zeros(0),
    "one": np.array([3.0]),
    "ties, signed zeros and infinities": np.array([2.0, -0.0, 2.0, 0.0, np.inf, -np.inf, 2.0, -0.0]),
    "NaN": np.array([2.0, np.nan, 1.0, np.nan]),
    "integers": np.array([3, -7, 3, 0]),
    "truth values": np.array([True, False, True]),
    "many": np.sin(np.arange(1000.0) ** 2),
}


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("what", EDGES)
def test_order_at_the_edges(what, backend):
    x = EDGES[what]
    ordered, places, middle = adc.compile("sort(x), argsort(x), median(x)", backend=backend)(x)
    np.testing.assert_array_equal(ordered, np.sort(x, kind="stable"))
    np.testing.assert_array_equal(np.signbit(ordered), np.signbit(np.sort(x, kind="stable")))
    np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))
    assert ordered.dtype == x.dtype
    with np.errstate(all="ignore"):
        same(middle, numpy_value("median(x) if len(x) else nan", {"x": x}))


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_places_in_a_table_with_ties_and_nan(side, backend):
    table = np.array([-np.inf, -1.0, 0.0, 0.0, 0.0, 2.0, np.inf, np.nan, np.nan])
    x = np.array([[-np.inf, -2.0, -1.0, -0.0], [1.0, 2.0, np.inf, np.nan]])
    f = adc.compile(f"searchsorted(table, x, {side!r})", backend=backend, args=["table", "x"])
    np.testing.assert_array_equal(f(table, x), np.searchsorted(table, x, side))
    np.testing.assert_array_equal(f(np.zeros(0), x), np.zeros((2, 4)))


def test_a_derivative_goes_to_the_first_of_equal_elements():
    x = np.array([1.0, 2.0, 1.0, 2.0])
    np.testing.assert_array_equal(adc.grad(adc.compile("sort(x)[1]", backend="numpy"))(x), [0, 0, 1, 0])
    np.testing.assert_array_equal(adc.grad(adc.compile("median(x)", backend="numpy"))(x), [0, 0.5, 0.5, 0])


def test_the_derivative_of_an_interpolation_at_a_point_is_that_from_the_right():
    slope = adc.grad(adc.compile("interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0])", backend="numpy"))
    assert [slope(x) for x in (-1.0, 0.0, 1.0, 1.5, 2.0, 3.0)] == [0, 1, 4, 4, 4, 0]


def test_integers_that_are_no_doubles_are_refused():
    big = np.array([2**53 + 1, 2**53])
    with pytest.raises(adc.OutOfRangeError, match="integer beyond 2"):
        adc.compile("sort(x)", backend="numpy")(big)


def test_rows_of_a_comprehension_and_iterations_of_a_loop():
    f = adc.compile("def f(m):\n    return [sort(r * r) for r in m]", backend="numpy")
    same(f(VALUES["m"]), np.sort(VALUES["m"] ** 2, axis=1))
    adc.check_grad(f, VALUES["m"], order=2)
    bubble = "def f(v):\n    for k in range(3):\n        v = sort(v) + 0.1 * sin(v) * k\n    return sum(v**2)"
    for backend in ("numpy", "cpu"):
        adc.check_grad(adc.compile(bubble, backend=backend), VALUES["v"], order=2)


MISTAKES = [
    ("sort(1.0)", adc.ShapeError, "sort of a scalar", "rank 1"),
    ("quantile(v, 1.5)", adc.OutOfRangeError, "q is out of range", "between 0 and 1"),
    ("percentile(v, -1)", adc.OutOfRangeError, "q is out of range", "between 0 and 100"),
    ("quantile(v, 0.5, method='weibull')", adc.ParseError, "no method 'weibull'", "linear"),
    ("quantile(v, m)", adc.ShapeError, "q is an array of rank 2", "a vector"),
    ("quantile(v[:0], 0.5)", adc.OutOfRangeError, "empty axis", None),
    ("searchsorted(m, v)", adc.ShapeError, "the sorted array is an array of rank 2", "vector"),
    ("searchsorted(v, v, 'middle')", adc.ParseError, "no side 'middle'", "right"),
    ("interp(v, v, w)", adc.ShapeError, "the points and their values", "a value for each point"),
]


@pytest.mark.parametrize(("source", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source, kind, cause, remedy):
    with pytest.raises(kind, match=cause) as found:
        adc.compile(source, backend="numpy")(*arguments(source))
    assert remedy is None or remedy in str(found.value)
