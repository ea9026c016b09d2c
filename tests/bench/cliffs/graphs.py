"""Graphs: messages over edges, sums over segments, walks, embeddings and flows."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments


def edges(rng: np.random.Generator, n: int, e: int) -> tuple[Any, Any]:
    """Ends of edges, none of which is a loop."""
    a = rng.integers(0, n, e)
    return a, (a + rng.integers(1, n, e)) % n


# -- a graph convolution network -----------------------------------------------------------------------

CONVOLUTION = """
def spread(h, a, b, n):
    degree = zeros(n)
    for k in range(len(a)):
        degree[b[k]] += 1.0
    out = zeros((n, h.shape[1]))
    for k in range(len(a)):
        out[b[k]] += h[a[k]] / sqrt((degree[a[k]] + 1) * (degree[b[k]] + 1))
    return out

def graph_network(x: f64[n, p], a: i64[e], b: i64[e], W1: f64[p, h], W2: f64[h, c], label: i64[n]):
    z = maximum(spread(x @ W1, a, b, n), 0)
    z = spread(z @ W2, a, b, n)
    return mean([logsumexp(z[i]) - z[i, label[i]] for i in range(n)])
"""


def papers(rng: np.random.Generator, n: int, e: int, p: int, h: int, c: int) -> Arguments:
    a, b = edges(rng, n, e)
    return (
        rng.standard_normal((n, p)), a, b, rng.standard_normal((p, h)) / p**0.5, rng.standard_normal((h, c)),
        rng.integers(0, c, n),
    )  # fmt: skip


def graph_network(xp: Any, x: Any, a: Any, b: Any, W1: Any, W2: Any, label: Any) -> Any:
    degree = xp.add_at(xp.zeros(len(x)), b, np.ones(len(b)))
    scale = 1 / xp.sqrt((degree[a] + 1.0) * (degree[b] + 1.0))

    def spread(h: Any) -> Any:
        return xp.add_at(xp.zeros(h.shape), b, h[a] * scale[:, None])

    z = spread(xp.maximum(spread(x @ W1), 0.0) @ W2)
    return xp.mean(xp.logsumexp(z, 1) - z[np.arange(len(x)), label])


# -- attention over the neighbours of a node -----------------------------------------------------------

ATTENTION = """
def graph_attention(x: f64[n, p], a: i64[e], b: i64[e], W: f64[p, h], u: f64[h], v: f64[h], y: f64[n, h]):
    z = x @ W
    left = z @ u
    right = z @ v
    weight = zeros(e)
    total = zeros(n)
    for k in range(e):
        s = left[a[k]] + right[b[k]]
        weight[k] = exp(s if s > 0 else 0.2 * s)
        total[b[k]] += weight[k]
    out = zeros((n, h))
    for k in range(e):
        for c in range(h):
            out[b[k], c] += weight[k] / (total[b[k]] + 1e-9) * z[a[k], c]
    return sum((tanh(out) - y)**2) / n
"""


def cited(rng: np.random.Generator, n: int, e: int, p: int, h: int) -> Arguments:
    u, v = rng.standard_normal((2, h))
    W = rng.standard_normal((p, h)) / p**0.5
    return rng.standard_normal((n, p)), *edges(rng, n, e), W, u, v, rng.standard_normal((n, h))


def graph_attention(xp: Any, x: Any, a: Any, b: Any, W: Any, u: Any, v: Any, y: Any) -> Any:
    z = x @ W
    s = (z @ u)[a] + (z @ v)[b]
    weight = xp.exp(xp.where(s > 0, s, 0.2 * s))
    total = xp.add_at(xp.zeros(len(x)), b, weight)
    out = xp.add_at(xp.zeros(y.shape), b, (weight / (total[b] + 1e-9))[:, None] * z[a])
    return xp.sum((xp.tanh(out) - y) ** 2) / len(x)


# -- messages of an interaction network ----------------------------------------------------------------

MESSAGES = """
def messages(x: f64[n, d], a: i64[e], b: i64[e], W1: f64[d, h], W2: f64[d, h], V: f64[h, d], y: f64[n, d],
             rounds: i64):
    for _ in range(rounds):
        m = tanh(x[a] @ W1 + x[b] @ W2) @ V
        x = x + 0.1 * segment_sum(m, b, n)
    return sum((x - y)**2)
