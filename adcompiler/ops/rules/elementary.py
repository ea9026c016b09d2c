"""Elementary functions: exponentials, logarithms, circular and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from adcompiler.ops.rules.shorthand import ABOVE_MINUS_ONE, POSITIVE, UNIT, Domain, entry

ABOVE_ONE: Domain = ((1.1, 3.0),)
BETWEEN_POLES: Domain = ((-1.4, -0.1), (0.1, 1.4))


def _nearest(x: np.ndarray) -> np.ndarray:
    """The number between -1/2 and 1/2 whose multiple by pi has the same sine."""
    d = x - 2 * np.rint(0.5 * x)
    found: np.ndarray = np.copysign(np.minimum(np.abs(d), 1 - np.abs(d)), d)
    return found


def sinpi(x: np.ndarray) -> np.ndarray:
    """The reference of `sinpi`."""
    return np.sin(np.pi * _nearest(x))


ELEMENTARY = (
    # 0.693... is log(2), 1.442... is 1 / log(2), 0.434... is 1 / log(10).
    entry("exp", "x", "r", "The exponential."),
    entry("exp2", "x", "0.6931471805599453 * r", "Two to the power x.", sympy="2 ** x"),
    entry("expm1", "x", "exp(x)", "exp(x) - 1, accurate near 0.", sympy="exp(x) - 1"),
    entry("log", "x", "1 / x", "The natural logarithm; -inf at 0 and NaN below.", POSITIVE),
    entry("log2", "x", "1.4426950408889634 / x", "The logarithm to base 2.", POSITIVE, sympy="log(x, 2)"),
    entry("log10", "x", "0.4342944819032518 / x", "The logarithm to base 10.", POSITIVE, sympy="log(x, 10)"),
    entry("log1p", "x", "1 / (1 + x)", "log(1 + x), accurate near 0.", ABOVE_MINUS_ONE, sympy="log(1 + x)"),
    entry("sqrt", "x", "0.5 / r", "The square root; its derivative at 0 is inf.", POSITIVE),
    entry("rsqrt", "x", "-0.5 * r * r * r", "The reciprocal of the square root; inf at 0.", POSITIVE,
          kernel="rsqrt({x})", numpy=lambda x: 1 / np.sqrt(x), sympy="1 / sqrt(x)"),
    entry("cbrt", "x", "1 / (3 * r * r)", "The real cube root; its derivative at 0 is inf.",
          kernel="np.cbrt({x})", sympy="sign(x) * Abs(x) ** Rational(1, 3)"),
    entry("sin", "x", "cos(x)", "The sine of x in radians."),
    entry("cos", "x", "-sin(x)", "The cosine of x in radians."),
    entry("tan", "x", "1 + r * r", "The tangent of x in radians.", BETWEEN_POLES),
    # d = x - 2 round(x / 2) is exact, and so is 1 - |d| for |d| >= 1/2: only the product with pi is rounded.
    entry("sinpi", "x", "3.141592653589793 * cospi(x)", "sin(pi x), 0 at whole numbers.",
          expand="sin(3.141592653589793 * copysign(minimum(abs(x - 2 * rint(0.5 * x)),"
                 " 1 - abs(x - 2 * rint(0.5 * x))), x - 2 * rint(0.5 * x)))",
          numpy=sinpi, sympy="sin(pi * x)"),
    entry("cospi", "x", "-3.141592653589793 * sinpi(x)", "cos(pi x), 0 halfway between whole numbers.",
          expand="sin(3.141592653589793 * (0.5 - abs(x - 2 * rint(0.5 * x))))",
          numpy=lambda x: np.sin(np.pi * (0.5 - np.abs(x - 2 * np.rint(0.5 * x)))), sympy="cos(pi * x)"),
    # Two factors in place of 1 - x * x lose no digits near 1, and with -2 * x none of the curvature near 0.
    entry("one_minus_square", "x", "-2 * x", "1 - x**2, accurate near 1.", UNIT,
          expand="(1 - x) * (1 + x)", numpy=lambda x: (1 - x) * (1 + x), sympy="1 - x ** 2"),
    entry("asin", "x", "1 / sqrt(one_minus_square(x))", "The inverse sine; its derivative at 1 is inf.",
          UNIT),
    entry("acos", "x", "-1 / sqrt(one_minus_square(x))", "The inverse cosine; its derivative at 1 is -inf.",
          UNIT),
    entry("atan", "x", "1 / (1 + x * x)", "The inverse tangent."),
    entry("atan2", "y x",
          ("where(x == 0 and y == 0, 0, x / hypot(x, y) / hypot(x, y))",
           "where(x == 0 and y == 0, 0, -y / hypot(x, y) / hypot(x, y))"),
          "The angle of the point (x, y); its derivative at (0, 0) is 0."),
    entry("sinh", "x", "cosh(x)", "The hyperbolic sine."),
    entry("cosh", "x", "sinh(x)", "The hyperbolic cosine."),
    # A quotient of polynomials near 0, elsewhere the exponential that its derivative shares.
    entry("tanh", "x", "tanh_slope(x)", "The hyperbolic tangent.",
          expand="where(abs(x) < 0.55, x * (1 + square(x) * (0.1281725615580474 + square(x) * "
                 "(0.0027935860616884038 + square(x) * 7.3656635301402035e-06))), "
                 "copysign(1 - exp(-2 * abs(x)), x)) / "
                 "where(abs(x) < 0.55, 1 + square(x) * (0.4615058948913807 + square(x) * "
                 "(0.02329555102548231 + square(x) * 0.0002066839880815247)), 1 + exp(-2 * abs(x)))"),
    # No digits are lost where tanh is almost 1, as in 1 - r * r.
    entry("tanh_slope", "x", "-2 * r * tanh(x)", "1 / cosh(x)**2, the derivative of tanh.",
          expand="4 * exp(-2 * abs(x)) / square(1 + exp(-2 * abs(x)))",
          numpy=lambda x: np.square(1 / np.cosh(x)), sympy="1 / cosh(x) ** 2"),
    entry("asinh", "x", "1 / hypot(x, 1)", "The inverse hyperbolic sine."),
    # Two roots in place of one of a product: NaN, and not a number, below -1.
    entry("acosh", "x", "1 / (sqrt(x - 1) * sqrt(x + 1))", "The inverse hyperbolic cosine.", ABOVE_ONE),
    entry("atanh", "x", "1 / one_minus_square(x)", "The inverse hyperbolic tangent.", UNIT),
    entry("deg2rad", "x", "0.017453292519943295", "Degrees to radians.",
          expand="0.017453292519943295 * x", sympy="x * pi / 180"),
    entry("rad2deg", "x", "57.29577951308232", "Radians to degrees.",
          expand="57.29577951308232 * x", sympy="x * 180 / pi"),
)  # fmt: skip
