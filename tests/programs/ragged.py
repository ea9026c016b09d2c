"""Random programs of ragged sums, `range(s[i], s[i + 1])`: rows of different lengths, some of them empty.

All work on `x, y: f64[m]`, `v: f64[r]`, `w`, `s: i64[q]` with r + 1 places, `at: i64[m]` and `a: f64[r, m]`.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

HEAD = "def f(x: f64[m], y: f64[m], v: f64[r], w, s: i64[q], at: i64[m], a: f64[r, m]):"
BODIES = (
    "x[{0}]**2",
    "x[{0}] * y[{0}]",
    "sin(x[{0}]) * w",
    "x[{0}] * x[s[i]]",
    "(x[{0}] - v[i])**2",
    "v[i] * exp(x[{0}])",
    "x[at[{0}]] * y[{0}]",
    "x[{0}] * x[{0} - s[i]]",
    "tanh(x[{0}] * y[at[{0}]])",
    "sqrt(1 + x[{0}]**2)",
)
ROW, CUT = "s[i], s[i + 1]", "s[i] : s[i + 1]"
INNER = (
    "sum({j} for j in range({row}))",
    "sum({j} for j in range({row}) if j % 2 == 0)",
    "sum({j} for j in range({row}) if x[j] > 0.5)",
    "sum({j} * {k} for j in range({row}) for k in range({row}))",
    "sum({j} * {k} for j in range({row}) for k in range(s[i], j))",
    "sum({j} * sum({k} for k in range(j, s[i + 1])) for j in range({row}))",
    "sum(x[at[j]]**2 * v[i] for j in range(min(i, len(x))))",
    "prod(1 + 0.1 * {j} for j in range({row}))",
    "sum(sin(x[{cut}]) * y[{cut}])",
    "(x[{cut}] @ (x[{cut}] + v[i]))",
    "norm(x[{cut}] * w + 3)",
    "sum(x[s[i]:] ** 2) * sum(y[:s[i]])",
    "sum(x[i : min(i + 2, len(x))] * w)",
    "(std(x[{cut}] + y[{cut}]) if s[i + 1] > s[i] + 1 else v[i])",
    "sum(sum(a.T[{cut}], axis=1) ** 2)",
    "sum(sum(a[h, j] * {j} for h in range(r)) ** 2 for j in range({row}))",
)
OUTER = ("{0}**2", "sin({0})", "log(1 + {0}**2)", "v[i] * {0}", "{0} * {1}", "{0} / (1.5 + {1}**2)", "{0}",
         "{0} * sum(x[y > 0.8] ** 2)", "{0} + mean(y[y > v[i] - 2]) * w", "{0} * len(x[x > v[i]])",
         "std(x[y < 9], ddof=-1) * {0}")  # fmt: skip
ENDS = ("range(len(s) - 1)", "range(len(v))", "range(r)")


def row(draw: Draw) -> str:
    """What a row gives."""
    inner = []
    for _ in range(2):
        one, other = (draw(st.sampled_from(BODIES)) for _ in range(2))
        inner.append(
            draw(st.sampled_from(INNER)).format(row=ROW, cut=CUT, j=one.format("j"), k=other.format("k"))
        )
    return str(draw(st.sampled_from(OUTER)).format(*inner))


def looped(draw: Draw) -> list[str]:
    """A row's sum by a loop, which is carried on or stored."""
    body, outer = draw(st.sampled_from(BODIES)).format("j"), draw(st.sampled_from(OUTER[:4])).format("t")
    keep = draw(st.sampled_from((f"z[i] = {outer}", f"z[i] += {outer} * (z[i - 1] if i > 0 else w)")))
    return [
        "z = zeros(r)",
        "for i in range(r):",
        "    t = 0.0",
        "    for j in range(s[i], s[i + 1]):",
        f"        t += {body}",
        f"    {keep}",
    ]


def helped(draw: Draw) -> tuple[str, list[str]]:
    """A loop in a helper that a comprehension calls with rows of a matrix, as long as the ragged ones are."""
    steps = "g += v[int(u[j] * len(v) * 0.99)]", "g += sin(u[j]) * g + u[j]", "g = max(g, u[j])"
    step = draw(st.sampled_from(steps))
    outer = draw(st.sampled_from(OUTER[:4])).format("chain(a[i], v, s[i + 1] - s[i])")
    helper = f"def chain(u, v, m):\n    g = 0.1\n    for j in range(m):\n        {step}\n    return g\n\n"
    return helper, [f"return [{outer} for i in range(r)]"]


@st.composite
def ragged_programs(draw: Draw) -> Program:
    """A def that gives one number a row, and arguments; the sum of the squares is what has a Hessian."""
    kind, helper = draw(st.integers(0, 4)), ""
    if kind == 0:
        lines = [*looped(draw), "return z"]
    elif kind == 1:
        helper, lines = helped(draw)
    else:
        lines = [f"return [{row(draw)} for i in {draw(st.sampled_from(ENDS))}]"]
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    m = int(starts[-1]) + draw(st.integers(0, 1)) or 1
    y, v = random.uniform(0.3, 1.5, m), random.uniform(-1, 1, len(lengths)).round(2)
    x = random.uniform(-1.5, 1.5, m).round(2) + 0.005  # no difference meets a condition
    source = helper + "\n    ".join([HEAD, *lines])
    at, a = random.integers(0, m, m), random.uniform(-1, 1, (len(lengths), m)).round(2)
    return Program(source, (x, y, v, random.uniform(0.3, 1), starts, at, a))


def total(source: str) -> str:
    """The sum of squares of what a program gives, as one more def."""
    return f"{source}\n\n{HEAD.replace('def f', 'def total')}\n    return sum(f(x, y, v, w, s, at, a)**2)\n"
