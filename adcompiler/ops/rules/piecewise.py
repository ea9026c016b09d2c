"""Functions with kinks. A tie is split evenly, as a central difference would."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.ops.rules.shorthand import entry


def direction(x: Any, y: Any) -> Any:
    """The reference of `direction`."""
    length = np.hypot(x, y)
    return np.where(length == 0, 0, x / np.where(length == 0, 1, length)).astype(length.dtype)[()]


PIECEWISE = (
    entry("abs", "x", "sign(x)", "The absolute value; its derivative at 0 is 0.",
          kind="arithmetic", kernel="abs({x})", sympy="Abs(x)"),
    entry("sign", "x", "0", "The sign of x as -1, 0 or 1; NaN if x is NaN.",
          kind="arithmetic", kernel="np.sign({x})"),
    # A NaN differs from itself. `minimum` and `maximum` take it, `fmin` and `fmax` leave it.
    entry("minimum", "x y",
          ("where(x == y, 0.5, where(x < y, 1, 0))",
           "where(x == y, 0.5, where(y < x, 1, 0))"),
          "The smaller value; NaN if either is NaN. A tie is split evenly.",
          kind="arithmetic", kernel="{x} if {x} <= {y} or {x} != {x} else {y}", sympy="Min(x, y)"),
    entry("maximum", "x y",
          ("where(x == y, 0.5, where(x > y, 1, 0))",
           "where(x == y, 0.5, where(y > x, 1, 0))"),
          "The larger value; NaN if either is NaN. A tie is split evenly.",
          kind="arithmetic", kernel="{x} if {x} >= {y} or {x} != {x} else {y}", sympy="Max(x, y)"),
    entry("fmin", "x y",
          ("where(x == y, 0.5, where(x < y or y != y, 1, 0))",
           "where(x == y, 0.5, where(y < x or x != x, 1, 0))"),
          "The smaller value, ignoring a NaN. A tie is split evenly.",
          kind="arithmetic", kernel="{x} if {x} <= {y} or {y} != {y} else {y}", sympy="Min(x, y)"),
    entry("fmax", "x y",
          ("where(x == y, 0.5, where(x > y or y != y, 1, 0))",
           "where(x == y, 0.5, where(y > x or x != x, 1, 0))"),
          "The larger value, ignoring a NaN. A tie is split evenly.",
          kind="arithmetic", kernel="{x} if {x} >= {y} or {y} != {y} else {y}", sympy="Max(x, y)"),
    # The partials are those of the composition: a bound that x meets takes its half.
    entry("clip", "x lo hi",
          ("where(x < lo or x > hi, 0, where(x == lo, 0.5, 1) * where(x == hi, 0.5, 1))",
           "where(lo < x or lo > hi, 0, where(lo == x, 0.5, 1) * where(lo == hi, 0.5, 1))",
           "where(hi > maximum(x, lo), 0, where(hi == maximum(x, lo), 0.5, 1))"),
          "minimum(maximum(x, lo), hi). Ties with a bound are split alike.",
          kind="arithmetic", expand="minimum(maximum(x, lo), hi)", sympy="Min(Max(x, lo), hi)"),
    entry("hypot", "x y", ("direction(x, y)", "direction(y, x)"),
          "The length of (x, y), without overflow; its derivative at (0, 0) is 0.",
          sympy="sqrt(x ** 2 + y ** 2)"),
    # The derivative of the quotient would cancel where x is larger than y.
    entry("direction", "x y",
          ("where(x == 0 and y == 0, 0, direction(y, x) * direction(y, x) / hypot(x, y))",
           "where(x == 0 and y == 0, 0, -r * direction(y, x) / hypot(x, y))"),
          "x / hypot(x, y), the cosine of the angle of (x, y); 0 at (0, 0).",
          expand="where(hypot(x, y) == 0, 0, x / hypot(x, y))", numpy=direction,
          sympy="x / sqrt(x ** 2 + y ** 2)"),
    entry("copysign", "x y", ("sign(x) * copysign(1, y)", "0"),
          "abs(x) with the sign of y, including that of -0.",
          sympy="Abs(x) * sign(y)"),
    entry("heaviside", "x h", ("0", "where(x == 0, 1, 0)"), "The step: 0 below 0, h at 0, 1 above.",
          expand="where(x < 0, 0, where(x == 0, h, where(x > 0, 1, x)))",
          sympy="Piecewise((0, x < 0), (h, Eq(x, 0)), (1, True))"),
    entry("relu", "x", "where(x > 0, 1, 0)", "The larger of x and 0; its derivative at 0 is 0.",
          kind="arithmetic", expand="maximum(x, 0)", numpy=lambda x: np.maximum(x, 0), sympy="Max(x, 0)"),
    entry("leaky_relu", "x slope", ("where(x > 0, 1, slope)", "where(x > 0, 0, x)"),
          "x above 0, slope * x below; its derivative at 0 is slope.",
          defaults=(0.01,), expand="where(x > 0, x, slope * x)",
          numpy=lambda x, slope: np.where(x > 0, x, slope * x),
          sympy="Piecewise((x, x > 0), (slope * x, True))"),
    entry("elu", "x alpha", ("where(x > 0, 1, alpha * exp(x))", "where(x > 0, 0, expm1(x))"),
          "x above 0, alpha * expm1(x) below; its derivative at 0 is alpha.",
          defaults=(1.0,), expand="where(x > 0, x, alpha * expm1(x))",
          numpy=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x))),
          sympy="Piecewise((x, x > 0), (alpha * (exp(x) - 1), True))"),
    # 1.0507... is the scale of Klambauer et al. (2017), 1.7580... that times their alpha.
    entry("selu", "x", "where(x > 0, 1.0507009873554805, 1.7580993408473766 * exp(x))",
          "1.0507 x above 0, 1.7581 expm1(x) below; its derivative at 0 is taken from below.",
          expand="where(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * expm1(x))",
          numpy=lambda x: np.where(x > 0, 1.0507009873554805 * x,
                                   1.7580993408473766 * np.expm1(np.where(x > 0, 0, x))),
          sympy="Piecewise((1.0507009873554805 * x, x > 0), (1.7580993408473766 * (exp(x) - 1), True))"),
)  # fmt: skip
