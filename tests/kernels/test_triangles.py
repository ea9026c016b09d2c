"""Sums over triangles: what no condition lets through is not computed, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

PRODUCTS = """
def f(x: f64[d, n]):
    return [[sum(x[i, k] * x[j, k] if j {} i else 0.0 for k in range(n)) for j in range(d)] for i in range(d)]
"""


@pytest.mark.parametrize("d", [0, 1, 2, 5, 33])
@pytest.mark.parametrize("how", ["<", "<=", ">", ">="])
def test_elements_whose_sum_takes_nothing_are_zero(d, how):
    """The sum of each element is in a register, and loops over what is kept have bounds."""
    f, x = adc.compile(PRODUCTS.format(how)), np.random.default_rng(d).standard_normal((d, 7))
    out = np.full((d, d), 9.0)
    f.into(out, x)
    expected = np.tril(x @ x.T) if "<" in how else np.triu(x @ x.T)
    off = np.eye(d) if len(how) == 1 else 0
    np.testing.assert_allclose(out, expected * (1 - off), rtol=1e-12, atol=1e-12)
