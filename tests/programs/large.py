"""Random programs that take a while: large results, kernels that run in parallel, long loops.

All work on `x, y: f64[n]`, `w` and `k: i64`, which says how long a loop of the program is.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

HEAD = "def f(x: f64[n], y: f64[n], w, k: i64):"
LENGTHS = (5, 3000, 200_000)
ITERATIONS = (0, 10, 30_000)
MAPS = (
    "x * y + w",
    "sin(z) * x",
    "exp(-(z**2)) + y",
    "cumsum(z) / n",
    "z[::-1] * w",
    "where(z > 0.1, z, y)",
    "tanh(z)",
)
SUMS = (
    "sum(z * x)",
    "logsumexp(z)",
    "max(z)",
    "sum(z[i] * x[i] for i in range(n) if i % 3 == 0)",
    "z[n // 2]",
)
STEPS = (
    ("s = sin(s) + 0.1 * w",),
    ("s = tanh(s * w) + 0.01 * z[i % n]",),
    ("z[i % n] = 0.5 * sin(z[i % n] + s)",),
    ("if i % 3 == 0:", "    s = 0.9 * s + w", "else:", "    s = cos(s)"),
)


@st.composite
def large_programs(draw: Draw) -> Program:
    """A def that returns an array and a number, and arguments."""
    lines = ["z = x * 1.5"]
    for _ in range(draw(st.integers(1, 3))):
        lines.append(f"z = {draw(st.sampled_from(MAPS))}")
    lines.append(f"s = {draw(st.sampled_from(SUMS))}")
    if draw(st.booleans()):
        lines += ["for i in range(k):", *(f"    {line}" for line in draw(st.sampled_from(STEPS)))]
    source = "\n    ".join([HEAD, *lines, "return z, s"])
    n, k = draw(st.sampled_from(LENGTHS)), draw(st.sampled_from(ITERATIONS))
    if "z[i % n] =" in source:
        k = min(k, 100)  # a store in a loop: its gradient keeps what was overwritten
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    return Program(source, (random.uniform(-1, 1, n), random.uniform(-1, 1, n), 0.7, k))
