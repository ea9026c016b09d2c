"""Algorithms: elimination, factorisations, tables, searches and fixed points, as textbooks write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments

# -- elimination with a right-hand side ----------------------------------------------------------------

ELIMINATION = """
def elimination(A: f64[n, n], b: f64[n], goal: f64[n]):
    U = A.copy()
    y = b.copy()
    for k in range(n):
        for i in range(k + 1, n):
            f = U[i, k] / U[k, k]
            for j in range(k, n):
                U[i, j] -= f * U[k, j]
            y[i] -= f * y[k]
    x = zeros(n)
    for s in range(n):
        i = n - 1 - s
        acc = y[i]
        for j in range(i + 1, n):
            acc -= U[i, j] * x[j]
        x[i] = acc / U[i, i]
    return sum((x - goal)**2)
"""


def system(rng: np.random.Generator, n: int) -> Arguments:
    return n**0.5 * 2 * np.eye(n) + rng.standard_normal((n, n)), *rng.standard_normal((2, n))


def elimination(xp: Any, A: Any, b: Any, goal: Any) -> Any:
    return xp.sum((xp.solve(A, b) - goal) ** 2)


# -- Cholesky's factor, element by element -------------------------------------------------------------

CHOLESKY = """
def factor(A: f64[n, n], b: f64[n]):
    L = zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                L[i, j] = sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    z = zeros(n)
    for i in range(n):
        s = b[i]
        for k in range(i):
            s -= L[i, k] * z[k]
        z[i] = s / L[i, i]
    return 0.5 * sum(z**2) + sum(log(L[i, i]) for i in range(n))
"""


def covariance(rng: np.random.Generator, n: int) -> Arguments:
    root = rng.standard_normal((n, n))
    return root @ root.T / n + np.eye(n), rng.standard_normal(n)


def factor(xp: Any, A: Any, b: Any) -> Any:
    """Only the lower triangle is read, as the loops do."""
    lower = np.tril(np.ones(A.shape))
    full = A * lower + (A * np.tril(lower, -1)).T
    L = xp.cholesky(full)
    return 0.5 * xp.sum(xp.lower(L, b) ** 2) + xp.sum(xp.log(xp.diagonal(L)))


# -- the distance between words, softened --------------------------------------------------------------

ALIGNMENT = """
def alignment(a: i64[n], b: i64[m], score: f64[k, k], gap):
    H = zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = H[i - 1, j - 1] + score[a[i - 1], b[j - 1]]
            u = H[i - 1, j] - gap
            l = H[i, j - 1] - gap
            H[i, j] = log(1 + exp(d) + exp(u) + exp(l)) / 1.2
            best += H[i, j]
    return best / (n * m)
"""


def strings(rng: np.random.Generator, n: int, m: int, k: int) -> Arguments:
    return rng.integers(0, k, n), rng.integers(0, k, m), rng.standard_normal((k, k)), 0.5


def alignment(xp: Any, a: Any, b: Any, score: Any, gap: Any) -> Any:
    o = xp.sum(0 * score) + 0 * gap

    def row(state: Any, inputs: Any) -> Any:
        above, total = state

        def cell(left: Any, inner: Any) -> Any:
            d, u = inner
            new = xp.log(1 + d + u + xp.exp(left - gap)) / 1.2
            return new, new

        d, u = xp.exp(above[:-1] + inputs[0]), xp.exp(above[1:] - gap)
        cells = xp.array(xp.steps(cell, o, (d, u), len(b))[1])
        return (xp.concatenate([o[None], cells]), total + xp.sum(cells)), None

    found = xp.steps(row, (xp.zeros(len(b) + 1) + o, o), (score[a][:, b],), len(a))
    return found[0][1] / (len(a) * len(b))


# -- the shortest way through a grid -------------------------------------------------------------------

SHORTEST = """
def shortest(cost: f64[n, m], goal):
    D = zeros((n, m))
    D[0, 0] = cost[0, 0]
    for j in range(1, m):
        D[0, j] = D[0, j - 1] + cost[0, j]
    for i in range(1, n):
        D[i, 0] = D[i - 1, 0] + cost[i, 0]
        for j in range(1, m):
            D[i, j] = cost[i, j] + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return (D[n - 1, m - 1] - goal)**2
"""


def terrain(rng: np.random.Generator, n: int, m: int) -> Arguments:
    return rng.uniform(0.1, 1, (n, m)), 3.0


def shortest(xp: Any, cost: Any, goal: Any) -> Any:
    def row(above: Any, inputs: Any) -> Any:
        def cell(left: Any, inner: Any) -> Any:
            new = inner[0] + xp.minimum(xp.minimum(inner[1], inner[2]), left)
            return new, new

        first = above[0] + inputs[0][0]
        rest = xp.steps(cell, first, (inputs[0][1:], above[1:], above[:-1]), cost.shape[1] - 1)[1]
        return xp.concatenate([first[None], xp.array(rest)]), None

    last = xp.steps(row, xp.cumsum(cost[0]), (cost[1:],), len(cost) - 1)[0][-1]
    return (last - goal) ** 2


# -- k-means, softened, with centres that move ---------------------------------------------------------

CENTRES = """
def centres(x: f64[n, d], c: f64[k, d], beta, rounds: i64):
    for _ in range(rounds):
        total = zeros((k, d))
        weight = zeros(k)
        for i in range(n):
            s = [-beta * sum((x[i] - c[j])**2) for j in range(k)]
            p = softmax(s)
            for j in range(k):
                weight[j] += p[j]
                for q in range(d):
                    total[j, q] += p[j] * x[i, q]
        c = total / weight[:, None]
    return sum(min(sum((x[i] - c[j])**2) for j in range(k)) for i in range(n))
