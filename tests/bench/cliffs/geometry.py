"""Geometry: meshes, curves, small matrices in batches, registration and transport."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.cliffs.robotics import hat
from bench.workload import Arguments

# -- inverses of 3 × 3 matrices, written out -----------------------------------------------------------

INVERSES = """
def inverses(A: f64[n, 3, 3], b: f64[n, 3], goal: f64[n, 3]):
    total = 0.0
    for k in range(n):
        a = A[k]
        det = (a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
               - a[0, 1] * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
               + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0]))
        inverse = zeros((3, 3))
        for i in range(3):
            for j in range(3):
                p = (j + 1) % 3
                q = (j + 2) % 3
                r = (i + 1) % 3
                s = (i + 2) % 3
                inverse[i, j] = (a[p, r] * a[q, s] - a[p, s] * a[q, r]) / det
        x = inverse @ b[k]
        total += sum((x - goal[k])**2) + 0.01 * log(det**2)
    return total
"""


def systems(rng: np.random.Generator, n: int) -> Arguments:
    return 2 * np.eye(3) + 0.5 * rng.standard_normal((n, 3, 3)), *rng.standard_normal((2, n, 3))


def inverses(xp: Any, A: Any, b: Any, goal: Any) -> Any:
    x = xp.solve(A, b[..., None])[..., 0]
    return xp.sum((x - goal) ** 2) + 0.01 * xp.sum(xp.log(xp.det(A) ** 2))


# -- rotations nearest to matrices, by iteration -------------------------------------------------------

POLAR = """
def polar(F: f64[n, 3, 3], mu: f64[n]):
    energy = 0.0
    for k in range(n):
        R = F[k]
        for _ in range(5):
            R = 0.5 * (R + inv(R).T)
        S = R.T @ F[k]
        energy += mu[k] * sum((F[k] - R)**2) + 0.5 * (trace(S) - 3)**2
    return energy
"""


def deformed(rng: np.random.Generator, n: int) -> Arguments:
    return np.eye(3) + 0.3 * rng.standard_normal((n, 3, 3)), rng.uniform(0.5, 2, n)


def polar(xp: Any, F: Any, mu: Any) -> Any:
    R = F
    for _ in range(5):
        R = 0.5 * (R + xp.swapaxes(xp.inv(R), 1, 2))
    trace = xp.einsum("nij,nij->n", R, F)
    return xp.sum(mu * xp.sum((F - R) ** 2, (1, 2)) + 0.5 * (trace - 3) ** 2)


# -- a natural spline through knots, its system solved by elimination ----------------------------------

SPLINE = """
def spline(knot: f64[n], value: f64[n], x: f64[m], y: f64[m]):
    h = diff(knot)
    upper = zeros(n)
    right = zeros(n)
    for i in range(1, n - 1):
        mu = h[i - 1] / (h[i - 1] + h[i])
        d = 6 * ((value[i + 1] - value[i]) / h[i] - (value[i] - value[i - 1]) / h[i - 1]) / (h[i - 1] + h[i])
        pivot = 2 - mu * upper[i - 1]
        upper[i] = (1 - mu) / pivot
        right[i] = (d - mu * right[i - 1]) / pivot
    bend = zeros(n)
    for k in range(1, n - 1):
        i = n - 1 - k
        bend[i] = right[i] - upper[i] * bend[i + 1]
    total = 0.0
    for j in range(m):
        k = clip(searchsorted(knot, x[j]) - 1, 0, n - 2)
        a = (knot[k + 1] - x[j]) / h[k]
        b = (x[j] - knot[k]) / h[k]
        s = a * value[k] + b * value[k + 1] + ((a**3 - a) * bend[k] + (b**3 - b) * bend[k + 1]) * h[k]**2 / 6
        total += (s - y[j])**2
    return total
