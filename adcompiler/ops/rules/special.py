"""Special functions: gamma and related functions, incomplete ones, Bessel functions, sinc."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.ops.rules import bessel, incomplete, series
from adcompiler.ops.rules.elementary import sinpi
from adcompiler.ops.rules.shorthand import (
    PROBABILITY,
    Domain,
    entry,
    scalar,
    scipy_special,
    scipy_special_in_float64,
)

ABOVE_ZERO: Domain = ((0.1, 0.9), (1.1, 5.0))
ABOVE_HALF: Domain = ((0.5, 5.0),)
BETWEEN_WHOLE: Domain = ((-1.9, -1.1), (-0.9, -0.1), (0.1, 5.0))
WIDE: Domain = ((-9.0, -0.1), (0.1, 9.0))
ORDERS = range(-100, 101)
INSIDE: Domain = ((0.1, 0.45), (0.55, 0.9))
PARAMETERS: Domain = ((0.3, 0.9), (1.1, 6.0))
# Orders by a, up to four; those by a and b have a digit each: 21 is the second by a and the first by b.
BY_A = range(5)
BY_A_AND_B = (0, 1, 2, 3, 10, 11, 12, 20, 21, 30)


def sinc(x: Any) -> Any:
    """The reference of `sinc`; NumPy's loses digits near whole numbers."""
    return np.where(x == 0, 1, sinpi(x) / (np.pi * np.where(x == 0, 1, x))).astype(x.dtype)


GAMMA = (
    entry("gamma", "x", "r * digamma(x)", "The gamma function.", BETWEEN_WHOLE, numpy=scipy_special("gamma")),
    entry("lgamma", "x", "digamma(x)", "log(abs(gamma(x))).", ABOVE_ZERO, numpy=scipy_special("gammaln"),
          sympy="loggamma(x)"),
    entry("digamma", "x", "polygamma(1, x)", "The first derivative of log(gamma(x)).", BETWEEN_WHOLE,
          kernel="series.digamma({x})", numpy=scipy_special("digamma")),
    entry("trigamma", "x", "polygamma(2, x)", "The second derivative of log(gamma(x)).", BETWEEN_WHOLE,
          kernel="series.polygamma(1, {x})", numpy=lambda x: scipy_special("polygamma")(1, x),
          sympy="polygamma(1, x)"),
    entry("polygamma", "n x", ("0", "polygamma(n + 1, x)"), "The n-th derivative of digamma.",
          ((0, 0),), BETWEEN_WHOLE,
          orders=range(101), kernel="series.polygamma({n}, {x})", numpy=scipy_special("polygamma")),
    entry("polygamma_difference", "n x y",
          ("0", "polygamma_difference(n + 1, x, y)", "-polygamma(n + 1, x + y)"),
          "polygamma(n, x) - polygamma(n, x + y), accurate for small y.", ((0, 0),), ABOVE_HALF, ABOVE_ZERO,
          orders=range(101), kernel="series.polygamma_difference({n}, {x}, {y})",
          numpy=scalar(series.polygamma_difference), sympy="polygamma(n, x) - polygamma(n, x + y)"),
    entry("lbeta", "x y", ("polygamma_difference(0, x, y)", "polygamma_difference(0, y, x)"),
          "log(abs(beta(x, y))), accurate for large arguments.", ABOVE_ZERO, ABOVE_ZERO,
          kernel="series.lbeta({x}, {y})", numpy=scalar(series.lbeta),
          sympy="loggamma(x) + loggamma(y) - loggamma(x + y)"),
    entry("beta", "x y", ("r * polygamma_difference(0, x, y)", "r * polygamma_difference(0, y, x)"),
          "gamma(x) * gamma(y) / gamma(x + y).", ABOVE_ZERO, ABOVE_ZERO,
          kernel="series.beta({x}, {y})", numpy=scalar(series.beta)),
)  # fmt: skip

# The derivatives by x of densities. At the ends of the domain they are those of differences of densities with
# smaller parameters.
_GAMMA_BY_X = (
    "where(x > 0, ((a - 1 - x) * r + (n * gammainc_density(n - 1, a, x) if n > 0 else 0)) / x, "
    "gammainc_density(n, a - 1, x) - r)"
)
_FALL, _BY_A, _BY_B = (
    f"(betainc_density({n}, a - 1, b, x) - betainc_density({n}, a, b - 1, x))"
    for n in ("n", "n - 10", "n - 1")
)
_BETA_BY_X = (
    "where(x > 0 and x < 1, ((a - 1) / x - (b - 1) / (1 - x)) * r "
    "+ (n // 10 * betainc_density(n - 10, a, b, x) / x if n // 10 > 0 else 0) "
    "- (n % 10 * betainc_density(n - 1, a, b, x) / (1 - x) if n % 10 > 0 else 0), "
    f"(a + b - 1) * {_FALL} + (n // 10 * {_BY_A} if n // 10 > 0 else 0) "
    f"+ (n % 10 * {_BY_B} if n % 10 > 0 else 0))"
)

