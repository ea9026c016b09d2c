"""Statistics: regressions, mixtures, Gaussian processes, matrices with gaps, robust and ordered losses."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments

# -- Poisson regression, written point by point --------------------------------------------------------

POISSON = """
def poisson(X: f64[n, p], y: f64[n], b: f64[p], ridge):
    total = 0.0
    for i in range(n):
        eta = 0.0
        for j in range(p):
            eta += X[i, j] * b[j]
        total += exp(eta) - y[i] * eta
    return total / n + ridge * sum(b**2)
"""


def counts(rng: np.random.Generator, n: int, p: int) -> Arguments:
    X, b = rng.standard_normal((n, p)) / p**0.5, 0.5 * rng.standard_normal(p)
    return X, rng.poisson(np.exp(X @ b)).astype(float), b, 0.1


def poisson(xp: Any, X: Any, y: Any, b: Any, ridge: Any) -> Any:
    eta = X @ b
    return xp.sum(xp.exp(eta) - y * eta) / len(y) + ridge * xp.sum(b**2)


# -- logistic regression of mini-batches, with a penalty between neighbours ----------------------------

FUSED_LOGISTIC = """
def fused_logistic(X: f64[n, p], y: f64[n], w: f64[p], bias, lam):
    margin = X @ w + bias
    loss = mean(log(1 + exp(-abs(margin))) + maximum(margin, 0) - y * margin)
    rough = 0.0
    for j in range(1, p):
        rough += sqrt((w[j] - w[j - 1])**2 + 1e-6)
    return loss + lam * rough
"""


def labels(rng: np.random.Generator, n: int, p: int) -> Arguments:
    X, w = rng.standard_normal((n, p)) / p**0.5, rng.standard_normal(p)
    return X, rng.integers(0, 2, n).astype(float), w, 0.1, 0.05


def fused_logistic(xp: Any, X: Any, y: Any, w: Any, bias: Any, lam: Any) -> Any:
    margin = X @ w + bias
    loss = xp.mean(xp.log(1 + xp.exp(-xp.abs(margin))) + xp.maximum(margin, 0.0) - y * margin)
    return loss + lam * xp.sum(xp.sqrt((w[1:] - w[:-1]) ** 2 + 1e-6))


# -- a mixture of Gaussians with full covariances ------------------------------------------------------

MIXTURE = """
def mixture(x: f64[n, d], logits: f64[k], mean: f64[k, d], root: f64[k, d, d]):
    logw = log_softmax(logits, axis=0)
    total = 0.0
    for i in range(n):
        scores = zeros(k)
        for c in range(k):
            q = 0.0
            logdet = 0.0
            for a in range(d):
                z = 0.0
                for b in range(a):
                    z += root[c, a, b] * (x[i, b] - mean[c, b])
                z += exp(root[c, a, a]) * (x[i, a] - mean[c, a])
                q += z * z
                logdet += root[c, a, a]
            scores[c] = logw[c] + logdet - 0.5 * q
        total -= logsumexp(scores)
    return total
"""


def clusters(rng: np.random.Generator, n: int, d: int, k: int) -> Arguments:
    return (
        rng.standard_normal((n, d)), rng.standard_normal(k), rng.standard_normal((k, d)),
        0.2 * rng.standard_normal((k, d, d)),
    )  # fmt: skip


def mixture(xp: Any, x: Any, logits: Any, mean: Any, root: Any) -> Any:
    logw = logits - xp.logsumexp(logits, 0)
    d = x.shape[1]
    diagonal = xp.einsum("kaa->ka", root)
    factor = root * np.tril(np.ones((d, d)), -1) + xp.exp(diagonal)[:, :, None] * np.eye(d)
    z = xp.einsum("kab,nkb->nka", factor, x[:, None] - mean)
    return -xp.sum(xp.logsumexp(logw + xp.sum(diagonal, 1) - 0.5 * xp.sum(z**2, 2), 1))


# -- a Gaussian process, its kernel written element by element -----------------------------------------

GAUSSIAN_PROCESS = """
def gaussian_process(x: f64[n, d], y: f64[n], log_scale: f64[d], log_signal, log_noise):
    K = zeros((n, n))
    for i in range(n):
        for j in range(n):
            r = 0.0
            for k in range(d):
                r += ((x[i, k] - x[j, k]) * exp(-log_scale[k]))**2
            K[i, j] = exp(2 * log_signal - 0.5 * r)
        K[i, i] += exp(2 * log_noise) + 1e-6
    L = cholesky(K)
    alpha = solve_triangular(L, y, lower=True)
    return 0.5 * sum(alpha**2) + sum(log(diag(L))) + 0.5 * n * log(2 * pi)
