"""Matrices that are one value but for a few places in a row: rows are filled, and the places are written."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc

ROW = "def f(x: f64[n], k: i64[n]):\n    return [[{} for j in range(n)] for i in range(n)]"
MATRICES = {
    "a diagonal": "x[i] if i == j else 0",
    "the other way round": "x[i] if j == i else 0",
    "two beside it": "x[i] if j == i + 1 else (2 * x[i] if j == i - 1 else 0)",
    "a sum of three": "(x[i] if i == j else 0) - 3 * (exp(x[i]) if j == i + 1 else 0)"
    " + (1 if j == i - 1 else 0)",
    "a row's own value elsewhere": "x[i] if i == j else x[i] * x[i] + 1",
    "under a condition": "(x[i] if i == j else 0) if x[i] > 0 else (5 if j == i - 1 else 2)",
    "two conditions at once": "x[i] if i == j and j == k[i] else (1 if j == k[i] else 0)",
    "either of two": "x[i] if i == j or j == n - 1 - i else 0",
    "all but one": "x[i] if not (i == j) else 0",
    "a place that an array tells": "x[i] if j == k[i] else 0",
    "places that may be the same": "(x[i] if j == k[i] else 0) + (7 if j == i else 0)",
    "a column": "x[i] if j == 2 else 0",
    "in integers": "k[i] if i == j else 3",
}
OTHERS = {  # the axis matters otherwise
    "less": "x[i] if i < j else 0",
    "the other's value": "x[j] if i == j else 0",
    "a boolean": "i == j",
    "its number": "x[i] if i == j else j * 1.0",
}


def both(source: str, *args):
    """The results of a kernel and of the interpreter, and the kernel's text."""
    f = adc.compile(source)
    return f(*args), adc.compile(source, backend="numpy")(*args), f.show("kernel")


def in_rows(text: str) -> list[tuple[str, list[str]]]:
    """The axes of the loops over rows, and what these loops do."""
    found = re.findall(r"        for (i\d+) in .*:\n((?:            .*\n)+)", text)
    return [(axis, body.splitlines()) for axis, body in found]


@pytest.mark.thinned(24)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 50])
@pytest.mark.parametrize("element", (MATRICES | OTHERS).values(), ids=MATRICES | OTHERS)
def test_every_element_is_what_it_is(element, n):
    rng = np.random.default_rng(n)
    args = rng.normal(size=n), rng.integers(-2, n + 2, n)  # some places are beyond the row
    found, expected, _ = both(ROW.format(element), *args)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert found.dtype == expected.dtype


@pytest.mark.thinned(4)
@pytest.mark.parametrize("element", MATRICES.values(), ids=MATRICES)
def test_rows_are_filled(element):
    ((axis, body),) = in_rows(both(ROW.format(element), np.ones(4), np.arange(4))[2])
    assert len(body) == 1
    assert axis not in body[0].split(" = ")[1]


@pytest.mark.parametrize("element", OTHERS.values(), ids=OTHERS)
def test_rows_are_computed_where_the_axis_matters_otherwise(element):
    ((axis, body),) = in_rows(both(ROW.format(element), np.ones(4), np.arange(4))[2])
    assert any(axis in line.split(" = ")[1] for line in body)


def test_a_row_that_is_read_after_it_is_made():
    source = """
def f(x: f64[n]):
    a = [[x[i] if i == j else 1 for j in range(n)] for i in range(n)]
    return a, a @ x, a.T, a * a
"""
    for found, expected in zip(*both(source, np.arange(5.0))[:2], strict=True):
        np.testing.assert_allclose(found, expected)


def test_single_precision_and_strided_buffers():
    f = adc.compile(
        "def f(x: f32[n]):\n    return [[x[i] if i == j else 0 for j in range(n)] for i in range(n)]"
    )
    x, buffer = np.arange(1, 5, dtype="f4"), np.full((8, 8), 9, "f4")
    f.into(buffer[::2, ::-2], x)
    np.testing.assert_array_equal(buffer[::2, ::-2], np.diag(x))
    assert (buffer[1::2] == 9).all()
    assert (buffer[:, ::2] == 9).all()


def test_in_a_loop_of_the_program():
    source = """
def f(x: f64[n], a: f64[n, n]):
    for t in range(3):
        a = a @ [[x[i] + t if i == j else (1 if j == i + 1 else 0) for j in range(n)] for i in range(n)]
    return a
"""
    found, expected, _ = both(source, np.arange(1.0, 7), np.arange(36.0).reshape(6, 6))
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("shift", [1, 2])
def test_hessians_of_chains(shift):
    f = adc.compile(f"sum((1 - x[:-{shift}])**2 + 100 * (x[{shift}:] - x[:-{shift}]**2)**2)")
    x = np.random.default_rng(0).normal(size=12)
    h = adc.hessian(f)
    expected = np.array([adc.hvp(f)((x,), e) for e in np.eye(12)])
    np.testing.assert_allclose(h(x), expected, rtol=1e-12)
    rows = in_rows(h.show("kernel"))  # of the first and the last rows, and of those between them
    assert [len(body) for _, body in rows] == [1, 1]


def test_threads_write_rows_of_their_own():
    source = ROW.format("x[i] if i == j else (2 * x[i] if j == i + 1 else 0)")
    x = np.random.default_rng(0).normal(size=400)
    found, expected, _ = both(source, x, np.zeros(400, int))
    np.testing.assert_array_equal(found, expected)
