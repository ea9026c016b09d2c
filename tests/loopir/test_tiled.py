"""Loops that go through arrays against their layout are tiled: the same values, whatever the lengths."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.kernels.limits import LINE_NUMBERS
from adcompiler.loopir.limits import TILE_ITERATIONS
from adcompiler.loopir.nodes import For
from adcompiler.loopir.transformed_loops import Tiled
from adcompiler.loopir.walk import walk

LENGTHS = [
    (0, 3),
    (3, 0),
    (1, 1),
    (2, 3),
    (TILE_ITERATIONS, TILE_ITERATIONS),
    (TILE_ITERATIONS + 1, 3 * TILE_ITERATIONS - 1),
    (100, 1000),
    (1000, 70),
]
PROGRAMS = {
    "copy": "x.T",
    "beside": "x.T * y + 1.0",
    "sum": "sum(x.T * y)",
    "sum of rows": "sum(exp(x.T) * y, axis=1)",
    "three axes": "sum([[[x[k, i] * y[i, j] for k in range(n)] for j in range(n)] for i in range(m)])",
    "comprehension": "[[x[j, i] - y[i, j] for j in range(n)] for i in range(m)]",
    "products of rows": "sum(prod(x + 1.0, axis=1))",
    "row first": "[[sum(x[0]) * x[j, i] + y[i, 0] for j in range(n)] for i in range(m)]",
}


@cache
def compiled(body: str, kind: str = "f64", **options: object):
    return adc.compile(f"def f(x: {kind}[n, m], y: {kind}[m, n]):\n    return {body}", **options)


def arguments(n: int, m: int, dtype: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(n + m)
    return [rng.uniform(-1, 1, shape).astype(dtype) for shape in ((n, m), (m, n))]


def tiles(f) -> list[list[bool]]:
    """For each function of the kernel of the last call whether its loops are tiled."""
    kernel = f._specialise(f._last).executable.general.kernel
    return [[isinstance(n, Tiled) for n in walk(function) if isinstance(n, For)]
            for function in kernel.transformed.values()]  # fmt: skip


@pytest.mark.thinned(12)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_values_and_gradients_are_those_of_the_reference(body, lengths):
    if min(lengths) == 0 and "[0]" in body:
        pytest.skip("reads a first row")
    if body == PROGRAMS["three axes"] and max(lengths) > 100:
        pytest.skip("10**8 points")
    f, reference, point = compiled(body), compiled(body, backend="numpy"), arguments(*lengths)
    value = reference(*point)
    np.testing.assert_allclose(f(*point), value, rtol=1e-11, atol=1e-12)
    cotangent = np.cos(np.asarray(value))
    (found, *_), (expected, *_) = (adc.vjp(g, *point)[1](cotangent) for g in (f, reference))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", ["sum", "three axes", "products of rows"])
def test_second_order(name):
    body, point = PROGRAMS[name], arguments(2 * TILE_ITERATIONS + 1, 9)
    point[0] *= point[0]
    square = f"({body}) ** 2"
    found, expected = (
        adc.hvp(compiled(square, backend=backend), "x")(point, point[0]) for backend in ("cpu", "numpy")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["beside", "sum of rows"])
def test_float32(name):
    single, point = compiled(PROGRAMS[name], "f32"), arguments(70, 130, np.float32)
    expected = compiled(PROGRAMS[name], backend="numpy")(*(p.astype(float) for p in point))
    assert single(*point).dtype == np.float32
    np.testing.assert_allclose(single(*point), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed"])
def test_other_layouts(layout):
    x, y = arguments(90, 70)
    x = {"fortran": np.asfortranarray(x), "strided": np.repeat(x, 2, 1)[:, ::2], "reversed": x[::-1, ::-1]}[
        layout
    ]
    np.testing.assert_array_equal(compiled(PROGRAMS["copy"])(x, y), x.T)


@pytest.mark.optimised
@pytest.mark.parametrize("name", ["sum", "sum of rows", "beside"])
def test_threads_change_no_bits(name):
    point = arguments(700, 900)
    alone, both = (compiled(PROGRAMS[name], threads=n)(*point) for n in (1, 2))
    np.testing.assert_array_equal(alone, both)


def test_what_goes_against_a_layout_is_tiled():
    f = compiled(PROGRAMS["sum"])
    f(*arguments(200, 300))
    assert any(map(any, tiles(f)))


def test_blocks_have_whole_lines_of_the_cache():
    f = compiled(PROGRAMS["copy"])
    f(*arguments(10_000, 64))
    (partition,) = f._specialise(f._last).executable.general.partitions
    blocks, rows, *_ = partition.plan((10_000, 64))
    assert rows % LINE_NUMBERS == 0
    assert blocks > 1