"""


def curve(rng: np.random.Generator, n: int, m: int) -> Arguments:
    knot = np.linspace(0, 1, n) + rng.uniform(-0.2, 0.2, n) / n
    return knot, rng.standard_normal(n), rng.uniform(knot[0], knot[-1], m), rng.standard_normal(m)


def spline(xp: Any, knot: Any, value: Any, x: Any, y: Any) -> Any:
    n, h = len(knot), knot[1:] - knot[:-1]
    rise = (value[1:] - value[:-1]) / h
    mu = h[:-1] / (h[:-1] + h[1:])
    d = 6 * (rise[1:] - rise[:-1]) / (h[:-1] + h[1:])
    A = 2 * np.eye(n - 2) + xp.diag(mu[1:], -1) + xp.diag(1 - mu[:-1], 1)
    bend = xp.concatenate([xp.zeros(1), xp.solve(A, d), xp.zeros(1)])
    k = xp.clip(xp.searchsorted(xp.real(knot), x) - 1, 0, n - 2)
    a, b = (knot[k + 1] - x) / h[k], (x - knot[k]) / h[k]
    s = a * value[k] + b * value[k + 1]
    s = s + ((a**3 - a) * bend[k] + (b**3 - b) * bend[k + 1]) * h[k] ** 2 / 6
    return xp.sum((s - y) ** 2)


# -- areas, volume and edges of a triangle mesh --------------------------------------------------------

MESH = """
def mesh(x: f64[n, 3], face: i64[m, 3], volume, tension):
    area = 0.0
    inside = 0.0
    bent = 0.0
    for k in range(m):
        a = x[face[k, 0]]
        b = x[face[k, 1]]
        c = x[face[k, 2]]
        normal = cross(b - a, c - a)
        area += 0.5 * sqrt(sum(normal**2) + 1e-12)
        inside += dot(a, cross(b, c)) / 6
        bent += sum((b - a)**2) + sum((c - b)**2) + sum((a - c)**2)
    return tension * area + 10 * (inside - volume)**2 + 0.01 * bent
"""


def faces(rng: np.random.Generator, n: int, m: int) -> Arguments:
    face = np.stack([rng.choice(n, 3, replace=False) for _ in range(m)])
    return rng.standard_normal((n, 3)) / n**0.5, face, 1.0, 0.7


def mesh(xp: Any, x: Any, face: Any, volume: Any, tension: Any) -> Any:
    a, b, c = (x[face[:, k]] for k in range(3))
    area = 0.5 * xp.sum(xp.sqrt(xp.sum(xp.cross(b - a, c - a) ** 2, 1) + 1e-12))
    inside = xp.sum(a * xp.cross(b, c)) / 6
    bent = sum(xp.sum(d**2) for d in (b - a, c - b, a - c))
    return tension * area + 10 * (inside - volume) ** 2 + 0.01 * bent


# -- clouds of points, each with its nearest neighbour in the other ------------------------------------

CHAMFER = """
def chamfer(x: f64[n, 3], y: f64[m, 3], w: f64[3], t: f64[3]):
    theta = sqrt(sum(w**2) + 1e-12)
    k = w / theta
    p = [X * cos(theta) + cross(k, X) * sin(theta) + k * dot(k, X) * (1 - cos(theta)) + t for X in x]
    total = 0.0
    for i in range(n):
        best = inf
        for j in range(m):
            d = sum((p[i] - y[j])**2)
            if d < best:
                best = d
        total += best / n
    for j in range(m):
        total += min(sum((p[i] - y[j])**2) for i in range(n)) / m
    return total
"""


def clouds(rng: np.random.Generator, n: int, m: int) -> Arguments:
    x, y = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    return x, y, np.array([0.1, -0.2, 0.3]), np.full(3, 0.1)


def chamfer(xp: Any, x: Any, y: Any, w: Any, t: Any) -> Any:
    theta = xp.sqrt(xp.sum(w**2) + 1e-12)
    K = hat(xp, w / theta)
    p = x @ (np.eye(3) + xp.sin(theta) * K + (1 - xp.cos(theta)) * (K @ K)).T + t
    d = xp.sum((p[:, None] - y[None]) ** 2, 2)
    return xp.mean(xp.min(d, 1)) + xp.mean(xp.min(d, 0))


# -- transport between histograms, by Sinkhorn's iteration ---------------------------------------------

SINKHORN = """
def sinkhorn(x: f64[n, 2], y: f64[m, 2], eps, rounds: i64):
    C = [[sum((x[i, c] - y[j, c])**2 for c in range(2)) for j in range(m)] for i in range(n)]
    f = zeros(n)
    g = zeros(m)
    for _ in range(rounds):
        f = [-eps * logsumexp((g[j] - C[i, j]) / eps - log(m) for j in range(m)) for i in range(n)]
        g = [-eps * logsumexp((f[i] - C[i, j]) / eps - log(n) for i in range(n)) for j in range(m)]
    return mean(f) + mean(g)
