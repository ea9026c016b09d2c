"""y ← y + h tanh(W y), many times; the gradient of Σ y² / 2 at the end by W and by the start.

Backward, with ȳ the cotangent after a step: r = h (1 − tanh²) ȳ, W̄ += r yᵀ, ȳ += Wᵀ r. The steps' r and
y are kept, so that W̄ is one product of matrices at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.byhand.tools import serial
from bench.vector_math import tanh


@serial
def add_product(A, x, out):
    """out += Aᵀ x, four rows of A at a time, so that `out` is read and written a quarter as often."""
    n = np.uint64(out.size)
    whole = A.shape[0] // 4 * 4
    for j in range(0, whole, 4):
        a, b, c, d = A[j], A[j + 1], A[j + 2], A[j + 3]
        p, q, r, s = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(n):
            out[i] += a[i] * p + b[i] * q + c[i] * r + d[i] * s
    for j in range(whole, A.shape[0]):
        a, p = A[j], x[j]
        for i in range(n):
            out[i] += a[i] * p


@serial
def kernel(W, WT, h, ys, slopes, bar):
    """`ys` holds the states from the start on; `slopes` becomes r of each step."""
    steps, m = slopes.shape
    n = np.uint64(m)
    for t in range(steps):
        slope, y, new = slopes[t], ys[t], ys[t + 1]
        for i in range(n):
            slope[i] = 0.0
        add_product(WT, y, slope)
        for i in range(n):
            slope[i] = tanh(slope[i])
            new[i] = y[i] + h * slope[i]
    for i in range(n):
        bar[i] = ys[steps, i]
    for t in range(steps - 1, -1, -1):
        slope = slopes[t]
        for i in range(n):
            slope[i] = h * (1.0 - slope[i] * slope[i]) * bar[i]
        add_product(W, slope, bar)


def gradient(args: tuple[Any, ...]) -> Callable[[], Any]:
    W, start, h, steps = args
    m = start.size
    ys, slopes, bar = np.zeros((steps + 1, m)), np.zeros((steps, m)), np.zeros(m)

    def run() -> Any:
        ys[0] = start
        kernel(W, np.ascontiguousarray(W.T), h, ys, slopes, bar)
        return ys[-1] @ ys[-1] / 2, (slopes.T @ ys[:-1], bar.copy())

    return run
