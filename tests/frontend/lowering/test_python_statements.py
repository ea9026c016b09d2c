"""Statements and operators that numerical Python uses: raise and assert, `in`, `else` of loops, `f(*args)`,
`x.sort()` and `x.fill(v)`, conversions to types."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adcompiler as adc

SOURCE = """
def f(x, k: i64, tolerance):
    if x.ndim not in (1, 2):
        raise ValueError("x has rank 1 or 2")
    assert tolerance > 0, "tolerance must be positive"
    s = 0.0
    for i in range(len(x)):
        if x[i] < 0:
            raise ValueError("negative")
        if x[i] > 5:
            s += x[i]
            break
        s += sqrt(x[i])
    else:
        s *= 10
    y = s
    while y > tolerance:
        y = y / 2
    else:
        y += 1
    if k in (1, 2) or k in x:
        s = -s
    if s > 100:
        t = s
    elif s < 50:
        t = 2 * s
    else:
        raise RuntimeError("in between")
    pair = (t, y)
    if t < 1000:
        return max(*pair) + t
    raise NotImplementedError
"""
# What raises nothing: with and without a break, both sides of each condition.
FINE = [([3.0, 2.0], 5), ([3.0, 2.0], 1), ([1.0, 6.0, 4.0], 3), ([1.0, 200.0, 4.0], 0), ([], 3)]
RAISES = [
    (np.ones((1, 1, 1)), 1, 1.0, ValueError, "ValueError: x has rank 1 or 2", 4),
    (np.ones(2), 1, 0.0, adc.Error, "AssertionError: tolerance must be positive", 5),
    (-np.ones(2), 1, 1.0, ValueError, "ValueError: negative", 9),
    (np.full(4, 4.0), 3, 1.0, adc.Error, "RuntimeError: in between", 28),
    (np.full(1, 2000.0), 3, 1.0, adc.Error, "NotImplementedError", 32),
]


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("x", "k"), FINE)
def test_values_are_pythons_and_derivatives_those_of_the_branch_taken(x: list[float], k: int) -> None:
    f = adc.compile(SOURCE)
    args = np.array(x), k, 1.5
    namespace = {"sqrt": np.sqrt}
    exec(SOURCE.replace("k: i64", "k"), namespace)
    assert_allclose(f(*args), namespace["f"](*args), rtol=1e-14)
    assert adc.check_grad(f, *args, order=2, wrt="x") < 1e-6
    at_an_element = np.array([3.0, 2.0]), 3, 1.5
    assert_allclose(f(*at_an_element), namespace["f"](*at_an_element), rtol=1e-14)


@pytest.mark.parametrize(("x", "k", "tolerance", "kind", "cause", "line"), RAISES)
def test_a_call_that_reaches_a_raise_is_refused(x, k, tolerance, kind, cause, line) -> None:
    for f in (adc.compile(SOURCE), adc.grad(adc.compile(SOURCE, backend="numpy"), "x")):
        with pytest.raises(kind) as caught:
            f(x, k, tolerance)
        assert (caught.value.cause, caught.value.line) == (cause, line)


def test_stores_of_methods_and_conversions() -> None:
    f = adc.compile("""
def f(x):
    T = type(x[0])
    y = np.empty(len(x), x.dtype)
    y.fill(T(0.5) + x[0])
    z = x.copy()
    z.sort()
    z[1:] = np.round(z[1:], 2).astype(np.float64)
    k = (2 * x[1:]).astype(int)
    empty = np.empty_like(z, dtype=np.float32)
    return np.sum(y * z[0]) * np.float64(2) + k[0] - 2 + np.int64(x[0]) + empty[0]
""")
    x = np.array([1.5, 1.25, 3.0])
    assert_allclose(f(x), 3 * 2.0 * 1.25 * 2 + 1)
    assert adc.check_grad(f, x, order=2) < 1e-6
    assert adc.grad(f)(x.astype(np.float32)).dtype == np.float32


# A Python int is an integer where the program needs one, directly or through other names and functions.
COUNTS = """
def total(x, m):
    return sum(x[i] for i in range(m))

def f(x, n, p):
    last = n - 1
    y = zeros(n)
    for i in range(last):
        y[i] = x[i] ** p
    return total(y, last)
"""


def test_python_ints_count_and_are_floats_otherwise() -> None:
    f, x = adc.compile(COUNTS), np.array([1.5, 2.0, 3.0])
    for _ in range(2):  # the second call goes through the cache
        assert_allclose(f(x, 3, 2), 1.5**2 + 2.0**2)
    assert_allclose(f(x, 2, 3), 1.5**3)
    slopes = adc.grad(f)(x, 3, 2)  # of x and p: n is an integer
    assert_allclose(slopes[0], [3.0, 4.0, 0.0])
    assert_allclose(slopes[1], 1.5**2 * np.log(1.5) + 2.0**2 * np.log(2.0))
    assert adc.check_grad(f, x, 3, 2, order=2) < 1e-6
    assert_allclose(adc.vmap(adc.grad(f, "x"), (0, None, None))(np.stack([x, x]), 3, 2), [slopes[0]] * 2)
    assert_allclose(adc.jvp(f, (x, 3, 2), (x, None, None))[1], slopes[0] @ x)
    pick = adc.compile("x[k]", args="x, k")
    assert (pick(x, 1), pick(x, -1)) == (2.0, 3.0)
    with pytest.raises(adc.DtypeError, match="an index must be an integer"):
        pick(x, 1.5)


def test_shapes_are_compared():
    """At each call, with lengths that are known there."""
    f = adc.compile("""def f(x, y):
    assert x.shape == (2, 3), "two rows"
    assert x.shape == y.T.shape
    return sum(x)""")
    x = np.ones((2, 3))
    assert f(x, x.T) == 6
    for given, line in (((x.T, x), 2), ((x, x), 3), ((x, np.ones(3)), 3)):
        with pytest.raises(adc.Error, match="AssertionError") as found:
            f(*given)
        assert found.value.line == line
    assert adc.compile("sum(x) if x.shape != (3,) else 0.0")(np.ones(2)) == 2
