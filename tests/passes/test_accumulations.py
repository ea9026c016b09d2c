"""Loops that only add to places of an array are sums and scatters, however the places are written."""

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.pipeline import SIMPLIFY, run

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
    "products": (
        "(n, h)", "for i in range(n):", "for j in range(h):", "for k in range(e):",
        "out[i, j] += x[i, 0] * w[k] * y[k, j]",
    ),
}  # fmt: skip


def source(shape, *lines):
    indented = "".join(f"{'    ' * (k + 1)}{line}\n" for k, line in enumerate(lines))
    return HEAD.format(shape) + indented + "    return sum(sin(out) * out)"


def loops(f):
    func = run(SIMPLIFY, f.trace(f.describe(ARGS, {})[0]).func)
    return {a.loop for a in arrays_of(func.roots) if isinstance(a, Item)}


@pytest.mark.parametrize("name", ACCUMULATIONS)
def test_no_loop_is_left(name):
    f = adc.compile(source(*ACCUMULATIONS[name]))
    assert not loops(f)
    assert not loops(adc.grad(f, ("w", "x", "y")))


@pytest.mark.parametrize("name", ACCUMULATIONS)
def test_values_and_derivatives(name):
    f = adc.compile(source(*ACCUMULATIONS[name]))
    slow = adc.compile(source(*ACCUMULATIONS[name]), backend="numpy")
    assert f(*ARGS) == pytest.approx(slow(*ARGS), rel=1e-13)
    adc.check_grad(f, *ARGS)


def test_what_reads_the_array_stays_a_loop():
    f = adc.compile(source("n", "for k in range(e):", "out[b[k]] += w[k] * out[a[k]] + 1.0"))
    assert len(loops(f)) == 1
    adc.check_grad(f, *ARGS)
