"""Daily programs of statistics: regressions, mixtures, a Gaussian process, survival with frailty."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from bench.daily import daily
from bench.workload import Arguments

# -- logistic regression -------------------------------------------------------------------------------

LOGISTIC = """
def logistic(X: f64[n, p], y: f64[n], w: f64[p]):
    return sum(softplus(-y * (X @ w))) + 0.5 * sum(w**2)
"""


def signs(rng: np.random.Generator, n: int, p: int) -> Arguments:
    return rng.standard_normal((n, p)), rng.choice([-1.0, 1.0], n), 0.3 * rng.standard_normal(p)


def logistic(xp: Any, X: Any, y: Any, w: Any) -> Any:
    return xp.sum(xp.softplus(-y * (X @ w))) + 0.5 * xp.sum(w**2)


# -- softmax regression --------------------------------------------------------------------------------

SOFTMAX = """
def softmax(X: f64[n, p], label: i64[n], W: f64[p, k], b: f64[k]):
    z = X @ W + b
    return sum(logsumexp(z, axis=1)) - sum(z[i, label[i]] for i in range(n))
"""


def labelled(rng: np.random.Generator, n: int, p: int, k: int) -> Arguments:
    weights = rng.standard_normal((p, k)), rng.standard_normal(k)
    return rng.standard_normal((n, p)), rng.integers(0, k, n), *weights


def softmax(xp: Any, X: Any, label: Any, W: Any, b: Any) -> Any:
    z = X @ W + b
    return xp.sum(xp.logsumexp(z, 1)) - xp.sum(z[np.arange(len(X)), label])


# -- negative binomial regression ----------------------------------------------------------------------

NEGATIVE_BINOMIAL = """
def negative_binomial(X: f64[n, p], y: f64[n], b: f64[p], log_r):
    r = exp(log_r)
    mu = exp(X @ b)
    return -sum(lgamma(y + r) - lgamma(r) - lgamma(y + 1) + r * log(r / (r + mu)) + y * log(mu / (r + mu)))
"""


def counts(rng: np.random.Generator, n: int, p: int) -> Arguments:
    X, b = rng.standard_normal((n, p)) / p**0.5, rng.standard_normal(p)
    return X, rng.poisson(np.exp(X @ b)).astype(float), b, 0.4


def negative_binomial(xp: Any, X: Any, y: Any, b: Any, log_r: Any) -> Any:
    r, mu = xp.exp(log_r), xp.exp(X @ b)
    terms = xp.lgamma(y + r) - xp.lgamma(r) - xp.lgamma(y + 1.0)
    return -xp.sum(terms + r * xp.log(r / (r + mu)) + y * xp.log(mu / (r + mu)))


# -- survival ------------------------------------------------------------------------------------------

FRAILTY = """
def frailty(X: f64[n, p], time: f64[n], died: f64[n], group: i64[n], b: f64[p], log_shape, log_theta, m: i64):
    a = exp(log_shape)
    r = exp(-log_theta)
    risk = exp(X @ b)
    hazard = zeros(m)
    deaths = zeros(m)
    for i in range(n):
        hazard[group[i]] += risk[i] * time[i]**a
        deaths[group[i]] += died[i]
    alone = sum(died * (X @ b + log_shape + (a - 1) * log(time)))
    return -alone - sum(lgamma(r + deaths) - lgamma(r) + r * log(r) - (r + deaths) * log(r + hazard))
