"""Computes the numbers in adcompiler/targets/llvm/vectormath/coefficients.json, and writes them there.

A polynomial is the best one, up to its rounding: it is found by Remez's method in numbers of 300 bits. Errors
are weighted by what the polynomial is multiplied with, so that the error of the whole function is the least.

PYTHONPATH=tests python tests/ops/rules/coefficients.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf

from adcompiler.targets.llvm import vectormath

PATH = Path(vectormath.__file__).with_name("coefficients.json")
BITS = 300
DOUBLE, FLOAT = 53, 24
KINDS = {DOUBLE: "double", FLOAT: "float"}
GRID, STEPS = 24, 9  # points for a coefficient, and how often those of the greatest errors are looked for
Numbers = dict[str, list[float]]
Function = Callable[[Any], Any]


def rounded(x: Any, bits: int) -> float:
    """The nearest number of a type."""
    return float(x) if bits == DOUBLE else float(np.float32(float(x)))


def short(x: Any, places: int) -> float:
    """The next lower multiple of 2 ** -places."""
    return float(mpmath.floor(x * mpf(2) ** places) / mpf(2) ** places)


def polynomial(f: Function, low: Any, high: Any, degree: int, weight: Function = lambda x: 1) -> list[Any]:
    """The coefficients of the polynomial with the least greatest error, times a weight: by Remez's method."""
    n, middle, half = degree + 1, (mpf(high) + low) / 2, (mpf(high) - low) / 2
    grid = [middle + half * mpmath.cos(mpmath.pi * k / (GRID * n)) for k in range(GRID * n + 1)]
    values, weights = [f(x) for x in grid], [mpf(weight(x)) for x in grid]
    chosen, best = [GRID * k for k in range(n + 1)], (mpmath.inf, [])
    for _ in range(STEPS):
        rows = [[*(weights[c] * grid[c] ** j for j in range(n)), (-1) ** k] for k, c in enumerate(chosen)]
        wanted = mpmath.matrix([weights[c] * values[c] for c in chosen])
        *found, _ = mpmath.lu_solve(mpmath.matrix(rows), wanted)
        errors = [
            (mpmath.polyval(found[::-1], x) - v) * w for x, v, w in zip(grid, values, weights, strict=True)
        ]
        best = min(best, (max(map(abs, errors)), found), key=lambda b: b[0])
        chosen = alternating(errors, n + 1)
    return best[1]


def alternating(errors: Sequence[Any], count: int) -> list[int]:
    """Where errors are greatest among those of one sign, of neighbours with alternating signs."""
    groups: list[list[int]] = []
    for k, e in enumerate(errors):
        if groups and (errors[groups[-1][-1]] > 0) == (e > 0):
            groups[-1].append(k)
        else:
            groups.append([k])
    peaks = [max(g, key=lambda k: abs(errors[k])) for g in groups]
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def rest(f: Callable[[Any], Any], terms: Sequence[Any], step: int = 1) -> Callable[[Any], Any]:
    """What is left of a power series in x ** step without its first terms, divided by the next power."""

    def left(y: Any) -> Any:
        y = y or mpf(2) ** -60
        x = y if step == 1 else mpmath.sqrt(y)
        return (f(x) - sum(t * y**k for k, t in enumerate(terms))) / y ** len(terms)

    return left


# -- the functions ---------------------------------------------------------------------------------


def exp(bits: int) -> Numbers:
    """2 ** (j / 16) as t e^d, and (e^r - 1 - r) / r^2, for which r^2, or r, is small."""
    exact = [mpf(2) ** (mpf(j) / 16) for j in range(16)]
    t = [rounded(x, bits) for x in exact]
    half = mpmath.ln2 / 32 * (1 + mpf(2) ** -10)
    left, degree = rest(mpmath.exp, (1, 1)), 4 if bits == DOUBLE else 2
    q = polynomial(left, -half, half, degree, lambda r: r * r)
    longer = polynomial(left, -half, half, degree + 1, abs)
    high = rounded(mpmath.ln2, bits)
    return {
        "exp_powers": t,
        "exp_logs": [rounded(mpmath.log(x / y), bits) for x, y in zip(exact, t, strict=True)],
        "exp_polynomial": [rounded(c, bits) for c in q],
        "expm1_polynomial": [rounded(c, bits) for c in longer],
        "exp_reduction": [rounded(1 / mpmath.ln2, bits), high, rounded(mpmath.ln2 - high, bits)],
    }


