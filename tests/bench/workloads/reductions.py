"""GradBench's kmeans, llsq and lse."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench import spaces
from bench.frameworks import gradients, jax_call, synchronised, tensors
from bench.ours import compiled, gradbench, value_and_grad
from bench.workload import Arguments, Build, Run, Workload, by_hand

# -- kmeans --------------------------------------------------------------------------------------------


def clusters(rng: np.random.Generator, n: int, k: int, d: int) -> Arguments:
    points = rng.random((n, d))
    return points, points[-k:].copy()


def cost(xp: Any, points: Any, centroids: Any) -> Any:
    d = points[:, None, :] - centroids[None, :, :]
    return xp.sum(xp.min(xp.sum(d * d, 2), 1))


def our_step(args: Arguments, device: str) -> Run:
    import adcompiler as adc

    centroids = args[1]
    slope = adc.grad(compiled(gradbench("kmeans"), "cost", args, device), "centroids")

    def run() -> Any:
        gradient, curvature = adc.jvp(slope, args, (None, np.ones_like(centroids)))
        return gradient / curvature

    return run


def jax_step(xp: Any) -> Any:
    """The gradient over the diagonal of the Hessian, as in GradBench's own tool."""
    import jax
    import jax.numpy as jnp

    def step(points: Any, centroids: Any) -> Any:
        slope = jax.grad(partial(cost, xp, points))
        gradient, curvature = jax.jvp(slope, (centroids,), (jnp.ones_like(centroids),))
        return gradient / curvature

    return step


def torch_step(args: Arguments, device: str) -> Run:
    import torch

    points, centroids = tensors(args, device, (1,))
    xp, ones = spaces.torch_space(), torch.ones_like(centroids)

    def run() -> Any:
        (gradient,) = torch.autograd.grad(cost(xp, points, centroids), centroids, create_graph=True)
        (curvature,) = torch.autograd.grad(gradient, centroids, ones)
        return gradient / curvature

    return synchronised(run, device)


def autograd_step(args: Arguments, device: str) -> Run:
    import autograd

    points, centroids = args
    f, ones = partial(cost, spaces.autograd_space(), points), np.ones_like(centroids)
    slope, product = autograd.grad(f), autograd.hessian_vector_product(f)
    return lambda: slope(centroids) / product(centroids, ones)


KMEANS = Workload(
    name="kmeans",
    about="GradBench's kmeans, k = 50, n = 5000, d = 16: a Newton step from the centroids.",
    sizes={"full": (5000, 50, 16), "quick": (1000, 20, 8), "tiny": (90, 4, 3)},
    inputs=clusters,
    ours=our_step,
    peers={
        "numba": by_hand("reductions", "kmeans"),
        "torch": torch_step,
        "jax": jax_call(jax_step),
        "autograd": autograd_step,
    },
    absent={"torch.compile": "does not compile double backward", "casadi": "no sums over pairs"},
)

# -- llsq ----------------------------------------------------------------------------------------------


def coefficients(rng: np.random.Generator, n: int, m: int) -> Arguments:
    return rng.random(m), n


def squares(xp: Any, x: Any, t: Any, signs: Any) -> Any:
    """Horner's rule for all places at once: compilers fuse the iterations."""
    p = 0.0 * t
    for j in reversed(range(x.shape[0])):
        p = p * t + x[j]
    return xp.sum((signs - p) ** 2) / 2


def with_places(build: Build) -> Build:
    """A peer's builder that is given the places, and the signs there, for their number."""

    def extended(args: Arguments, device: str) -> Run:
        t = -1 + 2 * np.arange(args[1]) / (args[1] - 1)
        return build((args[0], t, np.sign(t)), device)

    return extended


LLSQ = Workload(
    name="llsq",
    about="GradBench's llsq, n = 16392, m = 128: fitting a polynomial; the loss and its gradient.",
    sizes={"full": (16392, 128), "quick": (2000, 64), "tiny": (70, 7)},
    inputs=coefficients,
    ours=value_and_grad(gradbench("llsq"), "llsq", ("x",)),
    peers={
        "numba": by_hand("reductions", "llsq"),
        **{name: with_places(build) for name, build in gradients(squares, (0,)).items()},
    },
)

# -- lse -----------------------------------------------------------------------------------------------


def log_sum_exp(xp: Any, x: Any) -> Any:
    most = xp.max(x)
    return most + xp.log(xp.sum(xp.exp(x - most)))


LSE = Workload(
    name="lse",
    about="GradBench's lse: the logarithm of the sum of 1,000,000 exponentials, and its gradient.",
    sizes={"full": (1_000_000,), "quick": (100_000,), "tiny": (1003,)},
    inputs=lambda rng, n: (rng.uniform(-100, 100, n),),
    ours=value_and_grad(gradbench("lse"), "lse", ("x",)),
    peers={
        "numba": by_hand("reductions", "lse"),
        **gradients(log_sum_exp, (0,)),
    },
)

WORKLOADS = (KMEANS, LLSQ, LSE)
