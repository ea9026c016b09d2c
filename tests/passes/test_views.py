"""Loops read arrays in the order in which they are stored, also in derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import leaves, near
from oracle import evaluate

import adcompiler as adc
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Index, Map, Read
from adcompiler.ir.walk import arrays_of

# The paths of points end at a negative place.
PATHS = """
def f(w: f64[k, m], x: f64[n, m], path: i64[n, d]):
    loss = 0.0
    for i in range(n):
        q = 0
        while q < d and path[i, q] >= 0:
            s = 0.0
            for j in range(m):
                s += x[i, j] * w[path[i, q], j]
            loss += log1p(exp(-abs(s))) * s
            q += 1
    return loss
"""
# Rows of the transposed matrix are read too.
ROWS = """
def f(w: f64[k, m], x: f64[n, m], path: i64[n, d]):
    z = zeros(k)
    loss = 0.0
    for i in range(n):
        z = tanh(w @ x[i] + z)
        u = w.T @ z
        for q in range(d):
            s = 0.0
            for j in range(m):
                s += u[j] * w[path[i, q], j] if path[i, q] >= 0 else 0.0
            loss += sin(s + loss)
    return loss
"""
SOURCES = {"paths": PATHS, "rows": ROWS}


def given(n: int, dtype: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    path = np.where(np.arange(4) < rng.integers(0, 5, (n, 1)), rng.integers(0, 5, (n, 4)), -1)
    return [rng.standard_normal((5, 3)).astype(dtype), rng.standard_normal((n, 3)).astype(dtype), path]


def copies(source: str) -> int:
    """The matrices with their axes in another order that the gradient makes for its loops."""
    f, args = adc.compile(source, backend="numpy"), given(4)
    func = adc.grad(f, ("w", "x"))._trace(f._describe(args, {})[0]).func
    loops = {a.loop for a in arrays_of(func.roots) if isinstance(a, Item)}
    consts = {c for loop in loops for c in loop.consts if isinstance(c, Map) and c.rank == 2}
    return sum(isinstance(c.body, Read) and c.body.args == (Index(1), Index(0)) for c in consts)


def test_single_elements_are_read_where_they_are() -> None:
    assert not copies(PATHS)


@pytest.mark.parametrize("name", SOURCES)
def test_derivatives_of_first_and_second_order(name: str) -> None:
    args = given(4)
    f = adc.compile(SOURCES[name])
    near(f(*args), evaluate(SOURCES[name], *args))
    adc.check_grad(f, *args, wrt=("w", "x"), order=2)


@pytest.mark.parametrize("name", SOURCES)
def test_float32_and_no_points(name: str) -> None:
    narrow = SOURCES[name].replace("f64", "f32")
    ours, numpy = (adc.value_and_grad(adc.compile(narrow, backend=b), ("w", "x")) for b in ("cpu", "numpy"))
    for n in (0, 5):
        args = given(n, np.float32)
        for got, expected in zip(leaves(ours(*args)), leaves(numpy(*args)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)
