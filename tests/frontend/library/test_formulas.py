"""Functions of NumPy and SciPy that the prelude has as formulas, against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.special
from judges.numpy_functions import VALUES, kernels_agree, means_what_it_means_in_numpy, same

import adcompiler as adc

SOURCES = (
    """
np.ptp(m, axis=0); np.ptp(c, (0, 2), keepdims=True); np.nansum(m, 0); np.nanprod(v); np.nanmean(m, axis=1)
np.nanvar(c, 1); np.nanvar(v, ddof=1); np.nanmax(s, 0); np.nanmin(m, 1, keepdims=True)
np.corrcoef(m); np.corrcoef(v, v**2); np.corrcoef(m, None, False)
np.ediff1d(m); np.gradient(v); np.gradient(v, 0.5); np.gradient(m, axis=0); np.gradient(m[:, 1], v[:4]**3)
np.gradient(m, 2.0, axis=1, edge_order=2); np.gradient(m, v[:4]**3, axis=0, edge_order=2)
np.correlate(v, w); np.correlate(v, w, 'full'); np.correlate(v, w, mode='same')
np.atleast_1d(v); np.atleast_1d(v[0]); np.atleast_2d(v); np.atleast_2d(v[0]); np.atleast_3d(v)
np.atleast_3d(m); np.atleast_3d(v[0]); np.atleast_3d(c); np.flipud(c); np.fliplr(c)
np.rot90(m); np.rot90(c, 2); np.rot90(c, 3, (1, 2)); np.rot90(m, -1); np.rot90(m, 4)
np.rot90(c, 1, axes=(2, 0))
np.append(v, 1.0); np.append(m, n); np.append(m, m[:1], axis=0); np.append(c, c, -1)
np.insert(v, 2, 7.0); np.insert(m, 1, w, axis=0); np.insert(m, 1, 2.0, axis=1); np.insert(v, 0, 1.0)
np.delete(v, 2); np.delete(m, 1, axis=0); np.delete(v, -1); np.delete(v, -2)
np.dstack([m, 2 * m]); np.dstack((v, v)); np.r_[v, w, 1.0, 0:3]; np.r_[m, m]; np.c_[v, v**2]; np.c_[m, v[:4]]
np.c_[m, m]; np.nan_to_num(m); np.select([v > 1, v > 0], [v, v**2]); np.select([m > 0], [m], default=3.0)
np.polyval(w, v); np.polyval(v, m); np.vander(w); np.vander(v, 3); np.vander(w, increasing=True)
np.linalg.matrix_power(m[:3], 3); np.linalg.matrix_power(m[:3], 0) + m[:3]; np.linalg.matrix_power(m[:3], -2)
np.linalg.multi_dot([m, n, m]); np.linalg.multi_dot([m[:3], m[1:], m[:3]]); np.linalg.cond(m)
np.tri(4, 3, -1) * m; np.tri(4) @ m
np.linalg.norm(v, 3); np.linalg.norm(m, 0.5, 1); np.linalg.norm(v, -2); np.linalg.norm(m, 'nuc')
np.linalg.norm(m, 1); np.linalg.norm(m, -1); np.linalg.norm(m, np.inf); np.linalg.norm(m, -np.inf)
np.linalg.norm(m, 2); np.linalg.norm(m, -2); np.linalg.norm(c, 1, (0, 1))
np.linalg.norm(c, np.inf, (2, 0), True)
np.clip(v, a_min=0.0, a_max=1.0); np.clip(v, None, 0.5); np.clip(v, min=0.1); np.around(v, 1) * v
np.trace(c, 1); np.trace(m, offset=-1); np.geomspace(1.0, 8.0, 4) * m[:, 0]; np.logspace(0, 2, 3) * w
special.logsumexp(v, b=v**2); special.logsumexp(m, axis=0, b=w**2)
special.logsumexp(m, 1, b=exp(m), keepdims=True)
""".replace("\n", "; ")
    .strip("; ")
    .split("; ")
)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("source", SOURCES)
def test_a_function_means_what_it_means_in_numpy(source: str) -> None:
    """Value, shape and type, also for float32, and first and second derivatives."""
    means_what_it_means_in_numpy(source)


@pytest.mark.slow
def test_kernels_give_the_same() -> None:
    kernels_agree(SOURCES[::4])


PARTS = [
    "np.split(v, [2, 4])", "np.split(m, 2)", "np.split(m, 3, axis=1)", "np.array_split(v, 3)",
    "np.array_split(m, [1], 1)", "np.hsplit(v, 5)", "np.hsplit(m, 3)", "np.vsplit(m, 2)", "np.dsplit(c, 2)",
    "np.gradient(m)", "np.gradient(c, 1.0, 2.0, 0.5)",
]  # fmt: skip


@pytest.mark.thinned(3)
@pytest.mark.parametrize("source", PARTS)
def test_several_results(source: str) -> None:
    f = adc.compile(source, backend="numpy")
    args = [VALUES[p.name] for p in f._parameters]
    expected = eval(source, {"np": np, **VALUES})
    for one, other in zip(f(*args), expected, strict=True):
        same(one, other)
    adc.check_grad(f, *args)


X = np.array([1.5, np.nan, -2.0, 0.0, np.inf, -np.inf])


@pytest.mark.parametrize(
    "source",
    [
        "np.nan_to_num(x)", "np.nan_to_num(x, nan=1.0, posinf=9.0)", "np.isclose(x, x)",
        "np.isclose(x, x + 1e-9)", "np.isclose(x, x, equal_nan=True)", "np.allclose(x, x, equal_nan=True)",
        "np.nanmax(x)", "np.nanmean(x[:4])", "np.nanmin(x[1:2])", "np.nansum(x[:4])", "np.count_nonzero(x)",
        "np.nanvar(x[:4])", "np.digitize(x, x[2:5])",
        "np.digitize(x, x[2:5], right=True)", "np.clip(x, -1, None)",
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_values_that_are_not_finite(source: str) -> None:
    found = adc.compile(source, backend="numpy")(X)
    np.testing.assert_array_equal(found, eval(source, {"np": np, "x": X}))


def test_integers_and_empty_arrays() -> None:
    whole, none = np.arange(6).reshape(2, 3), np.zeros(0)
    for source in (
        "np.nan_to_num(x)",
        "np.append(x, 1)",
        "np.rot90(x)",
        "np.ptp(x)",
        "np.r_[x, x]",
        "np.delete(x, 1)",
    ):
        found, expected = adc.compile(source, backend="numpy")(whole), eval(source, {"np": np, "x": whole})
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    for source in (
        "np.nansum(x)",
        "np.append(x, x)",
        "np.flipud(x)",
        "np.allclose(x, x)",
        "np.c_[x, x]",
        "np.nan_to_num(x)",
    ):
        same(adc.compile(source, backend="numpy")(none), eval(source, {"np": np, "x": none}))


def test_cumulative_integrals() -> None:
    v, m = VALUES["v"], VALUES["m"]
    f = adc.compile(
        "cumulative_trapezoid(v), cumulative_trapezoid(m, v[:4], axis=0, initial=0)", backend="numpy"
    )
    same(f(v, m)[0], scipy.integrate.cumulative_trapezoid(v))
    same(f(v, m)[1], scipy.integrate.cumulative_trapezoid(m, v[:4], axis=0, initial=0))
    adc.check_grad(f, v, m, order=2)


def test_a_weighted_logsumexp_without_overflow() -> None:
    x, b = np.array([1e4, -np.inf, 3.0]), np.array([2.0, 0.0, 1.0])
    f = adc.compile("logsumexp(x, b=b)", backend="numpy")
    same(f(x, b), scipy.special.logsumexp(x, b=b))
    assert np.isnan(f(np.zeros(1), -np.ones(1)))
    np.testing.assert_allclose(adc.grad(f, "x")(x, b), [1.0, 0.0, 0.0])


def test_in_a_loop_and_a_condition() -> None:
    f = adc.compile("""
