"""Kernels whatever the threads, the layout and the lengths: the same bits, the right values, one compile."""

from __future__ import annotations

import numpy as np
import pytest
from judges import threads as threads
from programs.ir_evaluated import backends, compiled, near, orders, program, reference, sizes_of

from adcompiler.targets.numba import modules as cache

random = np.random.default_rng(3)

SUM = """
    func @sum(%a: f64[n], %b: f64[n]) -> (%s: f64, %r: f64[n]) {
      %s = reduce sum (| i < n) { (%a[i] + %b[i]) * %b[i] }
      %r = array (i < n) { exp(%a[i]) * %s }
    }"""
PLANE = """
    func @plane(%x: f64[n, m]) -> (%c: f64[m], %r: f64[n], %h: f64, %g: f64[m], %l: f64) {
      %c = reduce sum (j < m | i < n) { sin(%x[i, j]) }
      %r = reduce sum (i < n | j < m) { %x[i, j] * %x[i, j] }
      %h = reduce max (| i < n, j < m) { %x[i, j] }
      %g = reduce max (j < m | i < n) { %x[i, j] }
      %l = reduce min (| i < n, j < m) { %x[i, j] + 1.0 }
    }"""
SINGLE = """
    func @single(%x: f32[n, m], %w: f32[m]) -> (%s: f32, %c: f32[m], %y: f32[n, m]) {
      %s = reduce sum (| i < n, j < m) { %x[i, j] * %w[j] }
      %c = reduce sum (j < m | i < n) { tanh(%x[i, j]) * 0.5f }
      %y = array (i < n, j < m) { exp(%x[i, j] - %w[j]) / 3.0f }
    }"""
SCATTER = """
    func @scatter(%x: f64[n], %to: i64[n], %w: f64[m]) -> (%h: f64[m], %e: f64) {
      %h = accumulate [m] (i < n) { [%to[i]] += %x[i] }
      %e = reduce sum (| i < n) { %w[%to[i]] * %x[i] }
    }"""
ROWS = """
    func @rows(%x: f64[n, k], %to: i64[k], %w: f64[m]) -> (%h: f64[n, m], %y: f64[n, k]) {
      %h = accumulate [n, m] (i < n, j < k) { [i, %to[j]] += sin(%x[i, j]) * %w[%to[j]] }
      %y = array (i < n, j < k) { %x[i, j] }
    }"""
WHOLE = """
    func @whole(%x: i64[n], %y: bool[n]) -> (%s: i64, %h: i64, %l: i64, %d: i64[n]) {
      %s = reduce sum (| i < n) { %x[i] * %x[i] }
      %h = reduce max (| i < n) { %x[i] }
      %l = reduce min (| i < n) { select(%y[i], %x[i], 0) }
      %d = array (i < n) { floor_divide(%x[i], 3) + i }
    }"""


def derivative(text, order=1):
    *_, (_, joint) = orders(program(text), order)
    return joint


def same_bits(first, second):
    for a, b in zip(first, second, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def plane(n, m, dtype=np.float64):
    return random.normal(size=(n, m)).astype(dtype)


BIG = {
    SUM: (random.normal(size=100_000), random.normal(size=100_000)),
    PLANE: (plane(1000, 100),),
    SINGLE: (plane(300, 333, np.float32), plane(1, 333, np.float32)[0]),
    SCATTER: (random.normal(size=100_000), random.integers(0, 50, 100_000), random.normal(size=50)),
    ROWS: (plane(300, 400), random.integers(0, 50, 400), random.normal(size=50)),
}


@pytest.mark.optimised
@pytest.mark.thinned(6)
@pytest.mark.parametrize("text", BIG, ids=lambda text: program(text).name)
@pytest.mark.parametrize("order", [0, 1])
def test_threads_do_not_change_bits(text, order):
    func = derivative(text) if order else program(text)
    args, kernels = BIG[text], compiled(func).general
    sizes = sizes_of(func, args)
    assert len(kernels.partitions) > 0
    assert max(partition.plan(sizes)[0] for partition in kernels.partitions) > 1, "several blocks"
    parallel = kernels(sizes, args)
    kernels.parallel = kernels.serial  # from here on without threads
    serial = kernels(sizes, args)
    near(serial, reference(func, args), 1e-4 if text is SINGLE else 1e-11)
    same_bits(parallel, serial)


@pytest.mark.optimised
def test_the_number_of_threads_does_not_change_bits():
    func, args = derivative(SUM), BIG[SUM]
    kernels, sizes = compiled(func).general, sizes_of(func, args)
    threads.same_bits(lambda: tuple(kernels(sizes, args)))


def test_places_of_their_own_are_added_to_in_parallel():
    assert not compiled(program(ROWS)).general.kernel.sequential
    assert compiled(program(SCATTER)).general.kernel.sequential


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = {
    "strided": lambda a: np.repeat(a, 3, axis=-1)[..., ::3],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "fortran": np.asfortranarray,
    "transposed": lambda a: a.T.copy().T,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "read-only": read_only,
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    func = derivative(PLANE)
    x = LAYOUTS[layout](plane(6, 5))
    backends(func, (x,))


@pytest.mark.thinned(8)
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("m", [0, 1, 2])
def test_lengths_of_zero_and_one(n, m):
    for text, args in (
        (PLANE, (plane(n, m),)),
        (SINGLE, (plane(n, m, np.float32), plane(1, m, np.float32)[0])),
        (SCATTER, (random.normal(size=n), np.zeros(n, np.int64), random.normal(size=m))),
        (ROWS, (plane(n, 2), np.zeros(2, np.int64), random.normal(size=m))),
    ):
        for func in (program(text), derivative(text)) if n and m else (program(text),):
            backends(func, args, 1e-5 if text is SINGLE else 1e-11)


def test_sums_of_nothing():
    for n, m in ((0, 3), (2, 0)):
        columns, rows, *_ = compiled(program(PLANE))([n, m], (np.zeros((n, m)),))
        assert columns.tolist() == [0.0] * m
        assert rows.tolist() == [0.0] * n


def test_whole_numbers():
    func = program(WHOLE)
    for n in (0, 1, 10):
        backends(func, (random.integers(-9, 9, n), random.integers(0, 2, n) > 0))


def test_new_lengths_do_not_compile_again():
    func = derivative(PLANE)
    kernels = compiled(func).general
    kernels([3, 4], (plane(3, 4),))
    run = cache.load(kernels.kernel.source).run
    before = len(run.signatures)  # this process may have run the same kernel on other layouts
    for n, m in ((1, 1), (0, 5), (7, 0), (100, 2)):
        kernels([n, m], (plane(n, m),))
    assert len(run.signatures) == before


def test_results_can_be_written_to_given_arrays():
    func = program(PLANE)
    kernels, x = compiled(func).general, plane(5, 4)
    into = [np.full(4, np.nan), np.full(5, np.nan), None, None, None]
    found = kernels([5, 4], (x,), into)
    assert found[0] is into[0]
    assert found[1] is into[1]
    near(found, reference(func, (x,)), 1e-12)
