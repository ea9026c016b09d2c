"""Values and derivatives at extreme points are right to some units in the last place: `extremes.py`.

An argument that is wrong by as much may change a result by its condition times that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from ops.rules.evaluate import Numbers, derivative
from ops.rules.extremes import NAMES, ORDERS, Expected, expected, fixed, orders, read

import adcompiler as adc
from adcompiler.ops.table import TABLE

ULPS = 16.0  # the largest error for a condition of 1
STORED = read()

INNER = "only derivatives of log_ndtr beyond the third need it; terms cancel far below 0"
# How many units it is instead, in float64 and float32, and why.
EXCEPTIONS: Mapping[str, tuple[float, float, str]] = {
    "power": (64, 64, "y - 1 is rounded, and times log(x)"),
    "erfcinv": (64, 64, "the square of the quantile, of which the derivative is an exponential"),
    "ndtri": (64, 64, "the square of the quantile, of which the derivative is an exponential"),
    "jn": (64, 16, "that of SciPy, near 0"),
    "ive": (64, 64, "that of SciPy near 0, and a sum of alternating terms"),
    "norm_hazard": (64, 16, "the integrals of erfc of higher orders follow from that of order 0 up to 1"),
    "norm_excess": (64, 16, "the integrals of erfc of higher orders follow from that of order 0 up to 1"),
    "norm_excess_slope": (1e3, 1e3, INNER),
    "norm_excess_curvature": (1e6, 1e5, INNER),
    "beta x y": (np.inf, np.inf, "the terms of the mixed derivative cancel for small parameters"),
}


def arguments(name: str, row: Expected) -> tuple[float, ...]:
    """All arguments of a function: an order comes first."""
    return (float(ORDERS[name]), *row.point) if name in ORDERS else row.point


def wrong(name: str, by: str, found: Any, rows: list[Expected]) -> list[str]:
    """The points where results are not right, with figures."""
    limits = np.finfo(found.dtype)
    double, single, _ = EXCEPTIONS.get(f"{name} {by}", EXCEPTIONS.get(name, (ULPS, ULPS, "")))
    ulps = double if found.dtype == np.float64 else single
    errors = []
    for row, value in zip(rows, found, strict=True):
        if ulps == np.inf or (row.value and not limits.tiny < abs(row.value) < limits.max):
            continue
        allowed = 0.5 * limits.eps * ulps * (abs(row.value) + row.condition) + 8 * limits.smallest_subnormal
        if not abs(float(value) - row.value) <= allowed:
            unit = 0.5 * limits.eps * (abs(row.value) + row.condition)
            off = f"{(value - row.value) / unit:.3g} units"
            errors.append(f"{name}{row.point} by [{by}]: {value!r} for {row.value!r}, {off}")
    return errors


def holds(dtype: Any, point: tuple[float, ...]) -> bool:
    """Whether there are numbers of a type near a point that are whole only if it is."""
    whole = [x for x in point if dtype(x) == np.rint(x) != x]
    return not whole and all(x == 0 or 1e-37 < abs(x) < 1e37 for x in point if dtype is np.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_rules(name: str, dtype: Any) -> None:
    """The rules of the table, with its references."""
    errors, rules = [], Numbers(dtype)
    with np.errstate(all="ignore"):
        for by, stored in STORED[name].items():
            rows = [row for row in stored if holds(dtype, row.point)]
            found = [derivative(TABLE[name], arguments(name, row), tuple(by.split()), rules) for row in rows]
            errors += wrong(name, by, np.array(found, dtype), rows)
    assert not errors, "\n".join(errors)


@pytest.mark.thinned(10)
@pytest.mark.parametrize("name", [name for name in NAMES if len(fixed(name).params) == 1])
def test_kernels(name: str) -> None:
    """Functions of one number in a compiled program, with `diff`."""
    call = f"{name}({ORDERS[name]}, v)" if name in ORDERS else f"{name}(v)"
    terms = (call, f"diff({call}, v)", f"diff(diff({call}, v), v)")
    f = adc.compile(f"def f(x):\n    return {', '.join(f'[{term} for v in x]' for term in terms)}")
    places = [row.point[0] for row in STORED[name][""]]
    errors = []
    for (by, rows), found in zip(STORED[name].items(), f(np.array(places)), strict=True):
        errors += wrong(name, by, np.array([found[places.index(row.point[0])] for row in rows]), rows)
    assert not errors, "\n".join(errors)


def test_every_function_is_in_the_table() -> None:
    assert STORED.keys() == set(NAMES)
    assert {name.split()[0] for name in EXCEPTIONS} <= STORED.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_true(name: str) -> None:
    for by in orders(name):
        stored = {row.point: row for row in STORED[name][" ".join(by)]}
        for row in expected(name, by):
            assert row.point not in stored or stored[row.point] == row


@pytest.mark.parametrize("name", ["lbeta", "beta", "digamma", "i0e", "norm_excess", "norm_excess_slope"])
def test_references_have_values_everywhere(name: str) -> None:
    """Also at poles, where Python's functions raise."""
    ends = np.array([-np.inf, -1e308, -2.0, -1e-310, -0.0, 0.0, 5e-324, 1e-310, 3.0, 1e308, np.inf, np.nan])
    with np.errstate(all="ignore"):
        args = np.meshgrid(*[ends] * len(TABLE[name].params))
        found = TABLE[name].numpy(*args)
    assert found.shape == args[0].shape
