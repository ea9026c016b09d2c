"""Conditions on lengths that are settled when a program is specialised, since an axis has length 1."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

GUARDED = {
    "if": "    if len(x) > 1:\n        s += 3 * x[1]",
    "if in a loop": "    for k in range(len(x)):\n        if k < len(x) - 1:\n            s += 3 * x[k + 1]",
    "elif": "    if len(x) < 1:\n        s += 1\n    elif len(x) >= 2 and s < 100:\n        s += 3 * x[1]",
    "choice": "    s += 3 * x[1] if len(x) > 1 else 0.0",
    "else": "    if len(x) == 1:\n        s += 0.0\n    else:\n        s += 3 * x[1]",
    "return": "    if len(x) < 2:\n        return s\n    s += 3 * x[1]",
}


@pytest.mark.parametrize("body", GUARDED.values(), ids=GUARDED)
@pytest.mark.parametrize("length", [1, 2])
def test_an_element_behind_a_guard_may_not_exist(body: str, length: int) -> None:
    f = adc.compile(f"def f(x: f64[:]):\n    s = x[0]**2\n{body}\n    return s")
    x = np.arange(2.0, 2.0 + length)
    assert f(x) == 4.0 + 9.0 * (length > 1)
    np.testing.assert_array_equal(adc.grad(f)(x), [4.0, 3.0][:length])


def test_an_element_without_a_guard_is_refused() -> None:
    f = adc.compile("def f(x: f64[:]):\n    return x[1] if len(x) > 0 else 0.0")
    with pytest.raises(adc.Error, match="index 1 of an axis of length 1"):
        f(np.ones(1))


def test_a_tuple_of_numbers_has_computed_indices() -> None:
    """A stencil's weights, as a tuple, in a loop that is not unrolled."""
    f = adc.compile("""
WEIGHTS = (1.0, 2, 4.0, 8.0, 16.0, 32.0)

def f(x, k: i64):
    for q in range(6):
        x = x * WEIGHTS[q] + WEIGHTS[-1 - q]
    return x * WEIGHTS[k]
""")
    assert f(1.0, 0) == 1378369.0
    assert f(1.0, -1) == 32 * 1378369.0
    assert adc.grad(f, "x")(1.0, 1) == 2 * 2.0**15
    with pytest.raises(IndexError):
        f(1.0, 6)
