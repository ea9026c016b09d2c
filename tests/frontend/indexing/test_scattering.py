"""Stores by arrays of indices and by masks: NumPy's values, and derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judges.compared import has_oracles_value
from programs import Program

import adcompiler as adc

X = np.array([1.5, 2.0, 4.0])
M = np.arange(12.0).reshape(3, 4) / 7 - 0.4
AT, ENDS = np.array([0, 2]), np.array([1, -1])

PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "added": ("    out = zeros(3)\n    out[i] += v\n    return out * x", (X, AT, X[:2])),
    "replaced": ("    x[i] = v * x[i]\n    x[i] *= 2\n    return x * x", (X, ENDS, X[:2])),
    "elements": ("    x[i, 1 - i // 2] -= v\n    return x * x", (M, AT, X[:2])),
    "rows": ("    x[i] /= v\n    return x * x", (M, AT, X[:2, None])),
    "columns": ("    x[:, i] = v * x[:, i - 1]\n    return x * x", (M, AT, X[1])),
    "a column of rows": ("    x[i, 0] += v\n    return x * x", (M, AT, X[:2])),
    "a matrix of places": ("    x[:, i] = v\n    return x * x", (M, np.array([[1, 2], [0, 3]]), X[0])),
    "between axes": ("    x[:, i, :] *= v\n    return x * x", (np.arange(18.0).reshape(2, 3, 3), AT, X)),
    "integers": ("    k = zeros(3, dtype=int)\n    k[i] = 2\n    return v * k", (X, AT, X)),
    "truth values": ("    b = x > 100\n    b[i] = True\n    return where(b, v, x)", (X, AT, -X)),
    "in a loop": (
        "    out = zeros(3)\n    for k in range(4):\n        out[i] += v * out[0] + k\n    return out",
        (X, AT, X[:2]),
    ),
    "under a condition": (
        "    for k in range(5):\n        if x[2] > 3.9:\n            continue\n        x[i] = x[i] * v\n"
        "    return x",
        (X / 2, AT, X[:2]),
    ),
    "a mask": ("    x[x < v] = 0\n    return x * v", (M, AT, 0.3)),
    "a mask of rows": ("    x[x[:, 0] > 0.0] = v\n    return x * x", (M, AT, X.sum() * np.ones(4))),
    "added by a mask": ("    x[x < 0.5] += v\n    return x * x", (M, AT, 0.3)),
    "a mask of what is computed": ("    x[~(x > v)] *= v\n    return x * x", (M, AT, 0.3)),
}


@pytest.mark.thinned(9)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_values_and_derivatives(name: str, backend: str) -> None:
    body, args = PROGRAMS[name]
    text = f"def f(x, i, v):\n{body}"
    has_oracles_value(Program(text, args), backend)
    assert adc.check_grad(adc.compile(text, backend=backend), *args, order=2) < 1e-7


def test_no_derivative_passes_through_what_is_replaced() -> None:
    f = adc.compile("def f(x, i, v):\n    y = log(x)\n    y[i] = v\n    y[y > 5] = 0\n    return sum(y * y)")
    x = np.array([0.0, 2.0, np.inf])
    np.testing.assert_array_equal(adc.grad(f, "x")(x, AT, 1.0), [0, 2 * np.log(2) / 2, 0])


def test_points_of_a_comprehension_store_for_themselves() -> None:
    text = "def g(x, i, a):\n    x = x.copy()\n    x[i] += a\n    return x * a\n\n"
    text += "def f(x, i, v):\n    return [g(x, i, a) for a in v]"
    has_oracles_value(Program(text, (X, AT, X)), "numpy")
    assert adc.check_grad(adc.compile(text), X, AT, X, order=2) < 1e-7


def test_float32_and_empty_arrays() -> None:
    f = adc.compile("def f(x, i, v):\n    x[i] += v\n    return x")
    assert f(np.ones(3, np.float32), AT, 1.0).dtype == np.float32
    np.testing.assert_array_equal(f(X, AT[:0], X[:0]), X)
    assert f(X[:0], AT[:0], X[:0]).shape == (0,)


REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "x[i] += v": ((X, np.array([1, -2]), 1.0), "an index array contains an element twice"),
    "x[i] = v": ((X, np.array([1, 3]), 1.0), "an index is out of range"),
    "x[i] = v ": ((X, AT, X), "the value stored"),
    "x[x > 0] = v": ((X, AT, X), "the number of elements depends on values"),
    "x[x > 0] += v": ((X, AT, X), "the number of elements depends on values"),
    "x[i > 0] = v": ((X, AT, 1.0), "axis 0 of the array and of its mask"),
    "x[1:, i] = v": ((M, AT, 1.0), "a store with both an index array and a slice"),
    "x[i, x[0] > 0] = v": ((M, AT, 1.0), "not a boolean"),
    "i[i] = v": ((X, AT, 1.0), "a float in an array of i64"),
}


@pytest.mark.parametrize("store", REFUSED)
def test_what_is_refused(store: str) -> None:
    args, message = REFUSED[store]
    with pytest.raises(adc.Error, match=message) as caught:
        adc.compile(f"def f(x, i, v):\n    {store}\n    return x")(*args)
    assert (caught.value.line, caught.value.column) == (2, 5)
    assert caught.value.remedy
