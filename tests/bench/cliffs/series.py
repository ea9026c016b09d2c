"""Series: filters, recurrences, dynamic programs over time, and cumulative sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments

# -- a Kalman filter of a local trend, its matrices written out ----------------------------------------

TREND = """
def trend(y: f64[n], log_s: f64[3]):
    s0 = exp(log_s[0])
    s1 = exp(log_s[1])
    r = exp(log_s[2])
    level = y[0]
    slope = 0.0
    p00 = 1.0
    p01 = 0.0
    p11 = 1.0
    total = 0.0
    for t in range(1, n):
        level = level + slope
        a = p00 + 2 * p01 + p11 + s0
        b = p01 + p11
        c = p11 + s1
        f = a + r
        e = y[t] - level
        level = level + a / f * e
        slope = slope + b / f * e
        p00 = a - a * a / f
        p01 = b - a * b / f
        p11 = c - b * b / f
        total += log(f) + e * e / f
    return 0.5 * total
"""


def walk(rng: np.random.Generator, n: int) -> Arguments:
    return np.cumsum(rng.standard_normal(n)), np.array([-1.0, -2.0, 0.0])


def trend(xp: Any, y: Any, log_s: Any) -> Any:
    s0, s1, r = (xp.exp(log_s[k]) for k in range(3))

    def step(state: Any, inputs: Any) -> Any:
        level, slope, p00, p01, p11, total = state
        level = level + slope
        a, b, c = p00 + 2 * p01 + p11 + s0, p01 + p11, p11 + s1
        f, e = a + r, inputs[0] - level
        new = level + a / f * e, slope + b / f * e, a - a * a / f, b - a * b / f, c - b * b / f
        return (*new, total + xp.log(f) + e * e / f), None

    o = 0 * s0
    start = y[0] + o, o, 1 + o, o, 1 + o, o
    return 0.5 * xp.steps(step, start, (y[1:],), len(y) - 1)[0][5]


# -- the forward algorithm with a table, state by state ------------------------------------------------

FORWARD = """
def forward(logit: f64[s, s], mean: f64[s], y: f64[t], log_sd: f64[s]):
    A = log_softmax(logit, axis=1)
    table = zeros((t, s))
    for j in range(s):
        table[0, j] = -0.5 * ((y[0] - mean[j]) * exp(-log_sd[j]))**2 - log_sd[j] - log(s)
    for k in range(1, t):
        for j in range(s):
            top = table[k - 1, 0] + A[0, j]
            for i in range(1, s):
                top = max(top, table[k - 1, i] + A[i, j])
            acc = 0.0
            for i in range(s):
                acc += exp(table[k - 1, i] + A[i, j] - top)
            table[k, j] = top + log(acc) - 0.5 * ((y[k] - mean[j]) * exp(-log_sd[j]))**2 - log_sd[j]
    return -logsumexp(table[t - 1])
"""


def regimes(rng: np.random.Generator, t: int, s: int) -> Arguments:
    return (
        rng.standard_normal((s, s)), rng.standard_normal(s), rng.standard_normal(t),
        0.2 * rng.standard_normal(s),
    )  # fmt: skip


def forward(xp: Any, logit: Any, mean: Any, y: Any, log_sd: Any) -> Any:
    A = logit - xp.logsumexp(logit, 1)[:, None]
    score = -0.5 * ((y[:, None] - mean) * xp.exp(-log_sd)) ** 2 - log_sd

    def step(alpha: Any, inputs: Any) -> Any:
        return xp.logsumexp(alpha[:, None] + A, 0) + inputs[0], None

    alpha, _ = xp.steps(step, score[0] - np.log(len(mean)), (score[1:],), len(y) - 1)
    return -xp.logsumexp(alpha, 0)


# -- soft dynamic time warping -------------------------------------------------------------------------

SOFT_DTW = """
def soft_dtw(x: f64[n, d], y: f64[m, d], gamma):
    R = full((n + 1, m + 1), 1e8)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = sum((x[i - 1] - y[j - 1])**2)
            a = -R[i - 1, j - 1] / gamma
            b = -R[i - 1, j] / gamma
            c = -R[i, j - 1] / gamma
            top = max(a, b, c)
            R[i, j] = cost - gamma * (top + log(exp(a - top) + exp(b - top) + exp(c - top)))
    return R[n, m]
