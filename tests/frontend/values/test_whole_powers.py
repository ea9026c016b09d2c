"""Powers of integers: integers, floats or refused, alike in all backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.errors import OutOfRangeError

BACKENDS = ("cpu", "numpy")
REFUSED = "an integer to a negative integer power"


def f(source: str, backend: str) -> Any:
    return adc.compile(source, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("k", [0, 1, 3, 62, 63, 64])
def test_powers_of_integers_are_those_of_numpy(k: int, backend: str) -> None:
    bases = np.array([0, 1, -1, 2, -3, 10])
    found = f("def f(x: i64[n], k: i64): return x ** k", backend)(bases, k)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, bases**k)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", ["k ** -1", "power(k, -1)", "k ** -1 * 1"])
def test_a_negative_constant_makes_a_float(source: str, backend: str) -> None:
    assert f(f"def f(k: i64): return {source}", backend)(4) == 4**-1
    np.testing.assert_array_equal(
        f(f"def f(k: i64[n]): return {source}", backend)(np.array([1, 4])), [1, 0.25]
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "source", ["2 ** k", "0 ** k", "k ** k", "power(2, k)", "2 ** (k + 1) * 1.5", "(k > 0) ** k"]
)
def test_a_negative_exponent_of_a_call_is_refused(source: str, backend: str) -> None:
    g = f(f"def f(k: i64): return {source}", backend)
    assert g(3) == eval(source, {"k": 3, "power": pow})  # our own text
    with pytest.raises(OutOfRangeError, match=REFUSED):
        g(-2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_of_many_is_enough(backend: str) -> None:
    g = f("def f(x: i64[n], k: i64[n]): return x ** k", backend)
    np.testing.assert_array_equal(g(np.array([2, 3]), np.array([3, 2])), [8, 9])
    assert g(np.array([], int), np.array([], int)).shape == (0,)
    with pytest.raises(OutOfRangeError, match=REFUSED):
        g(np.array([2, 3]), np.array([3, -2]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_computed_is_not_refused(backend: str) -> None:
    g = f("def f(k: i64): return 2 ** k if k >= 0 else -1", backend)
    assert [g(3), g(-3)] == [8, -1]
    g = f("def f(x: f64[n]): return sum(2 ** (len(x) - 1 - i) * x[i] for i in range(len(x)))", backend)
    assert g(np.array([1.0, 0.0, 1.0])) == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_signs_alternate_for_every_exponent(backend: str) -> None:
    g = f("def f(k: i64): return (-1) ** k", backend)
    assert [g(k) for k in (-3, -2, 0, 1, 2)] == [-1, 1, 1, -1, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_beside_powers_of_integers(backend: str) -> None:
    g = f("def f(x, k: i64): return sum(x**2 * 2 ** k)", backend)
    x = np.array([1.0, 3.0], np.float32)
    np.testing.assert_array_equal(adc.grad(g, "x")(x, 3), 16 * x)
    np.testing.assert_array_equal(adc.hessian(g, "x")(x, 3), 16 * np.eye(2))
    with pytest.raises(OutOfRangeError, match=REFUSED):
        adc.grad(g, "x")(x, -1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_least_integer_by_minus_one_wraps(backend: str) -> None:
    least = -(2**63)
    g = f("def f(a: i64[n], b: i64): return a // b, a % b", backend)
    quotient, rest = g(np.array([least, 7]), -1)
    np.testing.assert_array_equal(quotient, [least, -7])
    np.testing.assert_array_equal(rest, [0, 0])
