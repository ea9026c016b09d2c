"""Functions of numba that store in an argument and return a result too."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

import adcompiler as adc


@njit
def squares(x, out):
    s = 0.0
    for i in range(len(x)):
        out[i] = x[i] ** 2
        s += out[i]
    if s > 100:
        return s / 2
    return s


@njit
def itself(x, out):
    out[0] = x[0] * x[1]
    return out


@njit
def two(x, u, v):
    u[0] = x[0]
    v[1] = x[1]
    return x[0] * x[1], x[2]


@njit
def passed_on(x, w):
    return squares(x, w)


@njit
def assigned(x):
    out = np.zeros(len(x))
    s = squares(x, out)
    return s * out[1]


@njit
def alone(x):
    out = np.ones(len(x))
    squares(x, out)
    return np.sum(out**2)


@njit
def in_a_loop(x):
    out, total = np.zeros(len(x)), 0.0
    for k in range(3):
        total += squares(x * (k + 1), out)
        total = total + out[0]
    return total + squares(out, x.copy())


@njit
def in_a_branch(x):
    out = np.zeros(len(x))
    s = 1.0
    if x[0] > 0:
        s = squares(x, out)
    return s + out[2] ** 2


@njit
def through_another(x):
    w = np.zeros(len(x))
    s = passed_on(x, w)
    return s * w[1]


@njit
def several(x):
    u, v = np.zeros(3), np.zeros(3)
    a, b = two(x, u, v)
    return a * b + u.sum() * v.sum()


@njit
def the_array(x):
    out = np.zeros(len(x))
    y = itself(x, out)
    return y[0] + out[0]


def of_python(x):
    out = np.zeros(len(x))
    s = squares(x, out)
    return s * out[0]


X = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "f", [assigned, alone, in_a_loop, in_a_branch, through_another, several, the_array, of_python]
)
def test_values_are_those_of_numba(f):
    h = 1e-5
    slopes = [(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(3)]
    compiled = adc.function(f)
    assert compiled(X) == pytest.approx(f(X), rel=1e-14)
    np.testing.assert_allclose(adc.grad(f)(X), slopes, rtol=1e-7, atol=1e-8)
    assert adc.jvp(f, (X,), (np.ones(3),))[1] == pytest.approx(sum(slopes), rel=1e-7)
    curvature = (adc.grad(f)(X + h) - adc.grad(f)(X - h)) / (2 * h)
    np.testing.assert_allclose(adc.hvp(f)((X,), np.ones(3)), curvature, rtol=1e-6, atol=1e-7)
    assert adc.function(f)(X.astype(np.float32)) == pytest.approx(f(X), rel=1e-5)


@njit
def stores_in_the_array(x):
    out = np.zeros(len(x))
    y = itself(x, out)
    out[0] = 5.0
    return y[0]


@njit
def inside_of_an_expression(x):
    out = np.zeros(len(x))
    return squares(x, out) + out[0]


@pytest.mark.parametrize("f", [stores_in_the_array, inside_of_an_expression])
def test_names_that_share_elements_are_refused(f):
    with pytest.raises(adc.ParseError, match="shares") as caught:
        adc.function(f)(X)
    assert caught.value.remedy


@njit
def outside(x, out):
    out[0] = x[0] + {1: 2}[1]


@njit
def calls_outside(x):
    out = np.zeros(len(x))
    outside(x, out)
    return out[0]


def test_a_refused_procedure_is_one_error():
    with pytest.raises(adc.ParseError) as caught:
        adc.function(calls_outside)
    assert [error.cause for error in caught.value.errors] == [
        "'{' is not part of the language: sets and dict literals are not supported"
    ]
