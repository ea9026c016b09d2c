"""(a + b)·b, Black and Scholes' formula, and gelu with a weight and a bias for each column."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

from bench.byhand.tools import blocks, like, parallel, part, serial
from bench.vector_math import erf, exp, log

# -- Σ (a + b) b ---------------------------------------------------------------------------------------


@serial
def product_block(a, b, da, db, lo, hi):
    total = a.dtype.type(0)
    for i in range(lo, hi):
        t = a[i] + b[i]
        total += t * b[i]
        da[i] = b[i]
        db[i] = t + b[i]
    return total


@parallel
def product_kernel(a, b, da, db, parts):
    for k in prange(parts.size):
        lo, hi = part(k, parts.size, a.size)
        parts[k] = product_block(a, b, da, db, lo, hi)


def product_sum(args: tuple[Any, ...]) -> Callable[[], Any]:
    a, b = args
    da, db = like(a, b)
    parts = np.zeros(blocks(a.size, 8192), a.dtype)

    def run() -> Any:
        product_kernel(a, b, da, db, parts)
        return parts.sum(), (da, db)

    return run


# -- Black and Scholes: price and the five Greeks ------------------------------------------------------


@serial
def greeks_block(s, k, t, r, v, ds, dk, dt, dr, dv, lo, hi):
    """C = S Φ(d₁) − K e^(−rt) Φ(d₂); K e^(−rt) φ(d₂) = S φ(d₁) leaves one density for all Greeks."""
    number = s.dtype.type
    half, one, root = number(0.5), number(1), number(math.sqrt(0.5))
    density = number(1 / math.sqrt(2 * math.pi))
    total = number(0)
    for i in range(lo, hi):
        sqrt_t = math.sqrt(t[i])
        spread = v[i] * sqrt_t
        d1 = (log(s[i] / k[i]) + (r[i] + half * v[i] * v[i]) * t[i]) / spread
        d2 = d1 - spread
        n1, n2 = half * (one + erf(d1 * root)), half * (one + erf(d2 * root))
        discount = exp(-r[i] * t[i])
        vega = s[i] * density * exp(-half * d1 * d1) * sqrt_t
        owed = k[i] * discount * n2
        total += s[i] * n1 - owed
        ds[i] = n1
        dk[i] = -discount * n2
        dt[i] = half * vega * v[i] / t[i] + r[i] * owed
        dr[i] = t[i] * owed
        dv[i] = vega
    return total


@parallel
def greeks_kernel(s, k, t, r, v, ds, dk, dt, dr, dv, parts):
    for q in prange(parts.size):
        lo, hi = part(q, parts.size, s.size)
        parts[q] = greeks_block(s, k, t, r, v, ds, dk, dt, dr, dv, lo, hi)


def black_scholes(args: tuple[Any, ...]) -> Callable[[], Any]:
    greeks = like(*args)
    parts = np.zeros(blocks(args[0].size), args[0].dtype)

    def run() -> Any:
        greeks_kernel(*args, *greeks, parts)
        return parts.sum(), greeks

    return run


# -- ½ Σ gelu(x w + b)² --------------------------------------------------------------------------------


@serial
def gelu_block(x, w, b, dx, dw, db, lo, hi):
    """Some rows. With y = x w + b, Φ and φ at y: gelu = y Φ and its derivative is Φ + y φ."""
    number = x.dtype.type
    half, one, root = number(0.5), number(1), number(math.sqrt(0.5))
    density = number(1 / math.sqrt(2 * math.pi))
    total = number(0)
    columns = np.uint64(w.size)
    for j in range(columns):
        dw[j] = db[j] = number(0)
    for i in range(lo, hi):
        for j in range(columns):
            y = x[i, j] * w[j] + b[j]
            below = half * (one + erf(y * root))
            g = y * below
            total += g * g
            dy = g * (below + y * density * exp(-half * y * y))
            dx[i, j] = dy * w[j]
            dw[j] += dy * x[i, j]
            db[j] += dy
    return half * total


@parallel
def gelu_kernel(x, w, b, dx, dw, db, parts):
    for k in prange(parts.size):
        lo, hi = part(k, parts.size, x.shape[0])
        parts[k] = gelu_block(x, w, b, dx, dw[k], db[k], lo, hi)


def gelu(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, w, b = args
    (dx,) = like(x)
    count = blocks(x.shape[0], 64)
    parts, dw, db = (np.zeros((count, *s), x.dtype) for s in ((), w.shape, b.shape))

    def run() -> Any:
        gelu_kernel(x, w, b, dx, dw, db, parts)
        return parts.sum(), (dx, dw.sum(axis=0), db.sum(axis=0))

    return run
