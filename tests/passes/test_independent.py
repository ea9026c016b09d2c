"""What a reverse pass computes again of inner loops that it need not run in order."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import leaves
from oracle import evaluate

import adcompiler as adc
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of

# A table for the nodes of trees, which each tree sets anew.
TREES = """
def f(x: f64[n, m], w: f64[k, q, m], leaf: f64[k, q]):
    reach = zeros(2 * q + 1)
    loss = 0.0
    for i in range(n):
        p = 0.0
        for t in range(k):
            reach[0] = 1.0
            for node in range(q):
                s = 1.0 / (1.0 + exp(-sum(x[i] * w[t, node])))
                reach[2 * node + 1] = reach[node] * s
                reach[2 * node + 2] = reach[node] * (1 - s)
            for j in range(q):
                p += leaf[t, j] * reach[q + j]
        loss += (p - 1.0) ** 2
    return loss
"""


def given(n: int, dtype: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.standard_normal(shape).astype(dtype) for shape in ((n, 2), (2, 3, 2), (2, 3))]


def test_no_loop_carries_nothing() -> None:
    f, args = adc.compile(TREES, backend="numpy"), given(3)
    found = list(adc.grad(f)._trace(f._describe(args, {})[0]).func.results)
    loops = []
    while found:
        inner = {a.loop for a in arrays_of(found) if isinstance(a, Item)}
        loops += inner
        found = [root for loop in inner for root in loop.roots]
    assert len(loops) > 4
    assert all(loop.inits for loop in loops)


def test_derivatives_of_first_and_second_order() -> None:
    f, args = adc.compile(TREES, backend="numpy"), given(2)
    assert f(*args) == pytest.approx(evaluate(TREES, *args), rel=1e-13)
    adc.check_grad(f, *args, order=2)


def test_float32_and_no_points() -> None:
    narrow = TREES.replace("f64", "f32")
    ours, numpy = (adc.value_and_grad(adc.compile(narrow, backend=b)) for b in ("cpu", "numpy"))
    for n in (0, 4):
        args = given(n, np.float32)
        for got, expected in zip(leaves(ours(*args)), leaves(numpy(*args)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)
