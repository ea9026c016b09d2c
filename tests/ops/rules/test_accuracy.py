"""Values and derivatives to second order against mpmath, over wide domains and far into the tails.

The truth is the derivative that mpmath finds of a plain formula with hundreds of digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import adcompiler as adc

Truth = Callable[[Any], Any]
DIGITS = (240, 480, 1200)  # with the last ones 1 + exp(-800) is not 1

half = mpf(1) / 2
TAILS = (-9.0, -3.0, -0.7, -1e-3, 1e-3, 0.7, 3.0, 9.0)
NORMAL = (-1e4, -300.0, -30.0, -8.0, -2.9, -1.1, -0.3, 0.4, 2.0, 8.0, 30.0)
GAMMA = (-10.3, -2.7, -0.5, 1e-5, 0.1, 1.2, 2.5, 7.0, 30.0, 1e3, 1e8, 1e15)
UNIT = (-1 + 1e-12, -0.99, -0.5, -1e-8, 0.3, 0.8, 0.999, 1 - 1e-14)
LINE = (-40.0, -8.3, -2.1, -0.3, 1e-4, 0.4, 1.7, 5.2, 26.1, 33.0, 101.3)


def ndtr(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def softplus(x: Any) -> Any:
    return mpmath.log(1 + mpmath.exp(x))


def logit(x: Any) -> Any:
    return mpmath.log(x / (1 - x))


def loggamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


def pdf(x: Any) -> Any:
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


CASES: tuple[tuple[str, tuple[float, ...], Truth], ...] = (
    ("sigmoid(x)", (-30.0, -3.0, 0.3, 2.0, 9.0), lambda x: 1 / (1 + mpmath.exp(-x))),
    ("log_sigmoid(x)", TAILS, lambda x: -softplus(-x)),
    ("softplus(x)", TAILS, softplus),
    ("silu(x)", (-30.0, -3.0, 0.3, 2.0, 9.0), lambda x: x / (1 + mpmath.exp(-x))),
    ("mish(x)", (-30.0, -3.0, 0.3, 2.0, 5.0), lambda x: x * mpmath.tanh(softplus(x))),
    ("tanh(x)", (-5.0, -1.0, 0.3, 2.0, 5.0), mpmath.tanh),
    ("gelu(x)", (-38.0, -6.0, -1.0, 0.3, 2.0, 9.0, 40.0), lambda x: x * ndtr(x)),
    ("logaddexp(x, 0)", TAILS, softplus),
    ("logaddexp2(x, 0)", TAILS, lambda x: mpmath.log(1 + mpmath.mpf(2) ** x, 2)),
    ("logit(x)", (1e-100, 1e-9, 0.2, 0.4999, 0.50001, 0.7, 0.999, 1 - 1e-14), logit),
    ("log1p(x)", (-1 + 1e-9, -1e-12, 1e-9, 0.3, 1e9, 1e150), lambda x: mpmath.log(1 + x)),
    ("expm1(x)", (-700.0, -1.0, -1e-14, 1e-9, 2.0, 700.0), lambda x: mpmath.exp(x) - 1),
    ("asinh(x)", (-1e150, -3.0, -1e-9, 1e-3, 2.0, 1e90), mpmath.asinh),
    ("acosh(x)", (1 + 1e-12, 1.5, 30.0, 1e90), mpmath.acosh),
    ("atanh(x)", UNIT, mpmath.atanh),
    ("asin(x)", UNIT, mpmath.asin),
    ("erf(x)", (-26.0, -3.0, 1e-9, 0.3, 5.0, 26.0), mpmath.erf),
    ("erfc(x)", (-3.0, 1e-9, 0.3, 5.0, 26.0), mpmath.erfc),
    ("erfcx(x)", (-20.0, -3.0, -0.5, 0.1, 1.9999, 2.0, 20.0, 1e3, 1e6),
     lambda x: mpmath.exp(x * x) * mpmath.erfc(x)),
    ("erfinv(x)", UNIT, mpmath.erfinv),
    ("erfcinv(x)", (1e-300, 1e-20, 0.3, 0.9, 1.5, 2 - 1e-14), lambda x: -quantile(x / 2) / mpmath.sqrt(2)),
    ("norm_pdf(x)", NORMAL[2:], pdf),
    ("norm_logpdf(x)", NORMAL, lambda x: mpmath.log(pdf(x))),
    ("norm_cdf(x)", NORMAL[2:], ndtr),
    ("norm_logcdf(x)", NORMAL, lambda x: mpmath.log(ndtr(x))),
    ("norm_ppf(x)", (1e-300, 1e-20, 0.2, 0.4999, 0.7, 1 - 1e-14), lambda x: quantile(x)),
    ("gamma(x)", (-10.3, -2.7, -0.5, 1e-5, 0.1, 1.2, 2.5, 7.0, 30.0, 150.0), mpmath.gamma),
    ("lgamma(x)", GAMMA, loggamma),
    ("digamma(x)", GAMMA, mpmath.digamma),
    ("polygamma(1, x)", GAMMA, lambda x: mpmath.polygamma(1, x)),
    ("polygamma(3, x)", GAMMA, lambda x: mpmath.polygamma(3, x)),
    ("polygamma(6, x)", GAMMA[:-2], lambda x: mpmath.polygamma(6, x)),
    ("beta(x, 2.5)", (1e-5, 0.3, 2.0, 50.0, 1e4, 1e9), lambda x: mpmath.beta(x, 2.5)),
    ("lbeta(x, 0.5)", (1e-5, 0.3, 2.0, 50.0, 1e4, 1e9, 1e14), lambda x: log_beta(x, half)),
    ("lbeta(1e8, x)", (1e-5, 0.3, 2.0, 50.0, 1e4, 1e9), lambda x: log_beta(x, mpf(10) ** 8)),
    ("j0(x)", LINE, mpmath.j0),
    ("j1(x)", LINE, mpmath.j1),
    ("jn(3, x)", LINE, lambda x: mpmath.besselj(3, x)),
    ("i0(x)", LINE, lambda x: mpmath.besseli(0, x)),
    ("i1(x)", LINE, lambda x: mpmath.besseli(1, x)),
    ("i0e(x)", (*LINE, 700.0), lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x)),
    ("i1e(x)", (*LINE, 700.0), lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x)),
    ("ive(2, x)", LINE, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(2, x)),
    ("sinc(x)", (-3.3, -1.0, -1e-3, 1e-9, 1e-5, 0.2, 0.5, 2.3, 40.25), lambda x: mpmath.sincpi(x)),
)  # fmt: skip


def quantile(p: Any) -> Any:
    """The normal quantile by Newton's method on the logarithm of the smaller probability."""
    tail = min(p, 1 - p)
    x = -mpmath.sqrt(-2 * mpmath.log(2 * tail))
    for _ in range(60):
        step = mpmath.log(ndtr(x) / tail) * ndtr(x) / pdf(x)
        x -= step
        if abs(step) <= abs(x) * mpf(10) ** (-mpmath.mp.dps // 2 - 5):
            break
    return -x if p > half else x


def log_beta(x: Any, y: Any) -> Any:
    return mpmath.loggamma(x) + mpmath.loggamma(y) - mpmath.loggamma(x + y)


def derivatives(truth: Truth, x: float) -> list[float]:
    """The value and two derivatives with as many digits as it takes until more of them change nothing."""
    found = differences(truth, x, DIGITS[0])
    for digits in DIGITS[1:] if abs(x) > 19 else ():
        before, found = found, differences(truth, x, digits)
        if all(found) and np.allclose(before, found, rtol=1e-13, atol=0):
            break  # a zero may be a difference that was lost
    return found


def differences(truth: Truth, x: float, digits: int) -> list[float]:
    """The value and two derivatives by central differences with a minute step."""
    with mpmath.workdps(digits):
        step = mpf(10) ** (-digits // 6) * abs(mpf(x))
        down, here, up = (truth(mpf(x) + k * step) for k in (-1, 0, 1))
        return [float(here), float((up - down) / (2 * step)), float((up - 2 * here + down) / step**2)]


@pytest.mark.thinned(12)
@pytest.mark.parametrize(("text", "points", "truth"), CASES, ids=[c[0] for c in CASES])
def test_values_gradients_and_curvatures(text: str, points: tuple[float, ...], truth: Truth) -> None:
    f = adc.compile(text)
    value, slope, curvature = adc.vmap(f), adc.vmap(adc.grad(f)), adc.vmap(adc.grad(adc.grad(f)))
    actual = np.stack([g(np.array(points)) for g in (value, slope, curvature)], axis=1)
    expected = np.array([derivatives(truth, x) for x in points])
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-300)
