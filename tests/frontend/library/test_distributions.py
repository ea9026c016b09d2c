"""SciPy's distributions: values against SciPy, also outside of the support; derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import adcompiler as adc
from adcompiler.frontend.library.distributions import DISTRIBUTIONS, METHODS

# The parameters of each distribution.
SHAPES = {
    "norm": {}, "t": {"df": 3.5}, "chi2": {"df": 3.0}, "beta": {"a": 2.5, "b": 1.5}, "gamma": {"a": 2.5},
    "invgamma": {"a": 2.5}, "f": {"dfn": 4.0, "dfd": 7.0}, "expon": {}, "lognorm": {"s": 0.6}, "halfnorm": {},
    "laplace": {}, "logistic": {}, "cauchy": {}, "gumbel_r": {}, "weibull_min": {"c": 1.7}, "rayleigh": {},
    "pareto": {"b": 2.5}, "uniform": {}, "poisson": {"mu": 2.2}, "binom": {"n": 5.0, "p": 0.3},
    "nbinom": {"n": 4.0, "p": 0.4}, "geom": {"p": 0.4}, "bernoulli": {"p": 0.3},
}  # fmt: skip
X = np.array([-np.inf, -40, -1.3, -1e-9, 0, 1e-9, 0.02, 0.4, 0.8, 1, 1.7, 2, 3, 5, 60, np.inf, np.nan])
Q = np.array([-0.5, 0.0, 1e-20, 1e-3, 0.3, 0.5, 0.9, 1.0, 1.5, np.nan])
ALL = pytest.mark.parametrize("name", SHAPES)


SOLVED = ("t", "chi2", "beta", "gamma", "invgamma", "f")  # whose quantiles are found by Newton's method


def methods(name: str) -> list[str]:
    """The methods of a distribution without those that take long."""
    found = [method.partition(".")[2] for method in METHODS if method.startswith(f"{name}.")]
    return [method for method in found if name not in SOLVED or method not in ("ppf", "isf")]


def program(name: str, names: list[str], **options: str) -> adc.Function:
    """The methods of a distribution, at x or for those of probabilities at q."""
    shapes = SHAPES[name]
    scaled = "loc" if DISTRIBUTIONS[name].discrete else "loc, scale"
    given = ", ".join([*shapes, scaled])
    calls = [f"stats.{name}.{m}({'q' if m in ('ppf', 'isf') else 'x'}, {given})" for m in names]
    return adc.compile(f"def f(x, q, {given}):\n    return {', '.join(calls)},", **options)


def test_all_are_tested() -> None:
    assert list(SHAPES) == list(DISTRIBUTIONS)


@pytest.mark.thinned(4)
@ALL
def test_values_are_those_of_scipy(name: str) -> None:
    """Inside and outside of the support, for probabilities and other numbers, and for invalid parameters."""
    found, theirs, shapes = methods(name), getattr(stats, name), SHAPES[name].values()
    discrete = DISTRIBUTIONS[name].discrete
    f = program(name, found, backend="numpy")
    for place in ((0,), (1,), (-3,)) if discrete else ((0.0, 1.0), (0.3, 2.5), (0.0, -1.0)):
        for method, values in zip(found, f(X, Q, *shapes, *place), strict=True):
            given = Q if method in ("ppf", "isf") else X
            with np.errstate(all="ignore"):
                expected = getattr(theirs, method)(given, *shapes, *place)
            if method.endswith(("pdf", "pmf")):  # at infinity those of SciPy are NaN
                values, expected = values[given != np.inf], expected[given != np.inf]
            least = 1e-300 if method in ("pdf", "pmf", "cdf", "sf") else 1e-16  # ours keep more digits
            np.testing.assert_allclose(values, expected, rtol=2e-11, atol=least, err_msg=method)
    if shapes and not discrete:
        assert all(np.isnan(values).all() for values in f(X, Q, *(-v for v in shapes), 0.0, 1.0))


INCOMPLETE = (*SOLVED, "poisson", "binom", "nbinom")


@pytest.mark.slow_when(lambda name: name in INCOMPLETE)
@pytest.mark.thinned(6)
@ALL
def test_derivatives_by_all_arguments(name: str) -> None:
    """To second order; of a discrete distribution by its parameters."""
    shapes, discrete = SHAPES[name], DISTRIBUTIONS[name].discrete
    f = program(name, methods(name), backend="numpy")
    x = np.array([1.0, 3.0]) if discrete else np.array([1.4, 2.3]) if name != "beta" else np.array([0.3, 0.6])
    x = {"uniform": np.array([0.6, 0.9]), "bernoulli": np.zeros(2)}.get(name, x)
    wrt = [n for n in shapes if n not in ("n",)] if discrete else None
    place = (0.0,) if discrete else (0.1, 1.2)
    adc.check_grad(f, x, np.array([0.2, 0.7]), *shapes.values(), *place, order=2, wrt=wrt)


@pytest.mark.thinned(4)
@ALL
def test_types_and_empty_arrays(name: str) -> None:
    f, shapes = program(name, methods(name), backend="numpy"), SHAPES[name].values()
    place = (0.0,) if DISTRIBUTIONS[name].discrete else (0.0, 1.0)
    short = np.array([1.0, 2.0], np.float32)
    assert all(r.dtype == np.float32 for r in f(short, short / 4, *shapes, *place))
    assert all(r.shape == (0,) for r in f(np.zeros(0), np.zeros(0), *shapes, *place))


@pytest.mark.slow
def test_kernels_give_the_same() -> None:
    """In a loop and a condition."""
    source = """
