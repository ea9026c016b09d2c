"""Loops that add up products of matrices: factors are collected, and all iterations are one product."""

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ir.nodes import Reduce
from adcompiler.ir.walk import arrays_of
from adcompiler.kernels.emit.traffic import Time
from adcompiler.targets.cpu import kernels

RECURRENT = """def f(x: {0}[t, b, d], h: {0}[b, n], w: {0}[d, n], u: {0}[n, n]):
    s = 0.0
    for k in range(t):
        z = sigmoid(x[k] @ w + h @ u)
        h = (1 - z) * h + z * tanh((z * h) @ u)
        if k > 1:
            s += sum(h * x[k, 0, 0])
    return sum(h * h) + s"""
RANDOM = np.random.default_rng(5)


def arguments(t, b, d, n, dtype=np.float64):
    shapes = (t, b, d), (b, n), (d, n), (n, n)
    return [(RANDOM.normal(size=shape) / 2).astype(dtype) for shape in shapes]


@pytest.mark.slow
def test_gradients_are_those_of_the_reference():
    f, slow = (adc.compile(RECURRENT.format("f64"), backend=b) for b in ("cpu", "numpy"))
    for lengths in ((6, 3, 2, 4), (1, 1, 1, 1), (4, 1, 3, 2), (0, 2, 2, 3), (24, 16, 20, 18)):
        args = arguments(*lengths)
        for found, expected in zip(adc.grad(f)(*args), adc.grad(slow)(*args), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        for found, expected in zip(adc.hvp(f)(args, args), adc.hvp(slow)(args, args), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_they_agree_with_finite_differences():
    adc.check_grad(adc.compile(RECURRENT.format("f64")), *arguments(4, 2, 2, 3))


def test_float32():
    f, exact = adc.compile(RECURRENT.format("f32")), adc.compile(RECURRENT.format("f64"))
    args = arguments(9, 4, 3, 5, np.float32)
    for found, expected in zip(
        adc.grad(f)(*args), adc.grad(exact)(*(a.astype(float) for a in args)), strict=True
    ):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_the_gradient_of_weights_is_one_sum_over_iterations_and_cases():
    gradient = adc.grad(adc.compile(RECURRENT.format("f64")))
    args = arguments(5, 3, 2, 4)
    func = gradient._trace(gradient._describe(args, {})[0]).func
    sums = [a for a in arrays_of(func.roots) if isinstance(a, Reduce) and a.op == "sum" and a.rank == 2]
    assert [len(a.reduced) for a in sums] == [2, 2, 2]  # x @ w, h @ u, (z * h) @ u


GATES = """def f(x: f64[t, b, d], h: f64[b, n], w: f64[2, d, n], u: f64[2, n, n]):
    for k in range(t):
        z = sigmoid(x[k] @ w[0] + h @ u[0])
        h = (1 - z) * h + z * tanh(x[k] @ w[1] + (z * h) @ u[1])
    return sum(h * h)"""


@pytest.mark.slow
def test_so_are_those_of_weights_at_fixed_places_of_one_array():
    x, h, w, u = arguments(5, 3, 2, 4)
    args = x, h, np.stack([w, w + 0.1]), np.stack([u, u * 0.5])
    gradient = adc.grad(adc.compile(GATES))
    func = gradient._trace(gradient._describe(args, {})[0]).func
    sums = [a for a in arrays_of(func.roots) if isinstance(a, Reduce) and a.op == "sum" and a.rank == 2]
    assert [len(a.reduced) for a in sums] == [2, 2, 2, 2]
    slow = adc.compile(GATES, backend="numpy")
    for found, expected in zip(gradient(*args), adc.grad(slow)(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    for found, expected in zip(
        adc.hvp(adc.compile(GATES))(args, args), adc.hvp(slow)(args, args), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


READER = """def f(x: f64[t, d], w: f64[d, n], u: f64[n, n], v: f64[n, m]):
    s = zeros(n)
    total = 0.0
    for k in range(t):
        s = tanh(x[k] @ w + s @ u)
        total += logsumexp(s @ v) if x[k, 0] < 1.0 else sum(s)
    return total"""


def sequences(t, d, n, m):
    return [RANDOM.normal(size=shape) / 4 for shape in ((t, d), (d, n), (n, n), (n, m))]


def products(f, *args):
    """Of a call: the program with products of loops outside of them, and whether they are."""
    f(*args)
    bound = f._bind(args)
    program = bound.program.executable.program(bound.program.executable.known(bound.sizes))
    apart = program.apart
    return apart, apart is not None and apart.loops <= set(program.chosen(bound.sizes))


def test_products_of_all_iterations(monkeypatch):
    """Of a value: before the loop and after it. Of its gradient: also of cotangents."""
    monkeypatch.setattr(kernels._Program, "time", lambda *given: Time(0.0, 0.0))
    monkeypatch.setattr(kernels, "FEWEST_LOOP_POINTS", 0)
    f, slow = (adc.compile(READER, backend=b) for b in ("cpu", "numpy"))
    args = sequences(90, 17, 24, 19)
    for derive, count in ((lambda f: f, 2), (adc.grad, 4)):
        apart, outside = products(derive(f), *args)
        assert len(apart.loops) == count
        assert outside
        found, expected = (np.concatenate([np.ravel(a) for a in tree(derive(g)(*args))]) for g in (f, slow))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    args = sequences(40, 3, 4, 2)  # too small
    assert not products(f, *args)[1]


def tree(results):
    return results if isinstance(results, tuple) else (results,)


def test_loops_in_segments_keep_their_budget():
    f = adc.compile(READER, memory=4096)
    assert products(adc.grad(f), *sequences(90, 17, 24, 19))[0] is None


def test_many_iterations_keep_their_products(monkeypatch):
    """Arrays over all iterations of a long loop would need too much memory."""
    monkeypatch.setattr(kernels._Program, "time", lambda *given: Time(0.0, 0.0))
    monkeypatch.setattr(kernels, "FEWEST_LOOP_POINTS", 0)
    monkeypatch.setattr(kernels, "MOST_STORED", 1000)
    assert not products(adc.compile(READER), *sequences(90, 17, 24, 19))[1]
