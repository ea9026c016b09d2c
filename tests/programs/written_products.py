"""Products of slices and running products, as users write them: on a line and in rows, in time steps, under
conditions."""

from __future__ import annotations

from textwrap import dedent, indent

import numpy as np

from programs import Program

RANDOM = np.random.default_rng(3)
X, W = RANDOM.uniform(0.5, 1.5, (2, 5))
M = RANDOM.uniform(0.5, 1.5, (4, 5))

LINE = "def f(x: f64[n], w: f64[n]):\n    p, s = 1.0, 0.0\n{}    return s\n", (X, W)
ROWS = "def f(x: f64[m, n], w: f64[n]):\n    s = 0.0\n    for i in range(m):\n{}    return s\n", (M, W)

ON_A_LINE = {
    "suffixes": """
        s = sum(prod(x[i:]) for i in range(n))""",
    "functions of prefixes": """
        for k in range(n):
            s += sin(prod(x[:k + 1]))""",
    "windows": """
        for k in range(n - 2):
            s += tanh(prod(x[k:k + n // 2]))""",
    "slices": """
        for i in range(n):
            for j in range(i, n):
                s += sin(prod(x[i:j + 1]))""",
    "all but one": """
        for i in range(n):
            s += prod(x[:i]) * prod(x[i + 1:]) * w[i]""",
    "all but one, selected": """
        for i in range(n):
            s += w[i] * prod(where(arange(n) == i, 1.0, x))""",
    "every second": """
        s = sum(prod(x[i::2]) for i in range(n))""",
    "under a condition": """
        for k in range(n):
            if x[k] > 1:
                s += prod(x[k:])
            else:
                s -= prod(x[:k])""",
    "of selected factors": """
        for k in range(n):
            s += prod(where(x[k:] > 0.7, x[k:], 1.0))""",
    "survival": """
        for t in range(n):
            s += x[t] * prod(1 - x[:t] * w[:t]) * exp(-0.1 * t)""",
    "stick breaking": """
        q = array([x[k] * prod(1 - x[:k]) for k in range(n)])
        s = sum(log(1 + sum(q[k]**2 * exp(-(w[j] - k)**2) for k in range(n))) for j in range(n))""",
    "in time": """
        for t in range(3):
            x = x + 0.01 * array([prod(x[:k + 1]) for k in range(n)])
            s += prod(x)""",
    "running": """
        for i in range(n):
            p = p * x[i]
            s = s + p""",
    "running, of an inner loop": """
        for i in range(n):
            p = p * x[i]
            for j in range(n):
                s += sin(p * w[j])""",
    "running over two loops": """
        for i in range(n):
            for j in range(n):
                p = p * cos(w[j] * x[i])
                s += p""",
    "running, from each on": """
        for i in range(n):
            p = 1.0
            for j in range(i, n):
                p = p * x[j]
                s += p""",
    "running in place": """
        c = x.copy()
        for i in range(1, n):
            c[i] = c[i] * c[i - 1]
        s = sum(sin(c))""",
    "of differences": """
        for i in range(n):
            for j in range(i):
                p *= x[i] - x[j]
        s = p""",
    "interpolation": """
        for i in range(n):
            p = 1.0
            for j in range(n):
                if j != i:
                    p = p * (0.3 - x[j]) / (x[i] - x[j])
            s += w[i] * p""",
    "divided differences": """
        s = sum(w[i] * prod(0.3 - x[:i]) for i in range(n))""",
}
IN_ROWS = {
    "of rows": """
        s += prod(x[i]) * w[0]""",
    "prefixes of rows": """
        for k in range(n):
            s += prod(x[i, :k]) * cos(w[k])""",
    "suffixes of columns": """
        s += sum(w * prod(x[i:], axis=0)**2)""",
    "running in rows": """
        p = 1.0
        for j in range(n):
            p *= x[i, j]
            s += sqrt(p) * w[j]""",
    "transparency": """
        p, colour = 1.0, 0.0
        for j in range(n):
            colour += p * (1 - exp(-x[i, j])) * w[j]
            p *= exp(-x[i, j])
        s += (colour - 1)**2""",
}


def _indented(text: str, depth: int) -> str:
    return indent(dedent(text).strip(), depth * " ") + "\n"


PROGRAMS = {
    **{name: Program(LINE[0].format(_indented(body, 4)), LINE[1]) for name, body in ON_A_LINE.items()},
    **{name: Program(ROWS[0].format(_indented(body, 8)), ROWS[1]) for name, body in IN_ROWS.items()},
}
