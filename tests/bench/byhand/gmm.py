"""GradBench's gmm: the log posterior of a mixture of Gaussians, and its gradient.

Points stand in lanes, innermost, and coordinates outside: with z = x − μ and L lower triangular, y = L z. The
weights p of the components follow from the logsumexp, and since they are linear in what is summed,

    ∂/∂L = −Σ p y zᵀ − γ² L        ∂/∂μ = Lᵀ Σ p y        ∂/∂α = Σ p − n softmax(α)

so one pass over y gives all: Lᵀ is applied once to the sum. y is kept for the lanes of one tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, prange

from bench.byhand.tools import driver, parallel, part, serial
from bench.vector_math import exp

LANES = 128


@serial
def triangles(q, l, L):  # noqa: E741
    """exp(q) on the diagonal; l, column by column, below it."""
    d = q.shape[1]
    for c in range(q.shape[0]):
        at = 0
        for b in range(d):
            L[c, b, b] = math.exp(q[c, b])
            for a in range(b + 1, d):
                L[c, a, b] = l[c, at]
                at += 1


@serial
def row(L, a, z, y, norm, n):
    """y[a] = L[a] z and its square added to `norm`; four coordinates at a time."""
    out = y[a]
    whole = (a + 1) // 4 * 4
    for i in range(n):
        out[i] = 0.0
    for b in range(0, whole, 4):
        p, q, r, s = L[a, b], L[a, b + 1], L[a, b + 2], L[a, b + 3]
        z0, z1, z2, z3 = z[b], z[b + 1], z[b + 2], z[b + 3]
        for i in range(n):
            out[i] += p * z0[i] + q * z1[i] + r * z2[i] + s * z3[i]
    for b in range(whole, a + 1):
        p, z0 = L[a, b], z[b]
        for i in range(n):
            out[i] += p * z0[i]
    for i in range(n):
        norm[i] += out[i] * out[i]


@serial
def outer(y, z, a, out, n):
    """out[b] += Σ y z[b] for b up to a; eight sums at a time stay in registers."""
    whole = (a + 1) // 4 * 4
    for b in range(0, whole, 4):
        z0, z1, z2, z3 = z[b], z[b + 1], z[b + 2], z[b + 3]
        p = q = r = s = 0.0
        for i in range(n):
            v = y[i]
            p += v * z0[i]
            q += v * z1[i]
            r += v * z2[i]
            s += v * z3[i]
        out[b] += p
        out[b + 1] += q
        out[b + 2] += r
        out[b + 3] += s
    for b in range(whole, a + 1):
        z0, p = z[b], 0.0
        for i in range(n):
            p += y[i] * z0[i]
        out[b] += p


@serial
def weights(beta, top, total, n):
    """beta becomes the components' weights; the sum of the logsumexps is returned."""
    k = beta.shape[0]
    for i in range(n):
        top[i], total[i] = beta[0, i], 0.0
    for c in range(1, k):
        of = beta[c]
        for i in range(n):
            top[i] = max(top[i], of[i])
    for c in range(k):
        of = beta[c]
        for i in range(n):
            of[i] = exp(of[i] - top[i])
            total[i] += of[i]
    value = 0.0
    for i in range(n):
        value += top[i] + math.log(total[i])
        total[i] = 1.0 / total[i]
    for c in range(k):
        of = beta[c]
        for i in range(n):
            of[i] *= total[i]
    return value


