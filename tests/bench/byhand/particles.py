"""Particles that attract each other, moved step by step, and back: O(n²) forces, O(n) memory a step.

A step is v += h a(p), p += h v with aᵢ = Σⱼ mⱼ d s^(−3/2), d = pⱼ − pᵢ, s = |d|² + ε. Backward, after
v̄ += h p̄ and with c = h v̄:

    p̄ᵢ += Σⱼ s^(−3/2) (mᵢ cⱼ − mⱼ cᵢ) + 3 s^(−5/2) d (mⱼ cᵢ·d − mᵢ cⱼ·d)        m̄ᵢ −= Σⱼ s^(−3/2) cⱼ·d
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

from bench.byhand.tools import blocks, parallel, part, serial

EPSILON = 0.01
ROWS = 32


@serial
def forces(x, y, m, ax, ay, lo, hi):
    for i in range(lo, hi):
        sx = sy = 0.0
        for j in range(np.uint64(m.size)):
            a, b = x[j] - x[i], y[j] - y[i]
            s = a * a + b * b + EPSILON
            w = m[j] / (s * math.sqrt(s))
            sx += w * a
            sy += w * b
        ax[i], ay[i] = sx, sy


@serial
def pulls(x, y, m, cx, cy, px, py, pm, lo, hi):
    """The adjoint of `forces` along c, added to p̄ and m̄."""
    for i in range(lo, hi):
        sx = sy = sm = 0.0
        mi, ci, di = m[i], cx[i], cy[i]
        for j in range(np.uint64(m.size)):
            a, b = x[j] - x[i], y[j] - y[i]
            s = a * a + b * b + EPSILON
            r = 1.0 / s
            w = math.sqrt(r) * r
            far = cx[j] * a + cy[j] * b
            q = 3.0 * r * (m[j] * (ci * a + di * b) - mi * far)
            sx += w * (mi * cx[j] - m[j] * ci + q * a)
            sy += w * (mi * cy[j] - m[j] * di + q * b)
            sm += w * far
        px[i] += sx
        py[i] += sy
        pm[i] -= sm


@parallel
def forward_step(p, v, m, a, new, h, count):
    for k in prange(count):
        lo, hi = part(k, count, m.size)
        forces(p[0], p[1], m, a[0], a[1], lo, hi)
        for i in range(lo, hi):
            for axis in range(np.uint64(2)):
                v[axis, i] += h * a[axis, i]
                new[axis, i] = p[axis, i] + h * v[axis, i]


@parallel
def backward_step(p, m, c, dp, dv, dm, h, count):
    for k in prange(count):
        lo, hi = part(k, count, m.size)
        pulls(p[0], p[1], m, c[0], c[1], dp[0], dp[1], dm, lo, hi)


@serial
def kick(dp, dv, c, h):
    """v̄ += h p̄ and c = h v̄: before the forces' adjoint, which reads all of c."""
    for axis in range(np.uint64(2)):
        for i in range(np.uint64(c.shape[1])):
            dv[axis, i] += h * dp[axis, i]
            c[axis, i] = h * dv[axis, i]


def rollout(args: tuple[Any, ...]) -> Callable[[], Any]:
    """Σ |p|² / 2 at the end, and its gradients by the first p and v, and by m."""
    start, speed, m, steps, h = args
    n, count = m.size, blocks(m.size, ROWS)
    path, a, c = np.zeros((steps + 1, 2, n)), np.zeros((2, n)), np.zeros((2, n))

    def run() -> Any:
        path[0], v = start.T, np.ascontiguousarray(speed.T)
        for t in range(steps):
            forward_step(path[t], v, m, a, path[t + 1], h, count)
        dp, dv, dm = path[steps].copy(), np.zeros((2, n)), np.zeros(n)
        for t in range(steps - 1, -1, -1):
            kick(dp, dv, c, h)
            backward_step(path[t], m, c, dp, dv, dm, h, count)
        return (path[steps] ** 2).sum() / 2, (dp.T, dv.T, dm)

    return run
