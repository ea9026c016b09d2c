"""Differences, convolutions, averages, softmax and sums by groups, against NumPy and SciPy; their derivatives
by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from judges.numpy_functions import (
    VALUES,
    arguments,
    kernels_agree,
    means_what_it_means_in_numpy,
    numpy_value,
    same,
)

import adcompiler as adc

SOURCES = [
    "diff(v)",
    "np.diff(c, 2)",
    "diff(c, axis=0)",
    "np.diff(v, 1, -1, 3.0, v[:2])",
    "np.diff(m, axis=1, append=0.5)",
    "diff(m, n=3)",
    "trapezoid(v)",
    "trapezoid(c, dx=0.5, axis=1)",
    "trapezoid(m, w)",
    "trapezoid(m, n.T, axis=0)",
    "convolve(v, w)",
    "convolve(w, v, 'same')",
    "convolve(v, w, mode='valid')",
    "convolve(w, v, 'valid')",
    "convolve(v, [1.0, -2.0, 1.0], 'same')",
    "convolve(v, [2.0])",
    "cross(m, n.T)",
    "cross(m.T, n, axis=0)",
    "cross(w, [1.0, 0.0, 2.0])",
    "average(m)",
    "average(c, axis=1)",
    "average(m, weights=exp(n.T), axis=0, keepdims=True)",
    "average(m, -1, weights=w)",
    "average(c, 0, weights=w)",
    "cov(m)",
    "cov(m, rowvar=False)",
    "cov(v)",
    "cov(v, v**2)",
    "cov(m, n.T, bias=True)",
    "cov(m, ddof=0)",
    "special.softmax(v)",
    "special.softmax(m, axis=-1)",
    "special.log_softmax(c, axis=1)",
    "special.softmax(m, axis=None)",
]


@pytest.mark.thinned(6)
@pytest.mark.parametrize("source", SOURCES)
def test_a_function_means_what_it_means_in_numpy(source):
    means_what_it_means_in_numpy(source)


@pytest.mark.slow
def test_kernels_give_the_same():
    kernels_agree([*SOURCES[::2], "segment_sum(m, i % 3, 4)", "logcumsumexp(v)"])


@pytest.mark.parametrize("axis", [0, 1])
def test_running_logarithms_of_sums_of_exponentials(axis):
    f = adc.compile(f"logcumsumexp(1000 * m, axis={axis})", backend="numpy")
    same(f(VALUES["m"]), np.logaddexp.accumulate(1000 * VALUES["m"], axis))
    adc.check_grad(adc.compile(f"logcumsumexp(m, axis={axis})", backend="numpy"), VALUES["m"], order=2)


def test_softmax_neither_overflows_nor_loses_digits():
    x = np.array([1e6 + 0.25, 1e6, -np.inf])
    f = adc.compile("softmax(x), log_softmax(x)", backend="numpy")
    expected = np.array([1.0, np.exp(-0.25), 0.0]) / (1 + np.exp(-0.25))
    for found, wanted in zip(
        f(x), (expected, np.log(expected, where=expected > 0, out=np.full(3, -np.inf))), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    slope = adc.grad(adc.compile("softmax(x)[0]", backend="numpy"))(x)
    np.testing.assert_allclose(slope, expected[0] * (np.array([1.0, 0, 0]) - expected), rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_sums_by_groups(backend):
    k, m = np.array([2, 0, 2, 4]), VALUES["m"]
    f = adc.compile(
        "bincount(k, minlength=6), bincount(k, m[:, 0], minlength=6), segment_sum(m, k, 6)", backend=backend
    )
    counted, weighed, rows = f(k, m)
    assert counted.dtype == np.int64
    np.testing.assert_array_equal(counted, np.bincount(k, minlength=6))
    same(weighed, np.bincount(k, m[:, 0], minlength=6))
    same(rows, np.stack([m[k == g].sum(axis=0) for g in range(6)]))
    adc.check_grad(adc.compile("segment_sum(m**2, k, 6)", backend=backend), m, k, order=2)
    for wrong in (np.array([0, 1, 2, 6]), np.array([0, 1, 2, -1])):
        with pytest.raises(adc.OutOfRangeError, match="a group is out of range"):
            f(wrong, m)


def test_groups_inside_a_comprehension():
    f = adc.compile("def f(m, k):\n    return [segment_sum(r, k, 4) for r in m.T]", backend="numpy")
    k = np.array([3, 0, 3, 1])
    same(f(VALUES["m"], k), np.stack([np.bincount(k, r, 4) for r in VALUES["m"].T]))


@pytest.mark.parametrize(
    "source", ["np.diff(x)", "trapezoid(x)", "logcumsumexp(x)", "bincount(x > 0, minlength=2)"]
)
def test_nothing_at_all(source):
    x = np.zeros(0)
    source = source.replace("x > 0", "k")
    given = {"x": x, "k": np.zeros(0, int), "logcumsumexp": np.logaddexp.accumulate}
    f = adc.compile(source, backend="numpy")
    same(f(*(given[p.name] for p in f._parameters)), numpy_value(source, given))


MISTAKES = [
    ("softmax(m)", adc.ParseError, "without an axis", "axis=-1"),
    ("bincount(i)", adc.ShapeError, "would depend on values", "minlength=n"),
    ("segment_sum(v, w, 3)", adc.DtypeError, "must be an integer", "i64"),
    ("segment_sum(m, i[:2], 3)", adc.ShapeError, "the entries and their groups", "a group for each entry"),
    ("cross(v, v)", adc.ShapeError, "the axis of the vectors", "a[..., 0] * b[..., 1] - a[..., 1]"),
    ("convolve(m, v)", adc.ShapeError, "takes vectors", "one row"),
    ("convolve(v, w, 'whole')", adc.ParseError, "no mode 'whole'", "valid"),
    ("convolve(v[:0], w)", adc.OutOfRangeError, "empty array", None),
    ("np.diff(1.0)", adc.ShapeError, "diff of a scalar", "rank 1"),
    ("np.diff(v, -1)", adc.ParseError, "n is -1", "0 or more"),
    ("diff(v, 2)", adc.ParseError, "diff takes a function", "np.diff(x, 2)"),
    ("average(m, 0, weights=w)", adc.ShapeError, "the lengths", None),
    ("average(v, weights=m)", adc.ShapeError, "weights of rank 2", "each element"),
    ("cov(c)", adc.ShapeError, "a vector or a matrix", None),
]  # fmt: skip


@pytest.mark.parametrize(("source", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source, kind, cause, remedy):
    with pytest.raises(kind, match=cause) as found:
        adc.compile(source, backend="numpy")(*arguments(source))
    assert remedy is None or remedy in str(found.value)