def log(bits: int) -> Numbers:
    """c with |m c - 1| < 1/16 for m between 3/4 and 3/2, the same for 2 m where m < 1, and the logarithms."""
    factors = []
    for j in range(16):
        low = mpf(1) + mpf(j) / 16 if j < 8 else (mpf(1) + mpf(j) / 16) / 2
        width = mpf(1) / 16 if j < 8 else mpf(1) / 32
        factors.append(short(1 / (low + width / 2) + mpf(2) ** -7, 6) if j not in {0, 15} else 1.0)
    found = {"log_factors": factors, "log_whole_factors": [c / (1 + (j >= 8)) for j, c in enumerate(factors)]}
    for name, base in (("log", mpmath.e), ("log2", mpf(2)), ("log10", mpf(10))):
        found |= logarithm(name, mpmath.log(base), factors, bits)
    return found


def logarithm(name: str, scale: Any, factors: Sequence[float], bits: int) -> Numbers:
    """-log(c) in two parts, (log(1 + r) - r) / r^2, and log(2), all divided by a number, and what one is.

    The high parts have so few digits that their sums with a multiple of that of log(2) are exact.
    """
    places = 42 if bits == DOUBLE else 15
    two = mpmath.ln2 / scale
    logs = [-mpmath.log(c) / scale + (two if j >= 8 else 0) for j, c in enumerate(factors)]
    highs = [short(x, places) for x in logs]
    low, high, degree = mpf("-0.0385"), mpf(1) / 16, 9 if bits == DOUBLE else 4
    q = polynomial(lambda r: rest(mpmath.log1p, (0, 1))(r) / scale, low, high, degree, abs)
    one = rounded(1 / scale, bits)
    return {
        f"{name}_highs": highs,
        f"{name}_lows": [rounded(x - y, bits) for x, y in zip(logs, highs, strict=True)],
        f"{name}_polynomial": [rounded(c, bits) for c in q],
        f"{name}_two": [short(two, places), rounded(two - short(two, places), bits)],
        f"{name}_one": [one, rounded(1 / scale - one, bits)],
    }


def uniform(width: Any) -> Iterator[tuple[Any, Any]]:
    """Cells around the multiples of a width, the first one from 0 on."""
    for j in range(16):
        yield max(mpf(0), (j - mpf(1) / 2) * width), (j + mpf(1) / 2) * width


def growing(scale: Any) -> Iterator[tuple[Any, Any]]:
    """Four cells for each power of two in which 1 + scale x is, from 1 to 16, in the order of that number's
    last two bits of the exponent and first two of the fraction."""
    for power in (1, 2, 3, 0):
        for j in range(4):
            low, high = (mpf(2) ** power * (4 + i) / 4 for i in (j, j + 1))
            yield (low - 1) / scale, (high - 1) / scale


