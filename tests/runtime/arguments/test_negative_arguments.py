"""Integer arguments that are lengths or bounds: below 0 they mean what they do in Python, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

X = np.arange(10.0)
PROGRAMS = [
    "x[a:b]",
    "x[a:]",
    "x[:b]",
    "x[-a:]",
    "sum(x[0] * i for i in range(a))",
    "sum(x[0] * i for i in range(a, b))",
    "sum(x[0] * i for i in range(a, b, 2))",
    "sum(x[0] * i for i in range(a, b, -1))",
    "sum(x[0] * i for i in range(a, -3, -1))",
    "sum(x[0] * i for i in range(-3, b))",
    "sum(x[0] * i for i in range(a + 5))",
    "sum(x[0] * i for i in range(a * b))",
    "sum(arange(a, b) * x[0])",
    "sum(arange(-3, b) * x[0])",
    "sum(ones(a + 5) * x[0])",
]
LOOP = """
def f(x: f64[n], a: i64, b: i64):
    s = x[1]
    for i in range(a, b):
        s = s * x[2] + i
    return s
"""
PYTHON = {"arange": np.arange, "ones": np.ones, "sum": lambda found: np.sum(list(found)), "range": range}


def python(text, a, b):
    """What Python makes of it."""
    if text != LOOP:
        return eval(text, {"x": X, "a": a, "b": b, **PYTHON})
    s = X[1]
    for i in range(a, b):
        s = s * X[2] + i
    return s


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("text", [*PROGRAMS, LOOP])
def test_a_call_means_what_it_does_in_python_or_is_refused(text, backend):
    source = text if text == LOOP else f"def f(x: f64[n], a: i64, b: i64):\n    return {text}"
    f = adc.compile(source, backend=backend)
    refused: dict[tuple[int, int], str] = {}
    for a, b in [(-2, 3), (-12, 3), (2, -3), (-2, -3), (-3, -2), (0, 0), (2, 5), (5, 2), (0, 7)]:
        try:
            found = f(X, a, b)
        except adc.OutOfRangeError as error:
            refused[a, b] = str(error)
        else:
            np.testing.assert_array_equal(found, python(text, a, b))
    assert all("is negative, but used as a length or bound" in said for said in refused.values())
    assert all(a < 0 or b < 0 for a, b in refused)


def test_gradients_and_numba_code_are_refused_as_well():
    numba = pytest.importorskip("numba")
    f = adc.compile("def f(x: f64[n], a: i64):\n    return sum(x[a:] ** 2)")
    with pytest.raises(adc.OutOfRangeError, match="the argument a is negative"):
        adc.grad(f)(X, -2)
    np.testing.assert_array_equal(adc.grad(f)(X, 8), np.where(X < 8, 0, 2 * X))
    jitted = f.jitted
    with pytest.raises(IndexError, match="the argument a is negative"):
        numba.njit(lambda x, a: jitted(x, a))(X, -2)
