"""Adjoints of reads at digits of places, as of reshaped arrays, are reads too."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

PROGRAMS = {
    "heads": (
        "def f(x: f64[n, d], w: f64[d]):\n    k = d // 2\n    q = sin(x).reshape(n, 2, k)\n"
        "    return sum((tanh(q) * sum(q, axis=2, keepdims=True)).reshape(n, d) * w)",
        ((3, 6), (6,)),
    ),
    "normalised groups": (
        "def f(x: f64[b, c, s], g: f64[c]):\n    k = c // 2\n    z = x.reshape(b, 2, k * s)\n"
        "    m = mean(z, axis=2, keepdims=True)\n    v = mean((z - m)**2, axis=2, keepdims=True)\n"
        "    return sum(sin(((z - m) / sqrt(v + 1)).reshape(b, c, s) * g[None, :, None]))",
        ((2, 4, 3), (4,)),
    ),
    "flattened": (
        "def f(x: f64[n, h, w], y: f64[q, e]):\n    return sum(sin(tanh(x).reshape(n, -1) @ y))",
        ((2, 3, 2), (6, 2)),
    ),
    "quotients alone": (
        "def f(x: f64[n], y: f64[n, m]):\n    z = y.reshape(-1)\n"
        "    return sum(sin(x[i // m]) * z[i] for i in range(n * m))",
        ((3,), (3, 2)),
    ),
    "digits of a sum": (
        "def f(x: f64[n, m]):\n    return sum(exp(x[i // m, i % m]) * x[0, i % m] for i in range(n * m))",
        ((3, 2),),
    ),
}
SCATTERS = {"transposed": "def f(x: f64[n, m], y: f64[p]):\n    return sum(sin(x.T.reshape(-1)) * y)"}


def arguments(shapes):
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_gather_and_are_right(name):
    text, shapes = PROGRAMS[name]
    args = arguments(shapes)
    f = adc.compile(text, backend="numpy")
    adc.check_grad(f, *args, order=2)
    shown = adc.value_and_grad(f).show("ir", *args)
    assert "accumulate" not in shown


@pytest.mark.parametrize("name", SCATTERS)
def test_digits_in_another_order_are_scattered(name):
    f = adc.compile(SCATTERS[name], backend="numpy")
    args = arguments(((3, 2), (6,)))
    adc.check_grad(f, *args, order=2)
    assert "accumulate" in adc.value_and_grad(f).show("ir", *args)


def test_a_quotient_by_zero_reads_the_first_element():
    f = adc.compile(
        "def f(x: f64[n], y: f64[m], k: i64):\n    return sum(x[i // k] * y[i] for i in range(m))"
    )
    x, y = arguments(((2,), (3,)))
    for k in (0, 2, 3, 5):
        places = np.arange(3) // k if k else np.zeros(3, int)
        expected = np.bincount(places, y, 2)
        np.testing.assert_allclose(adc.grad(f, "x")(x, y, k), expected)


@pytest.mark.parametrize("channels", [4, 8, 0])
def test_groups_of_no_elements(channels):
    text, _ = PROGRAMS["heads"]
    x, w = arguments(((2, channels), (channels,)))
    gradient = adc.grad(adc.compile(text), "x")(x, w)
    assert gradient.shape == x.shape
    adc.check_grad(adc.compile(text), x, w)
