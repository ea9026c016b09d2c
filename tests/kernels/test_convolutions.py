"""Convolutions: axes whose lengths are computed, and reads at sums of axes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

import adcompiler as adc

LINE = """
def line(x, w):
    return [sum(w[k] * x[i + k] for k in range(len(w))) for i in range(len(x) - len(w) + 1)]
"""
IMAGE = """
def image(x: f64[h, w, c], k: f64[a, b, c, o]):
    return [[[sum(x[i + p, j + q, r] * k[p, q, r, s] for p in range(a) for q in range(b) for r in range(c))
              for s in range(o)] for j in range(w - b + 1)] for i in range(h - a + 1)]
"""
SIZES = [((9,), (3,)), ((3,), (3,)), ((70,), (1,)), ((4, 5, 2), (3, 2, 2, 2)), ((3, 3, 1), (3, 3, 1, 1))]


def correlated(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """What SciPy says."""
    if x.ndim == 1:
        return signal.correlate(x, k, "valid")
    parts = [
        [signal.correlate(x[..., r], k[..., r, s], "valid") for r in range(x.shape[2])]
        for s in range(k.shape[3])
    ]
    return np.stack([sum(part) for part in parts], axis=-1)


@pytest.mark.thinned(2)
@pytest.mark.slow_when(lambda shape, backend: backend == "cpu" and len(shape) > 1)
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize(("shape", "window"), SIZES)
def test_convolution_and_its_derivatives(shape, window, backend):
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=shape), rng.normal(size=window)
    source, name = (LINE, "line") if x.ndim == 1 else (IMAGE, "image")
    f = adc.compile(source, name=name, backend=backend)
    np.testing.assert_allclose(f(x, k), correlated(x, k), rtol=1e-12, atol=1e-12)
    loss = adc.compile(
        f"{source}\ndef loss(x, k):\n    return sum(max({name}(x, k), 0)**3)", name="loss", backend=backend
    )
    y = correlated(x, k)
    np.testing.assert_allclose(loss(x, k), (np.maximum(y, 0) ** 3).sum(), rtol=1e-12)
    adc.check_grad(loss, x, k, order=2)
