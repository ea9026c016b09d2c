"""`adc.least_squares`: dense and sparse Jacobians, containers, and uncertainty."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy.sparse import issparse

import adcompiler as adc
from adcompiler.fit.least_squares import LOSSES

smooth = adc.compile(
    "def smooth(u, y, w): return u**3 - y, w * (u[:-2] - 2 * u[1:-1] + u[2:])", backend="numpy"
)


def test_large_jacobians_are_sparse_where_residuals_read_few_numbers():
    y = np.sin(np.linspace(0, 3, 300)) + 1.5
    large = adc.least_squares(smooth, np.ones(300), (y, 0.1))
    assert issparse(large.jac)
    assert large.success
    small = adc.least_squares(smooth, np.ones(40), (y[:40], 0.1))
    assert not issparse(small.jac)
    sparse = adc.least_squares(smooth, np.ones(40), (y[:40], 0.1), sparse=True)
    assert issparse(sparse.jac)
    assert sparse.cov == pytest.approx(small.cov, rel=1e-4, abs=1e-9)
    with pytest.raises(adc.LimitError, match="covariance matrix of 6000 parameters"):
        adc.least_squares(smooth, np.ones(6000), (np.ones(6000), 0.1)).cov  # noqa: B018


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_functions_of_numba(method):
    @njit
    def rosenbrock(x):
        r = np.zeros(2)
        r[0] = 10 * (x[1] - x[0] ** 2)
        r[1] = 1 - x[0]
        return r

    result = adc.least_squares(rosenbrock, [-1.2, 1.0], method=method)
    assert result.params == pytest.approx([1, 1])
    assert np.isinf(result.stderr).all()  # no residual is left to estimate errors from


def test_containers_and_bounds():
    f = adc.compile("def f(p, x, y): return p['a'] * x + p['b'][0] - y, p['b'][1] - 3", backend="numpy")
    x = np.arange(5.0)
    start = {"a": np.float32(1), "b": [0.0, 0.0], "name": "line"}
    result = adc.least_squares(
        f, start, (x, 2 * x + 1), bounds=({"a": 0, "b": None, "name": None}, {"a": 1.5, "b": 9, "name": None})
    )
    assert result.params["name"] == "line"
    assert type(result.params["a"]) is np.float32
    assert result.params["a"] == pytest.approx(1.5)
    assert result.params["b"] == pytest.approx([2, 3])


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives_of_losses(loss):
    """The second follows from the first, and the first gives SciPy's gradient."""
    z, h = np.array([0.1, 0.7, 1.4, 6.0]), 1e-6
    above, below = (LOSSES[loss](z + d)[0] for d in (h, -h))
    assert LOSSES[loss](z)[1] == pytest.approx((above - below) / (2 * h), abs=1e-8)
    given = (smooth, np.ones(20), (np.cos(np.arange(20.0)), 0.2))
    dense, sparse = (
        adc.least_squares(*given, loss=loss, f_scale=0.5, max_nfev=3, sparse=s) for s in (False, True)
    )
    slope = LOSSES[loss]((dense.fun / 0.5) ** 2)[0]
    jacobian = adc.jacobian(smooth, "u")(dense.x, *given[2])
    assert dense.grad == pytest.approx(np.concatenate(jacobian).T @ (dense.fun * slope))
    assert sparse.cov.shape == dense.cov.shape


def test_refusals():
    y = np.ones(5)
    for keywords, cause in (
        ({"loss": "hubr"}, "no loss 'hubr'"),
        ({"method": "gn"}, "no method 'gn'"),
        ({"method": "lm", "bounds": (0, 2)}, "takes no bounds"),
        ({"method": "lm", "loss": "huber"}, "takes no loss"),
        ({"bounds": (2, 1)}, r"bounds of number 0 are \(2.0, 1.0\)"),
        ({"sparse": True, "method": "lm"}, "sparse=True does not fit"),
        ({"args": (y[:3], 1.0)}, "the lengths 5 .* and 3 .* differ"),
    ):
        with pytest.raises(adc.Error, match=cause):
            adc.least_squares(smooth, np.ones(5), **{"args": (y, 1.0), **keywords})
    with pytest.raises(adc.Error, match="the Jacobian of f is not finite at the start"):
        adc.least_squares(adc.compile("def f(x): return sqrt(x)"), 0.0)
    loops = adc.compile(
        "def f(x):\n    for i in range(1, len(x)):\n        x[i] = x[i]**2 + x[i - 1]\n    return x"
    )
    with pytest.raises(adc.LimitError, match="would have 144000000 entries"):
        adc.least_squares(loops, np.ones(12000))
