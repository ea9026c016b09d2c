"""Random programs of lists of arrays of different lengths, `x: list[f64[:]]`, and of masks in them.

All work on `x` and `y`, whose rows are equally long, `v: f64[r]`, one number a row, and `w`.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

HEAD = "def f(x: list[f64[:]], y: list[f64[:]], v: f64[r], w):"
ELEMENTS = (
    "a", "a * b", "sin(a * w)", "(a - u) ** 2", "exp(b) * u", "a * sum(b)", "a / (1.5 + b**2)",
    "where(a > b, a * a, b)", "tanh(a + w) * len(a)", "a - mean(a) if len(a) > 0 else a",
)  # fmt: skip
ROWS = (
    "sum({e})", "sum({e}) * sum({d})", "prod(1 + 0.1 * {e})", "({e}) @ ({d})", "sum(sin({e})) / (1 + len(a))",
    "sum(a[a > 0.1] * b[a > 0.1])", "sum((a[1:] - b[:-1]) ** 2)", "w * len(b[b > u])", "sum(a[-2:])",
    "sum(p * q + u for p, q in zip(a, b))", "sum(k * p**2 for k, p in enumerate(a) if p > 0)",
    "(logsumexp({e}) if len(a) > 0 else u)", "(max({e}) + min({d}) if len(a) > 0 else w)",
    "(std({e} + a * b) if len(a) > 1 else w)", "(a[0] * b[-1] if len(a) > 0 else u)",
)  # fmt: skip
OUTER = ("{0} ** 2", "sin({0}) * u", "{0} * {1}", "{0}")
INNER = ["    for p, q in zip(a, b):", "        s = sin(s) + p * q"]
ALL = "for a, b, u in zip(x, y, v)"


def row(draw: Draw) -> str:
    """What a row gives."""
    found = []
    for _ in range(2):
        one, other = (draw(st.sampled_from(ELEMENTS)) for _ in range(2))
        found.append(draw(st.sampled_from(ROWS)).format(e=one, d=other))
    return str(draw(st.sampled_from(OUTER)).format(*found))


@st.composite
def rows_programs(draw: Draw) -> Program:
    """A def that gives a number, or one a row, and arguments."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        text = row(draw)
        lines = [
            "s = 0.5", f"{ALL}:", *(INNER * draw(st.booleans())), f"    s = sin(s) * u + {text}", "return s"
        ]  # fmt: skip
    elif kind == 1:
        lines = [f"return sum({row(draw)} {ALL})"]
    else:
        lines = [f"return [{row(draw)} {ALL}]"]
    lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    x, y = ([random.uniform(-1.5, 1.5, n) for n in lengths] for _ in range(2))
    source = "\n    ".join([HEAD, *lines])
    return Program(source, (x, y, random.uniform(0.3, 1.5, len(lengths)), random.uniform(0.3, 1)))
