"""Random programs in which extrema are compared with what they were taken of.

All work on `x: f64[n]`, `y: f64[n, d]`, `v: f64[d]`, `w` and `at: i64[n]`. An element of what the extremum
is taken of depends on one row of the inputs, and rows are repeated: so ties are between elements that are
computed alike, and every implementation of floating point has the same ones. The last result is a
differentiable number; the others are counts, or have infinite slopes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

HEAD = "def f(x: f64[n], y: f64[n, d], v: f64[d], w, at: i64[n]):"
LEAVES = (
    "x",
    "x",
    "y[:, 0]",
    "y[:, -1]",
    "w",
    "x[at]",
    "(y @ v)",
    "sum(y * y, axis=1)",
    "max(y, axis=1)",
    "([sum(y[i, k] * v[k] for k in range(d)) for i in range(n)] + 0 * x)",
)
ELEMENTS = ("x[i]", "x[i]", "y[i, 0]", "y[i, -1]", "w", "x[at[i]]", "sum(y[i, k] * v[k] for k in range(d))")
LOCAL = (
    "{0} * {1} + {2}",
    "{0} * {1} - w * {2}",
    "exp({0}) * w + {1}",
    "{0} / (1.5 + {1}**2)",
    "tanh({0} * {1}) - {2}",
    "sqrt({0}**2 + {1}**2)",
    "({0} - {1})**2",
    "log(1 + {0}**2) * {1} + {2}",
    "sin({0}) * cos({1})",
    "{0} if {1} > 0.2 else {1} * {2}",
)
COUNTS = (
    "sum({t} >= {m})",
    "sum({t} <= {m})",
    "sum({t} == {m})",
    "sum({t} < {m})",
    "sum({t} > {m})",
    "sum({t} != {m})",
    "sum({gap} == 0)",
    "sum({gap} > 0)",
    "sum(sign({gap}))",
    "sum({t} / {m} == 1)",
    "argmax({t} == {m})",
    "any({gap} < 0)",
    "sum(maximum({t}, {m}) == {t})",
    "sum(1 for i in range(n) if {t}[i] >= {m})",
    "sum(i for i in range(n) if not {t}[i] < {m})",
    "sum(sqrt({gap}))",
    "sum({gap} ** 0.25)",
    "max(log({gap}))",
)
RUNNING = (
    "sum({t} == cummax({t}))",
    "sum({t} >= cummax({t}))",
    "sum({t} <= cummin({t}))",
    "sum(sqrt(cummax({t}) - {t}))",
    "sum({t}[i] > max({t}[j] for j in range(i + 1)) for i in range(n))",
)
SMOOTH = (
    "sum(where({gap} > 0, log({gap}), 0))",
    "sum(where({t} == {m}, x * w, {t}))",
    "sum(exp(-({gap})))",
    "sum(where({t} != {m}, x / ({gap}), 1))",
    "sum({t}[i] * x[i] for i in range(n) if {t}[i] == {m})",
    "sum(where({t} == cummax({t}), x, {t}))",
    "sum(sqrt({gap}) if {gap} > 0 else w * x)",
    "{m} * w + sum({gap})",
)
CARRIED = (
    ("{m} = {t}[0]", "for i in range(n):", "    {m} = {better}({m}, {t}[i])"),
    ("{m} = {t}[0]", "for i in range(1, n):", "    if {t}[i] {beats} {m}:", "        {m} = {t}[i]"),
    ("{m} = {t}[-1]", "for u in {t}:", "    {m} = u if u {beats} {m} else {m}"),
)
TABLES = (
    ("[[x[i] * x[j] + w for j in range(n)] for i in range(n)]", "square"),
    ("[[tanh(x[i] * x[j]) * w for j in range(n)] for i in range(n)]", "square"),
    ("y * w + x[:, None]", "wide"),
    ("exp(y) * x[:, None] - v", "wide"),
)
TABLE_COUNTS = (
    "sum(T >= max(T))",
    "sum(T == min(T))",
    "sum(T == max(T, axis=0))",
    "sum(T >= max(T, axis=1, keepdims=True))",
    "sum(sqrt(max(T, axis=1, keepdims=True) - T))",
    "sum(T[i, 0] >= max(T[i]) for i in range(n))",
)
TABLE_SMOOTH = (
    "sum(where(T < max(T), log(max(T) - T), 0))",
    "sum(where(T == max(T, axis=0), T * T, 0))",
    "sum(where(T > min(T), w / (T - min(T)), x[0]))",
)


def written(draw: Draw, pool: tuple[str, ...]) -> str:
    """An expression of rows."""
    pick = lambda options: draw(st.sampled_from(options))  # noqa: E731
    inner = pick(LOCAL).format(*(pick(pool) for _ in range(3)))
    if draw(st.booleans()):
        return str(inner)
    return str(pick(LOCAL).format(f"({inner})", pick(pool), pick(pool)))


def vector_lines(draw: Draw) -> list[str]:
    """A vector `t`, an extremum `m` of it, taken at once or by a loop, and what compares them."""
    pick = lambda options: draw(st.sampled_from(options))  # noqa: E731
    better, beats = pick((("max", ">"), ("min", "<")))
    known = {"t": "t", "m": "m", "better": better, "beats": beats}
    if draw(st.booleans()):
        element = written(draw, ELEMENTS)
        lines = [f"t = [{element} for i in range(n)]"]
        again = f"m = {better}({element} for i in range(n))"
    else:
        lines = [f"t = {written(draw, LEAVES)} + 0 * x"]
        again = f"m = {better}(t)"
    kind = draw(st.integers(0, 2))
    lines += [line.format(**known) for line in pick(CARRIED)] if kind == 0 else [again]
    if kind == 1:
        known["m"] = f"{better}(t)"  # each use takes it
        lines.pop()
    known["gap"] = f"{known['m']} - t" if better == "max" else f"t - {known['m']}"
    counts = [pick((*COUNTS, *RUNNING)) for _ in range(draw(st.integers(1, 2)))]
    return [*lines, "return " + ", ".join(text.format(**known) for text in (*counts, pick(SMOOTH)))]


def table_lines(draw: Draw) -> list[str]:
    """The same of a table, over one axis or both."""
    pick = lambda options: draw(st.sampled_from(options))  # noqa: E731
    text, _ = pick(TABLES)
    counts = [pick(TABLE_COUNTS) for _ in range(draw(st.integers(1, 2)))]
    return [f"T = {text}", f"return {', '.join((*counts, pick(TABLE_SMOOTH)))}"]


@st.composite
def extremum_programs(draw: Draw) -> Program:
    """A def whose last result is differentiable, and arguments with repeated rows."""
    lines = table_lines(draw) if draw(st.integers(0, 3)) == 0 else vector_lines(draw)
    n, d = draw(st.sampled_from((1, 2, 3, 5, 8, 9, 17, 40, 300))), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    different = draw(st.integers(1, n))
    rows = random.permutation(np.arange(n) % different) if draw(st.booleans()) else np.arange(n)
    x, y = random.uniform(0.3, 1.9, n), random.uniform(-1.5, 1.5, (n, d))
    args: list[Any] = [x[rows], y[rows], random.uniform(-1.5, 1.5, d), random.uniform(0.3, 1.2)]
    source = "\n    ".join([HEAD, *lines])
    return Program(source, (*args, random.integers(0, n, n)[rows]))


def last_alone(source: str) -> str:
    """The program with its last result only."""
    head, _, results = source.rpartition("return ")
    depth, start = 0, 0
    for place, sign in enumerate(results):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and not depth:
            start = place + 1
    return f"{head}return {results[start:].strip()}"
