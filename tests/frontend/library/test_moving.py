"""Functions that only move elements, against NumPy; their derivatives by finite differences."""

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
    "hstack((v, w, 1.5))",
    "hstack((n, m.T))",
    "vstack((w, 2 * w, m))",
    "np.column_stack((w, n))",
    "tile(v, 3)",
    "tile(n, (2, 1, 3))",
    "tile(c, 2)",
    "repeat(v, 3)",
    "repeat(m, 2, axis=-1)",
    "m.repeat(2)",
    "squeeze(m[None, :, :, None])",
    "squeeze(m[None, :, None], axis=(0, -2))",
    "expand_dims(v, 1) * w",
    "expand_dims(m, axis=(0, -1))",
    "moveaxis(c, 0, -1)",
    "moveaxis(c, (0, 1), (-1, 0))",
    "swapaxes(c, 0, 2)",
    "c.swapaxes(1, -1)",
    "roll(v, 2)",
    "roll(v, -13)",
    "roll(m, 5)",
    "roll(c, (1, -1), axis=(0, 2))",
    "roll(c, 1, axis=(0, 1))",
    "flip(c)",
    "flip(c, (0, -1))",
    "pad(v, 2)",
    "pad(m, (1, 2), constant_values=3)",
    "pad(m, ((1, 0), (0, 2)), 'edge')",
    "pad(v, (7, 9), mode='reflect')",
    "pad(n, ((0, 9), (5, 0)), 'symmetric')",
    "pad(v, 12, 'wrap')",
    "broadcast_to(w, (2, 3)) * n[:2, :3]",
    "broadcast_to(v[:, None], (5, 4))",
    "take(v, i)",
    "take(c, [[0, 1], [2, -1]], axis=1)",
    "take(m, 11)",
    "take(v, 3 * i, mode='wrap') * take(v, 3 * i, mode='clip')",
    "m.take(i % 4, 0)",
    "take_along_axis(m, argmax(m, axis=1, keepdims=True), axis=1)",
    "take_along_axis(m, i[:, None] % 4, axis=0)",
    "take_along_axis(m, i, None)",
    "zeros_like(m) + ones_like(m) * full_like(m, 2.5)",
]


@pytest.mark.thinned(8)
@pytest.mark.parametrize("source", SOURCES)
def test_a_function_means_what_it_means_in_numpy(source):
    means_what_it_means_in_numpy(source)


def test_kernels_give_the_same():
    kernels_agree(SOURCES[::4])


EMPTY = [
    "tile(x, 2)",
    "repeat(x, 3)",
    "roll(x, 2)",
    "flip(x)",
    "pad(x, 1)",
    "hstack((x, x))",
    "zeros_like(x)",
]


@pytest.mark.parametrize("source", EMPTY)
def test_nothing_at_all(source):
    x = np.zeros(0)
    same(adc.compile(source, backend="numpy")(x), numpy_value(source, {"x": x}))


def test_integers_stay_integers():
    f = adc.compile("roll(i, 1), pad(i, 1), tile(i, 2), ones_like(i)", backend="numpy")
    i = VALUES["i"]
    for found, expected in zip(
        f(i), (np.roll(i, 1), np.pad(i, 1), np.tile(i, 2), np.ones_like(i)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64


def test_lengths_and_shifts_may_be_those_of_the_call():
    f = adc.compile("def f(x, k: i64):\n    return tile(x, k), roll(x, k - 5), broadcast_to(x, (k, len(x)))")
    for k in (0, 3):
        for found, expected in zip(
            f(VALUES["v"], k),
            (np.tile(VALUES["v"], k), np.roll(VALUES["v"], k - 5), np.broadcast_to(VALUES["v"], (k, 5))),
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)


def test_inside_a_comprehension_they_work_on_each_item():
    f = adc.compile("def f(m):\n    return [roll(r, 1) * pad(r, 1)[2:] for r in m]", backend="numpy")
    m = VALUES["m"]
    same(f(m), np.stack([np.roll(r, 1) * np.pad(r, 1)[2:] for r in m]))
    adc.check_grad(f, m, order=2)


MISTAKES = [
    ("repeat(v, i)", adc.ShapeError, "the result would depend on values", "gather"),
    ("squeeze(m, 0)", adc.ShapeError, "squeeze", "length 1"),
    ("broadcast_to(v, (2, 3))", adc.ShapeError, "broadcast_to: axis 0 of v", "equal or 1"),
    ("broadcast_to(m, 3)", adc.ShapeError, "more than 1 axes", "each axis"),
    ("pad(v, 1, 'mirror')", adc.ParseError, "no mode 'mirror'", "reflect"),
    ("pad(m, ((1, 2), (3, 4), (5, 6)))", adc.ShapeError, "do not fit 2 axes", "each axis"),
    ("pad(v, 1, 'edge', 3)", adc.ParseError, "constant_values with the mode", "omit it"),
    ("pad(v[:0], 1, 'edge')", adc.OutOfRangeError, "empty axis", None),
    ("take(v, 7)", adc.OutOfRangeError, "index", None),
    ("take(v, w)", adc.DtypeError, "an index must be an integer", "i64"),
    ("take(v, i, mode='last')", adc.ParseError, "no mode 'last'", "wrap"),
    ("take_along_axis(m, i, 0)", adc.ShapeError, "rank 1 for an array of rank 2", "as many axes"),
    ("roll(m, (1, 2, 3), (0, 1))", adc.ShapeError, "one shift per axis", None),
    ("roll(v, 1.5)", adc.ParseError, "the shift of roll must be an integer", "i64"),
    ("moveaxis(c, (0, 1), 2)", adc.ParseError, "one destination per axis", None),
    ("swapaxes(c, 0, 5)", adc.OutOfRangeError, "axis 5 is out of range", "-3 to 2"),
]


@pytest.mark.parametrize(("source", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source, kind, cause, remedy):
    with pytest.raises(kind, match=cause) as found:
        adc.compile(source, backend="numpy")(*arguments(source))
    assert remedy is None or remedy in str(found.value)