"""


def patients(rng: np.random.Generator, n: int, p: int, groups: int) -> Arguments:
    X, time = rng.standard_normal((n, p)), rng.exponential(size=n) + 0.05
    died, group = rng.integers(0, 2, n).astype(float), rng.integers(0, groups, n)
    return X, time, died, group, 0.3 * rng.standard_normal(p), 0.2, -0.5, groups


def frailty(
    xp: Any, X: Any, time: Any, died: Any, group: Any, b: Any, log_shape: Any, log_theta: Any, size: Any
) -> Any:
    a, r, risk = xp.exp(log_shape), xp.exp(-log_theta), xp.exp(X @ b)
    hazard = xp.add_at(xp.zeros(size), group, risk * time**a)
    deaths = xp.add_at(xp.zeros(size), group, died)
    alone = xp.sum(died * (X @ b + log_shape + (a - 1) * xp.log(time)))
    terms = xp.lgamma(r + deaths) - xp.lgamma(r) + r * xp.log(r) - (r + deaths) * xp.log(r + hazard)
    return -alone - xp.sum(terms)


# -- mixture, and Gaussian process ---------------------------------------------------------------------

MIXTURE = """
def mixture(x: f64[n], w: f64[k], mean: f64[k], log_s: f64[k]):
    log_w = w - logsumexp(w)
    z = (x[:, None] - mean) * exp(-log_s)
    return -sum(logsumexp(log_w - log_s - 0.5 * z**2, axis=1)) + 0.5 * n * log(2 * pi)
"""


def sample(rng: np.random.Generator, n: int, k: int) -> Arguments:
    return (
        rng.standard_normal(n),
        rng.standard_normal(k),
        rng.standard_normal(k),
        0.2 * rng.standard_normal(k),
    )


def mixture(xp: Any, x: Any, w: Any, mean: Any, log_s: Any) -> Any:
    z = (x[:, None] - mean) * xp.exp(-log_s)
    terms = w - xp.logsumexp(w, 0) - log_s - 0.5 * z**2
    return -xp.sum(xp.logsumexp(terms, 1)) + 0.5 * len(x) * np.log(2 * pi)


PROCESS = """
def process(X: f64[n, d], y: f64[n], scale: f64[d], amplitude, noise):
    U = X / scale
    K = amplitude**2 * exp(-0.5 * sum((U[:, None] - U)**2, axis=2)) + noise**2 * eye(n)
    L = cholesky(K)
    z = solve_triangular(L, y, lower=True)
    return sum(z**2) / 2 + sum(log(diag(L))) + n * log(2 * pi) / 2
"""


def points(rng: np.random.Generator, n: int, d: int) -> Arguments:
    return rng.standard_normal((n, d)), rng.standard_normal(n), rng.uniform(0.5, 1.5, d), 1.2, 0.3


def process(xp: Any, X: Any, y: Any, scale: Any, amplitude: Any, noise: Any) -> Any:
    U = X / scale
    K = amplitude**2 * xp.exp(-0.5 * xp.sum((U[:, None] - U) ** 2, 2)) + noise**2 * xp.eye(len(X))
    L = xp.cholesky(K)
    z = xp.lower(L, y)
    return xp.sum(z**2) / 2 + xp.sum(xp.log(L.diagonal())) + len(X) * np.log(2 * pi) / 2


WORKLOADS = (
    daily("logistic", "Logistic regression of 2,000 cases by 20 variables, with a penalty.",
          ((2000, 20), (9, 3)), signs, LOGISTIC, logistic, (2,)),
    daily("softmax", "Softmax regression of 2,000 cases of 10 classes by 20 variables.",
          ((2000, 20, 10), (7, 3, 4)), labelled, SOFTMAX, softmax, (2, 3)),
    daily("negative-binomial", "Negative binomial regression of 1,000 counts by 8 variables.",
          ((1000, 8), (6, 3)), counts, NEGATIVE_BINOMIAL, negative_binomial, (2, 3)),
    daily("frailty", "Survival of 1,000 patients in 50 groups: Weibull hazards, gamma frailty.",
          ((1000, 6, 50), (9, 2, 3)), patients, FRAILTY, frailty, (4, 5, 6)),
    daily("mixture-1d", "A mixture of 6 normal distributions of 10,000 numbers.",
          ((10_000, 6), (7, 3)), sample, MIXTURE, mixture, (1, 2, 3)),
    daily("gaussian-process", "A Gaussian process of 250 points in space: three scales, amplitude and noise.",
          ((250, 3), (5, 2)), points, PROCESS, process, (2, 3, 4)),
)  # fmt: skip
