"""Rosenbrock's function: value and gradient of two numbers; the Hessian of the chained one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.byhand.tools import serial


@serial
def pair(x, y):
    """(1 − x)² + 100 (y − x²)² and its gradient."""
    a, b = 1.0 - x, y - x * x
    return a * a + 100.0 * b * b, (-2.0 * a - 400.0 * x * b, 200.0 * b)


def scalar(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, y = args
    return lambda: pair(x, y)


@serial
def hessian_kernel(x, out):
    """Σ (1 − xᵢ)² + 100 (xᵢ₊₁ − xᵢ²)²: three diagonals."""
    for i in range(x.size - 1):
        out[i, i] += 2.0 - 400.0 * (x[i + 1] - 3.0 * x[i] * x[i])
        out[i + 1, i + 1] += 200.0
        out[i, i + 1] = out[i + 1, i] = -400.0 * x[i]


def hessian(args: tuple[Any, ...]) -> Callable[[], Any]:
    (x,) = args
    out = np.zeros((x.size, x.size))

    def run() -> Any:
        out.fill(0.0)
        hessian_kernel(x, out)
        return out

    return run
