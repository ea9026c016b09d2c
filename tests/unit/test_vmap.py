"""Many cases at once: what a loop over the cases gives, in one program."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

RANDOM = np.random.default_rng(2)
X, W = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=4)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_gradients_for_each_case(backend):
    f = adc.compile("sum(tanh(x * w)) + s", backend=backend)
    each = adc.vmap(adc.grad(f), (0, None, None))
    dx, dw, ds = each(X, W, 2.0)
    for k, x in enumerate(X):
        one = adc.grad(f)(x, W, 2.0)
        np.testing.assert_allclose(dx[k], one[0])
        np.testing.assert_allclose(dw[k], one[1])
    np.testing.assert_array_equal(ds, np.ones(6))


def test_any_axis_may_be_mapped():
    f = adc.compile("a @ x", backend="numpy")
    a = RANDOM.normal(size=(3, 6, 4))
    found = adc.vmap(f, (1, 0))(a, X)
    np.testing.assert_allclose(found, np.einsum("ibj,bj->bi", a, X))
    np.testing.assert_allclose(adc.vmap(f, (-2, 0))(a, X), found)


def test_maps_nest_and_are_differentiated():
    f = adc.compile("sum(x * x) * y", backend="numpy")
    table = adc.vmap(adc.vmap(f, (None, 0)), (0, None))(X, W)
    np.testing.assert_allclose(table, np.sum(X * X, 1)[:, None] * W)
    _, pullback = adc.vjp(adc.vmap(f, (0, None)), X, 2.0)
    np.testing.assert_allclose(pullback(np.ones(6))[0], 4 * X)


def test_one_case_and_no_case():
    f = adc.vmap(adc.compile("sum(x)", backend="numpy"))
    np.testing.assert_array_equal(f(np.ones((1, 3))), [3.0])
    assert f(np.ones((0, 3))).shape == (0,)


def test_what_does_not_fit_is_refused():
    f = adc.compile("x * y", backend="numpy")
    with pytest.raises(adc.ShapeError, match=r"vmap: the mapped axes: the lengths 6 .* and 4"):
        adc.vmap(f, 0)(X[:, 0], W)
    with pytest.raises(adc.ShapeError, match="multiply: axis -1 of its operands"):
        adc.vmap(f, (0, None))(X, np.ones(3))
    with pytest.raises(adc.ShapeError, match="maps no axis"):
        adc.vmap(f, None)(X, W)
    with pytest.raises(adc.ShapeError, match="no axis 0"):
        adc.vmap(f, 0)(X, 1.0)
    with pytest.raises(adc.Error, match="in_axes"):
        adc.vmap(f, (0,))
