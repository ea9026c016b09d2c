"""Images: convolutions, pooling, warps, flow and reconstruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments

# -- a convolution in two dimensions with channels, by loops -------------------------------------------

CONVOLUTION = """
def convolution(x: f64[c, h, w], k: f64[o, c, 3, 3], bias: f64[o], y: f64[o, h - 2, w - 2]):
    z = zeros((o, h - 2, w - 2))
    for a in range(o):
        for i in range(h - 2):
            for j in range(w - 2):
                acc = bias[a]
                for b in range(c):
                    for u in range(3):
                        for v in range(3):
                            acc += x[b, i + u, j + v] * k[a, b, u, v]
                z[a, i, j] = max(acc, 0.0)
    return sum((z - y)**2)
"""


def channels(rng: np.random.Generator, c: int, o: int, h: int, w: int) -> Arguments:
    return (
        rng.standard_normal((c, h, w)), 0.3 * rng.standard_normal((o, c, 3, 3)), rng.standard_normal(o),
        rng.standard_normal((o, h - 2, w - 2)),
    )  # fmt: skip


def correlate(xp: Any, x: Any, k: Any) -> Any:
    """What `lax.conv` does, of images (n, c, h, w), as sums over the window."""
    h, w = x.shape[2] - k.shape[2] + 1, x.shape[3] - k.shape[3] + 1
    if hasattr(xp, "conv"):
        return xp.conv(x, k)
    return sum(
        xp.einsum("nchw,oc->nohw", x[:, :, u : u + h, v : v + w], k[:, :, u, v])
        for u in range(k.shape[2])
        for v in range(k.shape[3])
    )


def convolution(xp: Any, x: Any, k: Any, bias: Any, y: Any) -> Any:
    z = xp.maximum(correlate(xp, x[None], k)[0] + bias[:, None, None], 0.0)
    return xp.sum((z - y) ** 2)


# -- a small network: convolution, pooling, a dense layer ----------------------------------------------

NETWORK = """
def network(x: f64[n, c, h, w], label: i64[n], k: f64[o, c, 5, 5], bias: f64[o], W: f64[o, p, q, m]):
    z = [[[[maximum(bias[a] + sum(x[s, b, i + u, j + v] * k[a, b, u, v]
                                  for b in range(c) for u in range(5) for v in range(5)), 0)
            for j in range(w - 4)] for i in range(h - 4)] for a in range(o)] for s in range(n)]
    pooled = [[[[max(z[s, a, 2 * i + u, 2 * j + v] for u in range(2) for v in range(2))
                 for j in range(q)] for i in range(p)] for a in range(o)] for s in range(n)]
    out = einsum("soij,oijm->sm", pooled, W)
    return mean(logsumexp(out, axis=1)) - sum(out[s, label[s]] for s in range(n)) / n
"""


def batch(rng: np.random.Generator, n: int, c: int, h: int, o: int, m: int) -> Arguments:
    p = (h - 4) // 2
    return (
        rng.standard_normal((n, c, h, h)), rng.integers(0, m, n), 0.2 * rng.standard_normal((o, c, 5, 5)),
        0.1 * rng.standard_normal(o), rng.standard_normal((o, p, p, m)) / p,
    )  # fmt: skip


def network(xp: Any, x: Any, label: Any, k: Any, bias: Any, W: Any) -> Any:
    z = xp.maximum(correlate(xp, x, k) + bias[:, None, None], 0.0)
    n, o, h, w = z.shape
    pooled = xp.max(xp.reshape(z, (n, o, h // 2, 2, w // 2, 2)), (3, 5))
    out = xp.einsum("soij,oijm->sm", pooled, W)
    return xp.mean(xp.logsumexp(out, 1) - out[np.arange(n), label])


# -- max-pooling by loops, and the norm behind it ------------------------------------------------------

POOLING = """
def pooling(x: f64[c, h, w], gain: f64[c], y: f64[c, p, q]):
    out = zeros((c, p, q))
    for a in range(c):
        for i in range(p):
            for j in range(q):
                best = x[a, 2 * i, 2 * j]
                for u in range(2):
                    for v in range(2):
                        if x[a, 2 * i + u, 2 * j + v] > best:
                            best = x[a, 2 * i + u, 2 * j + v]
                out[a, i, j] = best
    total = 0.0
    for a in range(c):
        m = mean(out[a])
        s = std(out[a])
        total += sum((gain[a] * (out[a] - m) / (s + 1e-5) - y[a])**2)
    return total
