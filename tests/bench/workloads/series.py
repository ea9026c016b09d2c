"""Daily programs of time series: Kalman filter, ARMA, hidden Markov model, a windowed convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.daily import daily
from bench.workload import Arguments

# -- Kalman filter -------------------------------------------------------------------------------------

KALMAN = """
def kalman(A: f64[n, n], C: f64[p, n], Q: f64[n, n], R: f64[p, p], y: f64[t, p]):
    m = zeros(n)
    P = eye(n)
    total = 0.0
    for k in range(t):
        m = A @ m
        P = A @ P @ A.T + Q
        e = y[k] - C @ m
        S = C @ P @ C.T + R
        G = solve(S, C @ P)
        m = m + e @ G
        P = P - (C @ P).T @ G
        sign, size = slogdet(S)
        total += size + e @ solve(S, e)
    return total / 2
"""


def system(rng: np.random.Generator, n: int, p: int, t: int) -> Arguments:
    """A slow system, and what is seen of it."""
    A = 0.9 * np.eye(n) + 0.05 * rng.standard_normal((n, n))
    return A, rng.standard_normal((p, n)), 0.1 * np.eye(n), 0.5 * np.eye(p), rng.standard_normal((t, p))


def kalman(xp: Any, A: Any, C: Any, Q: Any, R: Any, y: Any) -> Any:
    def step(state: Any, inputs: Any) -> Any:
        m, P, total = state
        m, P = A @ m, A @ P @ A.T + Q
        e, S = inputs[0] - C @ m, C @ P @ C.T + R
        G = xp.solve(S, C @ P)
        return (m + e @ G, P - (C @ P).T @ G, total + xp.logdet(S) + e @ xp.solve(S, e)), None

    n = len(A)
    start = (xp.zeros(n), xp.eye(n), 0.0)
    return xp.steps(step, start, (y,), len(y))[0][2] / 2


# -- ARMA ----------------------------------------------------------------------------------------------

ARMA = """
def arma(y: f64[n], a: f64[2], b: f64[1], c, log_s):
    e = 0.0
    total = 0.0
    for t in range(2, n):
        e = y[t] - c - a[0] * y[t - 1] - a[1] * y[t - 2] - b[0] * e
        total += e**2
    return total * exp(-2 * log_s) / 2 + n * log_s
"""


def noise(rng: np.random.Generator, n: int) -> Arguments:
    return rng.standard_normal(n), np.array([0.5, -0.2]), np.array([0.3]), 0.1, 0.2


def arma(xp: Any, y: Any, a: Any, b: Any, c: Any, log_s: Any) -> Any:
    def step(state: Any, inputs: Any) -> Any:
        now, before, two = inputs
        e = now - c - a[0] * before - a[1] * two - b[0] * state[0]
        return (e, state[1] + e**2), None

    (_, total), _ = xp.steps(step, (0.0, 0.0), (y[2:], y[1:-1], y[:-2]), len(y) - 2)
    return total * xp.exp(-2 * log_s) / 2 + len(y) * log_s


# -- hidden Markov model -------------------------------------------------------------------------------

MARKOV = """
def markov(seen: i64[t], start: f64[s], move: f64[s, s], emit: f64[s, k]):
    A = move - logsumexp(move, axis=1, keepdims=True)
    B = emit - logsumexp(emit, axis=1, keepdims=True)
    alpha = start - logsumexp(start) + B[:, seen[0]]
    for j in range(1, t):
        alpha = logsumexp(alpha[:, None] + A, axis=0) + B[:, seen[j]]
    return -logsumexp(alpha)
"""


def chain(rng: np.random.Generator, t: int, s: int, k: int) -> Arguments:
    tables = rng.standard_normal(s), rng.standard_normal((s, s)), rng.standard_normal((s, k))
    return rng.integers(0, k, t), *tables


def markov(xp: Any, seen: Any, start: Any, move: Any, emit: Any) -> Any:
    A = move - xp.logsumexp(move, 1)[:, None]
    rows = (emit - xp.logsumexp(emit, 1)[:, None]).T[seen]

    def step(alpha: Any, inputs: Any) -> Any:
        return xp.logsumexp(alpha[:, None] + A, 0) + inputs[0], None

    alpha, _ = xp.steps(step, start - xp.logsumexp(start, 0) + rows[0], (rows[1:],), len(seen) - 1)
    return -xp.logsumexp(alpha, 0)


# -- convolution ---------------------------------------------------------------------------------------

WINDOW = """
def window(x: f64[n], w: f64[m], bias, y: f64[r]):
    z = [tanh(sum(w[k] * x[i + k] for k in range(m)) + bias) for i in range(n - m + 1)]
    return sum((z - y)**2)
"""


def signal(rng: np.random.Generator, n: int, m: int) -> Arguments:
    return rng.standard_normal(n), 0.3 * rng.standard_normal(m), 0.1, rng.standard_normal(n - m + 1)


def window(xp: Any, x: Any, w: Any, bias: Any, y: Any) -> Any:
    return xp.sum((xp.tanh(xp.convolve(x, w) + bias) - y) ** 2)


WORKLOADS = (
    daily("kalman", "A Kalman filter's likelihood: 4 states, 2 outputs, 500 steps; by all its matrices.",
          ((4, 2, 500), (3, 2, 4)), system, KALMAN, kalman, (0, 1, 2, 3)),
    daily("arma", "ARMA(2, 1) of 2,000 numbers: the conditional likelihood.",
          ((2000,), (9,)), noise, ARMA, arma, (1, 2, 3, 4)),
    daily("markov", "A hidden Markov model of 6 states and 8 signs: the forward algorithm over 500 steps.",
          ((500, 6, 8), (5, 3, 4)), chain, MARKOV, markov, (1, 2, 3)),
    daily("window", "tanh of a windowed sum: 10,000 numbers, a window of 15.",
          ((10_000, 15), (8, 3)), signal, WINDOW, window, (0, 1, 2)),
)  # fmt: skip