def f(x, df, s):
    total = 0.0
    for k in range(len(x)):
        if x[k] > 0:
            total += stats.lognorm.logpdf(x[k], s) + scipy.stats.expon.logsf(x[k], scale=s)
        else:
            total += stats.t.logpdf(x[k], df, 0.5, s) + norm.logcdf(x[k], 0.5, scale=s)
    return total
"""
    args = np.array([1.3, -0.4, 0.2, -2.0]), 3.5, 0.7
    expected = sum(
        stats.lognorm.logpdf(x, 0.7) + stats.expon.logsf(x, scale=0.7) if x > 0
        else stats.t.logpdf(x, 3.5, 0.5, 0.7) + stats.norm.logcdf(x, 0.5, 0.7)
        for x in args[0]
    )  # fmt: skip
    assert adc.compile(source)(*args) == pytest.approx(expected, rel=1e-13)
    adc.check_grad(adc.compile(source), *args, order=2)


@pytest.mark.slow_when(lambda name: name != "gamma")
@pytest.mark.parametrize("name", SOLVED)
def test_quantiles_that_are_solved_for(name: str) -> None:
    """Values, slopes by the probability and by a parameter, and for gamma the curvature."""
    shapes, theirs = [*SHAPES[name].values()], getattr(stats, name)
    q = np.array([1e-8, 0.3, 0.5, 0.8])
    f = program(name, ["ppf", "isf"] if name != "gamma" else ["ppf"])
    for method, found in zip(("ppf", "isf"), f(np.zeros(1), q, *shapes, 0.3, 2.0), strict=False):
        np.testing.assert_allclose(found, getattr(theirs, method)(q, *shapes, 0.3, 2.0), rtol=1e-8)
    if name == "gamma":
        g = adc.compile("def g(q, a):\n    return sum(stats.gamma.ppf(q, a))")
        slopes, by_a = adc.grad(g)(q, 2.5)
        np.testing.assert_allclose(slopes, 1 / theirs.pdf(theirs.ppf(q, 2.5), 2.5), rtol=1e-11)
        around = [theirs.ppf(q, 2.5 + h).sum() for h in (1e-5, -1e-5)]
        assert by_a == pytest.approx((around[0] - around[1]) / 2e-5, rel=1e-8)


@pytest.mark.slow
def test_curvatures_of_quantiles() -> None:
    f, theirs, h = adc.compile("stats.gamma.ppf(q, a)"), stats.gamma.ppf, 1e-4
    found = np.array(adc.hessian(f)(0.3, 2.5))
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    by_q = (theirs(0.3 + h, 2.5) - 2 * theirs(0.3, 2.5) + theirs(0.3 - h, 2.5)) / h**2
    by_a = (theirs(0.3, 2.5 + h) - 2 * theirs(0.3, 2.5) + theirs(0.3, 2.5 - h)) / h**2
    np.testing.assert_allclose(np.diag(found), [by_q, by_a], rtol=1e-3)


def test_totals_of_t_near_zero_and_in_the_tail() -> None:
    """Where the general formula loses digits, or has no slope."""
    x, df = np.array([-300.0, -1e-3, 0.0, 1e-8, 0.03, 0.2, 50.0]), 4.0
    f = adc.compile("stats.t.cdf(x, df)", backend="numpy")
    np.testing.assert_allclose(f(x, df), stats.t.cdf(x, df), rtol=1e-13)
    value, (slope, _) = adc.value_and_grad(adc.compile("sum(stats.t.cdf(x, df))", backend="numpy"))(x, df)
    np.testing.assert_allclose(slope, stats.t.pdf(x, df), rtol=1e-9)
    assert np.isfinite(value)


def test_decorated_functions_use_scipy_under_any_name() -> None:
    import scipy.stats as st
    from scipy.stats import chi2 as t
    from scipy.stats import gamma
    from scipy.stats import t as student

    @adc.function
    def f(x, df):
        return st.chi2.logpdf(x, df) + student.pdf(x, df) + stats.norm.sf(x) + t.cdf(x, 2) * gamma.pdf(x, 3)

    x = np.array([0.5, 2.0])
    expected = stats.chi2.logpdf(x, 3) + stats.t.pdf(x, 3) + stats.norm.sf(x)
    expected += stats.chi2.cdf(x, 2) * stats.gamma.pdf(x, 3)
    np.testing.assert_allclose(f(x, 3.0), expected, rtol=1e-13)


def test_variables_with_the_names_of_distributions() -> None:
    f = adc.compile("t.sum() + beta.mean() * f.max() + gamma")
    assert [p.name for p in f._parameters] == ["t", "beta", "f", "gamma"]
