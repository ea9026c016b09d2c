"""Loops that only add to places of an array are sums and scatters, however the places are written."""

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import is_const
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, SIMPLIFY, run

HEAD = "def f(a: i64[e], b: i64[e], w: f64[e], x: f64[n, h], y: f64[e, h]):\n    out = zeros({})\n"
RANDOM = np.random.default_rng(7)
NODES, EDGES, WIDTH = 5, 9, 3
ARGS = (
    *RANDOM.integers(-NODES, NODES, (2, EDGES)),
    RANDOM.normal(size=EDGES),
    RANDOM.normal(size=(NODES, WIDTH)),
    RANDOM.normal(size=(EDGES, WIDTH)),
)
ACCUMULATIONS = {
    "numbers": ("n", "for k in range(e):", "out[b[k]] += w[k]"),
    "differences": ("n", "for k in range(e):", "out[b[k]] -= w[k] * x[a[k], 0]"),
    "rows": ("(n, h)", "for k in range(e):", "out[b[k]] += w[k] * x[a[k]]"),
    "elements of rows": (
        "(n, h)", "for k in range(e):", "for c in range(h):", "out[b[k], c] += w[k] * x[a[k], c]",
    ),
    "columns": ("(h, n)", "for k in range(e):", "for c in range(h):", "out[c, b[k]] += exp(w[k]) * y[k, c]"),
    "two places": ("n", "for k in range(e):", "out[a[k]] += w[k]; out[b[k]] -= 2 * w[k]"),
    "under a condition": ("n", "for k in range(e):", "if w[k] > 0:", "out[b[k]] += w[k] ** 2"),
    "in order": ("(e, h)", "for k in range(e):", "for c in range(h):", "out[k, c] += w[k] * y[k, c]"),
    "two places of neighbours": ("e", "for k in range(e - 1):", "out[k + 1] += w[k]**2; out[k] -= w[k + 1]"),
    "one place twice": ("n", "for k in range(e):", "out[b[k]] += w[k]; out[b[k]] -= w[k] ** 3"),
    "one place, another and the first again": (
        "e", "for k in range(e - 2):", "out[k] += w[k]; out[k + 2] -= w[k + 1]; out[k] += w[k + 2] ** 2",
    ),
    "places that conditions choose": (
        "e", "for k in range(e):",
        "if w[k] > 0:", "    out[k] += w[k]", "elif k > 1:", "    out[k - 2] -= w[k] ** 2",
    ),
    "neighbours in a grid": (
        "(e, h)", "for i in range(e):", "for j in range(h):",
        "if i + 1 < e:", "    d = y[i + 1, j] - y[i, j]", "    out[i, j] += d; out[i + 1, j] -= d",
        "if j + 1 < h:", "    d = y[i, j + 1] - y[i, j]", "    out[i, j] += d ** 2; out[i, j + 1] -= d ** 2",
    ),
    "a matrix assembled from small ones": (
        "(n, n)", "for k in range(e):",
        "at = array([a[k], b[k], k % n, 0]); t = array([w[k], y[k, 0], 1.0, -1.0])",
        "for p in range(4):", "for q in range(4):", "out[at[p], at[q]] += t[p] * t[q] ** 2",
    ),
    "products": (
        "(n, h)", "for i in range(n):", "for j in range(h):", "for k in range(e):",
        "out[i, j] += x[i, 0] * w[k] * y[k, j]",
    ),
}  # fmt: skip


def source(shape, *lines):
    """Each line that opens a block but the conditions among several is around all lines after it."""
    text, depth = HEAD.format(shape), 1
    for line in lines:
        text += f"{'    ' * depth}{line}\n"
        depth += line.startswith("for ") or (line.startswith("if ") and not any("    " in r for r in lines))
    return text + "    return sum(sin(out) * out)"


def python(text):
    """The value by Python itself, statement by statement."""
    names = {k: getattr(np, k) for k in ("zeros", "array", "exp", "sin", "sum")}
    names |= {"e": EDGES, "n": NODES, "h": WIDTH}
    exec(f"from __future__ import annotations\n{text}", names)
    return names["f"](*ARGS)


def loops(f):
    func = run(SIMPLIFY, f._trace(f._describe(ARGS, {})[0]).func)
    return {a.loop for a in arrays_of(func.roots) if isinstance(a, Item)}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", ACCUMULATIONS)
def test_no_loop_is_left(name):
    f = adc.compile(source(*ACCUMULATIONS[name]))
    gradient = adc.grad(f, ("w", "x", "y"))
    assert not loops(f)
    assert not loops(gradient)
    depth = 3 if name == "products" else 2  # of the loops in the source
    for g in f, gradient:
        made = run(KERNEL, run(OPTIMISE, run(SIMPLIFY, g._trace(g._describe(ARGS, {})[0]).func)))
        assert max(sum(not is_const(n) for n in a.domain) for a in arrays_of(made.roots)) <= depth


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", ACCUMULATIONS)
def test_values_and_derivatives(name):
    f = adc.compile(source(*ACCUMULATIONS[name]))
    slow = adc.compile(source(*ACCUMULATIONS[name]), backend="numpy")
    assert f(*ARGS) == pytest.approx(python(source(*ACCUMULATIONS[name])), rel=1e-12)
    assert slow(*ARGS) == pytest.approx(f(*ARGS), rel=1e-13)
    adc.check_grad(f, *ARGS)


def test_what_reads_the_array_stays_a_loop():
    f = adc.compile(source("n", "for k in range(e):", "out[b[k]] += w[k] * out[a[k]] + 1.0"))
    assert len(loops(f)) == 1
    adc.check_grad(f, *ARGS)
