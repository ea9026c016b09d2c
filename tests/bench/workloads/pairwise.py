"""Sums over all pairs of points: an energy and its derivatives, and the product with a Gaussian kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench import spaces
from bench.frameworks import autograd_gradients, gradients, jax_call, jax_gradients, synchronised, tensors
from bench.ours import hvp, value_and_grad
from bench.workload import PEERS, Arguments, Build, Run, Target, Workload, by_hand

ENERGY = """
def energy(x: f64[n, 3], m: f64[n]):
    return sum(m[i] * m[j] / sqrt(sum((x[i, k] - x[j, k])**2 for k in range(3)) + 0.01)
               for i in range(n) for j in range(n))

def penalty(x: f64[n, 3], m: f64[n]):
    g = grad(energy, "x")(x, m)
    return sum(g * g)
"""
NOT_CASADI = tuple(p for p in PEERS if p != "casadi")
NO_CASADI = {"casadi": "no sums over pairs"}


def points(rng: np.random.Generator, n: int) -> Arguments:
    return rng.standard_normal((n, 3)), rng.uniform(0.5, 1.5, n)


def points_and_direction(rng: np.random.Generator, n: int) -> Arguments:
    return *points(rng, n), rng.standard_normal((n, 3))


def energy(xp: Any, x: Any, m: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return xp.sum(m[:, None] * m[None, :] / xp.sqrt(xp.sum(d * d, 2) + 0.01))


GRADIENT = Workload(
    name="pairwise",
    about="Σᵢⱼ mᵢ mⱼ / √(|xᵢ − xⱼ|² + 0.01) of 3,000 points in space, and its gradients in x and m.",
    sizes={"full": (3000,), "quick": (1000,), "tiny": (70,)},
    inputs=points,
    ours=value_and_grad(ENERGY, "energy"),
    peers={"numba": by_hand("pairwise", "gradient"), **gradients(energy, (0, 1), NOT_CASADI)},
    targets=(Target(60.0),),
    absent=NO_CASADI,
)

# -- Hessian-vector product ----------------------------------------------------------------------------


def torch_product(args: Arguments, device: str) -> Run:
    """Double backward, PyTorch's usual way to it."""
    import torch

    x, m, v = tensors(args, device, (0,))
    xp = spaces.torch_space()

    def run() -> Any:
        (g,) = torch.autograd.grad(energy(xp, x, m), x, create_graph=True)
        return torch.autograd.grad(g, x, v)[0]

    return synchronised(run, device)


def jax_product(xp: Any) -> Any:
    """Forward over reverse, as JAX's documentation advises."""
    import jax

    slope = jax.grad(partial(energy, xp))
    return lambda x, m, v: jax.jvp(lambda y: slope(y, m), (x,), (v,))[1]


def autograd_product(args: Arguments, device: str) -> Run:
    import autograd

    x, m, v = args
    product = autograd.hessian_vector_product(lambda y: energy(spaces.autograd_space(), y, m))
    return lambda: product(x, v)


COMPILE = {"torch.compile": "does not compile double backward"}
SECOND: dict[str, Build] = {
    "torch": torch_product,
    "jax": jax_call(jax_product),
    "autograd": autograd_product,
}

HVP = Workload(
    name="pairwise-hvp",
    about="The product of the same energy's Hessian in x with a direction.",
    sizes=GRADIENT.sizes,
    inputs=points_and_direction,
    ours=hvp(ENERGY, "energy", "x"),
    peers={"numba": by_hand("pairwise", "hessian_product"), **SECOND},
    absent=NO_CASADI | COMPILE,
)

# -- double backward: the gradient of a function of the gradient ---------------------------------------


def torch_penalty(args: Arguments, device: str) -> Run:
    import torch

    x, m = tensors(args, device, (0, 1))
    xp = spaces.torch_space()

    def run() -> Any:
        (g,) = torch.autograd.grad(energy(xp, x, m), x, create_graph=True)
        value = (g * g).sum()
        return value.detach(), torch.autograd.grad(value, (x, m))

    return synchronised(run, device)


def jax_penalty(xp: Any, x: Any, m: Any) -> Any:
    import jax

    return xp.sum(jax.grad(partial(energy, xp))(x, m) ** 2)


def autograd_penalty(xp: Any, x: Any, m: Any) -> Any:
    import autograd

    return xp.sum(autograd.grad(partial(energy, xp))(x, m) ** 2)


DOUBLE = Workload(
    name="pairwise-double",
    about="Double backward: Σ |∂energy/∂x|² and its gradients in x and m.",
    sizes=GRADIENT.sizes,
    inputs=points,
    ours=value_and_grad(ENERGY, "penalty"),
    peers={
        "numba": by_hand("pairwise", "double_backward"),
        "torch": torch_penalty,
        "jax": jax_gradients(jax_penalty, (0, 1)),
        "autograd": autograd_gradients(autograd_penalty, (0, 1)),
    },
    targets=(Target(60.0),),
    absent=NO_CASADI | COMPILE,
)

# -- Gaussian kernel -----------------------------------------------------------------------------------

GAUSSIAN = """
def gaussian(x: f64[n, 3], y: f64[m, 3], b: f64[m], c: f64[n]):
    return sum(c[i] * sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(3))) * b[j] for j in range(m))
               for i in range(n))
"""


def clouds(rng: np.random.Generator, n: int, m: int) -> Arguments:
    x, y = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    return x, y, rng.standard_normal(m), rng.standard_normal(n)


def gaussian(xp: Any, x: Any, y: Any, b: Any, c: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return xp.sum(c * (xp.exp(-xp.sum(d * d, 2)) @ b))


KERNEL = Workload(
    name="gaussian-kernel",
    about="Σᵢ cᵢ Σⱼ exp(−|xᵢ − yⱼ|²) bⱼ of 4,000 and 3,000 points, and its gradients in x, y and b.",
    sizes={"full": (4000, 3000), "quick": (1000, 800), "tiny": (60, 45)},
    inputs=clouds,
    ours=value_and_grad(GAUSSIAN, wrt=("x", "y", "b")),
    peers={"numba": by_hand("kernel_product", "gradient"), **gradients(gaussian, (0, 1, 2), NOT_CASADI)},
    absent=NO_CASADI,
)


def larger(workload: Workload) -> Workload:
    """30,000 points: all pairs of them would take 7 GB an array."""
    about = workload.about.replace("3,000", "30,000")
    return replace(
        workload,
        name=f"{workload.name}-30000",
        about=about if "30,000" in about else f"{about} 30,000 points.",
        sizes={"full": (30_000,), "quick": (5000,), "tiny": (80,)},
        targets=(),
    )


WORKLOADS = (GRADIENT, HVP, DOUBLE, *(larger(w) for w in (GRADIENT, HVP, DOUBLE)), KERNEL)