"""


def maps(rng: np.random.Generator, c: int, p: int) -> Arguments:
    x = rng.standard_normal((c, 2 * p, 2 * p))
    return x, rng.standard_normal(c), rng.standard_normal((c, p, p))


def pooling(xp: Any, x: Any, gain: Any, y: Any) -> Any:
    c, p, q = y.shape
    out = xp.max(xp.reshape(x, (c, p, 2, q, 2)), (2, 4))
    m = xp.mean(out, (1, 2), keepdims=True)
    s = xp.sqrt(xp.mean((out - m) ** 2, (1, 2), keepdims=True))
    return xp.sum((gain[:, None, None] * (out - m) / (s + 1e-5) - y) ** 2)


# -- an image moved and turned, with bilinear interpolation --------------------------------------------

WARP = """
def warp(image: f64[h, w], goal: f64[h, w], a: f64[6]):
    total = 0.0
    for i in range(h):
        for j in range(w):
            y = a[0] + a[1] * i + a[2] * j
            x = a[3] + a[4] * i + a[5] * j
            y = clip(y, 0.0, h - 1.001)
            x = clip(x, 0.0, w - 1.001)
            u = int(y)
            v = int(x)
            p = y - u
            q = x - v
            value = ((1 - p) * (1 - q) * image[u, v] + (1 - p) * q * image[u, v + 1]
                     + p * (1 - q) * image[u + 1, v] + p * q * image[u + 1, v + 1])
            total += (value - goal[i, j])**2
    return total
"""


def photographs(rng: np.random.Generator, h: int, w: int) -> Arguments:
    image, goal = rng.standard_normal((2, h, w))
    return image, goal, np.array([0.3137, 0.9719, 0.0613, -0.2291, -0.0517, 0.9811])


def bilinear(xp: Any, image: Any, y: Any, x: Any) -> Any:
    h, w = image.shape
    y, x = xp.clip(y, 0.0, h - 1.001), xp.clip(x, 0.0, w - 1.001)
    u, v = xp.floor(y), xp.floor(x)
    p, q, u, v = y - u, x - v, u.astype(int), v.astype(int)
    top = (1 - q) * image[u, v] + q * image[u, v + 1]
    return (1 - p) * top + p * ((1 - q) * image[u + 1, v] + q * image[u + 1, v + 1])


def warp(xp: Any, image: Any, goal: Any, a: Any) -> Any:
    h, w = goal.shape
    i, j = np.arange(h)[:, None], np.arange(w)[None]
    value = bilinear(xp, image, a[0] + a[1] * i + a[2] * j, a[3] + a[4] * i + a[5] * j)
    return xp.sum((value - goal) ** 2)


# -- optical flow --------------------------------------------------------------------------------------

FLOW = """
def flow(u: f64[h, w], v: f64[h, w], before: f64[h, w], after: f64[h, w], alpha):
    total = 0.0
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            ix = 0.5 * (before[i, j + 1] - before[i, j - 1])
            iy = 0.5 * (before[i + 1, j] - before[i - 1, j])
            r = ix * u[i, j] + iy * v[i, j] + after[i, j] - before[i, j]
            du = (u[i + 1, j] - u[i, j])**2 + (u[i, j + 1] - u[i, j])**2
            dv = (v[i + 1, j] - v[i, j])**2 + (v[i, j + 1] - v[i, j])**2
            total += sqrt(r * r + 1e-3) + alpha * sqrt(du + dv + 1e-3)
    return total
