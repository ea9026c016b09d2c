"""The error function, its inverses, and the standard normal distribution."""

from __future__ import annotations

import numpy as np

from adcompiler.ops.rules import series
from adcompiler.ops.rules.shorthand import PROBABILITY, UNIT, Domain, entry, scalar, scipy_special

BETWEEN_TWO: Domain = ((0.1, 0.9), (1.1, 1.9))

# 1.128... is 2 / sqrt(pi), 0.886... its inverse, 0.707... is sqrt(1 / 2), 0.398... is 1 / sqrt(2 pi),
# 0.918... is log(2 pi) / 2.
SLOPE = "1 + diff(sqrt(2 / pi) * exp(-x ** 2 / 2) / erfc(-x / sqrt(2)), x)"
NORMAL = (
    entry("erf", "x", "1.1283791670955126 * exp(-x * x)", "The error function.", numpy=scipy_special("erf")),
    entry("erfc", "x", "-1.1283791670955126 * exp(-x * x)", "1 - erf(x), accurate for large x.",
          numpy=scipy_special("erfc")),
    entry("erfcx", "x", "-2 * ierfcx(1, x)", "exp(x * x) * erfc(x), without overflow above 0.",
          kernel="series.ierfcx(0, {x})", numpy=scipy_special("erfcx"), sympy="exp(x ** 2) * erfc(x)"),
    entry("ierfcx", "n x", ("0", "-2 * (n + 1) * ierfcx(n + 1, x)"),
          "exp(x * x) times the n-fold repeated integral of erfc; for derivatives of erfcx.",
          orders=range(101), kernel="series.ierfcx({n}, {x})", numpy=scalar(series.ierfcx),
          sympy="(-1) ** n / (2 ** n * factorial(n)) * "
                "diff(exp(Symbol('t') ** 2) * erfc(Symbol('t')), (Symbol('t'), n)).subs(Symbol('t'), x)"),
    entry("erfinv", "x", "0.8862269254527580 * exp(r * r)", "The inverse of erf.", UNIT,
          kernel="series.erfinv({x})", numpy=scipy_special("erfinv")),
    entry("erfcinv", "x", "-0.8862269254527580 * exp(r * r)", "The inverse of erfc.", BETWEEN_TWO,
          kernel="series.erfcinv({x})", numpy=scipy_special("erfcinv"), sympy="erfinv(1 - x)"),
    entry("norm_pdf", "x", "-x * r", "The density of the standard normal distribution.",
          expand="0.3989422804014327 * exp(-0.5 * x * x)",
          numpy=lambda x: 0.3989422804014327 * np.exp(-0.5 * x * x),
          sympy="exp(-x ** 2 / 2) / sqrt(2 * pi)"),
    entry("norm_logpdf", "x", "-x", "The logarithm of the standard normal density.",
          expand="-0.5 * x * x - 0.9189385332046727", numpy=lambda x: -0.5 * x * x - 0.9189385332046727,
          sympy="-x ** 2 / 2 - log(2 * pi) / 2"),
    # erfc in place of 1 + erf: no digits are lost far below 0.
    entry("ndtr", "x", "norm_pdf(x)", "The cumulative distribution function of the standard normal.",
          expand="0.5 * erfc(-0.7071067811865476 * x)", numpy=scipy_special("ndtr"),
          sympy="erfc(-x / sqrt(2)) / 2"),
    # Below -2.9 these three are quotients of scaled functions: nothing underflows or cancels.
    entry("log_ndtr", "x", "norm_hazard(x)", "log(ndtr(x)), without underflow.",
          kernel="series.log_ndtr({x})", numpy=scipy_special("log_ndtr"),
          sympy="log(erfc(-x / sqrt(2)) / 2)"),
    entry("norm_hazard", "x", "where(x < 0, norm_excess_slope(x) - 1, -r * norm_excess(x))",
          "norm_pdf(x) / ndtr(x): the derivative of log_ndtr.",
          kernel="series.norm_hazard({x})", numpy=scalar(series.norm_hazard),
          sympy="sqrt(2 / pi) * exp(-x ** 2 / 2) / erfc(-x / sqrt(2))"),
    entry("norm_excess", "x", "norm_excess_slope(x)", "x + norm_hazard(x), without cancellation.",
          kernel="series.norm_excess({x})", numpy=scalar(series.norm_excess),
          sympy="x + sqrt(2 / pi) * exp(-x ** 2 / 2) / erfc(-x / sqrt(2))"),
    entry("norm_excess_slope", "x", "norm_excess_curvature(x)", "The derivative of norm_excess.",
          kernel="series.norm_excess_slope({x})", numpy=scalar(series.norm_excess_slope), sympy=SLOPE),
    # The terms cancel far below 0, where the asymptotic expansion takes their place.
    entry("norm_excess_curvature", "x",
          "where(x < -1000, 6 * (1 - 20 / (x * x) + 350 / (x * x) / (x * x)) / (x * x) / (x * x), "
          "where(x < 0, "
          "2 * norm_excess_slope(x) * (1 - norm_excess_slope(x)) - r * (2 * norm_excess(x) - x), "
          "where(x > 39, 0, norm_hazard(x) * (2 * norm_excess(x) * norm_excess_slope(x) - r "
          "- norm_excess(x) * (norm_excess(x) * norm_excess(x) - norm_excess_slope(x))))))",
          "The second derivative of norm_excess.", kernel="series.norm_excess_curvature({x})",
          numpy=scalar(series.norm_excess_curvature), sympy=f"diff({SLOPE}, x)"),
    entry("ndtri", "x", "2.5066282746310002 * exp(0.5 * r * r)", "The inverse of ndtr.", PROBABILITY,
          kernel="series.ndtri({x})", numpy=scipy_special("ndtri"), sympy="sqrt(2) * erfinv(2 * x - 1)"),
    entry("gelu", "x", "ndtr(x) + x * norm_pdf(x)", "x * ndtr(x).",
          expand="x * ndtr(x)", numpy=lambda x: x * scipy_special("ndtr")(x),
          sympy="x * erfc(-x / sqrt(2)) / 2"),
)  # fmt: skip
