"""GradBench's gmm: the log posterior of a mixture of Gaussians, without its constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.frameworks import gradients
from bench.ours import gradbench, value_and_grad
from bench.workload import PEERS, Arguments, Build, Run, Target, Workload, by_hand


def mixture(rng: np.random.Generator, d: int, k: int, n: int) -> Arguments:
    """alpha, mu, q, l, x, gamma and m, as GradBench draws them."""
    below = d * (d - 1) // 2
    return (
        rng.standard_normal(k), rng.random((k, d)), rng.standard_normal((k, d)),
        rng.standard_normal((k, below)), rng.standard_normal((n, d)), 1.0, 0.0,
    )  # fmt: skip


def places(d: int) -> np.ndarray:
    """Where L[a, b], a > b, stands in l, which goes column by column; 0 elsewhere."""
    at = np.zeros((d, d), np.int64)
    at[np.triu_indices(d, 1)[::-1]] = np.arange(d * (d - 1) // 2)
    return at


def with_places(build: Build) -> Build:
    """A peer's builder that is given, after the inputs, where l stands in L, and masks of its two parts."""

    def extended(args: Arguments, device: str) -> Run:
        d = args[1].shape[1]
        return build((*args, places(d), np.tri(d, k=-1), np.eye(d)), device)

    return extended


def log_posterior(
    xp: Any, alpha: Any, mu: Any, q: Any, l: Any, x: Any, gamma: Any, m: Any,  # noqa: E741
    at: Any, below: Any, diagonal: Any,
) -> Any:  # fmt: skip
    n = x.shape[0]
    L = l[:, at] * below + xp.exp(q)[:, :, None] * diagonal
    y = xp.einsum("kab,nkb->nka", L, x[:, None, :] - mu[None])
    beta = alpha + xp.sum(q, 1) - xp.sum(y * y, 2) / 2
    likelihood = xp.sum(xp.logsumexp(beta, 1)) - n * xp.logsumexp(alpha, 0)
    return likelihood - gamma**2 / 2 * xp.sum(L * L) + m * xp.sum(q)


LIBRARIES = gradients(log_posterior, (0, 1, 2, 3), tuple(p for p in PEERS if p != "casadi"))

GMM = Workload(
    name="gmm",
    about="GradBench's gmm, d = 32, k = 50, n = 1000: the log posterior and its gradient.",
    sizes={"full": (32, 50, 1000), "quick": (10, 25, 1000), "tiny": (5, 3, 40)},
    inputs=mixture,
    ours=value_and_grad(gradbench("gmm"), "log_posterior", ("alpha", "mu", "q", "l")),
    peers={
        "numba": by_hand("gmm", "gradient"),
        **{name: with_places(build) for name, build in LIBRARIES.items()},
    },
    targets=(Target(8.0, "jax"),),
    absent={"casadi": "no batches of triangular matrices"},
)

WORKLOADS = (GMM,)
