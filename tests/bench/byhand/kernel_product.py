"""Σᵢ cᵢ Σⱼ exp(−|xᵢ − yⱼ|²) bⱼ and its gradients by x, y and b, with one exponential a pair.

A block of rows has sums of its own for y and b, so that rows may run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, prange

from bench.byhand.pairwise import columns
from bench.byhand.tools import parallel, part, serial
from bench.vector_math import exp


@serial
def block(x, y, b, c, dx, dc, dy, db, lo, hi):
    """Rows lo to hi: `dc` is the product itself, since the sum is linear in c."""
    y0, y1, y2, g0, g1, g2 = y[0], y[1], y[2], dy[0], dy[1], dy[2]
    for j in range(np.uint64(b.size)):
        g0[j] = g1[j] = g2[j] = db[j] = 0.0
    for i in range(lo, hi):
        x0, x1, x2, weight = x[i, 0], x[i, 1], x[i, 2], c[i]
        h0 = h1 = h2 = total = 0.0
        for j in range(np.uint64(b.size)):
            d0, d1, d2 = x0 - y0[j], x1 - y1[j], x2 - y2[j]
            k = exp(-(d0 * d0 + d1 * d1 + d2 * d2))
            p = k * b[j]
            total += p
            h0 += p * d0
            h1 += p * d1
            h2 += p * d2
            p *= weight
            g0[j] += p * d0
            g1[j] += p * d1
            g2[j] += p * d2
            db[j] += k * weight
        f = -2.0 * weight
        dx[i, 0], dx[i, 1], dx[i, 2] = f * h0, f * h1, f * h2
        dc[i] = total


@parallel
def kernel(x, y, b, c, soa, dx, dc, dys, dbs):
    columns(y, soa)
    for k in prange(dys.shape[0]):
        lo, hi = part(k, dys.shape[0], c.size)
        block(x, soa, b, c, dx, dc, dys[k], dbs[k], lo, hi)


def gradient(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, y, b, c = args
    dx, dc, soa, count = np.zeros_like(x), np.zeros_like(c), np.zeros((3, b.size)), get_num_threads()
    dys, dbs = np.zeros((count, 3, b.size)), np.zeros((count, b.size))

    def run() -> Any:
        kernel(x, y, b, c, soa, dx, dc, dys, dbs)
        return c @ dc, (dx, 2.0 * dys.sum(axis=0).T, dbs.sum(axis=0))

    return run
