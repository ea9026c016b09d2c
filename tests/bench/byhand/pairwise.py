"""E = Σᵢⱼ mᵢ mⱼ / √(|xᵢ − xⱼ|² + ε): gradient, Hessian-vector product, and the gradient of |∂E/∂x|².

Each point's own sums stay in registers while the loop runs over all others, coordinate by coordinate; no
pair is stored. With d = xᵢ − xⱼ, s = |d|² + ε:

    ∂E/∂xᵢ = −2 mᵢ Σⱼ mⱼ d s^(−3/2)            ∂E/∂mᵢ = 2 Σⱼ mⱼ s^(−1/2)
    (H v)ᵢ = −2 mᵢ Σⱼ mⱼ (u s^(−3/2) − 3 d (d·u) s^(−5/2))     with u = vᵢ − vⱼ

and for P = Σᵢ |∂E/∂xᵢ|², with c = 2 ∂E/∂x: ∂P/∂x = H c, ∂P/∂mᵢ = −2 Σⱼ mⱼ s^(−3/2) d·(cᵢ − cⱼ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

from bench.byhand.tools import blocks, parallel, part, serial

EPSILON = 0.01
ROWS = 64  # points of a block


@serial
def columns(x, out):
    """Each coordinate in an array of its own."""
    for i in range(np.uint64(x.shape[0])):
        for k in range(np.uint64(3)):
            out[k, i] = x[i, k]


@serial
def gradient_block(x, y, z, m, dx, dm, lo, hi):
    number = x.dtype.type
    zero, one, two, epsilon, n = number(0), number(1), number(2), number(EPSILON), np.uint64(x.size)
    total = zero
    for i in range(lo, hi):
        gx = gy = gz = potential = zero
        for j in range(n):
            a, b, c = x[i] - x[j], y[i] - y[j], z[i] - z[j]
            s = a * a + b * b + c * c + epsilon
            r = one / math.sqrt(s)
            p = m[j] * r
            w = p * r * r
            potential += p
            gx += w * a
            gy += w * b
            gz += w * c
        f = -two * m[i]
        dx[i, 0], dx[i, 1], dx[i, 2] = f * gx, f * gy, f * gz
        dm[i] = two * potential
        total += m[i] * potential
    return total


@parallel
def gradient_kernel(x, m, soa, dx, dm, parts):
    columns(x, soa)
    for k in prange(parts.size):
        lo, hi = part(k, parts.size, m.size)
        parts[k] = gradient_block(soa[0], soa[1], soa[2], m, dx, dm, lo, hi)


def gradient(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, m = args
    dx, dm, soa = np.zeros_like(x), np.zeros_like(m), np.zeros((3, m.size), x.dtype)
    parts = np.zeros(blocks(m.size, ROWS), x.dtype)

    def run() -> Any:
        gradient_kernel(x, m, soa, dx, dm, parts)
        return parts.sum(), (dx, dm)

    return run


@serial
def product_block(x, y, z, u, v, w, m, out, lo, hi):
    n = np.uint64(x.size)
    for i in range(lo, hi):
        hx = hy = hz = 0.0
        for j in range(n):
            a, b, c = x[i] - x[j], y[i] - y[j], z[i] - z[j]
            e, f, g = u[i] - u[j], v[i] - v[j], w[i] - w[j]
            s = a * a + b * b + c * c + EPSILON
            r = 1.0 / s
            cube = m[j] * math.sqrt(r) * r
            q = 3.0 * r * (a * e + b * f + c * g)
            hx += cube * (e - q * a)
            hy += cube * (f - q * b)
            hz += cube * (g - q * c)
        scale = -2.0 * m[i]
        out[i, 0], out[i, 1], out[i, 2] = scale * hx, scale * hy, scale * hz


@parallel
def product_kernel(x, m, v, soa, along, out, count):
    columns(x, soa)
    columns(v, along)
    for k in prange(count):
        lo, hi = part(k, count, m.size)
        product_block(soa[0], soa[1], soa[2], along[0], along[1], along[2], m, out, lo, hi)


def hessian_product(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, m, v = args
    out, soa, along = np.zeros_like(x), np.zeros((3, m.size)), np.zeros((3, m.size))

    def run() -> Any:
        product_kernel(x, m, v, soa, along, out, blocks(m.size, ROWS))
        return out

    return run


@serial
def penalty_block(x, y, z, u, v, w, m, dx, dm, lo, hi):
    """Like `product_block` along u, v, w, and the derivative by the masses."""
    n = np.uint64(x.size)
    for i in range(lo, hi):
        hx = hy = hz = mass = 0.0
        for j in range(n):
            a, b, c = x[i] - x[j], y[i] - y[j], z[i] - z[j]
            e, f, g = u[i] - u[j], v[i] - v[j], w[i] - w[j]
            s = a * a + b * b + c * c + EPSILON
            r = 1.0 / s
            cube = m[j] * math.sqrt(r) * r
            dot = a * e + b * f + c * g
            q = 3.0 * r * dot
            hx += cube * (e - q * a)
            hy += cube * (f - q * b)
            hz += cube * (g - q * c)
            mass += cube * dot
        scale = -2.0 * m[i]
        dx[i, 0], dx[i, 1], dx[i, 2] = scale * hx, scale * hy, scale * hz
        dm[i] = -2.0 * mass


@parallel
def penalty_kernel(x, m, soa, first, along, dx, dm, parts):
    columns(x, soa)
    for k in prange(parts.size):
        lo, hi = part(k, parts.size, m.size)
        gradient_block(soa[0], soa[1], soa[2], m, first, dm, lo, hi)
        total = 0.0
        for i in range(lo, hi):
            for a in range(np.uint64(3)):
                total += first[i, a] * first[i, a]
                along[a, i] = 2.0 * first[i, a]
        parts[k] = total
    for k in prange(parts.size):
        lo, hi = part(k, parts.size, m.size)
        penalty_block(soa[0], soa[1], soa[2], along[0], along[1], along[2], m, dx, dm, lo, hi)


def double_backward(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, m = args
    first, dx, dm = np.zeros_like(x), np.zeros_like(x), np.zeros_like(m)
    soa, along, parts = np.zeros((3, m.size)), np.zeros((3, m.size)), np.zeros(blocks(m.size, ROWS))

    def run() -> Any:
        penalty_kernel(x, m, soa, first, along, dx, dm, parts)
        return parts.sum(), (dx, dm)

    return run