@driver
def tile(xt, mu, L, first, z, ys, beta, norm, top, pull, dL, mean, share, n):
    """The points of one tile: adds to dL (Σ p y zᵀ), mean (Σ p y) and share (Σ p)."""
    k, d = mu.shape
    for c in range(k):
        for b in range(d):
            zb, xb, m = z[b], xt[b], mu[c, b]
            for i in range(n):
                zb[i] = xb[i] - m
        for i in range(n):
            norm[i] = 0.0
        for a in range(d):
            row(L[c], a, z, ys[c], norm, n)
        of = beta[c]
        for i in range(n):
            of[i] = first[c] - 0.5 * norm[i]
    value = weights(beta, top, norm, n)
    for c in range(k):
        p = beta[c]
        for b in range(d):
            zb, xb, m = z[b], xt[b], mu[c, b]
            for i in range(n):
                zb[i] = xb[i] - m
        for a in range(d):
            y, total = ys[c, a], 0.0
            for i in range(n):
                pull[i] = p[i] * y[i]
                total += pull[i]
            mean[c, a] += total
            outer(pull, z, a, dL[c, a], n)
        total = 0.0
        for i in range(n):
            total += p[i]
        share[c] += total
    return value


@driver
def stretch(x, mu, L, first, rooms, t, lo, hi, dL, mean, share):
    """All tiles of the points from lo to hi, which are one thread's; adds to its sums."""
    z, ys, beta, rows, xt = rooms
    value = 0.0
    for begin in range(lo, hi, LANES):
        n = np.uint64(min(LANES, hi - begin))
        for i in range(n):
            for b in range(np.uint64(x.shape[1])):
                xt[t, b, i] = x[begin + i, b]
        value += tile(
            xt[t], mu, L, first, z[t], ys[t], beta[t], rows[t, 0], rows[t, 1], rows[t, 2], dL, mean, share, n
        )
    return value


@parallel
def kernel(x, mu, L, first, rooms, dL, mean, share, parts):
    for t in prange(parts.size):
        lo, hi = part(t, parts.size, x.shape[0])
        parts[t] = stretch(x, mu, L, first, rooms, t, np.int64(lo), np.int64(hi), dL[t], mean[t], share[t])


@serial
def finish(L, q, dL, mean, share, alpha, n, gamma, m, dalpha, dmu, dq, dl):
    """From the sums to the gradients; returns what the prior adds to the value."""
    k, d = q.shape
    top, total, frobenius, trace = alpha[0], 0.0, 0.0, 0.0
    for c in range(k):
        top = max(top, alpha[c])
    for c in range(k):
        total += math.exp(alpha[c] - top)
    for c in range(k):
        dalpha[c] = share[c] - n * math.exp(alpha[c] - top) / total
        at = 0
        for b in range(d):
            trace += q[c, b]
            dmu[c, b] = 0.0
            dq[c, b] = share[c] + m - (dL[c, b, b] + gamma * gamma * L[c, b, b]) * L[c, b, b]
            for a in range(b, d):
                frobenius += L[c, a, b] ** 2
                dmu[c, b] += L[c, a, b] * mean[c, a]
                if a > b:
                    dl[c, at] = -dL[c, a, b] - gamma * gamma * L[c, a, b]
                    at += 1
    return m * trace - gamma * gamma / 2 * frobenius - n * (top + math.log(total))


def gradient(args: tuple[Any, ...]) -> Callable[[], Any]:
    alpha, mu, q, l, x, gamma, m = args  # noqa: E741
    (k, d), n, threads = mu.shape, len(x), get_num_threads()
    L, dL = np.zeros((k, d, d)), np.zeros((threads, k, d, d))
    mean, share, parts = np.zeros((threads, k, d)), np.zeros((threads, k)), np.zeros(threads)
    shapes = (d, LANES), (k, d, LANES), (k, LANES), (3, LANES), (d, LANES)
    rooms = tuple(np.zeros((threads, *shape)) for shape in shapes)
    out = tuple(np.zeros_like(a) for a in (alpha, mu, q, l))

    def run() -> Any:
        for sums in (dL, mean, share):
            sums.fill(0.0)
        triangles(q, l, L)
        kernel(x, mu, L, alpha + q.sum(axis=1), rooms, dL, mean, share, parts)
        sums = dL.sum(axis=0), mean.sum(axis=0), share.sum(axis=0)
        prior = finish(L, q, *sums, alpha, n, gamma, m, *out)
        return parts.sum() + prior, out

    return run
