"""`adc.dask.vjp`, `adc.dask.jvp` and Jacobians of chunked arrays equal those on one machine."""

from __future__ import annotations

import numpy as np
import pytest
from interop.dask.cases import X, assert_near, bits, chunked, computed, interpreted, w, x

import adcompiler as adc

da = pytest.importorskip("dask.array", reason="needs dask[array]")

SOURCE = """
def f(X, w, k: i64):
    r = tanh(X @ w)
    return r, log(sum(r**2)) * k, len(r) + k
"""
ROWS = np.cos(x)


@pytest.mark.parametrize(
    ("cotangent", "lazy"),
    [
        ((ROWS, 2.0, None), (da.from_array(ROWS, 5), 2.0, None)),
        ((ROWS, None, None), (ROWS, None, None)),
        ((None, 1.0, None), (None, da.asarray(1.0), None)),
    ],
    ids=["both", "of the rows", "of the sum"],
)
def test_the_pullback_of_cotangents(cotangent, lazy):
    f = interpreted(SOURCE)
    value, pullback = adc.vjp(f, X, w, 3)
    found, lazily = adc.dask.vjp(f, *chunked((X, w)), 3)
    assert [np.shape(a) for a in found] == [(33,), (), ()]
    assert_near(computed(found[:2]), value[:2])
    assert_near(computed(lazily(lazy)), pullback(cotangent))


def test_what_a_result_does_not_depend_on_has_zeros():
    f = interpreted("def f(x, a):\n    return x**2, a * 2.0")
    _, pullback = adc.dask.vjp(f, da.from_array(x, 7), 0.5)
    slope, zero = computed(pullback((ROWS, None)))
    assert_near(slope, 2 * x * ROWS)
    assert zero == 0.0


@pytest.mark.parametrize("tangents", [(np.sin(X), w), (None, w), (np.sin(X), None)])
def test_a_derivative_along_tangents(tangents):
    f = interpreted("def f(X, w):\n    return X @ w, log(sum(exp(X @ w)))")
    expected = adc.jvp(f, (X, w), tangents)
    assert_near(computed(adc.dask.jvp(f, tuple(chunked((X, w))), tangents)), expected)
    lazy = tuple(None if t is None else da.from_array(t, 4) for t in tangents)
    assert_near(computed(adc.dask.jvp(f, tuple(chunked((X, w))), lazy)), expected)


def test_containers_and_float32():
    f = interpreted("def f(p, x):\n    return sum(exp(p['a'] * x) + p['b'])")
    p = {"a": np.float32(0.3), "b": np.float32(0.2)}
    lazy, here = da.from_array(x.astype("f4"), 7), x.astype("f4")
    tangent = {"a": np.float32(1), "b": None}
    assert_near(
        computed(adc.dask.jvp(f, (p, lazy), (tangent, None))), adc.jvp(f, (p, here), (tangent, None)), "f4"
    )
    slopes = computed(adc.dask.vjp(f, p, lazy, wrt="p")[1](1.0))[0]
    expected = adc.vjp(f, p, here, wrt="p")[1](1.0)[0]
    assert_near(tuple(slopes.values()), tuple(expected.values()), "f4")


def test_jacobians_are_functions_as_any_other():
    f = adc.jacobian(interpreted("def f(X, w):\n    return X @ w, sum(exp(X @ w))"), "w")
    assert_near(computed(f(*chunked((X, w)))), f(X, w))


def test_the_same_bits_for_any_number_of_threads():
    f = adc.compile(SOURCE)
    _, pullback = adc.dask.vjp(f, *chunked((X, w), 2), 3)
    lazy = pullback((ROWS, 1.0, None))
    dask = pytest.importorskip("dask")
    one, four = (dask.compute(lazy, scheduler="threads", num_workers=n)[0] for n in (1, 4))
    assert bits(one) == bits(four)


def test_what_does_not_fit_is_refused_before_anything_runs():
    f = interpreted(SOURCE)
    args = (*chunked((X, w)), 3)
    _, pullback = adc.dask.vjp(f, *args)
    for wrong in ((ROWS[:5], None, None), (ROWS + 1j, None, None), (da.from_array(X, 7), None, None), ROWS):
        with pytest.raises(adc.ShapeError, match="cotangent"):
            pullback(wrong)
    with pytest.raises(adc.DtypeError, match="int64, which has no cotangent"):
        pullback((None, None, 1))
    with pytest.raises(adc.ShapeError, match="tangent of X"):
        adc.dask.jvp(f, args, (X[:4], None, None))
    with pytest.raises(adc.Error, match="k"):
        adc.dask.jvp(f, args, (None, None, 1))
    with pytest.raises(adc.ShapeError, match="tangent of x"):
        adc.dask.hvp(interpreted("def f(x):\n    return sum(x**3)"))((args[0][:, 0],), x[:4])
