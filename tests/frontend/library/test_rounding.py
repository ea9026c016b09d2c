"""`round(x, n)` for every n: Python's value where NumPy's formula overflows, and the derivative of a step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adcompiler as adc

DIGITS = (0, 1, 2, -1, -2, 22, 290, 291, 308, 309, 324, 340, 400, -308, -309, -400)
DOUBLES = np.array(
    [2.34567, -2.5, 0.0, 1e300, 1.5e-310, 5e-324, np.inf, -np.inf, np.nan, 123456.789, 2.5e-308, 15.0, -250.0]
)
SINGLES = np.array([2.34567, -2.5, 0.0, 1e38, 1e-44, np.inf, -np.inf, np.nan, 15.0], np.float32)


def pythons(x: float, n: int) -> float:
    """Python's value, which refuses to overflow; infinities and NaN are kept."""
    return round(x, n) if math.isfinite(x) else x


@pytest.mark.parametrize("n", DIGITS)
@pytest.mark.parametrize("x", [DOUBLES, SINGLES], ids=["f64", "f32"])
def test_floats(x: np.ndarray, n: int) -> None:
    f = adc.compile(f"round(x, {n})", backend="numpy")
    found = f(x)
    assert found.dtype == x.dtype
    expected = np.array([pythons(float(v), n) for v in x])
    rtol = 4e-16 if x.dtype == np.float64 else 2e-7
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=0)
    assert not np.any(adc.vjp(f, x)[1](np.ones_like(x))[0])


@pytest.mark.parametrize("n", [0, 1, -1, -2, -3, -18, -19])
def test_integers_stay_integers_and_halves_round_to_even(n: int) -> None:
    k = np.array([15, 25, -15, -25, 1250, 1350, 149, 151, -149, 10**18, 6 * 10**17, 0])
    found = adc.compile(f"round(k, {n})", backend="numpy")(k)
    assert found.dtype == np.int64
    assert [*found] == [round(int(v), n) for v in k]


@pytest.mark.parametrize(
    ("source", "value"),
    [("round(2.5)", 2.0), ("round(1250, -2)", 1200), ("round(2.34, 309)", 2.34),
     ("round(-1.5e300, 10)", -1.5e300), ("sum(round(x[x > 0], 1))", 4.4), ("round(7.0, -400)", 0.0)],
)  # fmt: skip
def test_constants_and_selections(source: str, value: Any) -> None:
    args = (np.array([1.26, -1.0, 3.14]),) if "x" in source else ()
    assert adc.compile(source, backend="numpy")(*args) == value


def test_kernels_round_as_the_reference_does() -> None:
    for n in (2, 309, -2):
        f = adc.compile(f"def f(x):\n    return [round(v, {n}) for v in x]")
        np.testing.assert_allclose(f(DOUBLES), [pythons(float(v), n) for v in DOUBLES], rtol=4e-16, atol=0)
