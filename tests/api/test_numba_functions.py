"""Functions of numba as they are: values are numba's, derivatives agree with finite differences."""

from __future__ import annotations

import math
import math as m
import pickle
import sys
from math import erf as _erf
from typing import Any

import numba as nb
import numpy as np
import numpy.linalg as la
import pytest
from numba import cfunc, guvectorize, njit, prange, stencil, vectorize
from numpy.testing import assert_allclose, assert_array_equal

import adcompiler as adc

here, _range = sys.modules[__name__], prange
SCALE = 2.0
TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])
X = np.array([0.3, -0.7, 1.2, 0.5])


@njit
def weighted(x, w=TABLE):
    return w[0, 1] * x * math.exp(-x)


@njit(parallel=True, fastmath=True, locals={"total": nb.float64})
def energy(x):
    total = 0.0
    y = np.empty_like(x)
    for i in prange(len(x)):
        y[i] = weighted(x[i]) + SCALE
    for i in nb.prange(len(y)):
        if y[i] < 0:
            continue
        total += y[i] ** 2
    return total


@njit
def steps(x, tolerance=1e-12):
    if x.ndim != 1:
        raise ValueError("x must be a vector")
    first, second = x[0] ** 2 + 1.0, 0.0
    for _ in range(50):
        second = 0.5 * (first + 2.0 / first)
        if abs(second - first) < tolerance:
            return second, x[::-1]
        first = second
    return first, x


@vectorize
def leaky(x, slope):
    if x > 0:
        return x * x
    return slope * math.sin(x)


# numba compiles functions with declared types where they are defined: these are in the tests.


@pytest.mark.slow
def test_every_transform_takes_a_function_of_numba() -> None:
    value, gradient = adc.value_and_grad(energy)(X)
    assert_allclose(value, energy(X), rtol=1e-14)
    assert_allclose(gradient, adc.grad(energy)(X))
    assert adc.check_grad(energy, X, order=2) < 1e-6
    hessian = adc.hessian(energy)(X)
    assert_allclose(adc.jacobian(adc.grad(energy))(X), hessian)
    assert_allclose(adc.hvp(energy)((X,), X), hessian @ X)
    assert_allclose(adc.jvp(energy, (X,), (X,))[1], gradient @ X)
    assert_allclose(adc.vjp(energy, X)[1](2.0)[0], 2 * gradient)
    assert_allclose(adc.taylor(energy, (X,), (X,), 2)[2], X @ hessian @ X)
    assert_allclose(adc.vmap(energy)(np.stack([X, 2 * X])), [energy(X), energy(2 * X)])
    assert adc.function(energy)(X) == adc.compile(energy)(X) == value
    assert not adc.explain_nan(energy, X)


def test_a_transform_of_the_same_function_is_made_once() -> None:
    assert adc.grad(energy) is adc.grad(energy)


def test_functions_of_numba_call_each_other_and_are_called_by_decorated_ones() -> None:
    @cfunc("float64(float64)")
    def callback(x):
        return x**3

    @adc.function
    def outer(x):
        return energy(x) + np.sum(leaky(x, 0.1)) + callback(x[0])

    assert_allclose(outer(X), energy(X) + leaky(X, 0.1).sum() + X[0] ** 3)
    assert adc.check_grad(outer, X) < 1e-6


def test_closures_and_functions_as_constants() -> None:
    def made(f, offset):
        @njit
        def g(x):
            return f(x) + offset * x

        return g

    assert adc.grad(made(weighted, 3.0))(0.0) == 2.0 + 3.0


def test_renamed_functions_and_parts_of_modules() -> None:
    @njit
    def f(x):
        total = 0.0
        for i in _range(len(x)):
            total += m.sin(x[i]) + _erf(x[i]) * m.pi + here.SCALE * here.weighted(x[i])
        return total + la.norm(x)

    assert_allclose(adc.function(f)(X), f(X))
    assert adc.check_grad(f, X) < 1e-6


def test_tuples_early_returns_and_exceptions() -> None:
    root, flipped = adc.function(steps)(X)
    assert_allclose(root, steps(X)[0])
    assert_array_equal(flipped, X[::-1])
    assert adc.check_grad(steps, X, wrt="x") < 1e-6
    with pytest.raises(ValueError, match="x must be a vector"):
        adc.function(steps)(TABLE)


def test_vectorize_is_elementwise_and_broadcasts() -> None:
    column = np.array([[0.1], [0.2], [0.3]])
    f = adc.function(leaky)
    assert_allclose(f(X, column), leaky(X, column), rtol=1e-15)
    assert f(-0.5, 2.0) == leaky(-0.5, 2.0)
    assert_array_equal(f(X[:0], 1.0), leaky(X[:0], 1.0))
    assert adc.check_grad(leaky, X, column, order=2) < 1e-6
    assert_allclose(adc.grad(leaky, "x")(-0.5, 2.0), 2.0 * math.cos(-0.5))
    with pytest.raises(adc.ShapeError, match=r"the lengths 4 .* and 3"):
        f(X, np.ones(3))


