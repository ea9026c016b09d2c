"""Loops inside of loops whose results reach each other: what one no longer needs, the others do not read."""

import numpy as np
import pytest
from numba import njit

import adcompiler as adc


@njit
def bounded(sigma2, var_bounds):
    if sigma2 < var_bounds[0]:
        sigma2 = var_bounds[0]
    elif sigma2 > var_bounds[1]:
        if not np.isinf(sigma2):
            sigma2 = var_bounds[1] + np.log(sigma2 / var_bounds[1])
        else:
            sigma2 = var_bounds[1] + 1000
    return sigma2


@njit
def garch(parameters, fresids, sresids, sigma2, p, o, q, nobs, backcast, var_bounds):
    for t in range(nobs):
        loc = 0
        sigma2[t] = parameters[loc]
        loc += 1
        for j in range(p):
            if t - 1 - j < 0:
                sigma2[t] += parameters[loc] * backcast
            else:
                sigma2[t] += parameters[loc] * fresids[t - 1 - j]
            loc += 1
        for j in range(o):
            if t - 1 - j < 0:
                sigma2[t] += parameters[loc] * 0.5 * backcast
            else:
                sigma2[t] += parameters[loc] * fresids[t - 1 - j] * (sresids[t - 1 - j] < 0)
            loc += 1
        for j in range(q):
            if t - 1 - j < 0:
                sigma2[t] += parameters[loc] * backcast
            else:
                sigma2[t] += parameters[loc] * sigma2[t - 1 - j]
            loc += 1
        sigma2[t] = bounded(sigma2[t], var_bounds[t])
    return sigma2


@pytest.mark.slow
def test_a_recursion_with_three_inner_loops_has_second_derivatives():
    """The loops are pruned until each carries only what the others, pruned as well, need of it."""
    random = np.random.default_rng(0)
    residuals = random.normal(size=5)
    bounds = np.column_stack([np.full(5, 1e-6), np.full(5, 1e6)])
    data = residuals**2, np.sign(residuals), np.zeros(5), 1, 0, 1, 5, 1.0, bounds
    f = adc.function(garch, backend="numpy")
    assert adc.check_grad(f, np.array([0.1, 0.1, 0.8]), *data, order=2, wrt=0) < 1e-6


def test_library_routines_in_inner_loops():
    """A sort in an inner loop counts among what the outer iteration might compute again."""
    source = """
    def f(x: f64[n], w):
        for i in range(1, n):
            for k in range(n):
                w += w * tanh(quantile(x[k % n :: -1], 0.3)) / i
        return w"""
    adc.check_grad(adc.compile(source, backend="numpy"), np.array([0.3, 0.5, -0.7]), 0.4, order=2)


@pytest.mark.parametrize("x", [[0.3], [0.3, 0.5, -0.7]])
def test_sums_of_products_with_inner_loops(x):
    """What an iteration adds to the gradient of x is a product of two loops; of one element, a number."""
    source = """
    def f(x: f64[n], w, k: i64):
        s = 0.5
        for i in range(k):
            for q in range(k):
                s = cos(tanh(sum(cumsum(x[i % n :]) * x[i % n :])) + w)
                w = tanh(s)
        return s"""
    adc.check_grad(adc.compile(source, backend="numpy"), np.array(x), 0.4, 3)


SHARED = {
    "a part of an array": "x[1:] *= max(y[-1, -1], 0.1)",
    "an element, then all": "x[0] += 0.1 * y[1, 0]\n            x *= 0.1 * y[1, 0]",
    "a row": "x[1:] *= y[0, 1:]",
}


@pytest.mark.parametrize("statement", SHARED.values(), ids=SHARED)
def test_sums_that_are_added_at_places(statement):
    """The gradient of y[-1, -1] adds up a sum in each iteration, at one place of an array."""
    source = f"""
    def f(x: f64[n], y: f64[m, n]):
        s = 0.0
        for v in x:
            s += 0.5 * v
            {statement}
        return s + sum(x)"""
    x, y = np.array([0.6, 0.3, -0.7]), np.array([[0.3, 0.5, -0.7], [0.4, -0.2, 0.8]])
    adc.check_grad(adc.compile(source, backend="numpy"), x, y, order=2)
