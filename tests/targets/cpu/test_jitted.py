"""Compiled functions inside the user's own @njit code, and across processes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numba import njit

import adcompiler as adc


def test_a_gradient_descends_inside_njit():
    f = adc.compile("(x - 1)**2 + 3 * (y + 2)**2")
    slope, value = adc.grad(f).jitted, f.jitted

    @njit
    def descend(x, y, steps):
        for _ in range(steps):
            dx, dy = slope(x, y)
            x -= 0.1 * dx
            y -= 0.1 * dy
        return x, y, value(x, y)

    x, y, left = descend(0.0, 0, 100)
    assert (x, y, left) == pytest.approx((1.0, -2.0, 0.0), abs=1e-6)


@pytest.mark.slow
def test_arrays_and_several_results_inside_njit():
    both = adc.value_and_grad(adc.compile("sum((a + b) * b)"))
    inside = both.jitted

    @njit
    def user(a, b):
        value, (da, db) = inside(a, b)
        return value, da * 2, db

    a, b = np.arange(4.0), np.ones(4)
    value, (da, db) = both(a, b)
    got = user(a, b)
    assert got[0] == value
    np.testing.assert_array_equal(got[1], 2 * da)
    np.testing.assert_array_equal(got[2], db)
    single = user(a.astype(np.float32), 1.0)
    assert single[1].dtype == np.float32
    with pytest.raises(ValueError, match="axis 0 of b has a length that does not fit"):
        user(a, np.ones(3))


def test_called_from_python_it_is_the_function():
    f = adc.compile("x * y")
    assert f.jitted(2.0, 3.0) == 6.0


def test_functions_pickle_and_copy():
    scale = 3.0

    @adc.function
    def scaled(x):
        return scale * x**2

    for f in (scaled, adc.grad(scaled), adc.hessian(scaled)):
        f(1.5)
        for twin in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
            assert twin(1.5) == f(1.5)
            assert repr(twin) == repr(f)
