"""Rounding and remainders: constant or linear between jumps; derivatives ignore the jumps."""

from __future__ import annotations

from adcompiler.ops.rules.shorthand import Domain, entry

# Clear of the whole and the half numbers, where rounding jumps.
BETWEEN: Domain = ((-1.9, -1.6), (-1.4, -1.1), (-0.4, -0.1), (0.6, 0.9), (1.1, 1.4))
# No quotient of these is an integer.
NUMERATOR: Domain = ((-2.9, -2.2), (2.2, 2.9))
DENOMINATOR: Domain = ((-1.1, -1.0), (1.0, 1.1))

ROUNDING = (
    entry("floor", "x", "0", "The largest whole number not above x.", BETWEEN,
          kind="arithmetic", kernel="np.floor({x})"),
    entry("ceil", "x", "0", "The smallest whole number not below x.", BETWEEN,
          kind="arithmetic", kernel="np.ceil({x})", sympy="ceiling(x)"),
    entry("trunc", "x", "0", "The whole part of x, towards 0.", BETWEEN,
          kind="arithmetic", kernel="np.trunc({x})", sympy="sign(x) * floor(Abs(x))"),
    entry("rint", "x", "0", "The nearest whole number, as a float; halves round to even.", BETWEEN,
          kernel="np.rint({x})", sympy="floor(x + Rational(1, 2))"),
    entry("floor_divide", "x y", ("0", "0"), "The quotient rounded down; of integers, x // 0 is 0.",
          NUMERATOR, DENOMINATOR, kind="arithmetic", kernel="{x} // {y}", sympy="floor(x / y)"),
    entry("remainder", "x y", ("1", "-(x // y)"),
          "x - y * (x // y), with the sign of y; of integers, x % 0 is 0.",
          NUMERATOR, DENOMINATOR, kind="arithmetic", kernel="{x} % {y}", sympy="x - y * floor(x / y)"),
    entry("fmod", "x y", ("1", "-trunc(x / y)"), "The remainder with the sign of x, always a float.",
          NUMERATOR, DENOMINATOR, kernel="np.fmod({x}, {y})",
          sympy="x - y * sign(x / y) * floor(Abs(x / y))"),
)  # fmt: skip
