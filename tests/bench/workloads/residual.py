"""A physics-informed network: the residual of Burgers' equation, and its gradient by all weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.frameworks import autograd_gradients, jax_gradients, torch_gradients
from bench.ours import value_and_grad
from bench.workload import Arguments, Workload, by_hand

BURGERS = """
def network(x, t, w1, b1, w2, b2, w3, b3):
    h = [tanh(w1[0, k] * x + w1[1, k] * t + b1[k]) for k in range(len(b1))]
    g = [tanh(sum(h[k] * w2[k, l] for k in range(len(b1))) + b2[l]) for l in range(len(b2))]
    return sum(g[l] * w3[l] for l in range(len(b2))) + b3

def residual(x, t, w1, b1, w2, b2, w3, b3, nu):
    def u(x, t):
        return network(x, t, w1, b1, w2, b2, w3, b3)

    return diff(u, t) + u(x, t) * diff(u, x) - nu * diff(u, x, 2)

def loss(w1: f64[2, k], b1: f64[k], w2: f64[k, k], b2: f64[k], w3: f64[k], b3, xs: f64[n], ts: f64[n], nu):
    return mean(residual(x, t, w1, b1, w2, b2, w3, b3, nu)**2 for x, t in zip(xs, ts))
"""


def collocation(rng: np.random.Generator, n: int, units: int) -> Arguments:
    """Weights of two hidden layers, then points in −1 < x < 1, 0 < t < 1, then the viscosity."""
    w1, b1, w2 = (
        rng.standard_normal((2, units)),
        rng.standard_normal(units),
        rng.standard_normal((units, units)),
    )
    b2, w3 = rng.standard_normal(units), rng.standard_normal(units) / units**0.5
    return w1, b1, w2 / units**0.5, b2, w3, 0.1, rng.uniform(-1, 1, n), rng.uniform(0, 1, n), 0.01 / np.pi


def network(xp: Any, weights: Any, x: Any, t: Any) -> Any:
    """u at all points: x and t are vectors."""
    w1, b1, w2, b2, w3, b3 = weights
    h = xp.tanh(x[:, None] * w1[0] + t[:, None] * w1[1] + b1)
    return xp.tanh(h @ w2 + b2) @ w3 + b3


def torch_loss(xp: Any, *args: Any) -> Any:
    """Derivatives by `autograd.grad`, as networks of this kind are written in PyTorch."""
    import torch

    weights, (x, t, nu) = args[:6], args[6:]
    x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
    u = network(xp, weights, x, t)
    ux, ut = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    (uxx,) = torch.autograd.grad(ux.sum(), x, create_graph=True)
    return ((ut + u * ux - nu * uxx) ** 2).mean()


def jax_loss(xp: Any, *args: Any) -> Any:
    """Forward derivatives: points do not mix, so a direction of ones gives all of them at once."""
    import jax

    weights, (x, t, nu) = args[:6], args[6:]
    ones = xp.zeros_like(x) + 1

    def slope(x: Any) -> Any:
        return jax.jvp(lambda y: network(xp, weights, y, t), (x,), (ones,))

    (u, ux), (_, uxx) = jax.jvp(slope, (x,), (ones,))
    ut = jax.jvp(lambda s: network(xp, weights, x, s), (t,), (ones,))[1]
    return xp.sum((ut + u * ux - nu * uxx) ** 2) / x.shape[0]


def autograd_loss(xp: Any, *args: Any) -> Any:
    from autograd import elementwise_grad

    weights, (x, t, nu) = args[:6], args[6:]

    def u(x: Any, t: Any) -> Any:
        return network(xp, weights, x, t)

    ux = elementwise_grad(u, 0)
    rest = elementwise_grad(u, 1)(x, t) + u(x, t) * ux(x, t) - nu * elementwise_grad(ux, 0)(x, t)
    return xp.sum(rest**2) / x.shape[0]


WEIGHTS = tuple(range(6))

PINN = Workload(
    name="pinn",
    about="Burgers' residual of a network 2-20-20-1 at 2000 points: the mean square, and its gradient.",
    sizes={"full": (2000, 20), "quick": (500, 10), "tiny": (70, 5)},
    inputs=collocation,
    ours=value_and_grad(BURGERS, "loss", ("w1", "b1", "w2", "b2", "w3", "b3")),
    peers={
        "numba": by_hand("residual", "gradient"),
        "torch": torch_gradients(torch_loss, WEIGHTS),
        "jax": jax_gradients(jax_loss, WEIGHTS),
        "autograd": autograd_gradients(autograd_loss, WEIGHTS),
    },
    absent={
        "torch.compile": "does not compile double backward",
        "casadi": "no products of matrices in batches",
    },
)

WORKLOADS = (PINN,)
