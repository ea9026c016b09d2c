"""Special functions: the error function, the gamma function and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adcompiler.ops.shorthand import Domain, entry

ABOVE_ZERO: Domain = ((0.1, 0.9), (1.1, 5.0))
BETWEEN_WHOLE: Domain = ((-1.9, -1.1), (-0.9, -0.1), (0.1, 5.0))


def _scipy(name: str, *leading: object) -> Callable[[Any], Any]:
    """A function of scipy.special, imported when it is called: only references need SciPy."""

    def call(x: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*leading, x).astype(x.dtype)

    return call


def _nested(*coefficients: str) -> str:
    """The polynomial c0 - c1 s + c2 s**2 - ... in s = 1 / (z * z), by Horner's rule."""
    text = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        text = f"({coefficient} - {text} / (z * z))"
    return text


def _polygamma(step: str, series: str, sign: str, reflected: str) -> str:
    """A derivative of log(gamma(x)), as a text for every x that is not a pole.

    For x > 0, with u = x: `step` summed over u, u + 1, ..., u + 7, and Stirling's `series` in
    z = u + 8, whose first omitted term is below 3e-15 there. For x <= 0, with u = 1 - x: `sign`
    times that, and `reflected`, of period 1 in x and so a text in the exact distance w from the
    nearest pole. All of it can be differentiated again.
    """
    u, reflected = "where(x > 0, x, 1 - x)", reflected.replace("w", "(x - rint(x))")
    steps = " + ".join(step.replace("u", f"({u} + {k})") for k in range(8))
    text = f"{steps} + {series}".replace("z", f"({u} + 8)")
    return f"where(x > 0, {text}, {sign}({text}) {reflected})"


PI = "3.141592653589793"
# The coefficients are Bernoulli's B2 to B14, as numbers b / (2k) and then twice derived.
DIGAMMA = _polygamma(
    "-1 / u",
    "log(z) - 0.5 / z - "
    + _nested("1 / 12", "1 / 120", "1 / 252", "1 / 240", "1 / 132", "691 / 32760", "1 / 12") + " / (z * z)",
    "", f"- {PI} / tan({PI} * w)",
)  # fmt: skip
TRIGAMMA = _polygamma(
    "1 / (u * u)",
    "1 / z + 0.5 / (z * z) + "
    + _nested("1 / 6", "1 / 30", "1 / 42", "1 / 30", "5 / 66", "691 / 2730", "7 / 6") + " / (z * z * z)",
    "-", f"+ {PI} / sin({PI} * w) * {PI} / sin({PI} * w)",
)  # fmt: skip
TETRAGAMMA = _polygamma(
    "-2 / (u * u * u)",
    "-1 / (z * z) - 1 / (z * z * z) - "
    + _nested("1 / 2", "1 / 6", "1 / 6", "3 / 10", "5 / 6", "691 / 210", "35 / 2") + " / (z * z * z * z)",
    "", f"- 2 * ({PI} / sin({PI} * w)) ** 3 * cos({PI} * w)",
)  # fmt: skip

# 1.128... is 2 / sqrt(pi), 0.707... is sqrt(1 / 2), 0.398... is 1 / sqrt(2 pi).
SPECIAL = (
    entry("erf", "x", "1.1283791670955126 * exp(-x * x)", "The error function.", numpy=_scipy("erf")),
    entry("erfc", "x", "-1.1283791670955126 * exp(-x * x)", "1 - erf(x), accurate far above 0.",
          numpy=_scipy("erfc")),
    # erfc in place of 1 + erf: no digits are lost far below 0.
    entry("ndtr", "x", "0.3989422804014327 * exp(-0.5 * x * x)", "The standard normal's probability below x.",
          expand="0.5 * erfc(-0.7071067811865476 * x)", numpy=_scipy("ndtr"),
          sympy="(1 + erf(x / sqrt(2))) / 2"),
    entry("gelu", "x", "ndtr(x) + 0.3989422804014327 * x * exp(-0.5 * x * x)", "x * ndtr(x).",
          expand="x * ndtr(x)", numpy=lambda x: x * _scipy("ndtr")(x),
          sympy="x * (1 + erf(x / sqrt(2))) / 2"),
    entry("gamma", "x", "r * digamma(x)", "The gamma function.", BETWEEN_WHOLE, numpy=_scipy("gamma")),
    entry("lgamma", "x", "digamma(x)", "log(abs(gamma(x))).", ABOVE_ZERO, numpy=_scipy("gammaln"),
          sympy="loggamma(x)"),
    entry("digamma", "x", "trigamma(x)", "The first derivative of log(gamma(x)).", BETWEEN_WHOLE,
          expand=DIGAMMA, numpy=_scipy("digamma")),
    entry("trigamma", "x", TETRAGAMMA, "The second derivative of log(gamma(x)).", BETWEEN_WHOLE,
          expand=TRIGAMMA, numpy=_scipy("polygamma", 1), sympy="polygamma(1, x)"),
)  # fmt: skip
