"""The logistic function and related functions, computed from exp(-abs(x)), which cannot overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.ops.rules.shorthand import ABOVE_MINUS_ONE, ANY, POSITIVE, PROBABILITY, entry, scipy_special


def logistic(x: Any) -> Any:
    """The reference of `sigmoid`."""
    small = np.exp(-abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


# 0.693... is log(2). 1 + tanh(x) is 2 sigmoid(2 x), which loses no digits far below 0: in
# gelu_tanh 1.595... is 2 sqrt(2 / pi) and 0.214... is 3 times 0.044715 times that.
ACTIVATION = (
    entry("sigmoid", "x", "sigmoid_slope(x)", "The logistic function 1 / (1 + exp(-x)), without overflow.",
          expand="where(x >= 0, 1, exp(-abs(x))) / (1 + exp(-abs(x)))",
          numpy=logistic, sympy="1 / (1 + exp(-x))"),
    entry("sigmoid_slope", "x", "-r * tanh(0.5 * x)", "sigmoid(x) * sigmoid(-x), the derivative of sigmoid.",
          expand="exp(-abs(x)) / square(1 + exp(-abs(x)))",
          numpy=lambda x: np.exp(-abs(x)) / np.square(1 + np.exp(-abs(x))),
          sympy="exp(-x) / (1 + exp(-x)) ** 2"),
    entry("log_sigmoid", "x", "sigmoid(-x)", "log(sigmoid(x)), without overflow or underflow.",
          expand="minimum(x, 0) - log1p(exp(-abs(x)))",
          numpy=lambda x: np.minimum(x, 0) - np.log1p(np.exp(-abs(x))), sympy="-log(1 + exp(-x))"),
    entry("logit", "x", "1 / (x * (1 - x))", "log(x / (1 - x)), the inverse of sigmoid.", PROBABILITY,
          expand="where(abs(x - 0.5) < 0.25, 2 * atanh(2 * x - 1), log(x / (1 - x)))",
          numpy=scipy_special("logit"), sympy="log(x / (1 - x))"),
    entry("softplus", "x", "sigmoid(x)", "log(1 + exp(x)), without overflow.",
          expand="maximum(x, 0) + log1p(exp(-abs(x)))",
          numpy=lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))), sympy="log(1 + exp(x))"),
    # Equal operands whose difference is not 0 are the same infinity; only there is the tie split.
    entry("logaddexp", "x y",
          ("where(x == y and x - y != 0, 0.5, sigmoid(x - y))",
           "where(x == y and x - y != 0, 0.5, sigmoid(y - x))"),
          "log(exp(x) + exp(y)), without overflow; equal infinities are split evenly.",
          expand="where(x == y, x + 0.6931471805599453, maximum(x, y) + log1p(exp(-abs(x - y))))",
          sympy="log(exp(x) + exp(y))"),
    entry("logaddexp2", "x y",
          ("where(x == y and x - y != 0, 0.5, sigmoid(0.6931471805599453 * (x - y)))",
           "where(x == y and x - y != 0, 0.5, sigmoid(0.6931471805599453 * (y - x)))"),
          "log2(2**x + 2**y), without overflow; equal infinities are split evenly.",
          expand="where(x == y, x + 1, maximum(x, y) + 1.4426950408889634 * log1p(exp2(-abs(x - y))))",
          sympy="log(2 ** x + 2 ** y, 2)"),
    entry("mish", "x",
          "tanh(softplus(x)) + x * sigmoid(x) * tanh_slope(softplus(x))",
          "x * tanh(softplus(x)).", expand="x * tanh(softplus(x))",
          numpy=lambda x: x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))),
          sympy="x * tanh(log(1 + exp(x)))"),
    entry("silu", "x", "sigmoid(x) * (1 + x * sigmoid(-x))", "x * sigmoid(x), also called swish.",
          expand="x * sigmoid(x)",
          numpy=lambda x: x * logistic(x),
          sympy="x / (1 + exp(-x))"),
    # Its derivative is 0 or 1 long before the powers of x overflow.
    entry("gelu_tanh", "x",
          "where(abs(x) > 1000, heaviside(x, 0.5), "
          "sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)) + r * (1.5957691216057308 + "
          "0.21406444881780076 * x * x) * sigmoid(-1.5957691216057308 * (x + 0.044715 * x * x * x)))",
          "The approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2 of gelu.",
          expand="x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))",
          numpy=lambda x: x * logistic(1.5957691216057308 * (x + 0.044715 * x * x * x)),
          sympy="x * (1 + tanh(sqrt(2 / pi) * (x + Rational(44715, 10 ** 6) * x ** 3))) / 2"),
    # At x = 0 the factor 0 wins over an infinite logarithm, but not over NaN.
    entry("xlogy", "x y", ("log(y)", "where(x == 0 and y == 0, 0, x / y)"),
          "x * log(y); 0 for x = 0, unless y is NaN.", ANY, POSITIVE,
          expand="where(x == 0 and y == y, 0, x * log(y))",
          numpy=lambda x, y: np.where((x == 0) & (y == y), 0, x * np.log(y)), sympy="x * log(y)"),
    entry("xlog1py", "x y", ("log1p(y)", "where(x == 0 and y == -1, 0, x / (1 + y))"),
          "x * log1p(y); 0 for x = 0, unless y is NaN.", ANY, ABOVE_MINUS_ONE,
          expand="where(x == 0 and y == y, 0, x * log1p(y))",
          numpy=lambda x, y: np.where((x == 0) & (y == y), 0, x * np.log1p(y)), sympy="x * log(1 + y)"),
    entry("lerp", "x y t", ("1 - t", "t", "y - x"), "The point x + t * (y - x) between x and y.",
          expand="x + t * (y - x)", numpy=lambda x, y, t: x + t * (y - x), sympy="x + t * (y - x)"),
)  # fmt: skip
