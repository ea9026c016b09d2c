"""Extreme points of the functions of the rule table, with the truth by mpmath in `extremes.json`.

The truth is the SymPy form of an entry, differentiated by SymPy, with so many digits that nothing is lost.
Beside it stands the condition: how much the truth changes with a relative change of the arguments. Run this
file, with the names of functions or for all of them, to compute the truths again (half an hour).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations_with_replacement, product
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
from mpmath import mpf
from ops.rules.evaluate import at_order, precise

from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import SECTIONS, TABLE

PATH = Path(__file__).with_name("extremes.json")
STEP = mpf(2) ** -150  # the relative change of an argument by which the condition is measured
MOST_DIGITS = 1600  # exp(-1600) beside 1
STEPS = ("Rounding and remainders", "Comparisons, classification and logic", "Bits of integers")
ENTRIES = {e.name: e for title, section in SECTIONS.items() if title not in STEPS for e in section}
# Their derivatives are constants or operands.
EXACT = (
    "add", "subtract", "multiply", "negative", "strict", "fma", "abs", "sign", "minimum", "maximum", "fmin",
    "fmax", "clip", "copysign", "heaviside", "relu", "leaky_relu", "lerp", "deg2rad", "rad2deg",
)  # fmt: skip
# Those of i0e, i1e and ive say what ive_derivative does. For those without a form in SymPy see
# test_incomplete_rules.py.
NAMES = [
    name
    for name, e in ENTRIES.items()
    if e.differentiable and e.sympy and name not in (*EXACT, "ive_derivative")
]

Point = tuple[float, ...]


def both(*sizes: float) -> Point:
    """Numbers of both signs, and 0."""
    return (0.0, *(s * v for v in sizes for s in (1.0, -1.0)))


LINE = both(1e-300, 1e-20, 1e-8, 1e-3, 0.3, 1.0, 3.0, 20.0, 40.0, 700.0, 1e5, 1e300)
LINE += (0.9375, 1 - 1e-10, 1 - 2.0**-53, 1e-10 - 1, 2.0**-53 - 1, 1 + 1e-10, 2 - 1e-10)
# Elsewhere mpmath takes minutes, or has no values.
MODERATE = both(1e-20, 1e-8, 1e-3, 0.3, 1.0, 3.0, 8.0, 20.0, 40.0, 700.0)
NEAR_POLES = tuple(n + d for n in (-5.0, -1.0, 0.0, 1.0, 2.0) for d in (-1e-3, -1e-9, 1e-9, 1e-3))
PLANE = (0.0, 1e-100, 1e-8, -1.0, 3.0, -40.0, 1e100)
QUADRANT = (1e-8, 0.3, 1.0, 3.0, 40.0, 1e5)
INVERSES = ("erfinv", "erfcinv", "ndtri")
SPECIAL = {e.name for e in SECTIONS["Special functions"]} - {"sinc", "sinc_derivative"}
GAMMA = ("gamma", "lgamma", "digamma", "trigamma", "polygamma")
ORDERS = {"polygamma": 3, "polygamma_difference": 1, "ierfcx": 2, "sinc_derivative": 1}
ORDERS |= {"jn": 2, "iv": 2, "ive": 2}


class Expected(NamedTuple):
    """A value or derivative at a point, and how much it changes with the arguments."""

    point: Point
    value: float
    condition: float


def fixed(name: str) -> Primitive:
    """The entry of a function; one with an order at a typical order."""
    entry = ENTRIES[name]
    return at_order(entry, ORDERS[name]) if entry.orders else entry


def points(name: str) -> Iterable[Point]:
    """Where a function is looked at."""
    entry = fixed(name)
    count = sum(low < high for (low, high), *_ in entry.domain)
    free = (
        QUADRANT
        if count > 1 and name in SPECIAL
        else PLANE
        if count > 1
        else MODERATE
        if name in SPECIAL
        else LINE
    )
    free = free + NEAR_POLES if name in GAMMA else free
    axes = [free if low < high else (low,) for (low, high), *_ in entry.domain]
    return (
        p for p in product(*axes) if not (name == "i0e" and p[0] == 0) and not (name == "power" and p[0] < 0)
    )


def orders(name: str) -> Iterator[tuple[str, ...]]:
    """The value, first and second derivatives, each by the names of parameters."""
    entry = fixed(name)
    names = [p for p, ((low, high), *_) in zip(entry.params, entry.domain, strict=True) if low < high]
    for order in range(3):
        yield from combinations_with_replacement(names, order)


def digits(name: str, point: Point) -> int:
    """With how many digits nothing is lost at a point."""
    if name in SPECIAL or name in INVERSES:
        return 150
    count = 60.0
    for x in map(abs, point):
        if x:
            count += 4 * abs(log10(x)) + (x * x / 2 + 2 * x if x < 50 else MOST_DIGITS if x < 1e4 else 0)
    return int(min(count, MOST_DIGITS))


def number(function: Callable[..., Any], point: Iterable[Any]) -> Any:
    """A finite real value of a function of mpmath numbers; None where there is none."""
    try:
        found = mpmath.mpmathify(function(*point))
    except (ArithmeticError, ValueError, TypeError, NameError, mpmath.libmp.NoConvergence):
        return None
    if isinstance(found, mpmath.mpc):
        found = found.real if found.imag == 0 else mpf("nan")
    return found if mpmath.isfinite(found) else None


def expected(name: str, by: tuple[str, ...]) -> Iterator[Expected]:
    """The truth at all points where there is one."""
    function = precise(fixed(name), *by)
    for point in points(name):
        with mpmath.workdps(digits(name, point)):
            exact = [mpf(x) for x in point]
            value = number(function, exact)
            moved = [
                [x * (1 + STEP) if j == k else x for j, x in enumerate(exact)] for k in range(len(exact))
            ]
            others = [number(function, p) for p, x in zip(moved, exact, strict=True) if x]
            if value is None or None in others:
                continue
            condition = sum(abs(other - value) for other in others) / STEP
            yield Expected(point, float(value), float(f"{float(condition):.2g}"))


def read() -> Mapping[str, Mapping[str, list[Expected]]]:
    """The stored truths by function and parameters."""
    stored = json.loads(PATH.read_text())
    return {
        name: {by: [Expected(tuple(row[:-2]), *row[-2:]) for row in rows] for by, rows in found.items()}
        for name, found in stored.items()
    }


def write(names: Iterable[str]) -> None:
    """Compute and store the truths of some functions."""
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    for name in names:
        found = {" ".join(by): list(expected(name, by)) for by in orders(name)}
        domain = {e.point for e in found[""]}
        stored[name] = {
            by: [(*e.point, e.value, e.condition) for e in rows if e.point in domain]
            for by, rows in found.items()
        }
        print(name, flush=True)
        lines = [
            f"  {json.dumps(n)}: {{\n"
            + ",\n".join(
                f"    {json.dumps(by)}: {json.dumps(rows, separators=(',', ':'))}"
                for by, rows in found.items()
            )
            + "\n  }"
            for n, found in sorted(stored.items())
        ]
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    assert set(sys.argv[1:]) <= set(TABLE)
    write(sys.argv[1:] or NAMES)