"""


def network(rng: np.random.Generator, n: int, e: int, d: int, h: int, rounds: int) -> Arguments:
    W1, W2 = rng.standard_normal((2, d, h)) / d**0.5
    x, y = rng.standard_normal((2, n, d))
    return x, *edges(rng, n, e), W1, W2, rng.standard_normal((h, d)) / h**0.5, y, rounds


def messages(xp: Any, x: Any, a: Any, b: Any, W1: Any, W2: Any, V: Any, y: Any, rounds: int) -> Any:
    def step(x: Any, _: Any) -> Any:
        m = xp.tanh(x[a] @ W1 + x[b] @ W2) @ V
        return x + 0.1 * xp.add_at(xp.zeros(x.shape), b, m), None

    return xp.sum((xp.steps(step, x, None, rounds)[0] - y) ** 2)


# -- ranks of pages, by iteration over edges -----------------------------------------------------------

RANKS = """
def ranks(w: f64[e], a: i64[e], b: i64[e], goal: f64[n], rounds: i64):
    out = zeros(n)
    for k in range(e):
        out[a[k]] += exp(w[k])
    p = ones(n) / n
    for _ in range(rounds):
        new = 0.15 * ones(n) / n
        for k in range(e):
            new[b[k]] += 0.85 * p[a[k]] * exp(w[k]) / out[a[k]]
        p = new
    return sum((n * p - goal)**2)
"""


def pages(rng: np.random.Generator, n: int, e: int, rounds: int) -> Arguments:
    a, b = edges(rng, n, e)
    a[:n] = np.arange(n)[: len(a)]
    b[:n] = (a[:n] + 1) % n
    return 0.3 * rng.standard_normal(e), a, b, rng.uniform(0, 2, n), rounds


def ranks(xp: Any, w: Any, a: Any, b: Any, goal: Any, rounds: int) -> Any:
    n, g = len(goal), xp.exp(w)
    share = 0.85 * g / xp.add_at(xp.zeros(n), a, g)[a]

    def step(p: Any, _: Any) -> Any:
        return xp.add_at(xp.zeros(n) + 0.15 / n, b, p[a] * share), None

    return xp.sum((n * xp.steps(step, xp.zeros(n) + 1 / n + 0 * xp.sum(w), None, rounds)[0] - goal) ** 2)


# -- a layout of points as UMAP finds it ---------------------------------------------------------------

LAYOUT = """
def layout(x: f64[n, 2], a: i64[e], b: i64[e], far: i64[e, m], p, q):
    total = 0.0
    for k in range(e):
        d2 = sum((x[a[k]] - x[b[k]])**2)
        total += log(1 + p * d2**q)
        for s in range(m):
            d2 = sum((x[a[k]] - x[far[k, s]])**2) + 1e-3
            total -= log(p * d2**q / (1 + p * d2**q))
    return total / e
"""


def cells(rng: np.random.Generator, n: int, e: int, m: int) -> Arguments:
    a, b = edges(rng, n, e)
    return rng.standard_normal((n, 2)), a, b, (a[:, None] + rng.integers(1, n, (e, m))) % n, 1.58, 0.9


def layout(xp: Any, x: Any, a: Any, b: Any, far: Any, p: Any, q: Any) -> Any:
    near = p * xp.sum((x[a] - x[b]) ** 2, 1) ** q
    away = p * (xp.sum((x[a][:, None] - x[far]) ** 2, 2) + 1e-3) ** q
    return (xp.sum(xp.log(1 + near)) - xp.sum(xp.log(away / (1 + away)))) / len(a)


# -- t-SNE ---------------------------------------------------------------------------------------------

NEIGHBOURS = """
def neighbours(P: f64[n, n], y: f64[n, 2]):
    w = zeros((n, n))
    z = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                w[i, j] = 1 / (1 + (y[i, 0] - y[j, 0])**2 + (y[i, 1] - y[j, 1])**2)
                z += w[i, j]
    loss = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                loss += P[i, j] * log((P[i, j] + 1e-12) * z / w[i, j])
    return loss
