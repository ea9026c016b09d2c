"""Types of values: of stores, which an array converts to its own, and of integers of every width with floats.
The judge is NumPy, running the same lines."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import adcompiler as adc

TYPES = ("?", "b", "h", "i", "l", "B", "H", "I", "L", "f", "d")
X = np.linspace(0.1, 1.3, 4)
Y = X.astype(np.float32)
NAMES = {"np": np, "zeros": np.zeros, "sum": np.sum, "where": np.where, "sin": np.sin}


def written(body: str) -> str:
    return "def f(x, y):\n" + "".join(f"    {line}\n" for line in body.split("|"))


def numpys(body: str, *args: Any) -> Any:
    """NumPy's result, or what it raises."""
    scope = dict(NAMES)
    exec(written(body), scope)
    try:
        return np.asarray(scope["f"](*(a.copy() if isinstance(a, np.ndarray) else a for a in args)))
    except TypeError as error:
        return error


def wide(dtype: Any) -> np.dtype:
    """The type with 64 bits for integers: the language has one type of these."""
    found = np.dtype(dtype)
    return np.dtype(np.int64) if found.kind in "iu" else found


MADE = (
    "np.zeros(4, dtype=np.float32)", "np.ones(4, np.float32)", "np.full(4, 0.3, dtype=np.float32)",
    "np.zeros_like(x, dtype=np.float32)", "np.full_like(x, 0.1, np.float32)", "np.zeros(4, dtype=float)",
    "np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32)", "np.asarray(y, dtype=np.float32).copy()",
    "y.astype(np.float32)", "x.copy()", "2.0 * y", "np.zeros(4, dtype=int)", "np.zeros(4, bool)", "x > 0.5",
)  # fmt: skip
CHANGES = (
    "z[0] = x[1]", "z[1:3] = x[:2]", "z[:] = x * 1.1", "z[x > 0.5] = x[3]", "z[x > 0.5] = x[x > 0.5]",
    "z[x > 0.5] += x[2]", "z += x", "z *= 1.1", "z -= y * x[0]", "z[np.array([0, 2])] = x[1:3]",
    "z[np.array([0, 2])] += x[1:3]", "for i in range(len(x)):|    z[i] = x[i] * 1.1",
    "for i in range(len(x)):|    if x[i] > 0.5:|        z[i] += x[i] / 3", "w = z[1:]|w[0] = x[2]|z = w",
    "if x[0] > 0.2:|    z[0] = x[1] / 3|else:|    z[1] = y[1]", "z[1] = 3", "z[0] = 1 < x[0]", "z += 1",
    "s = x[0]|while s < 2:|    z[0] = s * x[1]|    s += y[1]", "z[x > 9] = x[0]",
)  # fmt: skip


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("change", CHANGES)
def test_an_array_keeps_its_type(made: str, change: str) -> None:
    body = f"z = {made}|{change}|return z"
    f = adc.compile(written(body), backend="numpy")
    for args in ((X, Y), (Y, X)):
        expected = numpys(body, *args)
        floats = "= x" in change or "1.1" in change or "/ 3" in change or "y *" in change or "s *" in change
        if isinstance(expected, TypeError) or (floats and made.endswith(("int)", "bool)", "0.5"))):
            with pytest.raises(adc.DtypeError, match=r"a float in an array|which NumPy refuses"):
                f(*args)  # NumPy truncates a float that is stored
            continue
        found = f(*args)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=3e-16 if found.dtype == np.float64 else 1e-7)


@pytest.mark.parametrize("text", ["np.zeros(4)", "np.ones(len(x))", "[0.0] * len(y)"])
def test_an_array_without_a_type_takes_that_of_what_is_stored(text: str) -> None:
    f = adc.compile(written(f"z = {text}|z[0] = y[1]|w = z.copy()|z[1] = x[1]|return w, z"), backend="numpy")
    assert [r.dtype for r in f(X, Y)] == [np.float32, np.float64]


ROUNDED = (
    "z = np.zeros(4, dtype=np.float32)|for i in range(4):|    z[i] = sin(x[i]) * y[i]|return sum(z * z)",
    "z = np.ones(4, np.float32)|z += x * x|z[1:] *= x[:-1]|return sum(z * y)",
    "z = np.zeros(4, np.float32)|z[x > 0.5] = x[x > 0.5] ** 2|return sum(sin(z))",
)


@pytest.mark.parametrize("body", ROUNDED)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_derivatives_pass_through_the_rounding(body: str, backend: str) -> None:
    f = adc.compile(written(body), backend=backend)
    double = adc.compile(written(body.replace("np.float32", "float")), backend="numpy")
    for found, expected in zip(adc.grad(f)(X, X), adc.grad(double)(X, X), strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    v = X[::-1].copy()
    second, exact = (adc.hvp(g)((X, X), (v, v)) for g in (f, double))
    np.testing.assert_allclose(second, exact, rtol=1e-4, atol=1e-5)
    tangent = adc.jvp(f, (X, X), (v, v))[1]
    assert tangent == pytest.approx(sum(np.vdot(g, v) for g in adc.grad(double)(X, X)), rel=1e-5)


@pytest.mark.parametrize(("one", "other"), list(product(TYPES, TYPES)))
def test_types_of_pairs(one: str, other: str) -> None:
    x, y = np.ones(3, one), np.ones(3, other)
    expected = np.result_type(x, y)
    if expected.kind == "f" and x.dtype.kind in "iu" and y.dtype.kind in "iu":
        expected = np.dtype(np.int64)  # of int64 with uint64, which NumPy makes floats
    for f in PAIRS:
        assert f(x, y).dtype == wide(expected)
    assert PAIRS[0](x[0], y).dtype == wide(expected)


PAIRS = [
    adc.compile(text, backend="numpy") for text in ("x * y + x", "where(x > y, x, y)", "concatenate((x, y))")
]
WIDTHS = (
    "x * y", "y[0] * x[1]", "y.T @ x", "x @ y", "(y * 2 + 1) * x", "(y + y[0]) * x",
    "y.astype(np.int64) * x", "y.astype(int) * x", "(y + (y > 1)) * x", "np.max(y) * x", "np.sum(y) * x",
    "y / 255 * x", "(y * 1.5) * x", "np.where(y > 1, y, 0) * x", "y[0, 1] * x[0, 0]", "(y // 2 % 3) * x",
    "np.reshape(y, (9,)) * np.reshape(x, (9,))", "abs(-y) ** 2 * x", "np.outer(y[0], x[0])", "x ** y",
    "np.einsum('ij,jk->ik', y, x)", "np.cumsum(y[0]) * x[0]", "(y & 3 << 1) * x", "np.minimum(y, x)",
    "np.arctan2(y, x)", "np.stack((y[0], x[0]))", "y.min(axis=0) * x[0]", "np.sort(y[0]) * x[0]",
    "np.int64(y[0, 0]) * x", "np.array([x[0, 0] * v for v in y[0]])",
)  # fmt: skip


@pytest.mark.parametrize("text", WIDTHS)
def test_integers_of_few_bits_with_float32(text: str) -> None:
    f = adc.compile(written(f"return {text}"), backend="numpy")
    x = np.linspace(0.5, 2, 9).reshape(3, 3).astype(np.float32)
    for dtype in "bBhHil":
        y = np.array([[1, 2, 3], [4, 5, 6], [0, 1, 2]], dtype)
        expected = numpys(f"return {text}", x, y)
        found = f(x, y)
        assert found.dtype == expected.dtype, dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
