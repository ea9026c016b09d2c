"""Values that several nests need are stored where computing them again takes longer."""

from __future__ import annotations

import numpy as np
import pytest
from judges import laws
from judges.subject import VALUE, Subject
from judges.threads import same_bits

import adcompiler as adc

POINTS = 300


def layers(count: int) -> str:
    """Layers between which a sum over all points stands."""
    lines = [f"    y = erf(y * w + sum(y) / {POINTS + k})" for k in range(count)]
    return "\n".join(["def f(x, w):", "    y = x", *lines, "    return sum(y * y)"])


def rows(count: int) -> str:
    """The same over the columns of a matrix."""
    lines = [f"    y = erf(y * w + sum(y) / {POINTS + k})" for k in range(count)]
    return "\n".join(["def f(x: f64[n, m], w):", "    y = x", *lines, "    return sum(y * y)"])


RETURNED = """
def f(x):
    z = erf(x)
    a = sum(z * x)
    b = sum(x * cos(z + a))
    return z, a, b * sum(exp(z * b))
"""
FOUR = """
def f(x):
    a = sum(erf(x))
    b = sum(cos(erf(x) + a))
    c = sum(cos(erf(x) * b))
    return sum(cos(erf(x) + c))
"""
LENGTHS = """
def f(x: f64[n], y: f64[m]):
    z = [erf(x[0] + 0.01 * i) for i in range(n)]
    a = sum(z * x)
    return sum(z * a), sum(erf(x[0] + 0.01 * i) * cos(y[i] + a) for i in range(m)), z
"""
PAIRS = """
def f(x: f64[n], y: f64[m]):
    a = sum(erf(sin(exp(x[i] - y[j]) * x[i])) for i in range(n) for j in range(m))
    return sum(max(erf(sin(exp(x[i] - y[j]) * x[i])), a) for i in range(n) for j in range(m))
"""


def points(*shape: int) -> tuple[np.ndarray, ...]:
    return tuple(np.random.default_rng(0).uniform(0.5, 1.0, (2, *shape)))


def functions(f: adc.Function, name: str) -> int:
    """How often a kernel calls a function."""
    return f.show("kernel").count(f"math.{name}(")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("make", [layers, rows])
def test_each_layer_is_computed_few_times(make):
    """One in a nest of its own would be computed in each nest behind it."""
    args = points(POINTS) if make is layers else points(20, 15)
    few, many = (adc.value_and_grad(adc.compile(make(count))) for count in (4, 8))
    few(*args), many(*args)
    assert functions(many, "erf") <= 2 * functions(few, "erf") + 2 <= 4 * 4 + 2


def test_results_are_read_where_they_are_needed_again():
    f = adc.compile(RETURNED)
    f(points(POINTS)[0])
    assert functions(f, "erf") == 1


def test_a_function_in_four_nests_is_stored():
    f = adc.compile(FOUR)
    f(points(POINTS)[0])
    assert functions(f, "erf") == 1


@pytest.mark.parametrize(("function", "stored"), [("sinh", 3), ("erf", 1), ("arctan", 1), ("gammaln", 1)])
def test_a_function_that_takes_long_is_stored_for_three_nests(function, stored):
    """Others take less time than to store and to load them."""
    name = {"arctan": "atan", "gammaln": "lgamma"}.get(function, function)
    three = FOUR.replace("    c = sum(cos(erf(x) * b))\n", "").replace("+ c)", "+ b)")
    f = adc.compile(three.replace("erf", function))
    f(points(POINTS)[0])
    assert functions(f, name) == stored


def test_a_power_in_three_nests_is_stored():
    three = FOUR.replace("    c = sum(cos(erf(x) * b))\n", "").replace("+ c)", "+ b)")
    f = adc.compile(three.replace("erf(x)", "x ** y").replace("f(x)", "f(x, y)"))
    f(points(POINTS)[0], 0.3)
    lines = (line.split("#")[0] for line in f.show("kernel").splitlines())
    assert sum(" ** " in line for line in lines) == 1


def test_equal_formulas_of_different_lengths_are_different_values():
    f = adc.compile(LENGTHS)
    args = np.ones(5), np.ones(7)
    f(*args)
    assert "np.empty" not in f.show("kernel")
    assert not laws.work_twice(Subject(f, args).kernel(VALUE, 1).made)


def test_pairs_of_points_are_computed_again():
    """An array of all pairs would be larger than all that the program has."""
    f = adc.compile(PAIRS)
    f(*points(40))
    assert functions(f, "erf") == 2
    assert "np.empty" not in f.show("kernel")


@pytest.mark.slow_when(
    lambda make, order, dtype: (make is rows, dtype is np.float32) != (order == 2, order == 0)
)
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("make", [layers, rows])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_derivatives(make, order, dtype):
    args = [a.astype(dtype) for a in (points(POINTS) if make is layers else points(20, 15))]
    source = make(4).replace("f64", "f32") if dtype is np.float32 else make(4)
    results = []
    for backend in ("cpu", "numpy"):
        f = adc.compile(source, backend=backend)
        if order == 1:
            f = adc.grad(f)
        if order == 2:
            product = adc.hvp(f)
            results.append(product(tuple(args), tuple(args)))
        else:
            results.append(f(*args))
    tolerance = 1e-10 if dtype is np.float64 else 2e-3
    for one, other in zip(*(np.atleast_1d(r) if order == 0 else r for r in results), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


def test_against_finite_differences():
    adc.check_grad(adc.compile(layers(3)), *points(7), order=2)


@pytest.mark.optimised
def test_threads_change_no_bits():
    f, args = adc.value_and_grad(adc.compile(layers(4))), points(200_000)
    same_bits(lambda: f(*args))
