"""Formulas on large arrays, element by element, and sums of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.frameworks import gradients
from bench.ours import value_and_grad
from bench.workload import PEERS, Arguments, Target, Workload, by_hand

# -- Σ (a + b) b ---------------------------------------------------------------------------------------


def two(rng: np.random.Generator, n: int) -> Arguments:
    return tuple(rng.standard_normal((2, n)))


def product_loss(xp: Any, a: Any, b: Any) -> Any:
    return xp.sum((a + b) * b)


PRODUCT = Workload(
    name="product-sum",
    about="Σ (a + b) b of 5,000,000 numbers, and both gradients.",
    sizes={"full": (5_000_000,), "quick": (500_000,), "tiny": (1000,)},
    inputs=two,
    ours=value_and_grad("sum((a + b) * b)"),
    peers={"numba": by_hand("elementwise", "product_sum"), **gradients(product_loss, (0, 1))},
    targets=(Target(2.5),),
)

# -- Black and Scholes ---------------------------------------------------------------------------------

PRICE = """
def price(s, k, t, r, v):
    spread = v * sqrt(t)
    d1 = (log(s / k) + (r + v * v / 2) * t) / spread
    d2 = d1 - spread
    return s * (1 + erf(d1 * sqrt(0.5))) / 2 - k * exp(-r * t) * (1 + erf(d2 * sqrt(0.5))) / 2
"""


def options(rng: np.random.Generator, n: int) -> Arguments:
    ranges = ((80, 120), (80, 120), (0.5, 2.0), (0.01, 0.05), (0.1, 0.4))
    return tuple(rng.uniform(lo, hi, n) for lo, hi in ranges)


def price_loss(xp: Any, s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
    spread = v * xp.sqrt(t)
    d1 = (xp.log(s / k) + (r + v * v / 2) * t) / spread
    d2 = d1 - spread
    root = 0.5**0.5
    prices = s * (1 + xp.erf(d1 * root)) / 2 - k * xp.exp(-r * t) * (1 + xp.erf(d2 * root)) / 2
    return xp.sum(prices)


BLACK_SCHOLES = Workload(
    name="black-scholes",
    about="The sum of 1,000,000 options' prices by Black and Scholes' formula, and five Greeks each.",
    sizes={"full": (1_000_000,), "quick": (100_000,), "tiny": (500,)},
    inputs=options,
    ours=value_and_grad(
        PRICE + "\ndef total(s, k, t, r, v):\n    return sum(price(s, k, t, r, v))\n", "total"
    ),
    peers={"numba": by_hand("elementwise", "black_scholes"), **gradients(price_loss, range(5))},
    targets=(Target(6.0),),
)

# -- gelu ----------------------------------------------------------------------------------------------


def layer(rng: np.random.Generator, n: int, m: int) -> Arguments:
    return rng.standard_normal((n, m)), rng.standard_normal(m), rng.standard_normal(m)


def gelu_loss(xp: Any, x: Any, w: Any, b: Any) -> Any:
    y = x * w + b
    g = y * (1 + xp.erf(y * 0.5**0.5)) / 2
    return xp.sum(g * g) / 2


GELU_TEXT = """
def loss(x, w, b):
    y = x * w + b
    g = y * (1 + erf(y * sqrt(0.5))) / 2
    return sum(g * g) / 2
"""

GELU = Workload(
    name="gelu",
    about="½ Σ gelu(x w + b)², x 4096 × 1024, a weight and a bias for each column; all gradients.",
    sizes={"full": (4096, 1024), "quick": (512, 512), "tiny": (20, 15)},
    inputs=layer,
    ours=value_and_grad(GELU_TEXT),
    peers={
        "numba": by_hand("elementwise", "gelu"),
        **gradients(gelu_loss, (0, 1, 2), tuple(p for p in PEERS if p != "casadi")),
    },
    targets=(Target(6.0),),
    absent={"casadi": "does not broadcast"},
)

WORKLOADS = (PRODUCT, BLACK_SCHOLES, GELU)