"""


def surface(rng: np.random.Generator, n: int, d: int) -> Arguments:
    x = rng.uniform(-2, 2, (n, d))
    return x, np.sin(x.sum(1)) + 0.1 * rng.standard_normal(n), 0.1 * rng.standard_normal(d), 0.2, -1.0


def gaussian_process(xp: Any, x: Any, y: Any, log_scale: Any, log_signal: Any, log_noise: Any) -> Any:
    z = x * xp.exp(-log_scale)
    K = xp.exp(2 * log_signal - 0.5 * xp.sum((z[:, None] - z[None]) ** 2, 2))
    L = xp.cholesky(K + (xp.exp(2 * log_noise) + 1e-6) * np.eye(len(y)))
    alpha = xp.lower(L, y)
    return 0.5 * xp.sum(alpha**2) + xp.sum(xp.log(xp.diagonal(L))) + 0.5 * len(y) * np.log(2 * pi)


# -- matrix factorisation of observed entries ----------------------------------------------------------

FACTORISATION = """
def factorisation(U: f64[n, r], V: f64[m, r], bu: f64[n], bv: f64[m], row: i64[e], col: i64[e],
                  rating: f64[e]):
    total = 0.0
    for k in range(e):
        i = row[k]
        j = col[k]
        guess = bu[i] + bv[j]
        for q in range(r):
            guess += U[i, q] * V[j, q]
        total += (rating[k] - guess)**2
    return total / e + 0.01 * (sum(U**2) + sum(V**2))
"""


def ratings(rng: np.random.Generator, n: int, m: int, r: int, e: int) -> Arguments:
    return (
        rng.standard_normal((n, r)), rng.standard_normal((m, r)), rng.standard_normal(n),
        rng.standard_normal(m),
        rng.integers(0, n, e), rng.integers(0, m, e), rng.uniform(1, 5, e),
    )  # fmt: skip


def factorisation(xp: Any, U: Any, V: Any, bu: Any, bv: Any, row: Any, col: Any, rating: Any) -> Any:
    guess = bu[row] + bv[col] + xp.sum(U[row] * V[col], 1)
    return xp.mean((rating - guess) ** 2) + 0.01 * (xp.sum(U**2) + xp.sum(V**2))


# -- quantile regression, its loss trimmed -------------------------------------------------------------

TRIMMED = """
def trimmed(X: f64[n, p], y: f64[n], w: f64[p], keep: i64):
    r = y - X @ w
    worst = sort(r**2)
    spread = quantile(r, 0.75) - quantile(r, 0.25)
    return sum(worst[i] for i in range(keep)) / keep + 0.1 * spread
"""


def outliers(rng: np.random.Generator, n: int, p: int) -> Arguments:
    return rng.standard_normal((n, p)), rng.standard_t(2, n), rng.standard_normal(p), (4 * n) // 5


def trimmed(xp: Any, X: Any, y: Any, w: Any, keep: Any) -> Any:
    r = y - X @ w
    ordered = xp.sort(r)

    def quantile(q: float) -> Any:
        place = q * (len(y) - 1)
        low = int(place)
        return ordered[low] + (place - low) * (ordered[min(low + 1, len(y) - 1)] - ordered[low])

    return xp.mean(xp.sort(r**2)[:keep]) + 0.1 * (quantile(0.75) - quantile(0.25))


# -- a proportional-hazards model, by cumulative sums --------------------------------------------------

COX = """
def cox(X: f64[n, p], died: f64[n], b: f64[p]):
    eta = X @ b
    top = max(eta)
    at_risk = cumsum(exp(eta - top))
    return -sum(died[i] * (eta[i] - top - log(at_risk[i])) for i in range(n)) / n
