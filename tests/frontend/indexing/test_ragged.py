"""Sums over rows of lengths of their own (a segment of an array each), and over ranges that are empty."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import adcompiler as adc

BACKENDS = ("cpu", "numpy")
SEGMENTS = {
    "rows": [0, 2, 2, 5, 7],
    "all but one empty": [0, 0, 7, 7],
    "all empty": [3, 3, 3],
    "one row": [0, 7],
    "no row": [0],
}

SQUARES = """
def f(x, s):
    return sum(sum(x[k]**2 for k in range(s[i], s[i + 1]))**2 for i in range(len(s) - 1))
"""
PAIRS = """
def f(x, s):
    return sum(sin(sum(x[j] * x[k]**2 for j in range(s[i], k))) for i in range(len(s) - 1)
               for k in range(s[i], s[i + 1]))
"""
LOOP = """
def f(x, s):
    total = 0.0
    for i in range(len(s) - 1):
        row = 0.5
        for k in range(s[i], s[i + 1]):
            row = sin(row) + x[k]**2
        total = total + row**2
    return total
"""
GATHERS = """
def f(x, s):
    return sum(x[s[j] % 7]**3 * x[k] for k in range(len(x)) for j in range(min(k, len(s))))
"""
ROWS = """
def f(x, s):
    return [sum(x[k]**3 for k in range(s[i], s[i + 1]))**2 for i in range(len(s) - 1)]
"""


def values(count, dtype=np.float64):
    return np.random.default_rng(3).uniform(0.4, 1.2, count).astype(dtype)


def squares_hessian(x, s):
    """The Hessian of SQUARES by hand: blocks 4 |row|² I + 8 row rowᵀ."""
    found = np.zeros((len(x), len(x)))
    for a, b in pairwise(s):
        found[a:b, a:b] = 4 * np.sum(x[a:b] ** 2) * np.eye(b - a) + 8 * np.outer(x[a:b], x[a:b])
    return found


@pytest.mark.thinned(8)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("segments", SEGMENTS)
def test_hessians_of_sums_over_segments(segments, sparse, dtype):
    x, s = values(7, dtype), np.array(SEGMENTS[segments])
    found = adc.hessian(adc.compile(SQUARES), wrt="x", sparse=sparse)(x, s)
    assert found.dtype == dtype
    found = found.toarray() if sparse else found
    np.testing.assert_allclose(found, squares_hessian(x, s), rtol=1e-12 if dtype == np.float64 else 1e-5)


@pytest.mark.thinned(12)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "source", [SQUARES, PAIRS, LOOP, GATHERS], ids=["squares", "pairs", "loop", "gathers"]
)
@pytest.mark.parametrize("segments", SEGMENTS)
def test_derivatives_are_those_of_each_other(segments, source, dtype):
    """Dense, sparse and directional second derivatives of the kernels and of the interpreter agree."""
    x, s = values(7, dtype), np.array(SEGMENTS[segments])
    near = {"rtol": 1e-10, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}
    f, plain = (adc.compile(source, backend=b) for b in BACKENDS)
    exact = adc.hessian(plain, wrt="x")(x, s)
    np.testing.assert_allclose(adc.grad(f, wrt="x")(x, s), adc.grad(plain, wrt="x")(x, s), **near)
    for g in (f, plain):
        np.testing.assert_allclose(adc.hessian(g, wrt="x")(x, s), exact, **near)
        np.testing.assert_allclose(adc.hessian(g, wrt="x", sparse=True)(x, s).toarray(), exact, **near)


@pytest.mark.parametrize("backend", BACKENDS)
def test_jacobians_of_rows(backend):
    x, s = values(7), np.array(SEGMENTS["rows"])
    f = adc.compile(ROWS, backend=backend)
    expected = np.zeros((4, 7))
    for i, (a, b) in enumerate(pairwise(s)):
        expected[i, a:b] = 6 * np.sum(x[a:b] ** 3) * x[a:b] ** 2
    np.testing.assert_allclose(adc.jacobian(f, wrt="x")(x, s), expected, rtol=1e-12)
    np.testing.assert_allclose(adc.jacobian(f, wrt="x", sparse=True)(x, s).toarray(), expected, rtol=1e-12)


EMPTY = {
    "pairs": "return sum(x[i] * x[j] for i in range(n - 1) for j in range(i))",
    "windows": "return sum(sum(x[i + k] for k in range(3))**2 for i in range(n - 2))",
    "products": "return sum(prod(x[j] for j in range(i - 1)) for i in range(n - 1))",
    "loop": "s = 0.0\n    for i in range(n - 2):\n        for j in range(i - 3):\n"
    "            s = sin(s) + x[i] * x[j]\n    return s",
}


@pytest.mark.thinned(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("name", EMPTY)
def test_ranges_that_end_before_they_begin_are_empty(name, count, backend):
    """As in Python, where the lengths come from a short array: values, gradients, and the second order."""
    scope = {"sin": np.sin, "prod": lambda terms: np.prod(list(terms))}
    text = f"def f(x):\n    n = len(x)\n    {EMPTY[name]}"
    exec(text, scope)
    f, x = adc.compile(text, backend=backend), values(count)
    assert f(x) == pytest.approx(scope["f"](x))
    adc.check_grad(f, x)
    dense = adc.hessian(f)(x)
    np.testing.assert_allclose(adc.hessian(f, sparse=True)(x).toarray(), dense, atol=1e-12)
    _, pull = adc.vjp(f, x)
    (pulled,) = pull(1.0)  # None where it is known to be zero
    np.testing.assert_allclose(np.zeros(count) if pulled is None else pulled, adc.grad(f)(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_as_long_as_an_empty_range(backend):
    f = adc.compile("def f(x):\n    return [x[i] * x[i + 2] for i in range(len(x) - 2)]", backend=backend)
    for count in range(3):
        assert f(values(count)).shape == (0,)
        assert adc.jacobian(f)(values(count)).shape == (0, count)
        assert adc.jacobian(f, sparse=True)(values(count)).shape == (0, count)
