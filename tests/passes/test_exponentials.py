"""Logarithms of sums of exponentials: one exponential an element for the value and all its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

BUILTIN = "def f(x: f64[n]):\n    return logsumexp(x)"
BY_HAND = "def f(x: f64[n]):\n    a = max(x)\n    return a + log(sum(exp(x[i] - a) for i in range(n)))"
TURNED = "def f(x: f64[n]):\n    a = max(x)\n    return log(sum(exp(x - a))) + a"
ROWS = "def f(x: f64[n, m]):\n    return sum(logsumexp(2 * x[i, j] for j in range(m))**2 for i in range(n))"
ROWS_BY_HAND = (
    "def f(x: f64[n, m]):\n    a = max(2 * x, axis=1)\n"
    "    return sum((a + log(sum(exp(2 * x - a[:, None]), axis=1)))**2)"
)
WHOLE = "def f(x: f64[n, m]):\n    return logsumexp(x)"
SPECIAL = ([], [2.0], [np.inf, 800.0], [-np.inf, 1.0], [-np.inf] * 2, [np.nan, 1.0], [3.0, 3.0], [1e30, 0.0])
RNG = np.random.default_rng(5)


def exponentials(f):
    lines = [line for line in f.show("kernel").splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).count("math.exp(")


@pytest.mark.thinned(4)
@pytest.mark.parametrize("source", [BUILTIN, BY_HAND, TURNED, ROWS, ROWS_BY_HAND, WHOLE])
def test_value_and_gradient_need_one_exponential_an_element(source):
    x = RNG.uniform(-3, 3, (6, 5) if "m]" in source else 9)
    f, slow = (adc.value_and_grad(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
    for got, expected in zip(f(x), slow(x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert exponentials(f) == 1
    adc.check_grad(adc.compile(source), x[:3], order=2)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("source", [BUILTIN, BY_HAND])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("x", SPECIAL)
def test_special_values(source, dtype, x):
    """What is written out is no number where the greatest element is infinite; the builtin is that infinity,
    and finite elements beside it have the share 0."""
    x = np.array(x, dtype)
    if dtype == np.float32:
        source = source.replace("f64", "f32")
    value, slope = adc.value_and_grad(adc.compile(source))(x)
    with np.errstate(all="ignore"):
        most = np.max(x, initial=-np.inf)
        expected = most + np.log(np.sum(np.exp(x - most)))
        if source.endswith("logsumexp(x)") and np.isinf(most):
            expected = most
        share = np.where(expected == -np.inf, 0, np.exp(x - expected))
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(value, expected, rtol=tolerance)
    np.testing.assert_allclose(slope, share, rtol=tolerance)


def test_a_branch_not_taken_passes_no_derivative():
    source = (
        "def f(x: f64[n]):\n    a = max(x)\n    r = a + log(sum(exp(x - a)))\n    return r if a < inf else a"
    )
    f = adc.grad(adc.compile(source))
    np.testing.assert_array_equal(f(np.array([1.0, np.inf])), [0, 1])