"""


def histograms(rng: np.random.Generator, n: int, m: int, rounds: int) -> Arguments:
    return rng.standard_normal((n, 2)), rng.standard_normal((m, 2)), 0.5, rounds


def sinkhorn(xp: Any, x: Any, y: Any, eps: Any, rounds: int) -> Any:
    n, m = len(x), len(y)
    C = xp.sum((x[:, None] - y[None]) ** 2, 2)

    def step(state: Any, _: Any) -> Any:
        f = -eps * xp.logsumexp((state[1] - C) / eps - np.log(m), 1)
        g = -eps * xp.logsumexp((f[:, None] - C) / eps - np.log(n), 0)
        return (f, g), None

    f, g = xp.steps(step, (0 * C[:, 0], 0 * C[0]), None, rounds)[0]
    return xp.mean(f) + xp.mean(g)


# -- contractions of three and four axes ---------------------------------------------------------------

TENSORS = """
def tensors(T: f64[n, m, p, q], A: f64[n, r], B: f64[m, r], C: f64[p, r], D: f64[q, r]):
    guess = [[[[sum(A[i, k] * B[j, k] * C[a, k] * D[b, k] for k in range(r))
                for b in range(q)] for a in range(p)] for j in range(m)] for i in range(n)]
    return sum((T - guess)**2)
"""


def factors(rng: np.random.Generator, n: int, r: int) -> Arguments:
    return rng.standard_normal((n, n, n, n)), *rng.standard_normal((4, n, r))


def tensors(xp: Any, T: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
    return xp.sum((T - xp.einsum("ik,jk,ak,bk->ijab", A, B, C, D)) ** 2)


# -- a bilinear form of three axes, and a norm ---------------------------------------------------------

BILINEAR = """
def bilinear(x: f64[n, a], y: f64[n, b], W: f64[a, c, b], bias: f64[c], goal: f64[n, c]):
    z = zeros((n, c))
    for s in range(n):
        for k in range(c):
            for i in range(a):
                for j in range(b):
                    z[s, k] += x[s, i] * W[i, k, j] * y[s, j]
    return sum((tanh(z + bias) - goal)**2) + 0.01 * sum(W**2)
"""


def forms(rng: np.random.Generator, n: int, a: int, b: int, c: int) -> Arguments:
    return (
        rng.standard_normal((n, a)), rng.standard_normal((n, b)),
        rng.standard_normal((a, c, b)) / (a * b) ** 0.5,
        rng.standard_normal(c), rng.standard_normal((n, c)),
    )  # fmt: skip


def bilinear(xp: Any, x: Any, y: Any, W: Any, bias: Any, goal: Any) -> Any:
    z = xp.einsum("sa,acb,sb->sc", x, W, y)
    return xp.sum((xp.tanh(z + bias) - goal) ** 2) + 0.01 * xp.sum(W**2)


PROGRAMS = (
    Program("inverse-3x3", INVERSES, (5000,), (3,), systems, (0, 1), inverses),
    Program("polar-3x3", POLAR, (2000,), (2,), deformed, (0, 1), polar),
    Program("natural-spline", SPLINE, (60, 5000), (6, 4), curve, (1,), spline),
    Program("triangle-mesh", MESH, (1000, 5000), (5, 4), faces, (0, 2, 3), mesh),
    Program("chamfer", CHAMFER, (300, 250), (4, 3), clouds, (0, 1, 2, 3), chamfer),
    Program("sinkhorn", SINKHORN, (64, 48, 20), (3, 4, 2), histograms, (0, 1, 2), sinkhorn),
    Program("four-axes", TENSORS, (16, 8), (2, 3), factors, (1, 2, 3, 4), tensors),
    Program("bilinear-form", BILINEAR, (200, 16, 12, 8), (3, 2, 3, 2), forms, (0, 2, 3), bilinear),
)  # fmt: skip