def f(x, y):
    total = 0.0
    for k in range(len(x)):
        if x[k, 0] > 0:
            total += np.linalg.norm(x[k], 3) * y
        else:
            total += np.gradient(x[k], y)[0] + np.ptp(np.append(x[k], y))
    return total
""")
    x = np.arange(24.0).reshape(6, 4) % 7 - 2.5
    expected = sum(
        np.linalg.norm(r, 3) * 0.7 if r[0] > 0 else np.gradient(r, 0.7)[0] + np.ptp(np.append(r, 0.7))
        for r in x
    )
    assert f(x, 0.7) == pytest.approx(expected)
    adc.check_grad(f, x + 0.01 * VALUES["c"].reshape(6, 4), 0.7, order=2)


MISTAKES = [
    ("np.split(x, 2)", "what remains of the axis", "array_split"),
    ("np.split(x, x)", "split: the positions are an array", "as a list"),
    ("np.gradient(x[:1])", "gradient: the axis", "more points"),
    ("np.gradient(x, edge_order=3)", "edge_order is 3", "write 1 or 2"),
    ("np.delete(x, [0, 1])", "delete of several positions", "a mask"),
    ("np.fliplr(x)", "fliplr of an array of rank 1", "rank 2 or more"),
    ("np.select([x > 1], [x, x])", "as many choices as conditions", "default"),
    ("np.linalg.norm(x[:, None], 3)", "no norm of the order 3", "'nuc'"),
    ("np.linalg.norm(x, x[0])", "no norm of this order", "sum(abs(x)**p)**(1 / p)"),
]


@pytest.mark.parametrize(("source", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source: str, cause: str, remedy: str) -> None:
    with pytest.raises(adc.Error, match=cause) as found:
        adc.compile(source, backend="numpy")(np.arange(5.0))
    assert remedy in str(found.value.remedy)
