"""The gradient of a gather is added where that of a pair stands: no pass over an array read at few places."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import adcompiler as adc
from adcompiler import DiffPair

RANDOM = np.random.default_rng(23)
SOURCE = "def look(table, index, w):\n    return table[index] * w"
look = adc.compile(SOURCE)


def case(n: int, m: int, dtype=np.float64):
    index = RANDOM.integers(-n, n, size=m) if n else np.zeros(m, int)
    return (RANDOM.normal(size=n).astype(dtype), index, *RANDOM.normal(size=(2, m)).astype(dtype))


def scattered(n: int, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    found = np.zeros(n)
    np.add.at(found, index, values)
    return found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m"), [(50, 200), (50, 3), (50, 0), (1, 4), (0, 0)])
def test_calls_add_up(backend, dtype, n, m):
    f = adc.compile(SOURCE, backend=backend)
    table, index, w, seed = case(n, m, dtype)
    pair, weights = DiffPair(table), DiffPair(w)
    for times in (1, 2, 3):
        f.backward(pair, index, weights, seed)
        assert_allclose(pair.d, times * scattered(n, index, seed * w), rtol=1e-5, atol=1e-5)
        assert_allclose(weights.d, times * seed * table[index], rtol=1e-5)
        assert pair.d.dtype == weights.d.dtype == dtype


def test_an_array_that_is_there_is_added_to_and_returned():
    """Other elements are neither read nor written: not even NaN in them is touched."""
    table, _, w, seed = case(6, 2)
    index = np.array([1, 4])
    begun = np.full(6, np.nan)
    begun[index] = 1.0
    pair = DiffPair(table, begun)
    found, _, _ = look.backward(pair, index, w, seed)
    assert pair.d is begun is found
    assert_allclose(begun[index], 1 + seed * w)
    assert np.isnan(begun[[0, 2, 3, 5]]).all()


def test_other_gradients_of_the_call_are_those_of_this_call():
    table, index, w, seed = case(20, 5)
    pair, weights = DiffPair(table, np.zeros(20)), DiffPair(w, np.ones(5))
    _, _, found = look.backward(pair, index, weights, seed)
    assert_allclose(found, seed * table[index])
    assert_allclose(weights.d, 1 + found)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "source",
    [
        "sum((table[index] * table[index - 1])**2 * w)",
        "sum(table[index] * w) + sum(table[index - 1])",
        "sum(table[index] * w) + sum(table**2)",
        "sum([table[i] * x for i, x in zip(index, w)])",
        "sum(where(w > 0, log(table[index]**2), 0))",
    ],
)
def test_several_gathers_and_what_is_no_gather(source):
    f = adc.compile(source, args="table, index, w")
    table, index, w, _ = case(30, 12)
    want = adc.grad(f, "table")(table, index, w)
    pair = DiffPair(table)
    for times in (1, 2, 3):
        f.backward(pair, index, w, 1.0)
        assert_allclose(pair.d, times * want, rtol=1e-12)


def test_rows_of_a_matrix_and_fields_of_a_struct():
    f = adc.compile("def f(p, index):\n    return sum(p['rows'][index]**2)")
    rows, index = DiffPair(RANDOM.normal(size=(8, 3)), np.zeros((8, 3))), np.array([2, 2, 7])
    begun, want = rows.d, np.zeros((8, 3))
    np.add.at(want, index, 2 * rows.p[index])
    f.backward({"rows": rows}, index, 1.0)
    f.backward({"rows": rows}, index, 1.0)
    assert rows.d is begun
    assert_allclose(begun, 2 * want)


def test_one_pair_twice():
    """Read at places as one argument, and whole as another one, in either order."""
    f = adc.compile("def f(a, b, index):\n    return sum(a[index]) + sum(b**2)")
    g = adc.compile("def g(b, a, index):\n    return sum(a[index]) + sum(b**2)")
    x, index = RANDOM.normal(size=5), np.array([0, 0, 3])
    want = scattered(5, index, np.ones(3)) + 2 * x
    for both in (f, g):
        pair = DiffPair(x, np.zeros(5))
        both.backward(pair, pair, index, 1.0)
        assert_allclose(pair.d, want)
        both.backward(pair, pair, index, 1.0)
        assert_allclose(pair.d, 2 * want)


def test_a_call_that_fails_leaves_the_gradient_as_it_was():
    table, _, w, seed = case(6, 3)
    pair = DiffPair(table, np.zeros(6))
    with pytest.raises(adc.OutOfRangeError, match="an index is out of range"):
        look.backward(pair, np.array([0, 1, 6]), w, seed)
    assert_array_equal(pair.d, np.zeros(6))


def test_what_cannot_be_added_to_is_replaced():
    """Arrays that are read-only, of another dtype, or overlap an argument or themselves: d is a new array."""
    table, index, w, seed = case(6, 4)
    want = scattered(6, index, seed * w)
    fixed = np.zeros(6)
    fixed.flags.writeable = False
    for begun in (fixed, np.zeros(6, np.float32), table, np.broadcast_to(0.0, 6), [0.0] * 6):
        pair, before = DiffPair(table, begun), np.array(begun)
        look.backward(pair, index, w, seed)
        assert pair.d is not begun
        assert_array_equal(begun, before)
        assert_allclose(pair.d, before + want)
    every_other = np.zeros(12)[::2]
    pair = DiffPair(table, every_other)
    look.backward(pair, index, w, seed)
    assert pair.d is every_other
    assert_allclose(every_other, want)


def test_second_order():
    f = adc.compile("sum(table[index]**3)", args="table, index")
    table, index, _, v = case(7, 7)
    pair = DiffPair(DiffPair(table, v))
    for times in (1, 2):
        f.backward(pair, index, 1.0)
        assert_allclose(pair.d.d, times * adc.hvp(f, "table")((table, index), v))
