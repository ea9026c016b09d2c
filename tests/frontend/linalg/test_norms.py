"""Norms and standard deviations where squares overflow, underflow or are 0."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

BACKENDS = ("cpu", "numpy")
FORMS = {
    "whole": "norm(x)",
    "rows": "sum(norm(x[None, :], axis=1))",
    "comprehension": "sum(norm(x * one[i]) for i in range(1))",
    "computed": "norm(x * 2.0 - x)",
}
SIZES = {
    np.float64: (1e-250, 1e-200, 1e-160, 1e-100, 1e-30, 1.0, 1e30, 1e100, 1e160, 1e200, 1e250),
    np.float32: (1e-30, 1e-20, 1e-12, 1.0, 1e12, 1e20, 1e30),
}
DIRECTION = np.array([0.6, -0.3, 0.1, 0.0, 0.4])
LENGTH = np.sqrt(np.sum(DIRECTION**2))


def norm(form, backend="cpu"):
    return adc.compile(f"def f(x, one):\n    return {FORMS[form]}", backend=backend)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_norms_of_tiny_and_huge_elements(form, dtype, backend):
    """The value, the gradient u = x / |x|, and the Hessian (I - u uᵀ) / |x|: exact to some roundings."""
    f, one = norm(form, backend), np.ones(1, dtype)
    u, near = DIRECTION / LENGTH, 20 * float(np.finfo(dtype).eps)
    gradient, hessian = adc.grad(f, "x"), adc.hessian(f, "x")
    for size in SIZES[dtype]:
        x = (DIRECTION * size).astype(dtype)
        length = LENGTH * size
        assert f(x, one) == pytest.approx(length, rel=near)
        np.testing.assert_allclose(gradient(x, one), u, rtol=near)
        expected = (np.eye(5) - np.outer(u, u)) / length
        found = hessian(x, one)
        np.testing.assert_allclose(found, expected, rtol=near, atol=near / length)


@pytest.mark.thinned(4)
@pytest.mark.slow_when(lambda backend, source: backend == "cpu" and source == "std(x)")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", ["norm(x)", "std(x)", "sum(norm(x[i] * x) for i in range(3))"])
def test_all_derivatives_at_zero_are_zero(source, backend):
    f, zero = adc.compile(f"def f(x):\n    return {source}", backend=backend), np.zeros(3)
    assert f(zero) == 0
    np.testing.assert_array_equal(adc.grad(f)(zero), zero)
    np.testing.assert_array_equal(adc.hessian(f)(zero), np.zeros((3, 3)))
    np.testing.assert_array_equal(adc.hessian(f, sparse=True)(zero).toarray(), np.zeros((3, 3)))
    np.testing.assert_array_equal(adc.hvp(f)((zero,), np.ones(3)), zero)


def test_zero_rows_among_others():
    """A row of zeros has no say in the derivatives of the others."""
    f = adc.compile("def f(x):\n    return sum(norm(x, axis=1) ** 3 + std(x, axis=1))")
    x = np.array([[0.3, -0.2, 0.9], [0.0, 0.0, 0.0], [1e-200, 3e-200, 0.0]])
    found, alone = adc.hessian(f)(x), adc.hessian(f)(x[:1])
    np.testing.assert_allclose(found[0, :, 0], alone[0, :, 0], rtol=1e-14)
    np.testing.assert_array_equal(found[1], np.zeros((3, 3, 3)))
    assert np.isfinite(adc.grad(f)(x)).all()


@pytest.mark.slow_when(lambda size: 1e-200 < size < 1e200)
@pytest.mark.parametrize("size", [1e-200, 1e-160, 1.0, 1e160, 1e200])
def test_deviations_scale_with_their_elements(size):
    f, x = adc.compile("def f(x):\n    return std(x)"), DIRECTION
    assert f(x * size) == pytest.approx(np.std(x) * size, rel=1e-14)
    np.testing.assert_allclose(adc.grad(f)(x * size), adc.grad(f)(x), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(adc.hessian(f)(x * size) * size, adc.hessian(f)(x), rtol=1e-12, atol=1e-14)


@pytest.mark.thinned(9)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "source",
    [
        "sum(norm(x, axis=0))",
        "sum(norm(x, axis=1, keepdims=True) * x)",
        "norm(x, axis=(0, 1)) + norm(x[0, 0])",
        "sum(x.std(axis=0) * norm(x))",
        "sum(exp(-norm(x[i] - x[j] - 0.2)) for i in range(len(x)) for j in range(len(x)))",
        "sum(std(x[i]) for i in range(len(x)))",
    ],
)
def test_norms_over_axes(source, backend, dtype):
    x = np.random.default_rng(1).uniform(0.5, 1.5, (4, 3)).astype(dtype)
    f = adc.compile(f"def f(x):\n    return {source}", backend=backend)
    adc.check_grad(f, x, order=2)


@pytest.mark.slow_when(lambda memory: memory is None)
@pytest.mark.parametrize("memory", [50, None])
def test_norms_in_loops_and_of_functions_of_derivatives(memory):
    source = """
def f(x):
    y = x
    for i in range(5):
        y = y * x / (norm(y) + std(y)) + sin(y)
    return norm(y)
"""
    x = np.random.default_rng(1).uniform(0.5, 1.5, 4)
    adc.check_grad(adc.compile(source, memory=memory), x, order=1)
    f = adc.compile("def cube(y):\n    return norm(y)**3\n\ndef f(x):\n    return norm(grad(cube)(x))")
    np.testing.assert_allclose(f(x), 3 * np.sum(x**2), rtol=1e-13)


def test_no_elements_and_no_numbers():
    f = adc.compile("def f(x):\n    return norm(x)")
    assert f(np.zeros(0)) == 0
    assert adc.grad(f)(np.zeros(0)).shape == (0,)
    assert np.isnan(f(np.array([1.0, np.nan])))
    assert f(np.array([1.0, np.inf])) == np.inf
    assert adc.compile("def f(x):\n    return norm(x, axis=1)")(np.zeros((0, 3))).shape == (0,)
    assert adc.compile("norm(x)")(np.array([3, 4])) == 5
    assert adc.compile("norm(x)")(-2.0) == 2
