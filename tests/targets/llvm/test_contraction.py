"""Products and sums become one fused operation by the text of a kernel alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import adcompiler as adc

# The error of a product, by T. J. Dekker, in the two ways in which it is written.
HALVES = """
    c = 134217729.0 * x
    xh = c - (c - x)
    xl = x - xh
    d = 134217729.0 * y
    yh = d - (d - y)
    yl = y - yh
    p = x * y
"""
ERRORS = (
    "((xh * yh - p) + xh * yl + xl * yh) + xl * yl",
    "xl * yl - (((p - xh * yh) - xl * yh) - xh * yl)",
)


@pytest.mark.parametrize("kind", ["f64", "f64[n]"])
@pytest.mark.parametrize("error", ERRORS)
def test_exact_products(error, kind):
    """A product with several uses is the same number in all of them, so that p + e is x y exactly."""
    f = adc.compile(f"def f(x: {kind}, y: {kind}):{HALVES}    return p, {error}")
    x, y = np.random.default_rng(0).standard_normal((2, 50))
    pairs = [f(a, b) for a, b in zip(x, y, strict=True)] if kind == "f64" else zip(*f(x, y), strict=True)
    for a, b, (p, e) in zip(x, y, pairs, strict=True):
        assert Fraction(float(p)) + Fraction(float(e)) == Fraction(float(a)) * Fraction(float(b))


@pytest.mark.parametrize(
    "text", ["x * y - x * y", "(t := x * y) - t", "where(x > 0, x * y, 0) - where(x > 0, x * y, 0)"]
)
def test_a_product_less_itself_is_nothing(text):
    source = f"def f(x, y):\n    t = x * y\n    return {text.replace('(t := x * y)', 't')}"
    x, y = np.random.default_rng(0).standard_normal((2, 50))
    np.testing.assert_array_equal(adc.compile(source)(x, y), np.zeros(50))


LOOPS = (
    "s = 0.0\n    for i in range(len(x)):\n        s = x[i] * sin(s) + y[i] * z[i]\n    return s",
    "u = x\n    for k in range(9):\n        u = sin(y * u) * z + u * tanh(u)\n    return u",
    "u = x\n    for k in range(9):\n        u = tanh(outer(y, z) @ u + z)\n    return u",
    "u = x\n    for k in range(9):\n        u = where(u > 0, y * u, 0) + z\n    return u",
)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("size", [3, 16, 61])
@pytest.mark.parametrize("text", LOOPS)
def test_a_loop_that_stores_what_its_reverse_reads_computes_the_same(text, size):
    f = adc.compile(f"def f(x, y, z):\n    {text}")
    for seed in range(5):
        args = np.random.default_rng(seed).standard_normal((3, size))
        value = f(*args)
        np.testing.assert_array_equal(adc.vjp(f, *args)[0], value)
        np.testing.assert_array_equal(adc.vjp(f, *args, wrt="x")[0], value)


@pytest.mark.parametrize("text", ["x * y + z", "z + x * y", "x * y - z", "z - x * y", "-(x * y) + z"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_sums_with_a_product_are_rounded_once(text, kind):
    """As the fused operation itself has it, at the end of arrays too, where there are no vectors."""
    signs = {"x * y + z": (1, 1), "z + x * y": (1, 1), "x * y - z": (1, -1)}
    of_product, of_other = signs.get(text, (-1, 1))
    x, y, z = np.random.default_rng(0).standard_normal((3, 37)).astype(kind)
    exact = [
        of_product * Fraction(float(a)) * Fraction(float(b)) + of_other * Fraction(float(c))
        for a, b, c in zip(x, y, z, strict=True)
    ]
    expected = np.array([float(e) for e in exact])
    if kind is np.float64:
        np.testing.assert_array_equal(adc.compile(text, args="x, y, z")(x, y, z), expected)
    else:  # the fraction, as a float64, is rounded twice
        np.testing.assert_allclose(
            adc.compile(text, args="x, y, z")(x, y, z), expected.astype(kind), rtol=2e-7
        )
