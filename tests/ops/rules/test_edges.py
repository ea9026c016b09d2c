"""The written table of kinks and edges holds, to the order that it says, in both float types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.rules.edges import EDGES
from ops.rules.evaluate import Numbers, derivative

from adcompiler.ops.table import TABLE


@pytest.mark.parametrize(("name", "point", "by", "expected", "why"), EDGES)
def test_edge(name: str, point: tuple[float, ...], by: str, expected: float, why: str) -> None:
    with np.errstate(all="ignore"):
        actual = derivative(TABLE[name], point, tuple(by.split()), Numbers())
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-300, err_msg=why)


def in_float32(point: tuple[float, ...], expected: float) -> bool:
    """Whether a float32 holds the point and the derivative."""
    numbers = (*point, expected)
    return all(v == 0 or not np.isfinite(v) or 1e-37 < abs(v) < 1e38 for v in numbers)


@pytest.mark.parametrize(
    ("name", "point", "by", "expected"), [case[:4] for case in EDGES if in_float32(case[1], case[3])]
)
def test_edge_in_float32(name: str, point: tuple[float, ...], by: str, expected: float) -> None:
    point = tuple(np.float32(v) for v in point)  # type: ignore[assignment]
    with np.errstate(all="ignore"):
        actual: Any = derivative(TABLE[name], point, tuple(by.split()), Numbers(np.float32))
    assert isinstance(actual, np.float32) or actual == 0
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-37)
