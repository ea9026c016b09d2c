"""GradBench's kmeans, llsq and lse: points in lanes, innermost, so that all of it runs on vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, prange

from bench.byhand.tools import blocks, driver, parallel, part, serial
from bench.vector_math import exp

LANES = 256

# -- kmeans: Newton's step, centroid minus mean of its points ------------------------------------------


@serial
def nearest(points, centroids, begin, n, xt, best, which, apart):
    """For n points from `begin` on: the number of the nearest centroid, as a float, in `which`."""
    d = centroids.shape[1]
    for i in range(n):
        for a in range(np.uint64(d)):
            xt[a, i] = points[begin + i, a]
        best[i], which[i] = np.inf, 0.0
    for c in range(centroids.shape[0]):
        for i in range(n):
            apart[i] = 0.0
        for a in range(0, d - d % 2, 2):
            p, q, u, v = centroids[c, a], centroids[c, a + 1], xt[a], xt[a + 1]
            for i in range(n):
                apart[i] += (u[i] - p) ** 2 + (v[i] - q) ** 2
        if d % 2:
            p, u = centroids[c, d - 1], xt[d - 1]
            for i in range(n):
                apart[i] += (u[i] - p) ** 2
        number = float(c)
        for i in range(n):
            closer = apart[i] < best[i]
            best[i] = apart[i] if closer else best[i]
            which[i] = number if closer else which[i]


@driver
def gather_means(points, centroids, lo, hi, sums, counts, xt, rows):
    """Adds the points from lo to hi to the sums of their centroids."""
    for begin in range(lo, hi, LANES):
        n = np.uint64(min(LANES, hi - begin))
        nearest(points, centroids, np.uint64(begin), n, xt, rows[0], rows[1], rows[2])
        for i in range(n):
            c = np.uint64(rows[1, i])
            counts[c] += 1.0
            for a in range(np.uint64(points.shape[1])):
                sums[c, a] += points[np.uint64(begin) + i, a]


@parallel
def means_kernel(points, centroids, sums, counts, xt, rows):
    for t in prange(counts.shape[0]):
        lo, hi = part(t, counts.shape[0], points.shape[0])
        gather_means(points, centroids, np.int64(lo), np.int64(hi), sums[t], counts[t], xt[t], rows[t])


def kmeans(args: tuple[Any, ...]) -> Callable[[], Any]:
    points, centroids = args
    (k, d), threads = centroids.shape, get_num_threads()
    sums, counts = np.zeros((threads, k, d)), np.zeros((threads, k))
    xt, rows = np.zeros((threads, d, LANES)), np.zeros((threads, 3, LANES))

    def run() -> Any:
        sums.fill(0.0)
        counts.fill(0.0)
        means_kernel(points, centroids, sums, counts, xt, rows)
        return centroids - sums.sum(axis=0) / counts.sum(axis=0)[:, None]

    return run


# -- llsq: a polynomial by Horner's rule, its powers on the way back -----------------------------------


@serial
def horner(x, t, value, n):
    """The polynomial at n places; four coefficients an iteration stay in registers."""
    m = x.size
    for i in range(n):
        value[i] = 0.0
    first = m % 4
    for j in range(m - 1, m - 1 - first, -1):
        for i in range(n):
            value[i] = value[i] * t[i] + x[j]
    for j in range(m - 1 - first, 0, -4):
        a, b, c, d = x[j], x[j - 1], x[j - 2], x[j - 3]
        for i in range(n):
            s = t[i]
            value[i] = (((value[i] * s + a) * s + b) * s + c) * s + d


@serial
def moments(t, pull, out, n):
    """out[j] += Σ pull t^j; `pull` becomes its product with the last power."""
    m = out.size
    whole = m // 4 * 4
    for j in range(0, whole, 4):
        a = b = c = d = 0.0
        for i in range(n):
            s, p = t[i], pull[i]
            a += p
            q = p * s
            b += q
            q = q * s
            c += q
            q = q * s
            d += q
            pull[i] = q * s
        out[j] += a
        out[j + 1] += b
        out[j + 2] += c
        out[j + 3] += d
    for j in range(whole, m):
        a = 0.0
        for i in range(n):
            a += pull[i]
            pull[i] *= t[i]
        out[j] += a


@driver
def fit(x, total, lo, hi, out, rows):
    """The places from lo to hi of `total` in [-1, 1]: half the squares, and the gradient in `out`."""
    t, value = rows[0], rows[1]
    loss = 0.0
    for begin in range(lo, hi, LANES):
        n = np.uint64(min(LANES, hi - begin))
        for i in range(n):
            t[i] = -1.0 + 2.0 * (begin + np.int64(i)) / (total - 1)
        horner(x, t, value, n)
        for i in range(n):
            sign = 1.0 if t[i] > 0 else (-1.0 if t[i] < 0 else 0.0)
            value[i] -= sign
            loss += value[i] * value[i]
        moments(t, value, out, n)
    return loss / 2


@parallel
def fit_kernel(x, total, parts, out, rows):
    for k in prange(parts.size):
        lo, hi = part(k, parts.size, total)
        parts[k] = fit(x, total, np.int64(lo), np.int64(hi), out[k], rows[k])


def llsq(args: tuple[Any, ...]) -> Callable[[], Any]:
    x, n = args
    threads = get_num_threads()
    parts, out, rows = np.zeros(threads), np.zeros((threads, x.size)), np.zeros((threads, 2, LANES))

    def run() -> Any:
        out.fill(0.0)
        fit_kernel(x, n, parts, out, rows)
        return parts.sum(), out.sum(axis=0)

    return run


# -- lse: the logarithm of a sum of exponentials -------------------------------------------------------


@serial
def top(x, lo, hi):
    """The greatest element: eight at a time, since one running maximum is not vectorised."""
    a = b = c = d = e = f = g = h = -np.inf
    whole = lo + (hi - lo) // np.uint64(8) * np.uint64(8)
    for i in range(lo, whole, np.uint64(8)):
        a, b, c, d = max(a, x[i]), max(b, x[i + 1]), max(c, x[i + 2]), max(d, x[i + 3])
        e, f, g, h = max(e, x[i + 4]), max(f, x[i + 5]), max(g, x[i + 6]), max(h, x[i + 7])
    found = max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))
    for i in range(whole, hi):
        found = max(found, x[i])
    return found


@serial
def exponentials(x, out, lo, hi, most):
    total = 0.0
    for i in range(lo, hi):
        out[i] = exp(x[i] - most)
        total += out[i]
    return total


@parallel
def blocks_kernel(x, out, tops, sums):
    """Each block by its own maximum while it is in the cache."""
    for k in prange(tops.size):
        lo, hi = part(k, tops.size, x.size)
        tops[k] = top(x, lo, hi)
        sums[k] = exponentials(x, out, lo, hi, tops[k])


@serial
def joined(tops, sums, scales):
    """The result, and for each block what its exponentials are to be multiplied by."""
    most, total = -np.inf, 0.0
    for k in range(tops.size):
        most = max(most, tops[k])
    for k in range(tops.size):
        scales[k] = math.exp(tops[k] - most)
        total += sums[k] * scales[k]
    for k in range(tops.size):
        scales[k] /= total
    return most + math.log(total)


@parallel
def scale_kernel(out, scales):
    for k in prange(scales.size):
        lo, hi = part(k, scales.size, out.size)
        factor = scales[k]
        for i in range(lo, hi):
            out[i] *= factor


def lse(args: tuple[Any, ...]) -> Callable[[], Any]:
    (x,) = args
    out, (tops, sums, scales) = np.zeros_like(x), np.zeros((3, blocks(x.size)))

    def run() -> Any:
        blocks_kernel(x, out, tops, sums)
        value = joined(tops, sums, scales)
        scale_kernel(out, scales)
        return value, out

    return run
