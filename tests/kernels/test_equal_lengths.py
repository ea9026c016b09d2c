"""Lengths that may differ, and are equal in most calls: two programs, one for either."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.codegen.cpu import Compiled
from adcompiler.codegen.kernels import kernel_at

SOURCE = """
def f(x: f64[n, d], scale, a):
    return sum(a[i] * exp(-sum(((x[i, k] - x[j, k]) / scale[k])**2 for k in range(d))) * a[j]
               for i in range(n) for j in range(n))
"""
EXPONENTIALS = "def f(a, b, c):\n    return logsumexp(a[i] * b[i] + c[i] for i in range(len(a)))"
LENGTHS = [(5, 3, 3, 5), (5, 3, 4, 5), (5, 3, 3, 7), (5, 3, 6, 9), (2, 1, 1, 2), (4, 4, 4, 4), (1, 3, 3, 1)]


def arguments(n: int, d: int, scales: int, weights: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, d)), rng.uniform(1.0, 2.0, scales), rng.normal(size=weights)


def kernel(f: adc.Function, args: tuple[np.ndarray, ...]) -> Compiled:
    """The kernel of a call."""
    program = f.specialise(f._last)
    found = kernel_at(program.executable, program.sizes(args))
    assert isinstance(found, Compiled)
    return found


def test_elements_of_an_array_of_an_equal_length_are_there():
    f = adc.grad(adc.compile(SOURCE))
    equal, longer = arguments(5, 3, 3, 5), arguments(5, 3, 4, 6)
    f(*equal), f(*longer)
    assert " if i" in kernel(f, longer).kernel.text
    assert " if i" not in kernel(f, equal).kernel.text


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_lengths_that_come_in_turn(backend):
    """Values, gradients and products with the Hessian are those of the reference for lengths one by one."""
    f = adc.compile(SOURCE, backend=backend)
    gradient, product = adc.grad(f), adc.hvp(f)
    for lengths in LENGTHS:
        args = arguments(*lengths)
        way = tuple(np.ones_like(a) for a in args)
        slow = adc.compile(SOURCE, backend="numpy")
        np.testing.assert_allclose(f(*args), slow(*args), rtol=1e-12)
        for one, other in zip(gradient(*args), adc.grad(slow)(*args), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        for one, other in zip(product(args, way), adc.hvp(slow)(args, way), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_gradients_by_what_nobody_reads_are_zero():
    x, scale, a = arguments(5, 3, 4, 7)
    _, by_scale, by_a = adc.grad(adc.compile(SOURCE))(x, scale, a)
    np.testing.assert_array_equal(by_scale == 0, [False, False, False, True])
    np.testing.assert_array_equal(by_a == 0, [False] * 5 + [True] * 2)


@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 6, 5), (5, 5, 8)])
def test_finite_differences(lengths):
    args = [np.random.default_rng(0).normal(size=n) for n in lengths]
    adc.check_grad(adc.compile(EXPONENTIALS), *args, order=2)


def test_shorter_arrays_are_still_refused():
    f = adc.compile(EXPONENTIALS)
    f(*np.ones((3, 4)))
    with pytest.raises(adc.OutOfRangeError):
        f(np.ones(4), np.ones(3), np.ones(4))
