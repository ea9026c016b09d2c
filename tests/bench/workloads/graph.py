"""Sums over the edges of a graph: gathers, and scatters on the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.frameworks import gradients
from bench.ours import value_and_grad
from bench.workload import PEERS, Arguments, Target, Workload, by_hand


def graph(rng: np.random.Generator, nodes: int, edges: int) -> Arguments:
    """Values of nodes, weights of edges, and the two ends of each."""
    ends = rng.integers(0, nodes, (2, edges))
    return rng.standard_normal(nodes), rng.uniform(0.5, 1.5, edges), ends[0], ends[1]


TENSION = """
def tension(x, w, a, b):
    return sum(w * exp(-(x[a] - x[b])**2))
"""


def tension(xp: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
    return xp.sum(w * xp.exp(-((x[a] - x[b]) ** 2)))


EDGES = Workload(
    name="gather-scatter",
    about="Σ w exp(−(x[a] − x[b])²) over 1,000,000 edges of 100,000 nodes, and its gradients in x and w.",
    sizes={"full": (100_000, 1_000_000), "quick": (10_000, 100_000), "tiny": (30, 2500)},
    inputs=graph,
    ours=value_and_grad(TENSION, wrt=("x", "w")),
    peers={
        "numba": by_hand("edges", "gradient"),
        **gradients(tension, (0, 1), tuple(p for p in PEERS if p != "casadi")),
    },
    targets=(Target(5.0, "jax"),),
    absent={"casadi": "gathers by expressions of scalars"},
)

WORKLOADS = (EDGES,)