"""


def frames(rng: np.random.Generator, h: int, w: int) -> Arguments:
    u, v, before, after = rng.standard_normal((4, h, w))
    return u, v, before, after, 0.3


def flow(xp: Any, u: Any, v: Any, before: Any, after: Any, alpha: Any) -> Any:
    inner = slice(1, -1), slice(1, -1)
    ix = 0.5 * (before[1:-1, 2:] - before[1:-1, :-2])
    iy = 0.5 * (before[2:, 1:-1] - before[:-2, 1:-1])
    r = ix * u[inner] + iy * v[inner] + after[inner] - before[inner]
    du, dv = ((a[2:, 1:-1] - a[inner]) ** 2 + (a[1:-1, 2:] - a[inner]) ** 2 for a in (u, v))
    return xp.sum(xp.sqrt(r * r + 1e-3) + alpha * xp.sqrt(du + dv + 1e-3))


# -- total variation and a blur, undone ----------------------------------------------------------------

DEBLUR = """
def deblur(x: f64[h, w], k: f64[m, m], y: f64[p, q], lam):
    blurred = [[sum(k[u, v] * x[i + u, j + v] for u in range(m) for v in range(m))
                for j in range(w - m + 1)] for i in range(h - m + 1)]
    dx = x[1:, :-1] - x[:-1, :-1]
    dy = x[:-1, 1:] - x[:-1, :-1]
    return sum((blurred - y)**2) + lam * sum(sqrt(dx**2 + dy**2 + 1e-4))
"""


def blurred(rng: np.random.Generator, h: int, w: int, m: int) -> Arguments:
    seen = rng.standard_normal((h - m + 1, w - m + 1))
    return rng.standard_normal((h, w)), np.ones((m, m)) / m**2, seen, 0.1


def deblur(xp: Any, x: Any, k: Any, y: Any, lam: Any) -> Any:
    dx, dy = x[1:, :-1] - x[:-1, :-1], x[:-1, 1:] - x[:-1, :-1]
    z = correlate(xp, x[None, None], k[None, None])[0, 0]
    return xp.sum((z - y) ** 2) + lam * xp.sum(xp.sqrt(dx**2 + dy**2 + 1e-4))


# -- a ray through a volume ----------------------------------------------------------------------------

RAYS = """
def rays(density: f64[n, n, n], color: f64[n, n, n], start: f64[r, 3], way: f64[r, 3], seen: f64[r],
         steps: i64):
    total = 0.0
    for k in range(r):
        light = 1.0
        value = 0.0
        for s in range(steps):
            i = int(clip(start[k, 0] + s * way[k, 0], 0, n - 1))
            j = int(clip(start[k, 1] + s * way[k, 1], 0, n - 1))
            l = int(clip(start[k, 2] + s * way[k, 2], 0, n - 1))
            alpha = 1 - exp(-softplus(density[i, j, l]) * 0.1)
            value += light * alpha * sigmoid(color[i, j, l])
            light *= 1 - alpha
        total += (value - seen[k])**2
    return total
"""


def scene(rng: np.random.Generator, n: int, r: int, steps: int) -> Arguments:
    density, color = rng.standard_normal((2, n, n, n))
    way = rng.uniform(-1, 1, (r, 3)) * n / steps
    return density, color, rng.uniform(0, n, (r, 3)), way, rng.uniform(0, 1, r), steps


def rays(xp: Any, density: Any, color: Any, start: Any, way: Any, seen: Any, steps: int) -> Any:
    n = len(density)
    s = np.arange(steps)[:, None, None]
    place = xp.clip(xp.real(start + s * way), 0, n - 1).astype(int)
    i, j, k = place[..., 0], place[..., 1], place[..., 2]
    alpha = 1 - xp.exp(-xp.softplus(density[i, j, k]) * 0.1)
    light = xp.cumprod(1 - alpha, 0)
    before = xp.concatenate([xp.ones((1, len(start))), light[:-1]])
    return xp.sum((xp.sum(before * alpha * xp.sigmoid(color[i, j, k]), 0) - seen) ** 2)


# -- a convolution in one dimension with channels and strides ------------------------------------------

AUDIO = """
def audio(x: f64[n, c], k: f64[m, c, o], W: f64[o], y: f64[t]):
    h = [[tanh(sum(x[2 * i + u, a] * k[u, a, b] for u in range(m) for a in range(c))) for b in range(o)]
         for i in range(t)]
    return mean((h @ W - y)**2)
