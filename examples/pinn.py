"""A physics-informed network for the heat equation, after Raissi, Perdikaris and Karniadakis (2019).

u(x, t) is a network of one hidden layer. It is trained to satisfy u_t = a u_xx at random points of
0 < x < 1, 0 < t < 1, with u = sin(pi x) at t = 0 and u = 0 at both ends. The derivatives in the residual
stand in the program as they do in the equation; the gradient of the loss goes through them. The exact
solution is exp(-a pi^2 t) sin(pi x).
"""
# ruff: noqa: B905, F821  the functions of the language need no import

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

import adcompiler as adc

DIFFUSIVITY = 0.1
HIDDEN, POINTS, EDGE = 16, 200, 40


@adc.function
def network(x, t, p):
    """A hidden layer of tanh: the rows of p are weights of x and of t, biases, and weights of the sum."""
    return sum(p[3, k] * tanh(p[0, k] * x + p[1, k] * t + p[2, k]) for k in range(len(p[0])))


@adc.function
def residual(x, t, p, a):
    """The residual of the heat equation at a point."""

    def u(x, t):
        return network(x, t, p)

    return diff(u, t) - a * diff(u, x, 2)


@adc.function
def loss(p, xs, ts, edge, a):
    """Mean squares of the residual, of the initial values and of the boundary values."""
    inside = mean(residual(x, t, p, a) ** 2 for x, t in zip(xs, ts))
    start = mean((network(x, 0.0, p) - sin(pi * x)) ** 2 for x in edge)
    ends = mean(network(0.0, t, p) ** 2 + network(1.0, t, p) ** 2 for t in edge)
    return inside + 10 * start + 10 * ends


class Trained(NamedTuple):
    """`parameters` (4, HIDDEN), the loss reached, and the greatest error on a grid of 21 times 21 points."""

    parameters: np.ndarray
    loss: float
    error: float


def train(steps: int = 800, seed: int = 0) -> Trained:
    """Train by L-BFGS from random parameters; returns the result."""
    random = np.random.default_rng(seed)
    xs, ts = random.uniform(0, 1, (2, POINTS))
    edge = np.linspace(0, 1, EDGE)
    start = random.normal(0, 1, (4, HIDDEN))
    step = adc.value_and_grad(loss, "p")

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = step(flat.reshape(4, HIDDEN), xs, ts, edge, DIFFUSIVITY)
        return float(value), gradient.ravel()

    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    parameters = found.x.reshape(4, HIDDEN)
    x, t = np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 1, 21))
    exact = np.exp(-DIFFUSIVITY * np.pi**2 * t) * np.sin(np.pi * x)
    error = np.abs(network(x, t, parameters) - exact).max()
    return Trained(parameters, float(found.fun), float(error))


if __name__ == "__main__":
    result = train()
    print(f"loss {result.loss:.2e}, greatest error {result.error:.2e}")
