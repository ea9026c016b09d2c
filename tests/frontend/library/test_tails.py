"""Tails of distributions against mpmath: logarithms of probabilities, and slopes, where these underflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from frontend.library.test_distributions import SHAPES, methods, program
from mpmath import log, log1p, mpf
from scipy import stats

import adcompiler as adc
from adcompiler.frontend.library.distributions import DISTRIBUTIONS

DIGITS = 60
LEAST = mpf(10) ** -300  # below it a truth and its slope are 0


class Tails(NamedTuple):
    """Parameters of a distribution, numbers, and the logarithms of the probabilities below and above them."""

    shapes: tuple[float, ...]
    points: tuple[float, ...]
    below: Callable[[Any], Any]
    above: Callable[[Any], Any]


def lower(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, 0, x, regularized=True)


def upper(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, x, regularized=True)


def beta(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function, by its series."""
    return x**a * (1 - x) ** b / a / mpmath.beta(a, b) * mpmath.hyp2f1(a + b, 1, a + 1, x)


def ndtr(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def log_laplace(x: Any) -> Any:
    return x - log(2) if x < 0 else log1p(-mpmath.exp(-x) / 2)


def log_t(x: Any) -> Any:
    tail = beta(mpf(1.75), mpf(0.5), 3.5 / (3.5 + x * x)) / 2
    return log(tail) if x < 0 else log1p(-tail)


CASES = {
    "logistic": Tails((), (-800, -1, 40, 600), lambda x: -log1p(mpmath.exp(-x)),
                      lambda x: -log1p(mpmath.exp(x))),
    "laplace": Tails((), (-800, -1, 1, 40, 600), log_laplace, lambda x: log_laplace(-x)),
    "lognorm": Tails((0.6,), (1e-200, 0.5, 1e30, 1e200), lambda x: log(ndtr(log(x) / mpf(0.6))),
                     lambda x: log(ndtr(-log(x) / mpf(0.6)))),
    "halfnorm": Tails((), (1e-200, 1, 60, 1e5), lambda x: log(mpmath.erf(x / mpmath.sqrt(2))),
                      lambda x: log(mpmath.erfc(x / mpmath.sqrt(2)))),
    "gumbel_r": Tails((), (-5, -1, 40, 600), lambda x: -mpmath.exp(-x),
                      lambda x: log(-mpmath.expm1(-mpmath.exp(-x)))),
    "weibull_min": Tails((1.7,), (1e-160, 1, 30, 1e5), lambda x: log(-mpmath.expm1(-(x ** mpf(1.7)))),
                         lambda x: -(x ** mpf(1.7))),
    "rayleigh": Tails((), (1e-140, 1, 30, 1e5), lambda x: log(-mpmath.expm1(-x * x / 2)),
                      lambda x: -x * x / 2),
    "gamma": Tails((2.5,), (1e-150, 1, 30, 800, 1e5), lambda x: log(lower(2.5, x)),
                   lambda x: log(upper(2.5, x))),
    "chi2": Tails((3.0,), (1e-150, 1, 30, 1800), lambda x: log(lower(1.5, x / 2)),
                  lambda x: log(upper(1.5, x / 2))),
    "invgamma": Tails((2.5,), (1e-5, 1, 1e150), lambda x: log(upper(2.5, 1 / x)),
                      lambda x: log(lower(2.5, 1 / x))),
    "beta": Tails((2.5, 1.5), (1e-150, 0.3, 1 - 1e-12), lambda x: log(beta(2.5, 1.5, x)),
                  lambda x: log1p(-beta(2.5, 1.5, x))),
    "f": Tails((4.0, 7.0), (1e-150, 0.3, 1e9), lambda x: log(beta(2, 3.5, 4 * x / (4 * x + 7))),
               lambda x: log(beta(3.5, 2, 7 / (4 * x + 7))) if x > 1e-100 else -(x**2) * mpf(18) / 7),
    "t": Tails((3.5,), (-1e200, -1e80, -2, 1, 1e5), log_t, lambda x: log_t(-x)),
    "poisson": Tails((2.2,), (0, 3, 400, 1000), lambda x: log(upper(x + 1, mpf(2.2))),
                     lambda x: log(lower(x + 1, mpf(2.2)))),
    "binom": Tails((2000.0, 0.3), (0, 600, 1900), lambda x: log(beta(2000 - x, x + 1, 1 - mpf(0.3))),
                   lambda x: log(beta(x + 1, 2000 - x, mpf(0.3)))),
    "nbinom": Tails((400.0, 0.4), (0, 600, 4000), lambda x: log(beta(400, x + 1, mpf(0.4))),
                    lambda x: log(beta(x + 1, 400, 1 - mpf(0.4)))),
}  # fmt: skip


def close(found: Any, truth: Any, tolerance: float) -> bool:
    return bool(abs(mpf(float(found)) - truth) <= tolerance * abs(truth) + LEAST)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", CASES)
def test_logarithms_of_probabilities(name: str) -> None:
    """Values, and slopes of distributions with a density."""
    case, discrete = CASES[name], DISTRIBUTIONS[name].discrete
    given = ", ".join(["x", *SHAPES[name]])
    for method, truth in (("logcdf", case.below), ("logsf", case.above)):
        text = f"def f({given}):\n    return stats.{name}.{method}({given})"
        f = adc.compile(text, backend="numpy")
        for x in case.points:
            with mpmath.workdps(DIGITS):
                exact, step = mpf(x), mpf(10) ** -20 * (abs(mpf(x)) or 1)
                expected = truth(exact)
                assert close(f(float(x), *case.shapes), expected, 1e-12) or abs(expected) < 1e-50, (method, x)
                if not discrete:
                    slope = (truth(exact + step) - truth(exact - step)) / (2 * step)
                    found = adc.grad(f, "x")(float(x), *case.shapes)
                    assert close(found, slope, 1e-9) or abs(slope) < 1e-50, (method, x)
            for parameter in [p for p in SHAPES[name] if p != "n"]:
                assert np.isfinite(adc.grad(f, parameter)(float(x), *case.shapes))


GRID = np.array([-1e200, -1e5, -800, -40, -1, -1e-9, 1e-140, 1e-9, 0.3, 40, 800, 1e5, 1e200])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", [name for name in SHAPES if not DISTRIBUTIONS[name].discrete])
def test_nothing_is_nan_inside_of_the_support(name: str) -> None:
    found = [m for m in methods(name) if m not in ("ppf", "isf")]
    f = program(name, found, backend="numpy")
    args = (GRID, np.full(1, 0.5), *SHAPES[name].values(), 0.0, 1.0)
    slopes = adc.jvp(f, args, (np.ones_like(GRID), *[None] * (len(args) - 1)))[1]
    for method, slope in zip(found, slopes, strict=True):
        assert not np.isnan(slope).any(), method


def test_slopes_at_the_centre_of_laplace() -> None:
    for method, slope in {"cdf": 0.5, "sf": -0.5, "logcdf": 1.0, "logsf": -1.0}.items():
        f = adc.compile(f"stats.laplace.{method}(x, loc)", backend="numpy")
        assert adc.grad(f)(1.5, 1.5) == (slope, -slope)
        assert adc.jvp(f, (1.5, 1.5), (1.0, None))[1] == slope


def test_probabilities_that_are_almost_1() -> None:
    f = adc.compile("stats.beta.sf(x, a, b), stats.f.sf(x, p, q)", args="x a b p q", backend="numpy")
    slopes = adc.jvp(f, (1e-20, 2.5, 1.5, 4.0, 7.0), (1.0, None, None, None, None))[1]
    expected = [-stats.beta.pdf(1e-20, 2.5, 1.5), -stats.f.pdf(1e-20, 4, 7)]
    np.testing.assert_allclose(slopes, expected, rtol=1e-12)


@pytest.mark.parametrize("q", [1e-3, 1e-17, 1e-100])
def test_gradients_of_quantiles_far_out(q: float) -> None:
    f = adc.compile("stats.f.isf(q, a, b)", args="q a b", backend="numpy")
    x = float(f(q, 4.0, 7.0))
    assert adc.grad(f, "q")(q, 4.0, 7.0) == pytest.approx(-1 / stats.f.pdf(x, 4, 7), rel=1e-9)


def binomial(x: Any, n: Any, p: Any) -> Any:
    ways = mpmath.loggamma(n + 1) - mpmath.loggamma(x + 1) - mpmath.loggamma(n - x + 1)
    return ways + x * log(p) + (n - x) * log1p(-p)


def negative_binomial(x: Any, n: Any, p: Any) -> Any:
    ways = mpmath.loggamma(n + x) - mpmath.loggamma(x + 1) - mpmath.loggamma(n)
    return ways + n * log(p) + x * log1p(-p)


def poisson(x: Any, m: Any) -> Any:
    return x * log(m) - m - mpmath.loggamma(x + 1)


MANY = (
    ("binom", binomial, (3.0, 1e15, 2e-15)), ("binom", binomial, (5e14, 1e15, 0.5)),
    ("binom", binomial, (1e9 - 20, 1e9, 1 - 2e-8)), ("binom", binomial, (16.0, 40.0, 0.3)),
    ("binom", binomial, (14.0, 40.0, 0.3)), ("nbinom", negative_binomial, (3.0, 1e15, 1 - 2e-15)),
    ("nbinom", negative_binomial, (1e15, 1e15, 0.5)), ("nbinom", negative_binomial, (30.0, 20.5, 0.4)),
    ("nbinom", negative_binomial, (3.0, 0.01, 0.4)), ("poisson", poisson, (1e15, 1e15)),
    ("poisson", poisson, (20.0, 1e5)), ("poisson", poisson, (1e10, 1.01e10)),
    ("poisson", poisson, (16.0, 3.0)),
)  # fmt: skip


@pytest.mark.parametrize(("name", "truth", "point"), MANY)
def test_probabilities_of_many_trials(name: str, truth: Callable[..., Any], point: tuple[float, ...]) -> None:
    given = ["x", *SHAPES[name]]
    f = adc.compile(f"stats.{name}.logpmf({', '.join(given)})", args=given, backend="numpy")
    with mpmath.workdps(DIGITS):
        exact = [mpf(v) for v in point]
        assert close(f(*point), truth(*exact), 1e-13)
        step = exact[-1] * mpf(10) ** -20
        slope = (truth(*exact[:-1], exact[-1] + step) - truth(*exact[:-1], exact[-1] - step)) / (2 * step)
        error = abs(mpf(float(adc.grad(f, given[-1])(*point))) - slope)
        assert error <= 1e-6 * abs(slope) + 1e-12 * exact[0] / exact[-1]


def test_large_numbers_do_not_overflow() -> None:
    f = adc.compile("stats.cauchy.logpdf(x), stats.t.logpdf(x, v)", args="x v", backend="numpy")
    x = 3e199
    np.testing.assert_allclose(f(x, 1.0), -np.log(np.pi) - 2 * np.log(x), rtol=1e-14)
    np.testing.assert_allclose(adc.jvp(f, (x, 1.0), (1.0, None))[1], -2 / x, rtol=1e-12)