# The derivatives of quantiles by q. Where numbers underflow, parameters are small, and logarithms do not
# cancel.
_OF_GAMMA = "where(r > -690, 1 / (a * gammainc_density(0, a + 1, exp(r))), exp(lgamma(a) - a * r))"
_OF_BETA = (
    "where(abs(r) < 690, (a + b) * (a + b + 1) / (a * b) / where(r < 0, "
    "betainc_density(0, a + 1, b + 1, sigmoid(r)), betainc_density(0, b + 1, a + 1, sigmoid(-r))), "
    "exp(lbeta(a, b) - a * log_sigmoid(r) - b * log_sigmoid(-r)))"
)

INCOMPLETE = (
    entry("gammainc", "a x", ("gammainc_derivative(1, a, x)", "gammainc_density(0, a, x)"),
          "The regularised lower incomplete gamma function, with derivatives by both arguments.",
          PARAMETERS, PARAMETERS, kernel="incomplete.gammainc({a}, {x})",
          numpy=scipy_special("gammainc"), sympy=None),
    entry("gammaincc", "a x", ("-gammainc_derivative(1, a, x)", "-gammainc_density(0, a, x)"),
          "The regularised upper incomplete gamma function, 1 - gammainc(a, x) without loss of digits.",
          PARAMETERS, PARAMETERS, kernel="incomplete.gammaincc({a}, {x})",
          numpy=scipy_special("gammaincc"), sympy=None),
    entry("gammainc_derivative", "n a x",
          ("0", "gammainc_derivative(n + 1, a, x)", "gammainc_density(n, a, x)"),
          "The n-th derivative of gammainc by a.", ((0, 0),), PARAMETERS, PARAMETERS, orders=BY_A,
          kernel="incomplete.gammainc_derivative({n}, {a}, {x})",
          numpy=scalar(incomplete.gammainc_derivative), sympy=None),
    entry("gammainc_density", "n a x", ("0", "gammainc_density(n + 1, a, x)", _GAMMA_BY_X),
          "The n-th derivative by a of x**(a - 1) * exp(-x) / gamma(a), the derivative of gammainc by x.",
          ((0, 0),), PARAMETERS, PARAMETERS, orders=BY_A,
          kernel="incomplete.gammainc_density({n}, {a}, {x})",
          numpy=scalar(incomplete.gammainc_density), sympy=None),
    entry("betainc", "a b x",
          ("betainc_derivative(10, a, b, x)", "betainc_derivative(1, a, b, x)",
           "betainc_density(0, a, b, x)"),
          "The regularised incomplete beta function, with derivatives by all arguments.",
          PARAMETERS, PARAMETERS, INSIDE, kernel="incomplete.betainc({a}, {b}, {x})",
          numpy=scipy_special_in_float64("betainc"), sympy=None),
    entry("betaincc", "a b x",
          ("-betainc_derivative(10, a, b, x)", "-betainc_derivative(1, a, b, x)",
           "-betainc_density(0, a, b, x)"),
          "1 - betainc(a, b, x) without loss of digits.",
          PARAMETERS, PARAMETERS, INSIDE, kernel="incomplete.betaincc({a}, {b}, {x})",
          numpy=scipy_special_in_float64("betaincc"), sympy=None),
    entry("betainc_derivative", "n a b x",
          ("0", "betainc_derivative(n + 10, a, b, x)", "betainc_derivative(n + 1, a, b, x)",
           "betainc_density(n, a, b, x)"),
          "The derivative of betainc: n // 10 times by a, n % 10 times by b.",
          ((0, 0),), PARAMETERS, PARAMETERS, INSIDE, orders=BY_A_AND_B,
          kernel="incomplete.betainc_derivative({n}, {a}, {b}, {x})",
          numpy=scalar(incomplete.betainc_derivative), sympy=None),
    entry("betainc_density", "n a b x",
          ("0", "betainc_density(n + 10, a, b, x)", "betainc_density(n + 1, a, b, x)", _BETA_BY_X),
          "The same derivative of x**(a - 1) * (1 - x)**(b - 1) / beta(a, b), that of betainc by x.",
          ((0, 0),), PARAMETERS, PARAMETERS, INSIDE, orders=BY_A_AND_B,
          kernel="incomplete.betainc_density({n}, {a}, {b}, {x})",
          numpy=scalar(incomplete.betainc_density), sympy=None),
    entry("gamma_log_quantile", "q p a",
          (_OF_GAMMA, "0", f"-{_OF_GAMMA} * gammainc_derivative(1, a, exp(r))"),
          "log(x) where gammainc(a, x) is q, and p is 1 - q; its derivative is that by q.",
          PROBABILITY, PROBABILITY, PARAMETERS, kernel="incomplete.gamma_log_quantile({q}, {p}, {a})",
          numpy=scalar(incomplete.gamma_log_quantile), sympy=None),
    entry("beta_log_odds", "q p a b",
          (_OF_BETA, "0",
           f"{_OF_BETA} * where(r < 0, -betainc_derivative(10, a, b, sigmoid(r)), "
           "betainc_derivative(1, b, a, sigmoid(-r)))",
           f"{_OF_BETA} * where(r < 0, -betainc_derivative(1, a, b, sigmoid(r)), "
           "betainc_derivative(10, b, a, sigmoid(-r)))"),
          "log(x / (1 - x)) where betainc(a, b, x) is q, and p is 1 - q; its derivative is that by q.",
          PROBABILITY, PROBABILITY, PARAMETERS, PARAMETERS,
          kernel="incomplete.beta_log_odds({q}, {p}, {a}, {b})",
          numpy=scalar(incomplete.beta_log_odds), sympy=None),
)  # fmt: skip

