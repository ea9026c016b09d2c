"""Adjoints of strided slices and of pooling: what several reads share is computed once for all of them."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

PROGRAMS = {
    "pairs": "def f(x: f64[n, m]):\n    y = x[0]\n    return sum(sin(y[::2]) * y[1::2])",
    "three": "def f(x: f64[n, m]):\n    y = x[0]\n    return sum(y[::3] * y[1::3] * exp(y[2::3]))",
    "coarse grid": (
        "def f(x: f64[n, m]):\n"
        "    r = x[1:-1:2, 1:-1:2] + 0.5 * (x[:-2:2, 1:-1:2] * x[2::2, 1:-1:2] - x[1:-1:2, 2::2])\n"
        "    return sum(r ** 2)"
    ),
    "backwards": "def f(x: f64[n, m]):\n    return sum(tanh(x[::-2, ::3]) * x[1::2, ::3])",
    "red and black": (
        "def f(x: f64[n, m]):\n"
        "    u = x[0].copy()\n"
        "    for s in range(3):\n"
        "        u[1:-1:2] = 0.5 * (u[:-2:2] + u[2::2]) + u[1:-1:2] ** 2\n"
        "        u[2:-1:2] = sin(u[1:-2:2]) * u[3::2]\n"
        "    return sum(u ** 2)"
    ),
    "maxima": (
        "def f(x: f64[n, m]):\n"
        "    a = maximum(maximum(x[::2, ::2], x[1::2, ::2]), maximum(x[::2, 1::2], x[1::2, 1::2]))\n"
        "    return sum(a ** 2)"
    ),
    "pooling": (
        "def f(x: f64[n, m]):\n"
        "    total = 0.0\n"
        "    for i in range(n // 2):\n"
        "        for j in range(m // 3):\n"
        "            total += max(x[2 * i:2 * i + 2, 3 * j:3 * j + 3]) ** 2\n"
        "    return total"
    ),
}
SHAPES = {
    "pairs": (1, 8),
    "three": (1, 9),
    "coarse grid": (9, 7),
    "backwards": (4, 6),
    "red and black": (1, 9),
}


def argument(name: str) -> np.ndarray:
    return np.random.default_rng(4).normal(size=SHAPES.get(name, (4, 6)))


@pytest.mark.slow_when(lambda name: name not in ("coarse grid", "pooling"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_second_derivatives_are_right(name):
    adc.check_grad(adc.compile(PROGRAMS[name]), argument(name), order=2)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_back_ends_and_dtypes_agree(name):
    x = argument(name)
    reference = adc.grad(adc.compile(PROGRAMS[name], backend="numpy"))(x)
    np.testing.assert_allclose(adc.grad(adc.compile(PROGRAMS[name]))(x), reference, rtol=1e-12)
    single = adc.grad(adc.compile(PROGRAMS[name].replace("f64", "f32")))(x.astype(np.float32))
    np.testing.assert_allclose(single, reference, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["maxima", "pooling", "pairs"])
def test_no_gradient_computes_a_function_again_for_each_read(name):
    f = adc.value_and_grad(adc.compile(PROGRAMS[name]))
    f(argument(name))
    kernel = f.show("kernel")
    assert "% 2" not in kernel, "no point is asked whether it was read"
    assert kernel.count(" >= ") <= {"maxima": 6, "pooling": 5}.get(name, 0)  # comparisons of maxima


@pytest.mark.parametrize("shape", [(0, 0), (0, 6), (2, 0)])
def test_nothing_is_read_of_empty_arrays(shape):
    value, gradient = adc.value_and_grad(adc.compile(PROGRAMS["maxima"]))(np.zeros(shape))
    assert value == 0
    assert gradient.shape == shape
