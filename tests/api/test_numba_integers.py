"""Python ints as arguments: int64 for functions of numba, unless they are differentiated. Elsewhere they are
floats, which must hold them exactly."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit, vectorize

import adcompiler as adc

P = 10**9 + 7


@njit
def modular_power(x, n, m):
    base, r = m % P, 1
    while n > 0:
        if n % 2 == 1:
            r = r * base % P
        base = base * base % P
        n //= 2
    return x * r


@njit
def congruential(x, seed, n):
    s, total = seed, 0.0
    for _ in range(n):
        s = (1103515245 * s + 12345) % 2147483648
        total += x * (s / 2147483648)
    return total


@njit
def wrapping(x, seed):
    s = seed * 6364136223846793005 + 1442695040888963407
    return x * ((s >> 33) & 1023)


@njit
def hashed(x, key):
    h = 5381
    for k in range(8):
        h = (h * 33) ^ ((key >> (8 * k)) & 255)
    return x * (h % 1000003)


@njit
def gcd(x, a, b):
    while b != 0:
        a, b = b, a % b
    return x * a


@njit
def of_tuple(x, pair):
    return x * (pair[0] // pair[1])


@njit
def calls(x, n):
    return congruential(x, n, 3) + modular_power(x, n, n)


@vectorize
def halves(x, n):
    return x * (n // 2)


CALLS = [
    (modular_power, 123456789, 1000), (modular_power, 2**40 + 1, 3), (congruential, 42, 5),
    (congruential, 2**31 - 1, 20), (wrapping, 42), (wrapping, -(2**62) + 3), (hashed, 2**60 + 12345),
    (gcd, 2**61 - 1, 1000003 * 7), (of_tuple, (2**60 + 1, 7)), (calls, 977), (halves, 2**54 + 3),
]  # fmt: skip


@pytest.mark.parametrize(("f", *["rest"]), [(f, rest) for f, *rest in CALLS])
def test_python_ints_are_those_of_numba(f, rest):
    """Values are numba's, and so is the slope of a function that is linear in x."""
    expected = f(1.5, *rest)
    assert adc.function(f)(1.5, *rest) == expected
    assert adc.grad(f, 0)(1.5, *rest) * 1.5 == pytest.approx(expected, rel=1e-15)
    assert adc.jvp(f, (1.5, *rest), (1.5, *(None for _ in rest)))[1] == pytest.approx(expected, rel=1e-15)
    assert adc.vjp(f, 1.5, *rest)[1](1.0)[0] * 1.5 == pytest.approx(expected, rel=1e-15)
    assert adc.hessian(f, 0)(1.5, *rest) == 0.0


@njit
def cube(x, n):
    return x**3 * n


def test_an_int_that_is_differentiated_is_a_float():
    assert adc.grad(cube, "x")(2, 5) == 60.0
    assert adc.grad(cube, ("x", "n"))(2, 5) == (60.0, 8.0)
    assert adc.grad(adc.grad(cube, "x"), "n")(2, 5) == 12.0
    assert adc.value_and_grad(cube, "n")(2, 5) == (40.0, 8.0)
    assert adc.jvp(cube, (2, 5), (1.0, None)) == (40.0, 60.0)
    assert adc.vjp(cube, 2, 5, wrt="x")[1](1.0) == (60.0,)
    assert adc.hessian(cube, "x")(2, 5) == 60.0
    assert adc.hvp(cube, "x")((2, 5), 1.0) == 60.0
    assert adc.jacobian(cube, "x")(2, 5) == 60.0
    assert adc.taylor(cube, (2, 5), (1.0, None), 2) == (40.0, 60.0, 60.0)
    assert adc.check_grad(cube, 2, 5, wrt="x") < 1e-6
    assert adc.function(cube)(2, 5) == 40
    assert isinstance(adc.function(cube)(2, 5), int)
    with pytest.raises(adc.DtypeError, match="x is an integer"):
        adc.grad(cube)(2, 5)


@njit("float64(float64, int64)")
def declared(x, n):
    return x / n


@vectorize(["float64(float64)"])
def third(x):
    return x / 3


def test_signatures_decide():
    """numba converts the int for a parameter of float64."""
    assert adc.function(declared)(2, 3) == declared(2, 3)
    assert adc.grad(declared)(2, 3) == 1 / 3
    assert adc.grad(third)(2) == pytest.approx(1 / 3)


def test_ints_that_a_float_would_round_are_refused():
    double = adc.compile("def f(x):\n    return 2 * x")
    assert double(2**53) == 2.0**54
    for value in (2**53 + 1, -(2**60), 10**30):
        with pytest.raises(adc.DtypeError, match=r"'x' is an integer beyond 2\*\*53") as caught:
            double(value)
        assert "x: int" in caught.value.remedy
    with pytest.raises(adc.DtypeError, match=r"beyond 2\*\*53"):
        double([1, 2**53 + 1])
    whole = adc.compile("def f(x, n: int):\n    return x * (n % 10)")
    assert whole(1.0, 2**60 + 7) == (2**60 + 7) % 10
    np.testing.assert_array_equal(double([2.0**60, 1]), [2.0**61, 2])
