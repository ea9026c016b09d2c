"""Extrema of rows: NaN is passed on, and the signs of zeros do not matter."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

ROWS = adc.compile("def f(x: f64[n, m]):\n    return [max(x[i, k] for k in range(m)) for i in range(n)]")


@pytest.mark.parametrize("length", [1, 7, 40])
def test_an_extremum_of_a_row_with_nan_is_nan(length):
    x = np.random.default_rng(1).standard_normal((3 * length, length))
    x[np.arange(length), np.arange(length)] = np.nan
    np.testing.assert_array_equal(ROWS(x), x.max(axis=1))


def test_an_extremum_does_not_wait_for_the_signs_of_zeros():
    """LLVM's `maximum` takes twice as long with them."""
    x = np.zeros((1, 40))
    calls = [line for line in ROWS.show("llvm", x).splitlines() if "call" in line and "llvm.maximum" in line]
    assert calls
    assert all("nsz" in line for line in calls)
