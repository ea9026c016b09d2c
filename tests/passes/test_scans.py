"""Reductions over prefixes and suffixes as running totals: what an element that no slice has does not change,
and derivatives of products with zeros among their factors."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate
from programs.written_products import PROGRAMS

import adcompiler as adc

INF = np.inf
SLICES = ("suffixes", "functions of prefixes", "slices", "all but one", "under a condition", "in time")


@pytest.mark.parametrize("name", [*SLICES, "suffixes of columns"])
def test_products_with_zeros_among_their_factors(name: str) -> None:
    source, (x, w) = PROGRAMS[name].source, PROGRAMS[name].args
    x = x.copy()
    x.flat[[1, 3]] = 0
    f = adc.compile(source, backend="numpy")
    np.testing.assert_allclose(f(x, w), evaluate(source, x, w), rtol=1e-12)
    direction = np.cos(1 + np.arange(x.size)).reshape(x.shape)
    steps = [evaluate(source, x + h * direction, w) for h in (1e-4, 0, -1e-4)]
    np.testing.assert_allclose(
        np.sum(adc.grad(f, "x")(x, w) * direction), (steps[0] - steps[2]) / 2e-4, rtol=1e-6, atol=1e-6
    )
    second = (steps[0] - 2 * steps[1] + steps[2]) / 1e-8
    (product,) = adc.hvp(f, ("x",))((x, w), (direction,))
    np.testing.assert_allclose(np.sum(product * direction), second, rtol=1e-4, atol=1e-5)


SOURCE = """
def f(x: f64[n], y: f64[m]):
    s = 0.0
    for i in range(m):
        s += {} * y[i]
    return s
"""


@pytest.mark.parametrize(
    "reduced", ["prod(x[:i + 2])", "sum(x[i + 1:])", "sum(x[2:i])", "prod(x[i + 1:4])", "prod(x[i - 2:])"]
)
def test_edges_beyond_the_ends(reduced: str) -> None:
    source = SOURCE.format(reduced)
    f = adc.compile(source, backend="numpy")
    for n in range(7):
        for m in (0, 1, 2, 6):
            x, y = 1 + np.arange(n) / 3, 2 - np.arange(m) / 5
            np.testing.assert_allclose(f(x, y), evaluate(source, x, y), rtol=1e-12, err_msg=f"{n} {m}")


@pytest.mark.parametrize("slices", ["prod(x[:i])", "prod(x[n - i:])", "prod(x[i + 2:])"])
def test_an_infinite_factor_in_none_of_the_slices(slices: str) -> None:
    source = f"def f(x: f64[n]):\n    return sum({slices} for i in range(n - 1))\n"
    x = np.array([2.0, 3, 4, 5])
    f = adc.compile(source, backend="numpy")
    for k in np.flatnonzero(adc.grad(f)(x) == 0):
        given = x.copy()
        given[k] = INF
        np.testing.assert_array_equal(adc.grad(f)(given), adc.grad(f)(x))


def test_a_logsumexp_over_suffixes_that_have_nothing() -> None:
    f = adc.compile(
        "def f(x: f64[n]):\n    return sum(exp(logsumexp(x[i:])) for i in range(n))\n", backend="numpy"
    )
    x = np.array([0.5, -INF, 1.0, -INF])
    np.testing.assert_allclose(adc.grad(f)(x), np.exp(x) * [1, 2, 3, 4])
