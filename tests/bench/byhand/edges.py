"""Σₑ wₑ exp(−(x[aₑ] − x[bₑ])²) over the edges of a graph, and its gradients by x and w.

A scatter inside a vector loop leaves it scalar, so strips of edges go through three loops: gather, the
mathematics on vectors, scatter. Edges share nodes, so it runs on one thread: buffers of their own for
several threads cost as much as they gain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.byhand.tools import serial
from bench.vector_math import exp

STRIP = 1024


@serial
def strip(x, w, a, b, dx, dw, pull, size):
    """The edges of one strip, whose slices a, b, w, dw are."""
    total = 0.0
    n = np.uint64(size)
    for e in range(n):
        pull[e] = x[np.uint64(a[e])] - x[np.uint64(b[e])]
    for e in range(n):
        d = pull[e]
        k = exp(-d * d)
        dw[e] = k
        total += w[e] * k
        pull[e] = -2.0 * w[e] * k * d
    for e in range(n):
        dx[np.uint64(a[e])] += pull[e]
        dx[np.uint64(b[e])] -= pull[e]
    return total


@serial
def kernel(x, w, a, b, dx, dw, pull):
    for i in range(np.uint64(x.size)):
        dx[i] = 0.0
    total = 0.0
    for lo in range(0, w.size, STRIP):
        hi = min(lo + STRIP, w.size)
        total += strip(x, w[lo:hi], a[lo:hi], b[lo:hi], dx, dw[lo:hi], pull, hi - lo)
    return total


def gradient(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, w, a, b = args
    dx, dw, pull = np.zeros_like(x), np.zeros_like(w), np.zeros(STRIP)

    def run() -> Any:
        return kernel(x, w, a, b, dx, dw, pull), (dx, dw)

    return run