"""


def similar(rng: np.random.Generator, n: int) -> Arguments:
    P = rng.exponential(size=(n, n)) ** 3
    P = P + P.T
    np.fill_diagonal(P, 0)
    return P / P.sum(), rng.standard_normal((n, 2))


def neighbours(xp: Any, P: Any, y: Any) -> Any:
    off = 1 - np.eye(len(y))
    w = 1 / (1 + xp.sum((y[:, None] - y[None]) ** 2, 2))
    return xp.sum(P * xp.log((P + 1e-12) * xp.sum(w * off) / w))


# -- triples of a knowledge graph, with a margin -------------------------------------------------------

TRIPLES = """
def triples(E: f64[n, d], R: f64[r, d], head: i64[m], kind: i64[m], tail: i64[m], wrong: i64[m], margin):
    loss = 0.0
    for k in range(m):
        good = 0.0
        bad = 0.0
        for c in range(d):
            s = E[head[k], c] + R[kind[k], c]
            good += abs(s - E[tail[k], c])
            bad += abs(s - E[wrong[k], c])
        loss += maximum(0, margin + good - bad)
    return loss / m
"""


def facts(rng: np.random.Generator, n: int, r: int, m: int, d: int) -> Arguments:
    head, tail = edges(rng, n, m)
    return (
        rng.standard_normal((n, d)), rng.standard_normal((r, d)), head, rng.integers(0, r, m), tail,
        rng.integers(0, n, m), 1.0,
    )  # fmt: skip


def triples(xp: Any, E: Any, R: Any, head: Any, kind: Any, tail: Any, wrong: Any, margin: Any) -> Any:
    s = E[head] + R[kind]
    good, bad = (xp.sum(xp.abs(s - E[t]), 1) for t in (tail, wrong))
    return xp.mean(xp.maximum(margin + good - bad, 0.0))


# -- a sparse matrix in compressed rows, and conjugate gradients ---------------------------------------

CONJUGATE = """
def conjugate(row: i64[m], col: i64[e], value: f64[e], b: f64[n], goal: f64[n], steps: i64):
    x = zeros(n)
    r = b.copy()
    p = b.copy()
    rr = sum(r * r)
    for _ in range(steps):
        Ap = [sum(value[k] * p[col[k]] for k in range(row[i], row[i + 1])) + 4 * p[i] for i in range(n)]
        alpha = rr / sum(p * Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        new = sum(r * r)
        p = r + new / rr * p
        rr = new
    return sum((x - goal)**2)
"""


def sparse(rng: np.random.Generator, n: int, each: int, steps: int) -> Arguments:
    return (
        np.arange(n + 1) * each, rng.integers(0, n, n * each), 0.3 * rng.standard_normal(n * each),
        rng.standard_normal(n), rng.standard_normal(n), steps,
    )  # fmt: skip


def conjugate(xp: Any, row: Any, col: Any, value: Any, b: Any, goal: Any, steps: int) -> Any:
    n = len(b)
    rows = np.repeat(np.arange(n), len(value) // n)

    def step(state: Any, _: Any) -> Any:
        x, r, p, rr = state
        Ap = xp.add_at(xp.zeros(n), rows, value * p[col]) + 4 * p
        alpha = rr / xp.sum(p * Ap)
        r = r - alpha * Ap
        new = xp.sum(r * r)
        return (x + alpha * p, r, r + new / rr * p, new), None

    return xp.sum((xp.steps(step, (0 * b, b, b, xp.sum(b * b)), None, steps)[0][0] - goal) ** 2)


PROGRAMS = (
    Program("graph-network", CONVOLUTION, (1000, 5000, 16, 16, 5), (4, 5, 2, 3, 2), papers, (3, 4),
            graph_network),
    Program("graph-attention", ATTENTION, (1000, 5000, 16, 8), (6, 40, 3, 2), cited, (3, 4, 5),
            graph_attention),
    Program("message-passing", MESSAGES, (300, 1500, 8, 16, 3), (4, 5, 2, 3, 2), network, (0, 3, 4, 5),
            messages),
    Program("page-ranks", RANKS, (500, 4000, 20), (3, 5, 2), pages, (0,), ranks),
    Program("umap", LAYOUT, (1000, 5000, 5), (4, 4, 2), cells, (0, 4, 5), layout),
    Program("t-sne", NEIGHBOURS, (300,), (4,), similar, (1,), neighbours),
    Program("knowledge-graph", TRIPLES, (1000, 20, 5000, 32), (4, 2, 4, 3), facts, (0, 1), triples),
    Program("conjugate-gradient", CONJUGATE, (1000, 6, 20), (4, 2, 2), sparse, (2, 3), conjugate),
)  # fmt: skip