"""


def sound(rng: np.random.Generator, t: int, c: int, m: int, o: int) -> Arguments:
    n = 2 * (t - 1) + m
    return (
        rng.standard_normal((n, c)), rng.standard_normal((m, c, o)) / (m * c) ** 0.5,
        rng.standard_normal(o) / o**0.5, rng.standard_normal(t),
    )  # fmt: skip


def audio(xp: Any, x: Any, k: Any, W: Any, y: Any) -> Any:
    t = len(y)
    z = sum(x[u : u + 2 * t - 1 : 2] @ k[u] for u in range(len(k)))
    return xp.mean((xp.tanh(z) @ W - y) ** 2)


# -- a filter of nine coefficients, by loops -----------------------------------------------------------

FILTER = """
def filtered(u: f64[n, m], k: f64[3, 3], t: f64[n, m]):
    out = zeros((n, m))
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            s = 0.0
            for a in range(3):
                for b in range(3):
                    s += k[a, b] * u[i + a - 1, j + b - 1]
            out[i, j] = s
    return sum((out - t)**2)
"""


def pixels(rng: np.random.Generator, n: int, m: int) -> Arguments:
    return rng.standard_normal((n, m)), rng.standard_normal((3, 3)), rng.standard_normal((n, m))


def filtered(xp: Any, u: Any, k: Any, t: Any) -> Any:
    n, m = u.shape[0] - 2, u.shape[1] - 2
    out = sum(k[a, b] * u[a : a + n, b : b + m] for a in range(3) for b in range(3))
    border = xp.sum(t**2) - xp.sum(t[1:-1, 1:-1] ** 2)
    return border + xp.sum((out - t[1:-1, 1:-1]) ** 2)


# -- a convolution by loops, with a window of any length, and padding ----------------------------------

PADDED = """
def padded(x: f64[c, h, w], k: f64[o, c, m, m], y: f64[o, h, w]):
    z = zeros((o, h, w))
    p = m // 2
    for a in range(o):
        for i in range(h):
            for j in range(w):
                acc = 0.0
                for b in range(c):
                    for u in range(m):
                        for v in range(m):
                            ii, jj = i + u - p, j + v - p
                            if ii >= 0 and ii < h and jj >= 0 and jj < w:
                                acc += x[b, ii, jj] * k[a, b, u, v]
                z[a, i, j] = acc
    return sum((z - y)**2)
"""


def borders(rng: np.random.Generator, c: int, o: int, m: int, h: int, w: int) -> Arguments:
    return (
        rng.standard_normal((c, h, w)), rng.standard_normal((o, c, m, m)) / m,
        rng.standard_normal((o, h, w)),
    )  # fmt: skip


def padded(xp: Any, x: Any, k: Any, y: Any) -> Any:
    p = k.shape[2] // 2
    c, h, w = x.shape
    rows = xp.concatenate([xp.zeros((c, p, w)), x, xp.zeros((c, p, w))], 1)
    whole = xp.concatenate([xp.zeros((c, h + 2 * p, p)), rows, xp.zeros((c, h + 2 * p, p))], 2)
    return xp.sum((correlate(xp, whole[None], k)[0] - y) ** 2)


PROGRAMS = (
    Program("convolution-2d", CONVOLUTION, (3, 8, 48, 48), (2, 2, 5, 4), channels, (0, 1, 2), convolution),
    Program("conv-network", NETWORK, (8, 1, 20, 6, 10), (2, 2, 8, 2, 3), batch, (2, 3, 4), network),
    Program("max-pooling", POOLING, (16, 32), (2, 2), maps, (0, 1), pooling),
    Program("bilinear-warp", WARP, (100, 120), (4, 5), photographs, (0, 2), warp),
    Program("optical-flow", FLOW, (150, 150), (4, 5), frames, (0, 1, 4), flow),
    Program("deblur", DEBLUR, (96, 96, 7), (6, 5, 3), blurred, (0, 1), deblur),
    Program("ray-march", RAYS, (24, 500, 40), (3, 2, 3), scene, (0, 1), rays),
    Program("filter-loops", FILTER, (150, 150), (4, 5), pixels, (0, 1), filtered),
    Program("padded-loops", PADDED, (4, 6, 5, 32, 32), (2, 2, 3, 4, 5), borders, (0, 1), padded),
    Program("strided-audio", AUDIO, (1000, 2, 9, 16), (3, 2, 3, 2), sound, (0, 1, 2), audio),
)  # fmt: skip