def piecewise(
    name: str,
    f: Callable[[Any], Any],
    cells: Iterator[tuple[Any, Any]],
    degree: int,
    bits: int,
    odd: bool,
    slope: int = 0,
) -> Numbers:
    """The polynomials of f(c + d) in d on some cells, where c is nearly in the middle; 0 in the first one, if
    f is odd. The values at the c hardly differ from numbers that they are rounded to.
    Of an odd function's first polynomial d is left out, and of all others its multiple."""
    centres, columns = [], []
    places = 12 if bits == DOUBLE else 10
    for low, high in cells:
        if low == 0 and odd:
            c = 0.0
            p = [mpf(0), *polynomial(lambda d: rest(f, (0,))(d) - 1, 0, high, degree - 1)]
        else:
            best = short((low + high) / 2, places)
            steps = range(-100, 101) if low + 200 * mpf(2) ** -places < high else range(1)
            c = min((best + k * 2.0**-places for k in steps), key=lambda x: inexact(f(mpf(x)), bits))
            first = rounded(f(mpf(c)), bits)
            g = rest(lambda d, c=c: f(c + d), (first,))
            p = [mpf(first), *polynomial(g, low - c, high - c, degree - 1, abs)]
            p[1] -= slope
        centres.append(c)
        columns.append(p)
    rows = {f"{name}_{k}": [rounded(p[k], bits) for p in columns] for k in range(degree + 1)}
    return {f"{name}_centres": centres, **rows}


def inexact(x: Any, bits: int) -> Any:
    """How far a number is from the nearest one of a type, in units in its last place."""
    scaled = x * mpf(2) ** (bits - mpmath.frexp(x)[1])
    return abs(scaled - mpmath.nint(scaled))


def erf(bits: int) -> Numbers:
    """Up to where it is 1."""
    width, limit, degree = (mpf("0.386"), 5.98, 12) if bits == DOUBLE else (mpf("0.26"), 4.0, 6)
    found = piecewise("erf", mpmath.erf, uniform(width), degree, bits, odd=True, slope=1)
    return {"erf_cells": [rounded(1 / width, bits), rounded(limit, bits)], **found}


def erfc(bits: int) -> Numbers:
    """erfc(x) e^(x^2), up to where erfc is 0."""
    scale, limit, degree = (0.5475, 27.3, 14) if bits == DOUBLE else (1.4785, 10.1, 6)

    def scaled(x: Any) -> Any:
        return mpmath.erfc(x) * mpmath.exp(x * x)

    found = piecewise("erfc", scaled, growing(mpf(scale)), degree, bits, odd=False)
    return {"erfc_cells": [rounded(scale, bits), rounded(limit, bits)], **found}


def sin(bits: int) -> Numbers:
    """(sin(r) - r) / r^3 and (cos(r) - 1) / r^2 as polynomials in r^2, and pi / 2 in three parts."""
    half, degree = (mpmath.pi / 4) ** 2, 6 if bits == DOUBLE else 3
    of_sine = rest(lambda x: mpmath.sin(x) / x, (1,), step=2)
    of_cosine = rest(mpmath.cos, (1,), step=2)
    parts, left = [], mpmath.pi / 2
    for _ in range(3):
        parts.append(rounded(left, bits))
        left -= parts[-1]
    return {
        "sin_polynomial": [rounded(c, bits) for c in polynomial(of_sine, 0, half, degree, abs)],
        "cos_polynomial": [rounded(c, bits) for c in polynomial(of_cosine, 0, half, degree, abs)],
        "sin_reduction": [rounded(2 / mpmath.pi, bits), *parts],
    }


FUNCTIONS = (exp, log, erf, erfc, sin)


def page() -> str:
    """The text of the file: JSON, the numbers of each function's tables by their names."""
    parts = []
    for bits, kind in KINDS.items():
        with mpmath.workprec(BITS):
            tables = {k: v for f in FUNCTIONS for k, v in f(bits).items()}
        parts.append(f'"{kind}": {{\n' + ",\n".join(line(n, v, bits) for n, v in tables.items()) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def line(name: str, values: Sequence[float], bits: int) -> str:
    """A table in JSON, on lines of 110 characters at most."""
    text = f'"{name}": [{", ".join(shown(v, bits) for v in values)}]'
    return textwrap.fill(text, 108, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def shown(value: float, bits: int) -> str:
    """A number as it is written: one of float32 with as many digits as tell it from others."""
    if bits == FLOAT and value:
        text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
        return repr(float(text))
    return repr(value)


if __name__ == "__main__":
    PATH.write_text(page())
