"""Sums under a mask as products of matrices, whatever the other factor holds."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

LAYER = """
def loss(x: f64[n, p], W: f64[p, h], b: f64[h], y: f64[n, h]):
    return sum((maximum(x @ W + b, 0) - y)**2)
"""
CONVOLUTION = """
def loss(x: f64[c, n], W: f64[o, c, 3], b: f64[o], y: f64[o, n - 2]):
    total = 0.0
    for a in range(o):
        for i in range(n - 2):
            acc = b[a]
            for d in range(c):
                for u in range(3):
                    acc += x[d, i + u] * W[a, d, u]
            total += (max(acc, 0.0) - y[a, i])**2
    return total
"""
INPUTS = {LAYER: ((40, 30), (30, 20), 20, (40, 20)), CONVOLUTION: ((3, 40), (4, 3, 3), 4, (4, 38))}
EMPTY = {LAYER: ((0, 3), (3, 2), 2, (0, 2)), CONVOLUTION: ((0, 5), (2, 0, 3), 2, (2, 3))}


def arguments(shapes, dtype):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def compiled(text, dtype="f64", backend="cpu"):
    return adc.compile(text.replace("f64", dtype), backend=backend)


@pytest.mark.parametrize(
    ("text", "dtype", "tolerance", "shapes"),
    [
        pytest.param(LAYER, "f64", 1e-12, INPUTS, id="layer"),
        pytest.param(LAYER, "f32", 1e-4, INPUTS, id="layer of float32", marks=pytest.mark.slow),
        pytest.param(CONVOLUTION, "f32", 1e-4, INPUTS, id="convolution"),
        pytest.param(LAYER, "f64", 1e-12, EMPTY, id="no rows"),
        pytest.param(CONVOLUTION, "f64", 1e-12, EMPTY, id="no channels", marks=pytest.mark.slow),
    ],
)
def test_gradients_and_their_gradients(text, dtype, tolerance, shapes):
    args = arguments(shapes[text], {"f64": np.float64, "f32": np.float32}[dtype])
    directions = tuple(np.ones_like(a) for a in args[:2])
    fast, reference = (compiled(text, dtype, backend) for backend in ("cpu", "numpy"))
    names = ("x", "W")
    first = [adc.grad(f, names)(*args) for f in (fast, reference)]
    second = [adc.hvp(f, names)(args, directions) for f in (fast, reference)]
    for ours, expected in (first, second):
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 10)


def test_finite_differences():
    args = arguments(INPUTS[LAYER], np.float64)
    adc.check_grad(compiled(LAYER), *args)


@pytest.mark.parametrize("text", [LAYER, CONVOLUTION], ids=["layer", "convolution"])
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_masked_infinity_adds_nothing(text, number):
    """Rows that the mask excludes may hold anything: 0, and not 0 times infinity."""
    fast, reference = (adc.grad(compiled(text, backend=backend), ("x", "W")) for backend in ("cpu", "numpy"))
    args = arguments(INPUTS[text], np.float64)
    args[0][1, 2] = number
    with np.errstate(all="ignore"):
        ours, expected = fast(*args), reference(*args)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_bits_do_not_depend_on_threads():
    args = [
        np.tile(a, (8, 1) if k in (0, 3) else 1) for k, a in enumerate(arguments(INPUTS[LAYER], np.float64))
    ]
    one, two = (adc.grad(adc.compile(LAYER, threads=k), ("x", "W"))(*args) for k in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