"""


def points(rng: np.random.Generator, n: int, d: int, k: int, rounds: int) -> Arguments:
    return rng.standard_normal((n, d)), rng.standard_normal((k, d)), 1.0, rounds


def centres(xp: Any, x: Any, c: Any, beta: Any, rounds: int) -> Any:
    def apart(c: Any) -> Any:
        return xp.sum((x[:, None] - c) ** 2, 2)

    def step(c: Any, _: Any) -> Any:
        s = -beta * apart(c)
        p = xp.exp(s - xp.logsumexp(s, 1)[:, None])
        return p.T @ x / xp.sum(p, 0)[:, None], None

    return xp.sum(xp.min(apart(xp.steps(step, c + 0 * beta, None, rounds)[0]), 1))


# -- Kepler's equation, each by Newton's method until it converges -------------------------------------

KEPLER = """
def kepler(M: f64[n], e, a, seen: f64[n, 2]):
    total = 0.0
    for i in range(n):
        E = M[i]
        step = 1.0
        while abs(step) > 1e-12:
            step = (E - e * sin(E) - M[i]) / (1 - e * cos(E))
            E = E - step
        x = a * (cos(E) - e)
        y = a * sqrt(1 - e * e) * sin(E)
        total += (x - seen[i, 0])**2 + (y - seen[i, 1])**2
    return total
"""


def orbit(rng: np.random.Generator, n: int) -> Arguments:
    return rng.uniform(0, 6, n), 0.3, 1.2, rng.standard_normal((n, 2))


def kepler(xp: Any, M: Any, e: Any, a: Any, seen: Any) -> Any:
    def step(E: Any, _: Any) -> Any:
        return E - (E - e * xp.sin(E) - M) / (1 - e * xp.cos(E)), None

    E, _ = xp.steps(step, M + 0 * e, None, 8)
    x, y = a * (xp.cos(E) - e), a * xp.sqrt(1 - e * e) * xp.sin(E)
    return xp.sum((x - seen[:, 0]) ** 2 + (y - seen[:, 1]) ** 2)


# -- a network at rest, by a fixed point ---------------------------------------------------------------

REST = """
def rest(W: f64[n, n], x: f64[m, n], b: f64[n], goal: f64[m, n]):
    z = zeros((m, n))
    gap = 1.0
    while gap > 1e-12:
        new = tanh(z @ W + x + b)
        gap = max(abs(new - z))
        z = new
    return sum((z - goal)**2) / m
"""


def resting(rng: np.random.Generator, n: int, m: int) -> Arguments:
    return (
        0.3 * rng.standard_normal((n, n)) / n**0.5, rng.standard_normal((m, n)), rng.standard_normal(n),
        rng.standard_normal((m, n)),
    )  # fmt: skip


def rest(xp: Any, W: Any, x: Any, b: Any, goal: Any) -> Any:
    z, _ = xp.steps(lambda z, _: (xp.tanh(z @ W + x + b), None), 0 * (x + b + W[0]), None, 30)
    return xp.sum((z - goal) ** 2) / len(x)


# -- a polynomial by Horner, and its companion: a table of divided differences -------------------------

DIFFERENCES = """
def differences(x: f64[n], y: f64[n], at: f64[m], goal: f64[m]):
    c = y.copy()
    for k in range(1, n):
        for s in range(n - k):
            i = n - 1 - s
            c[i] = (c[i] - c[i - 1]) / (x[i] - x[i - k])
    total = 0.0
    for j in range(m):
        p = c[n - 1]
        for s in range(n - 1):
            i = n - 2 - s
            p = p * (at[j] - x[i]) + c[i]
        total += (p - goal[j])**2
    return total
"""


def samples(rng: np.random.Generator, n: int, m: int) -> Arguments:
    x = np.cos(np.pi * (np.arange(n) + 0.5) / n)
    return x, np.sin(3 * x) + 0.1 * rng.standard_normal(n), rng.uniform(-1, 1, m), rng.standard_normal(m)


def differences(xp: Any, x: Any, y: Any, at: Any, goal: Any) -> Any:
    n, c, kept = len(x), y + 0 * x, []
    for k in range(n):
        kept.append(c[0])
        if k + 1 < n:
            c = (c[1:] - c[:-1]) / (x[k + 1 :] - x[: n - k - 1])
    p = kept[-1] + 0 * at
    for i in range(n - 2, -1, -1):
        p = p * (at - x[i]) + kept[i]
    return xp.sum((p - goal) ** 2)


PROGRAMS = (
    Program("gauss-elimination", ELIMINATION, (60,), (4,), system, (0, 1), elimination),
    Program("cholesky-by-loops", CHOLESKY, (60,), (4,), covariance, (0, 1), factor),
    Program("alignment", ALIGNMENT, (100, 120, 4), (3, 4, 3), strings, (2, 3), alignment),
    Program("shortest-way", SHORTEST, (200, 200), (4, 3), terrain, (0,), shortest),
    Program("soft-k-means", CENTRES, (1000, 4, 8, 5), (5, 2, 3, 2), points, (0, 1, 2), centres),
    Program("kepler", KEPLER, (2000,), (4,), orbit, (0, 1, 2), kepler),
    Program("fixed-point", REST, (32, 50), (3, 2), resting, (0, 2), rest),
    Program("divided-differences", DIFFERENCES, (12, 2000), (4, 3), samples, (0, 1), differences),
)  # fmt: skip
