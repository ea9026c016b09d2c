"""A particle simulation after the Nenwin network: forces between all, ten steps, back through all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.frameworks import gradients
from bench.ours import value_and_grad
from bench.workload import PEERS, Arguments, Workload, by_hand

ROLLOUT = """
def cube(s):
    return s * sqrt(s)

def rollout(p: f64[n, 2], v: f64[n, 2], m: f64[n], steps: i64, h):
    for _ in range(steps):
        a = [[sum(m[j] * (p[j, k] - p[i, k]) / cube(sum((p[j, c] - p[i, c])**2 for c in range(2)) + 0.01)
                  for j in range(n)) for k in range(2)] for i in range(n)]
        v = v + h * a
        p = p + h * v
    return sum(p * p) / 2
"""


def swarm(rng: np.random.Generator, n: int, steps: int) -> Arguments:
    return rng.standard_normal((n, 2)), rng.standard_normal((n, 2)), rng.uniform(0.5, 1.5, n), steps, 1e-3


def rollout(xp: Any, p: Any, v: Any, m: Any, steps: int, h: float) -> Any:
    def step(state: Any, _: Any) -> Any:
        p, v = state
        d = p[None, :, :] - p[:, None, :]
        s = xp.sum(d * d, 2) + 0.01
        v = v + h * xp.sum((m / (s * xp.sqrt(s)))[:, :, None] * d, 1)
        return (p + h * v, v), None

    (p, _), _ = xp.steps(step, (p, v), None, steps)
    return xp.sum(p * p) / 2


PARTICLES = Workload(
    name="particles",
    about="784 particles that attract each other, 10 steps: gradients in positions, speeds and masses.",
    sizes={"full": (784, 10), "quick": (300, 5), "tiny": (40, 3)},
    inputs=swarm,
    ours=value_and_grad(ROLLOUT, wrt=("p", "v", "m")),
    peers={
        "numba": by_hand("particles", "rollout"),
        **gradients(rollout, (0, 1, 2), tuple(p for p in PEERS if p != "casadi")),
    },
    absent={"casadi": "no sums over pairs"},
)

WORKLOADS = (PARTICLES,)