@pytest.mark.slow
def test_guvectorize_returns_what_it_stores_and_maps_over_the_axes_in_front() -> None:
    @guvectorize(["void(f8[:], f8[:], f8[:])"], "(n),(n)->()")
    def inner(x, y, r):
        r[0] = 0.0
        for i in range(len(x)):
            r[0] += x[i] * y[i] ** 2

    @guvectorize(["void(f8[:], f8[:], f8[:], f8[:])"], "(n),()->(n),()")
    def scaled(x, factor, y, largest):
        for i in range(len(x)):
            y[i] = x[i] * factor[0]
        largest[0] = np.max(y)

    f, many = adc.function(inner), np.stack([X, 2 * X, 3 * X])
    assert_allclose(f(X, X), inner(X, X))
    assert_allclose(f(many, X), inner(many, X))
    assert_allclose(f(many[:, None], many), inner(many[:, None], many))
    assert_allclose(adc.grad(inner)(X, X), (X**2, 2 * X * X))
    assert adc.check_grad(inner, many, X, order=2) < 1e-6
    assert f(X[:0], X[:0]) == 0.0
    for one, other in zip(adc.function(scaled)(many, 2.0), scaled(many, 2.0), strict=True):
        assert_allclose(one, other)
    with pytest.raises(adc.ShapeError, match="takes arrays of rank 1 or more"):
        f(X, 1.0)


@njit
def step(x, v, dt):
    if dt == 0.0:
        return
    for i in range(len(x)):
        v[i] -= dt * math.sin(x[i])
    for i in range(len(x)):
        x[i] += dt * v[i]


@njit
def fill(out, value):
    out[:] = value


@njit
def simulate(start, count):
    x, v = start.copy(), np.empty(len(start))
    fill(v, start[0])
    for _ in range(count):
        step(x, v, 0.1)
    return np.sum(x**2 + v**2)


@pytest.mark.slow
def test_functions_that_store_in_their_arguments_return_what_they_store() -> None:
    x, v = X.copy(), 2 * X
    found = adc.function(step)(X, v, 0.1)
    step(x, v, 0.1)
    for one, other in zip(found, (x, v), strict=True):
        assert_allclose(one, other)
    assert_allclose(adc.function(simulate)(X, 5), simulate(X, 5))
    assert adc.check_grad(simulate, X, 5, order=2) < 1e-6
    assert_array_equal(adc.function(fill)(X[:0], 1.0), X[:0])


def test_what_a_call_stores_is_not_read_under_another_name() -> None:
    @njit
    def of_a_view(x):
        w = x[1:]
        fill(x, 1.0)
        return np.sum(w)

    @njit
    def of_a_row(m):
        fill(m[0], 1.0)
        return np.sum(m)

    with pytest.raises(adc.ParseError, match="w shares elements with out"):
        adc.grad(of_a_view)(X)
    with pytest.raises(adc.ParseError, match="stores in this argument, which is not a name"):
        adc.grad(of_a_row)


def test_types_of_a_signature() -> None:
    @njit("float32(float32, int64)")
    def power(x, n):
        y = x
        for _ in range(n - 1):
            y *= x
        return y

    slope = adc.grad(power)(np.float32(1.5), 3)
    assert slope.dtype == np.float32
    assert_allclose(slope, 3 * 1.5**2, rtol=1e-6)
    assert adc.function(power)(0.1, 3) == power(0.1, 3) != 0.1**3
    assert adc.grad(energy)(X.astype(np.float32)).dtype == np.float32


def test_a_gradient_goes_back_into_numba() -> None:
    slope = adc.grad(energy).jitted

    @njit
    def descend(x, rate, count):
        for _ in range(count):
            x = x - rate * slope(x)
        return x

    found = descend(X, 0.01, 20)
    assert energy(found) < energy(X)
    assert_allclose(found, descend.py_func(X, 0.01, 20))


@njit
def outside(x):
    try:
        y = 1 / x[0]
    except ZeroDivisionError:
        y = 0.0
    z = {0: y}
    for v in np.unique(x):
        y += np.random.rand() * v
    return y + missing(z[0]) + faulty(x)  # noqa: F821


@njit
def faulty(x):
    return np.linalg.eig(x)


CAUSES = [
    (0, "'try' is not part"),
    (4, "'{' is not part"),
    (5, "unknown function np.unique"),
    (6, "np.random.rand is not part"),
    (7, "unknown function 'missing'"),
    (12, "unknown function np.linalg.eig"),
]


def test_one_error_lists_all_lines_that_do_not_fit() -> None:
    with pytest.raises(adc.ParseError) as caught:
        adc.grad(outside)
    first = outside.py_func.__code__.co_firstlineno + 2
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.line == first
    assert [e.line - first for e in error.errors] == [line for line, _ in CAUSES]
    for one, (_, cause) in zip(error.errors, CAUSES, strict=True):
        assert cause in one.cause
        assert one.remedy
        assert "^" in str(one)
        assert str(one) in str(error)
    assert str(error).endswith("6 errors")


def neighbours():
    @stencil
    def neighbours(x):
        return x[-1] + x[1]

    return neighbours


def hidden():
    @vectorize(["float64(float64)"], target="parallel")
    def hidden(x):
        return x * x

    return hidden


def without_output():
    @guvectorize(["void(float64[:], float64[:])"], "(n),(m)")
    def without_output(x, y):
        y[0] = x[0]

    return without_output


def returning():
    @guvectorize("(n)->(n)")
    def returning(x, y):
        if len(x) == 0:
            return
        y[0] = x[0]

    return returning


REFUSED: list[tuple[Any, str, str]] = [
    (neighbours, "grad takes a compiled function, not a StencilFunc", "write the stencil as a loop"),
    (hidden, "not a ufunc", 'numba keeps no source for target="parallel"'),
    (without_output, "without_output has no output", "store in an output"),
    (returning, "a return in a gufunc", "store in an output"),
]


@pytest.mark.parametrize(("define", "cause", "remedy"), REFUSED, ids=[r[1] for r in REFUSED])
def test_what_has_no_source_or_no_result_is_refused(define: Any, cause: str, remedy: str) -> None:
    with pytest.raises(adc.Error) as caught:
        adc.grad(define())
    assert cause in caught.value.cause
    assert remedy in (caught.value.remedy or "")