"""


def pair(rng: np.random.Generator, n: int, m: int, d: int) -> Arguments:
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), 0.5


def soft_dtw(xp: Any, x: Any, y: Any, gamma: Any) -> Any:
    cost = xp.sum((x[:, None] - y[None]) ** 2, 2)
    big = 1e8 + xp.sum(0 * cost)

    def row(above: Any, inputs: Any) -> Any:
        def cell(left: Any, inner: Any) -> Any:
            c, corner, up = inner
            new = c - gamma * xp.logsumexp(-xp.stack([corner, up, left]) / gamma, 0)
            return new, new

        _, cells = xp.steps(cell, big, (inputs[0], above[:-1], above[1:]), len(y))
        new = xp.concatenate([big[None], xp.array(cells)])
        return new, None

    start = xp.concatenate([0 * big[None], big + xp.zeros(len(y))])
    return xp.steps(row, start, (cost,), len(x))[0][-1]


# -- connectionist temporal classification -------------------------------------------------------------

CTC = """
def ctc(logits: f64[t, k], label: i64[u]):
    logp = log_softmax(logits, axis=1)
    alpha = full((t, 2 * u + 1), -1e5)
    alpha[0, 0] = logp[0, 0]
    alpha[0, 1] = logp[0, label[0]]
    for s in range(1, t):
        for j in range(2 * u + 1):
            blank = j % 2 == 0
            c = 0 if blank else label[(j - 1) // 2]
            a = alpha[s - 1, j]
            if j > 0:
                a = logaddexp(a, alpha[s - 1, j - 1])
            if j > 2 and not blank:
                if label[(j - 1) // 2] != label[(j - 3) // 2]:
                    a = logaddexp(a, alpha[s - 1, j - 2])
            alpha[s, j] = a + logp[s, c]
    return -logaddexp(alpha[t - 1, 2 * u], alpha[t - 1, 2 * u - 1])
"""


def speech(rng: np.random.Generator, t: int, k: int, u: int) -> Arguments:
    return rng.standard_normal((t, k)), rng.integers(1, k, u)


def ctc(xp: Any, logits: Any, label: Any) -> Any:
    logp = logits - xp.logsumexp(logits, 1)[:, None]
    u = len(label)
    path = xp.set_at(xp.zeros(2 * u + 1, int), slice(1, None, 2), label)
    skips = xp.set_at(xp.zeros(2 * u + 1, int), slice(3, None, 2), 1 * (label[1:] != label[:-1])) > 0
    scores = logp[:, path]
    none = xp.zeros(2) - 1e5

    def step(alpha: Any, inputs: Any) -> Any:
        one = xp.concatenate([none[:1], alpha[:-1]])
        two = xp.where(skips, xp.concatenate([none, alpha[:-2]]), -1e5)
        return xp.logsumexp(xp.stack([alpha, one, two]), 0) + inputs[0], None

    start = xp.concatenate([scores[0, :2], xp.zeros(2 * u - 1) - 1e5])
    alpha, _ = xp.steps(step, start, (scores[1:],), len(logits) - 1)
    return -xp.logsumexp(alpha[-2:], 0)


# -- volatility that follows its own past --------------------------------------------------------------

GARCH = """
def garch(r: f64[n], w, a, g, b):
    h = var(r)
    total = 0.0
    for t in range(n):
        total += log(h) + r[t]**2 / h
        if r[t] < 0:
            h = w + (a + g) * r[t]**2 + b * h
        else:
            h = w + a * r[t]**2 + b * h
    return 0.5 * total
"""


def returns(rng: np.random.Generator, n: int) -> Arguments:
    return rng.standard_normal(n), 0.1, 0.05, 0.08, 0.8


def garch(xp: Any, r: Any, w: Any, a: Any, g: Any, b: Any) -> Any:
    rate = xp.where(r < 0, a + g, a)

    def step(state: Any, inputs: Any) -> Any:
        h, total = state
        x2, k = inputs
        return (w + k * x2 + b * h, total + xp.log(h) + x2 / h), None

    start = xp.mean((r - xp.mean(r)) ** 2) + 0 * w, 0 * w
    return 0.5 * xp.steps(step, start, (r**2, rate), len(r))[0][1]


# -- exponential smoothing with seasons, stored in arrays ----------------------------------------------

SEASONS = """
def seasons(y: f64[n], alpha, beta, gamma, start: f64[p]):
    level = zeros(n)
    trend = zeros(n)
    season = zeros(n + p)
    season[:p] = start
    level[0] = y[0]
    total = 0.0
    for t in range(1, n):
        guess = level[t - 1] + trend[t - 1] + season[t]
        total += (y[t] - guess)**2
        level[t] = alpha * (y[t] - season[t]) + (1 - alpha) * (level[t - 1] + trend[t - 1])
        trend[t] = beta * (level[t] - level[t - 1]) + (1 - beta) * trend[t - 1]
        season[t + p] = gamma * (y[t] - level[t]) + (1 - gamma) * season[t]
    return total / n
"""


def sales(rng: np.random.Generator, n: int, p: int) -> Arguments:
    return rng.standard_normal(n) + 0.01 * np.arange(n), 0.3, 0.1, 0.2, rng.standard_normal(p)


def seasons(xp: Any, y: Any, alpha: Any, beta: Any, gamma: Any, start: Any) -> Any:
    def step(state: Any, inputs: Any) -> Any:
        level, slope, season, total = state
        s, now = season[0], inputs[0]
        new = alpha * (now - s) + (1 - alpha) * (level + slope)
        error = now - level - slope - s
        slope = beta * (new - level) + (1 - beta) * slope
        last = gamma * (now - new) + (1 - gamma) * s
        return (new, slope, xp.concatenate([season[1:], last[None]]), total + error**2), None

    o = 0 * alpha + 0 * start[0]
    first = xp.concatenate([start[1:], o[None]])  # season[p] stays 0
    state = xp.steps(step, (y[0] + o, o, first, o), (y[1:],), len(y) - 1)[0]
    return state[3] / len(y)


# -- an image of sums: differences from cumulative sums ------------------------------------------------

MOVING = """
def moving(x: f64[n], width: i64, y: f64[n]):
    c = concatenate([[0.0], cumsum(x)])
    c2 = concatenate([[0.0], cumsum(x**2)])
    total = 0.0
    for i in range(width, n):
        m = (c[i] - c[i - width]) / width
        v = (c2[i] - c2[i - width]) / width - m * m
        z = (x[i] - m) / sqrt(v + 0.1)
        total += (tanh(z) - y[i])**2
    return total
"""


def ticks(rng: np.random.Generator, n: int, width: int) -> Arguments:
    return rng.standard_normal(n), width, rng.standard_normal(n)


def moving(xp: Any, x: Any, width: int, y: Any) -> Any:
    c, c2 = (xp.concatenate([xp.zeros(1), xp.cumsum(a)]) for a in (x, x**2))
    m = (c[width:-1] - c[: -width - 1]) / width
    v = (c2[width:-1] - c2[: -width - 1]) / width - m * m
    return xp.sum((xp.tanh((x[width:] - m) / xp.sqrt(v + 0.1)) - y[width:]) ** 2)


# -- sources that point processes excite ---------------------------------------------------------------

HAWKES = """
def hawkes(at: f64[n], log_mu, log_alpha, log_beta):
    mu = exp(log_mu)
    alpha = exp(log_alpha)
    beta = exp(log_beta)
    total = 0.0
    for i in range(n):
        rate = mu
        for j in range(i):
            rate += alpha * exp(-beta * (at[i] - at[j]))
        total += log(rate)
    compensator = mu * at[n - 1]
    for i in range(n):
        compensator += alpha / beta * (1 - exp(-beta * (at[n - 1] - at[i])))
    return compensator - total
"""


def quakes(rng: np.random.Generator, n: int) -> Arguments:
    return np.cumsum(rng.exponential(size=n)), -0.5, -1.0, 0.3


def hawkes(xp: Any, at: Any, log_mu: Any, log_alpha: Any, log_beta: Any) -> Any:
    mu, alpha, beta = xp.exp(log_mu), xp.exp(log_alpha), xp.exp(log_beta)
    n = len(at)
    gap = xp.where(np.tril(np.ones((n, n)), -1) > 0, at[:, None] - at, 0.0)
    excited = xp.sum(alpha * xp.exp(-beta * gap) * np.tril(np.ones((n, n)), -1), 1)
    compensator = mu * at[-1] + xp.sum(alpha / beta * (1 - xp.exp(-beta * (at[-1] - at))))
    return compensator - xp.sum(xp.log(mu + excited))


PROGRAMS = (
    Program("local-trend", TREND, (5000,), (5,), walk, (1,), trend),
    Program("hmm-table", FORWARD, (500, 6), (4, 2), regimes, (0, 1, 3), forward),
    Program("soft-dtw", SOFT_DTW, (80, 100, 3), (3, 4, 2), pair, (0, 1), soft_dtw),
    Program("ctc", CTC, (100, 28, 20), (5, 4, 2), speech, (0,), ctc),
    Program("garch", GARCH, (5000,), (6,), returns, (1, 2, 3, 4), garch),
    Program("holt-winters", SEASONS, (2000, 12), (7, 3), sales, (1, 2, 3, 4), seasons),
    Program("moving-window", MOVING, (50_000, 20), (9, 3), ticks, (0,), moving, 1e-7),
    Program("hawkes", HAWKES, (600,), (5,), quakes, (0, 1, 2, 3), hawkes),
)  # fmt: skip
