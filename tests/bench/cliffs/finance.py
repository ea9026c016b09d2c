"""Finance: trees, paths, grids and portfolios."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments

# -- an American option on a tree ----------------------------------------------------------------------

TREE = """
def tree(spot, strike, rate, sigma, T, steps: i64):
    dt = T / steps
    up = exp(sigma * sqrt(dt))
    p = (exp(rate * dt) - 1 / up) / (up - 1 / up)
    value = zeros(steps + 1)
    for i in range(steps + 1):
        value[i] = max(strike - spot * up**(2 * i - steps), 0.0)
    for k in range(steps):
        n = steps - 1 - k
        for i in range(steps):
            if i <= n:
                hold = exp(-rate * dt) * (p * value[i + 1] + (1 - p) * value[i])
                value[i] = max(hold, strike - spot * up**(2 * i - n))
    return value[0]
"""


def option(rng: np.random.Generator, steps: int) -> Arguments:
    return 100.0, 105.0, 0.03, 0.25, 1.0, steps


def tree(xp: Any, spot: Any, strike: Any, rate: Any, sigma: Any, T: Any, steps: int) -> Any:
    dt = T / steps
    up = xp.exp(sigma * xp.sqrt(dt))
    p = (xp.exp(rate * dt) - 1 / up) / (up - 1 / up)
    i = np.arange(steps + 1)
    value = xp.maximum(strike - spot * up ** (2.0 * i - steps), 0.0)

    def step(value: Any, inputs: Any) -> Any:
        n = inputs[0]
        hold = xp.exp(-rate * dt) * (p * value[1:] + (1 - p) * value[:-1])
        new = xp.maximum(hold, strike - spot * up ** (2.0 * i[:-1] - n))
        return xp.concatenate([xp.where(i[:-1] <= n, new, value[:-1]), value[-1:]]), None

    return xp.steps(step, value, (np.arange(steps - 1, -1, -1),), steps)[0][0]


# -- an Asian option by simulated paths ----------------------------------------------------------------

ASIAN = """
def asian(z: f64[n, t], spot, strike, rate, sigma):
    dt = 1.0 / t
    total = 0.0
    for i in range(n):
        s = spot
        mean = 0.0
        for k in range(t):
            s = s * exp((rate - 0.5 * sigma**2) * dt + sigma * sqrt(dt) * z[i, k])
            mean += s
        total += max(mean / t - strike, 0.0)
    return exp(-rate) * total / n
"""


def noise(rng: np.random.Generator, n: int, t: int) -> Arguments:
    return rng.standard_normal((n, t)), 100.0, 98.0, 0.03, 0.3


def asian(xp: Any, z: Any, spot: Any, strike: Any, rate: Any, sigma: Any) -> Any:
    dt = 1.0 / z.shape[1]
    logs = xp.cumsum((rate - 0.5 * sigma**2) * dt + sigma * dt**0.5 * z, 1)
    return xp.exp(-rate) * xp.mean(xp.maximum(xp.mean(spot * xp.exp(logs), 1) - strike, 0.0))


# -- stochastic volatility, stepped for all paths together ---------------------------------------------

HESTON = """
def heston(z: f64[t, n], w: f64[t, n], p: f64[5], strike: f64[m], price: f64[m]):
    s = zeros(n)
    v = p[0] * ones(n)
    dt = 1.0 / t
    for k in range(t):
        root = sqrt(maximum(v, 1e-6) * dt)
        s = s - 0.5 * v * dt + root * (p[4] * w[k] + sqrt(1 - p[4]**2) * z[k])
        v = maximum(v + p[1] * (p[2] - v) * dt + p[3] * root * w[k], 1e-6)
    guess = [mean(maximum(exp(s[i]) - strike[j], 0) for i in range(n)) for j in range(m)]
    return sum((guess - price)**2)