"""


def cohort(rng: np.random.Generator, n: int, p: int) -> Arguments:
    return rng.standard_normal((n, p)), rng.integers(0, 2, n).astype(float), 0.3 * rng.standard_normal(p)


def cox(xp: Any, X: Any, died: Any, b: Any) -> Any:
    eta = X @ b
    return -xp.mean(died * (eta - xp.log(xp.cumsum(xp.exp(eta)))))


# -- a hierarchical model ------------------------------------------------------------------------------

HIERARCHY = """
def hierarchy(y: f64[n], x: f64[n], group: i64[n], a: f64[g], b: f64[g], mu: f64[2], log_tau: f64[2],
              log_sigma):
    r = [y[i] - a[group[i]] - b[group[i]] * x[i] for i in range(n)]
    likelihood = 0.5 * sum(r**2) * exp(-2 * log_sigma) + n * log_sigma
    prior = 0.0
    for k in range(g):
        prior += 0.5 * ((a[k] - mu[0]) * exp(-log_tau[0]))**2 + log_tau[0]
        prior += 0.5 * ((b[k] - mu[1]) * exp(-log_tau[1]))**2 + log_tau[1]
    return likelihood + prior + 0.5 * sum(mu**2) + 0.5 * sum(log_tau**2)
"""


def schools(rng: np.random.Generator, n: int, g: int) -> Arguments:
    return (
        rng.standard_normal(n), rng.standard_normal(n), rng.integers(0, g, n), rng.standard_normal(g),
        rng.standard_normal(g), rng.standard_normal(2), 0.2 * rng.standard_normal(2), 0.1,
    )  # fmt: skip


def hierarchy(
    xp: Any, y: Any, x: Any, group: Any, a: Any, b: Any, mu: Any, log_tau: Any, log_sigma: Any
) -> Any:
    r = y - a[group] - b[group] * x
    prior = 0.5 * xp.sum(((a - mu[0]) * xp.exp(-log_tau[0])) ** 2) + len(a) * log_tau[0]
    prior = prior + 0.5 * xp.sum(((b - mu[1]) * xp.exp(-log_tau[1])) ** 2) + len(b) * log_tau[1]
    likelihood = 0.5 * xp.sum(r**2) * xp.exp(-2 * log_sigma) + len(y) * log_sigma
    return likelihood + prior + 0.5 * xp.sum(mu**2) + 0.5 * xp.sum(log_tau**2)


PROGRAMS = (
    Program("poisson", POISSON, (20_000, 20), (6, 3), counts, (2, 3), poisson),
    Program("fused-logistic", FUSED_LOGISTIC, (10_000, 50), (6, 4), labels, (2, 3, 4), fused_logistic),
    Program("full-mixture", MIXTURE, (2000, 4, 5), (4, 2, 3), clusters, (1, 2, 3), mixture),
    Program("gp-elementwise", GAUSSIAN_PROCESS, (200, 3), (5, 2), surface, (2, 3, 4), gaussian_process),
    Program("factorisation", FACTORISATION, (500, 400, 16, 50_000), (4, 5, 2, 7), ratings, (0, 1, 2, 3),
            factorisation),
    Program("trimmed", TRIMMED, (20_000, 10), (9, 2), outliers, (2,), trimmed),
    Program("cox", COX, (20_000, 10), (7, 2), cohort, (2,), cox),
    Program("hierarchy", HIERARCHY, (20_000, 300), (9, 3), schools, (3, 4, 5, 6, 7), hierarchy),
)  # fmt: skip
