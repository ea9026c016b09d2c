"""Arithmetic: the operators of the language and related functions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from adcompiler.ops.rules.shorthand import POSITIVE, entry


def _fma(x: Any, y: Any, z: Any) -> Any:
    plain = x * y + z
    if not np.isfinite((x, y, z)).all():
        return plain
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if not exact:
        return plain
    try:
        return type(plain)(float(exact))
    except OverflowError:
        return type(plain)(np.inf if exact > 0 else -np.inf)


def fma(x: Any, y: Any, z: Any) -> Any:
    """The reference of `fma`, by fractions."""
    x, y, z = np.broadcast_arrays(x, y, z)
    flat = [_fma(*point) for point in zip(x.flat, y.flat, z.flat, strict=True)]
    return np.array(flat, x.dtype).reshape(x.shape)[()]


ARITHMETIC = (
    entry("add", "x y", ("1", "1"), "The sum x + y.",
          kind="arithmetic", kernel="{x} + {y}", sympy="x + y"),
    entry("subtract", "x y", ("1", "-1"), "The difference x - y.",
          kind="arithmetic", kernel="{x} - {y}", sympy="x - y"),
    entry("multiply", "x y", ("y", "x"), "The product x * y.",
          kind="arithmetic", kernel="{x} * {y}", sympy="x * y"),
    entry("divide", "x y", ("1 / y", "-r / y"), "The quotient x / y, always a float; 1/0 is inf.",
          kernel="{x} / {y}", sympy="x / y"),
    entry("negative", "x", "-1", "The negation -x.",
          kind="arithmetic", kernel="-{x}", sympy="-x"),
    # Both guards stand on points where x is 0 only, never on y == 0 alone: a guard there would
    # also stop d/dy of the first partial, which at y = 0 is 1 / x.
    entry("power", "x y",
          ("where(x == 0 and y == 0, 0, y * x ** (y - 1))", "where(x == 0 and y >= 0, 0, r * log(x))"),
          "The power x ** y; at x = 0 derivatives are limits (0 for y = 0), never 0 times inf.", POSITIVE,
          kind="arithmetic", kernel="{x} ** {y}", sympy="x ** y"),
    entry("square", "x", "2 * x", "The square x * x.",
          kind="arithmetic", kernel="{x} * {x}", sympy="x ** 2"),
    entry("reciprocal", "x", "-r * r", "The reciprocal 1 / x.",
          expand="1 / x", sympy="1 / x"),
    entry("strict", "x", "1", "x, computed without rearranging or contracting operations.",
          kind="arithmetic", kernel="{x}", numpy=np.positive, sympy="x"),
    entry("fma", "x y z", ("y", "x", "1"), "x * y + z, rounded once.",
          kernel="fma({x}, {y}, {z})", numpy=fma, sympy="x * y + z"),
)  # fmt: skip
