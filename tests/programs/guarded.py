"""Random programs with derivatives that are infinite where nothing depends on them.

All work on a number `p` and an array `z`, in which there are zeros. Loops, scans, comprehensions and routines
stand under conditions that exclude the zeros, and loops start from numbers at which their derivatives are
infinite. Values and derivatives are finite nevertheless.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

STARTS = ("{p} / {z}", "sqrt({p} * {z})", "log({z}) * {p}", "({p} * {z}) ** 0.5", "cbrt({z} * {p}) + {p}")
STEPS = (
    "sin(r)", "sqrt(abs(r) + 0.1) + 0.1 * {p}", "r / {z} * 0.3 + sin({p})", "tanh(r) * sqrt({z}) + 0.2",
    "where(r > 0.4, sin(r), 0.3 * r)", "log({z}) * 0.1 + cos(r)", "maximum(r, 0.2 * {p})",
    "r ** 2 / (1 + r ** 2)",
)  # fmt: skip
LOOPS = (
    "for k in range(6):\n    r = {step}",
    "for k in range(n):\n    r = {step}\n    if abs(r) > 3.0:\n        break",
    "k = 0\nwhile k < 5:\n    k += 1\n    r = {step}",
    "for k in range(5):\n    if k % 2 == 1:\n        continue\n    r = {step}",
    "q = r\nfor k in range(5):\n    q, r = r, 0.5 * q + {step}",
    "for k in range(n):\n    for j in range(k):\n        r = 0.9 * {step}",
)
SCANS = (
    "sum(cumprod([{r}, {p}, {r}]))", "sum(cumsum([{r}, 1.0, {r}]) * {r})", "cummax([{r}, {p}])[1]",
    "sum(solve([[{r} + 3, 0.1], [0.2, 2.0]], [{p}, {r}]))", "prod([{r}, {p}, 1.3])", "norm([{r}, {p}])",
    "logsumexp([{r}, {p}, 0.1])", "sum(sort([{r}, {p}]) * [1.0, 2.0])",
)  # fmt: skip
AROUND = (
    "for i in range(n):\n    if {holds}:\n{body}\n        t += tanh(r)",
    "for i in range(n):\n    if not ({holds}):\n        continue\n{body}\n    t += tanh(r)",
    "for i in range(n):\n    if {holds}:\n{body}\n        t += tanh(r)\n    else:\n        t += 0.1 * p",
)
# What a loop carries from a constant at which derivatives are infinite.
GROWING = (
    "a = 0.0\nfor i in range(n):\n    a = {root} + p\nt += sin(a)",
    "a = 0.0\nk = 0\nwhile k < n:\n    a = {root} + 0.5 * p\n    k += 1\nt += a",
    "v = zeros(n)\nfor i in range(4):\n    a = v\n    v = {root} + p + z\nt += sum(v)",
    "v = zeros(n)\nfor i in range(1, n):\n    a = v[i - 1]\n    v[i] = {root} + p\nt += sum(v * v)",
    "a = 0.0\nfor i in range(n):\n    a = a + 0.1 * (p - 0.4 * {root})\nt += a",
    "a = p\nfor i in range(n):\n    if z[i] < 0.5:\n        a = sqrt(p)\n    else:\n        a = {root}\n"
    "t += a",
)
ROOTS = ("sqrt(a)", "a ** 0.7", "cbrt(a)", "hypot(sqrt(a), 1.0)", "1.5 * sqrt(a)")


def indented(text: str, spaces: int) -> str:
    return "\n".join(" " * spaces + line for line in text.split("\n"))


@st.composite
def guarded_programs(draw: Draw) -> Program:
    """A function of a number and of an array with zeros."""
    lines = ["n = len(z)", "t = 0.0"]
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 2)) == 0:
            lines.append(draw(st.sampled_from(GROWING)).format(root=draw(st.sampled_from(ROOTS))))
        else:
            lines.append(_guarded(draw))
    size = draw(st.integers(1, 4))
    z = np.array([draw(st.sampled_from((0.0, 0.0, 0.413, 0.727, 1.361))) for _ in range(size)])
    source = "def f(p: f64, z: f64[m]):\n" + indented("\n".join(lines), 4) + "\n    return t"
    return Program(source, (draw(st.sampled_from((0.713, 1.291))), z))


def _guarded(draw: Draw) -> str:
    """A loop over elements with a loop or a scan under a condition, or a comprehension of such."""
    places = {"p": "p", "z": "z[i]"}
    start = draw(st.sampled_from(STARTS)).format(**places)
    step = draw(st.sampled_from(STEPS)).format(**places)
    body = f"r = {start}\n" + draw(st.sampled_from(LOOPS)).format(step=step)
    if draw(st.booleans()):
        body += "\nr = " + draw(st.sampled_from(SCANS)).format(r="sin(r)", p="p")
    holds = draw(st.sampled_from(("z[i] > 0", "z[i] != 0", "z[i] > 0.2")))
    if draw(st.integers(0, 2)) == 0:
        inner = body.replace("z[i]", "y")
        name = f"g{draw(st.integers(0, 99))}"
        definition = f"def {name}(y):\n" + indented(inner, 4) + "\n    return tanh(r)"
        return f"{definition}\nt += sum([{name}(z[i]) if {holds} else 0.2 * p for i in range(n)])"
    around = draw(st.sampled_from(AROUND))
    depth = 4 if "continue" in around.split("{body}")[0] else 8
    return str(around.format(holds=holds, body=indented(body, depth)))
