"""Products of matrices beside a kernel with loops."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.cpu.gemm_epilogue import GemmEpilogue

STEPS = """
def f(W: f64[m, m], y: f64[m], h, steps: i64):
    for _ in range(steps):
        y = y + h * tanh(W @ y)
    return sum(y * y) / 2
"""


@pytest.mark.thinned(3)
@pytest.mark.parametrize("wrt", ["W", ("W", "y"), ("y", "W")])
def test_the_gradient_of_a_matrix_that_every_iteration_reads_is_one(monkeypatch, wrt):
    rng = np.random.default_rng(0)
    args = rng.standard_normal((40, 40)) / 6, rng.standard_normal(40), 0.01, 700
    made = []
    before = GemmEpilogue.__call__
    monkeypatch.setattr(GemmEpilogue, "__call__", lambda self, *a: made.append(self) or before(self, *a))
    found = adc.value_and_grad(adc.compile(STEPS), wrt=wrt)(*args)
    expected = adc.value_and_grad(adc.compile(STEPS, backend="numpy"), wrt=wrt)(*args)
    assert made
    for one, other in zip(np.atleast_1d(found[1]) if wrt == "W" else found[1], expected[1], strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