"""


def smile(rng: np.random.Generator, t: int, n: int, m: int) -> Arguments:
    z, w = rng.standard_normal((2, t, n))
    strike = np.linspace(0.8, 1.2, m)
    return z, w, np.array([0.05, 1.5, 0.06, 0.3, -0.5]), strike, np.maximum(1 - strike, 0) + 0.08


def heston(xp: Any, z: Any, w: Any, p: Any, strike: Any, price: Any) -> Any:
    dt = 1.0 / len(z)

    def step(state: Any, inputs: Any) -> Any:
        s, v = state
        a, b = inputs
        root = xp.sqrt(xp.maximum(v, 1e-6) * dt)
        s = s - 0.5 * v * dt + root * (p[4] * b + xp.sqrt(1 - p[4] ** 2) * a)
        return (s, xp.maximum(v + p[1] * (p[2] - v) * dt + p[3] * root * b, 1e-6)), None

    start = 0 * p[0] + xp.zeros(z.shape[1]), p[0] * xp.ones(z.shape[1])
    s, _ = xp.steps(step, start, (z, w), len(z))[0]
    guess = xp.mean(xp.maximum(xp.exp(s)[None] - strike[:, None], 0.0), 1)
    return xp.sum((guess - price) ** 2)


# -- an option on a grid, by implicit steps and Thomas's algorithm -------------------------------------

GRID = """
def grid(sigma: f64[n], rate, strike, steps: i64):
    V = zeros(n)
    for i in range(n):
        V[i] = max(2 * strike * i / n - strike, 0.0)
    dt = 1.0 / steps
    for _ in range(steps):
        c = zeros(n)
        d = zeros(n)
        c[0] = 0.0
        d[0] = 0.0
        for i in range(1, n - 1):
            s = sigma[i]**2 * i * i
            lower = -0.5 * dt * (s - rate * i)
            upper = -0.5 * dt * (s + rate * i)
            middle = 1 + dt * (s + rate)
            m = middle - lower * c[i - 1]
            c[i] = upper / m
            d[i] = (V[i] - lower * d[i - 1]) / m
        new = zeros(n)
        new[n - 1] = V[n - 1]
        for k in range(1, n - 1):
            i = n - 1 - k
            new[i] = d[i] - c[i] * new[i + 1]
        V = new
    return V[n // 2]
"""


def surface(rng: np.random.Generator, n: int, steps: int) -> Arguments:
    return rng.uniform(0.2, 0.4, n), 0.03, 50.0, steps


def grid(xp: Any, sigma: Any, rate: Any, strike: Any, steps: int) -> Any:
    n = len(sigma)
    i = np.arange(1, n - 1)
    dt = 1.0 / steps
    s = sigma[1:-1] ** 2 * i * i
    lower, upper = -0.5 * dt * (s - rate * i), -0.5 * dt * (s + rate * i)
    middle = 1 + dt * (s + rate)
    o = xp.sum(0 * s) + 0 * rate

    def eliminate(state: Any, x: Any) -> Any:
        c, d = state
        m = x[1] - x[0] * c
        new = x[2] / m, (x[3] - x[0] * d) / m
        return new, new

    def back(v: Any, x: Any) -> Any:
        v = x[1] - x[0] * v
        return v, v

    def step(V: Any, _: Any) -> Any:
        _, found = xp.steps(eliminate, (o, o), (lower, middle, upper, V[1:-1]), n - 2)
        if isinstance(found, list):
            found = xp.array([f[0] for f in found]), xp.array([f[1] for f in found])
        _, inner = xp.steps(back, V[-1], (found[0][::-1], found[1][::-1]), n - 2)
        return xp.concatenate([o[None], xp.array(inner)[::-1], V[-1:]]), None

    V = xp.maximum(2 * strike * np.arange(n) / n - strike, 0.0) + o
    return xp.steps(step, V, None, steps)[0][n // 2]


# -- a portfolio with costs, over days -----------------------------------------------------------------

PORTFOLIO = """
def portfolio(theta: f64[k, m], signal: f64[t, k], returns: f64[t, m], cost, risk):
    before = zeros(m)
    gains = []
    for d in range(t):
        w = softmax(signal[d] @ theta)
        gains.append(sum(w * returns[d]) - cost * sum(sqrt((w - before)**2 + 1e-6)))
        before = w
    g = np.array(gains)
    return -mean(g) + risk * var(g)
"""


def market(rng: np.random.Generator, t: int, k: int, m: int) -> Arguments:
    return (
        0.3 * rng.standard_normal((k, m)), rng.standard_normal((t, k)), 0.02 * rng.standard_normal((t, m)),
        0.001, 2.0,
    )  # fmt: skip


def portfolio(xp: Any, theta: Any, signal: Any, returns: Any, cost: Any, risk: Any) -> Any:
    z = signal @ theta
    w = xp.exp(z - xp.logsumexp(z, 1)[:, None])
    before = xp.concatenate([xp.zeros((1, w.shape[1])), w[:-1]])
    g = xp.sum(w * returns, 1) - cost * xp.sum(xp.sqrt((w - before) ** 2 + 1e-6), 1)
    return -xp.mean(g) + risk * xp.mean((g - xp.mean(g)) ** 2)


# -- implied volatilities by Newton's method in a while loop -------------------------------------------

IMPLIED = """
def price(s, k, t, v):
    d = (log(s / k) + 0.5 * v * v * t) / (v * sqrt(t))
    return s * 0.5 * (1 + erf(d / sqrt(2.0))) - k * 0.5 * (1 + erf((d - v * sqrt(t)) / sqrt(2.0)))

def implied(s: f64[n], k: f64[n], t: f64[n], seen: f64[n], level, skew):
    total = 0.0
    for i in range(n):
        v = 0.3
        error = 1.0
        count = 0
        while abs(error) > 1e-12 and count < 20:
            d = (log(s[i] / k[i]) + 0.5 * v * v * t[i]) / (v * sqrt(t[i]))
            error = price(s[i], k[i], t[i], v) - seen[i]
            v = v - error / (s[i] * sqrt(t[i]) * exp(-0.5 * d * d) / sqrt(2 * pi))
            count += 1
        total += (v - level - skew * log(k[i] / s[i]))**2
    return total
"""


def quotes(rng: np.random.Generator, n: int) -> Arguments:
    from scipy.special import ndtr

    s, k, t = rng.uniform(90, 110, n), rng.uniform(90, 110, n), rng.uniform(0.2, 1, n)
    v = rng.uniform(0.2, 0.4, n)
    d = (np.log(s / k) + 0.5 * v * v * t) / (v * np.sqrt(t))
    return s, k, t, s * ndtr(d) - k * ndtr(d - v * np.sqrt(t)), 0.3, 0.05


def implied(xp: Any, s: Any, k: Any, t: Any, seen: Any, level: Any, skew: Any) -> Any:
    def step(v: Any, _: Any) -> Any:
        root = v * xp.sqrt(t)
        d = (xp.log(s / k) + 0.5 * v * v * t) / root
        found = s * 0.5 * (1 + xp.erf(d / 2**0.5)) - k * 0.5 * (1 + xp.erf((d - root) / 2**0.5))
        slope = s * xp.sqrt(t) * xp.exp(-0.5 * d * d) / (2 * np.pi) ** 0.5
        return v - (found - seen) / slope, None

    v, _ = xp.steps(step, 0.3 + 0 * (s + k + t + seen), None, 8)
    return xp.sum((v - level - skew * xp.log(k / s)) ** 2)


# -- a curve of zero rates from bonds ------------------------------------------------------------------

CURVE = """
def curve(rates: f64[m], node: f64[m], due: f64[n, c], coupon: f64[n], price: f64[n], smooth):
    total = 0.0
    for i in range(n):
        value = 0.0
        for j in range(c):
            r = interp(due[i, j], node, rates)
            value += coupon[i] * exp(-r * due[i, j])
        r = interp(due[i, c - 1], node, rates)
        value += 100 * exp(-r * due[i, c - 1])
        total += (value - price[i])**2
    return total + smooth * sum(diff(rates, n=2)**2)
"""


def bonds(rng: np.random.Generator, n: int, c: int, m: int) -> Arguments:
    node = np.linspace(0, 30, m)
    due = np.sort(rng.uniform(0.1, 29, (n, c)), 1)
    return rng.uniform(0.01, 0.05, m), node, due, rng.uniform(1, 5, n), rng.uniform(80, 120, n), 10.0


def curve(xp: Any, rates: Any, node: Any, due: Any, coupon: Any, price: Any, smooth: Any) -> Any:
    k = xp.clip(xp.searchsorted(node, due, side="right") - 1, 0, len(node) - 2)
    p = (due - node[k]) / (node[k + 1] - node[k])
    fall = xp.exp(-((1 - p) * rates[k] + p * rates[k + 1]) * due)
    value = coupon * xp.sum(fall, 1) + 100 * fall[:, -1]
    bend = rates[2:] - 2 * rates[1:-1] + rates[:-2]
    return xp.sum((value - price) ** 2) + smooth * xp.sum(bend**2)


# -- the chance of several defaults, by a recursion over names -----------------------------------------

DEFAULTS = """
def defaults(p: f64[n], beta: f64[n], z: f64[m], weight: f64[m], loss: f64[k]):
    total = 0.0
    for s in range(m):
        chance = zeros(k)
        chance[0] = 1.0
        for i in range(n):
            q = sigmoid(p[i] + beta[i] * z[s])
            for a in range(k - 1):
                j = k - 1 - a
                chance[j] = chance[j] * (1 - q) + chance[j - 1] * q
            chance[0] = chance[0] * (1 - q)
        total += weight[s] * sum(chance * loss)
    return total
"""


def credit(rng: np.random.Generator, n: int, m: int, k: int) -> Arguments:
    z, w = np.polynomial.hermite_e.hermegauss(m)
    return rng.uniform(-4, -2, n), rng.uniform(0.2, 0.8, n), z, w / w.sum(), np.arange(k) / k


def defaults(xp: Any, p: Any, beta: Any, z: Any, weight: Any, loss: Any) -> Any:
    q = xp.sigmoid(p[:, None] + beta[:, None] * z)

    def step(chance: Any, inputs: Any) -> Any:
        one = inputs[0][:, None]
        moved = xp.concatenate([xp.zeros((len(z), 1)), chance[:, :-1]], 1)
        return chance * (1 - one) + moved * one, None

    start = xp.concatenate([xp.ones((len(z), 1)), xp.zeros((len(z), len(loss) - 1))], 1)
    chance, _ = xp.steps(step, start + 0 * q[0][:, None], (q,), len(p))
    return xp.sum(weight * (chance @ loss))


PROGRAMS = (
    Program("american-tree", TREE, (200,), (4,), option, (0, 2, 3, 4), tree),
    Program("asian-paths", ASIAN, (5000, 50), (5, 3), noise, (1, 3, 4), asian),
    Program("heston", HESTON, (50, 2000, 9), (3, 5, 3), smile, (2,), heston),
    Program("implicit-grid", GRID, (100, 50), (6, 2), surface, (0, 1), grid),
    Program("portfolio", PORTFOLIO, (500, 8, 20), (4, 2, 3), market, (0, 3), portfolio),
    Program("implied-volatility", IMPLIED, (500,), (4,), quotes, (0, 3, 4, 5), implied, 1e-7),
    Program("yield-curve", CURVE, (300, 20, 12), (3, 2, 5), bonds, (0, 5), curve),
    Program("defaults", DEFAULTS, (100, 20, 30), (3, 2, 3), credit, (0, 1), defaults),
)  # fmt: skip
