"""The residual u_t + u u_x − ν u_xx of a network with two hidden layers: Σ r² / n and its gradient.

Each unit carries four channels for a tile of points, one after another in a row: its value, its derivatives
by x and by t, and the second one by x. A layer is then one product of matrices for all channels. With
a = tanh z and s = 1 − a²,

    a_x = s z_x,  a_t = s z_t,  a_xx = s z_xx − 2 a s z_x²
    z̄_x = s ā_x − 4 a s z_x ā_xx,  z̄_t = s ā_t,  z̄_xx = s ā_xx
    z̄ = s (ā − 2 a (ā_x z_x + ā_t z_t + ā_xx z_xx) − 2 (1 − 3 a²) z_x² ā_xx)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, prange

from bench.byhand.gmm import outer
from bench.byhand.ode import add_product
from bench.byhand.tools import driver, parallel, part, serial
from bench.vector_math import tanh

LANES = 64


@serial
def activate(z, a):
    """A unit's four channels through tanh."""
    n = np.uint64(LANES)
    for i in range(n):
        zx, zt, zxx = z[n + i], z[2 * n + i], z[3 * n + i]
        h = tanh(z[i])
        s = 1.0 - h * h
        a[i], a[n + i], a[2 * n + i], a[3 * n + i] = h, s * zx, s * zt, s * (zxx - 2.0 * h * zx * zx)


@serial
def deactivate(z, a, bar):
    """The cotangents of a unit's channels, from after tanh to before."""
    n = np.uint64(LANES)
    for i in range(n):
        zx, zt, zxx, h = z[n + i], z[2 * n + i], z[3 * n + i], a[i]
        b0, bx, bt, bxx = bar[i], bar[n + i], bar[2 * n + i], bar[3 * n + i]
        s = 1.0 - h * h
        along = bx * zx + bt * zt + bxx * zxx
        bar[i] = s * (b0 - 2.0 * h * along - 2.0 * (1.0 - 3.0 * h * h) * zx * zx * bxx)
        bar[n + i] = s * (bx - 4.0 * h * zx * bxx)
        bar[2 * n + i] = s * bt
        bar[3 * n + i] = s * bxx


@serial
def first_layer(x, t, w1, b1, z):
    n = np.uint64(LANES)
    for k in range(b1.size):
        p, q, b, row = w1[0, k], w1[1, k], b1[k], z[k]
        for i in range(n):
            row[i] = p * x[i] + q * t[i] + b
            row[n + i], row[2 * n + i], row[3 * n + i] = p, q, 0.0


@serial
def equation(u, mask, nu, scale):
    """`u` becomes the cotangents of its channels; returns Σ r² of the points that are there."""
    n = np.uint64(LANES)
    total = 0.0
    for i in range(n):
        v, vx, vt, vxx = u[i], u[n + i], u[2 * n + i], u[3 * n + i]
        r = (vt + v * vx - nu * vxx) * mask[i]
        total += r * r
        bar = 2.0 * scale * r
        u[i], u[n + i], u[2 * n + i], u[3 * n + i] = bar * vx, bar * v, bar, -nu * bar
    return total


@driver
def tile(x, t, mask, w1, b1, w2, w2T, b2, w3, b3, nu, scale, rows, grads):
    """One tile forward and back; adds to the gradients, rows of one array: w1, b1, b2, w3, b3, w2ᵀ."""
    z1, a1, z2, a2, bar1, bar2, u = rows
    n, units = np.uint64(LANES), b1.size
    first_layer(x, t, w1, b1, z1)
    for i in range(np.uint64(4 * LANES)):
        u[i] = 0.0
    for k in range(units):
        activate(z1[k], a1[k])
    for k in range(units):
        for i in range(n):
            z2[k, i], z2[k, n + i], z2[k, 2 * n + i], z2[k, 3 * n + i] = b2[k], 0.0, 0.0, 0.0
        add_product(a1, w2T[k], z2[k])
        activate(z2[k], a2[k])
    add_product(a2, w3, u)
    for i in range(n):
        u[i] += b3
    total = equation(u, mask, nu, scale)
    for i in range(n):
        grads[5, 0] += u[i]
    outer(u, a2, units - 1, grads[4], np.uint64(4 * LANES))
    for k in range(units):
        for i in range(np.uint64(4 * LANES)):
            bar2[k, i], bar1[k, i] = w3[k] * u[i], 0.0
        deactivate(z2[k], a2[k], bar2[k])
        for i in range(n):
            grads[3, k] += bar2[k, i]
        outer(bar2[k], a1, units - 1, grads[6 + k], np.uint64(4 * LANES))
    for k in range(units):
        add_product(bar2, w2[k], bar1[k])
        deactivate(z1[k], a1[k], bar1[k])
        row = bar1[k]
        gx = gt = g = 0.0
        for i in range(n):
            gx += row[i] * x[i] + row[n + i]
            gt += row[i] * t[i] + row[2 * n + i]
            g += row[i]
        grads[0, k] += gx
        grads[1, k] += gt
        grads[2, k] += g
    return total


@driver
def stretch(x, t, lo, hi, w1, b1, w2, w2T, b2, w3, b3, nu, scale, grads):
    """The tiles of one thread; the last one is filled up with points that do not count."""
    units = b1.size
    room = np.zeros((6, units, 4 * LANES))
    rows = room[0], room[1], room[2], room[3], room[4], room[5], np.zeros(4 * LANES)
    xs, ts, mask = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    total = 0.0
    for begin in range(lo, hi, LANES):
        for i in range(LANES):
            inside = begin + i < hi
            mask[i] = 1.0 if inside else 0.0
            xs[i], ts[i] = (x[begin + i], t[begin + i]) if inside else (0.0, 0.0)
        total += tile(xs, ts, mask, w1, b1, w2, w2T, b2, w3, b3, nu, scale, rows, grads)
    return total


@parallel
def kernel(x, t, w1, b1, w2, w2T, b2, w3, b3, nu, grads, parts):
    for k in prange(parts.size):
        lo, hi = part(k, parts.size, x.size)
        parts[k] = stretch(
            x, t, np.int64(lo), np.int64(hi), w1, b1, w2, w2T, b2, w3, b3, nu, 1.0 / x.size, grads[k]
        )


def gradient(args: tuple[Any, ...]) -> Callable[[], Any]:
    w1, b1, w2, b2, w3, b3, x, t, nu = args
    units, threads = b1.size, get_num_threads()
    parts = np.zeros(threads)

    def run() -> Any:
        grads = np.zeros((threads, 6 + units, units))
        kernel(x, t, w1, b1, w2, np.ascontiguousarray(w2.T), b2, w3, b3, nu, grads, parts)
        g = grads.sum(axis=0)
        return parts.sum() / x.size, (g[:2], g[2], g[6:].T, g[3], g[4], g[5, 0])

    return run