BESSEL = (
    entry("j0", "x", "-j1(x)", "The Bessel function J of order 0.", WIDE,
          kernel="bessel.jn(0, {x})", numpy=scipy_special("j0"), sympy="besselj(0, x)"),
    entry("j1", "x", "0.5 * (j0(x) - jn(2, x))", "The Bessel function J of order 1.", WIDE,
          kernel="bessel.jn(1, {x})", numpy=scipy_special("j1"), sympy="besselj(1, x)"),
    entry("jn", "n x", ("0", "0.5 * (jn(n - 1, x) - jn(n + 1, x))"), "The Bessel function J of order n.",
          ((0, 0),), WIDE,
          orders=ORDERS, kernel="bessel.jn({n}, {x})", numpy=scipy_special("jv"), sympy="besselj(n, x)"),
    entry("i0", "x", "i1(x)", "The modified Bessel function I of order 0.",
          kernel="bessel.iv(0, {x})", numpy=scipy_special("i0"), sympy="besseli(0, x)"),
    entry("i1", "x", "0.5 * (i0(x) + iv(2, x))", "The modified Bessel function I of order 1.",
          kernel="bessel.iv(1, {x})", numpy=scipy_special("i1"), sympy="besseli(1, x)"),
    entry("iv", "n x", ("0", "0.5 * (iv(n - 1, x) + iv(n + 1, x))"),
          "The modified Bessel function I of order n.",
          orders=ORDERS, kernel="bessel.iv({n}, {x})", numpy=scipy_special("iv"), sympy="besseli(n, x)"),
    entry("i0e", "x", "ive_derivative(1, 0, x)", "exp(-abs(x)) * i0(x); its derivative at 0 is 0.",
          kernel="bessel.ive(0, {x})", numpy=scipy_special("i0e"), sympy="exp(-Abs(x)) * besseli(0, x)"),
    entry("i1e", "x", "ive_derivative(1, 1, x)", "exp(-abs(x)) * i1(x).",
          kernel="bessel.ive(1, {x})", numpy=scipy_special("i1e"), sympy="exp(-Abs(x)) * besseli(1, x)"),
    entry("ive", "n x", ("0", "ive_derivative(1, n, x)"),
          "exp(-abs(x)) * iv(n, x).",
          orders=ORDERS, kernel="bessel.ive({n}, {x})", numpy=scipy_special("ive"),
          sympy="exp(-Abs(x)) * besseli(n, x)"),
    entry("ive_derivative", "n k x", ("0", "0", "ive_derivative(n + 1, k, x)"),
          "The n-th derivative of ive(k, x); at 0 the mean of both sides.", ((0, 0),), ((2, 2),),
          orders=range(101), kernel="bessel.ive_derivative({n}, {k}, {x})",
          numpy=scalar(bessel.ive_derivative),
          sympy="sign(x) ** (n + k) * diff(exp(-Symbol('t')) * besseli(k, Symbol('t')), "
                "(Symbol('t'), n)).subs(Symbol('t'), Abs(x))"),
)  # fmt: skip

SINC = (
    entry("sinc", "x", "sinc_derivative(1, x)", "sin(pi * x) / (pi * x), as in NumPy; smooth at 0.",
          kernel="bessel.sinc_derivative(0, {x})", numpy=sinc, sympy="sinc(pi * x)"),
    entry("sinc_derivative", "n x", ("0", "sinc_derivative(n + 1, x)"), "The n-th derivative of sinc.",
          orders=range(101), kernel="bessel.sinc_derivative({n}, {x})", numpy=scalar(bessel.sinc_derivative),
          sympy="diff(sinc(pi * Symbol('t')), (Symbol('t'), n)).subs(Symbol('t'), x)"),
)  # fmt: skip

SPECIAL = (*GAMMA, *INCOMPLETE, *BESSEL, *SINC)
