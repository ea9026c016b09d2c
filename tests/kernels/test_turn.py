"""Sums over pairs along both axes share one loop, where lengths make that worth while."""

from __future__ import annotations

import numpy as np
import pytest
from irprograms import arguments, check, optimised, program, sizes_of
from threads import same_bits

import adcompiler as adc
from adcompiler.codegen import variants
from adcompiler.codegen.cpu import Compiled
from adcompiler.codegen.emit import emit
from adcompiler.codegen.reference import Reference
from adcompiler.codegen.variants import shares
from adcompiler.passes.pipeline import FINISH, PREPARE, run
from adcompiler.passes.turn import FEWEST, LONGEST, pays, turn

GAUSSIAN = """
def f(x: f64[n, 3], y: f64[m, 3], b: f64[m], c: f64[n]):
    return sum(c[i] * sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(3))) * b[j]
               for j in range(m)) for i in range(n))
"""
BOTH = """
    func @both(%x: f64[n], %y: f64[m]) -> (%r: f64[n], %c: f64[m]) {
      %r = reduce sum (i < n | j < m) { exp(%x[i] * %y[j]) }
      %c = reduce sum (j < m | i < n) { exp(%x[i] * %y[j]) }
    }"""
# The second sum needs the first one of the same row.
NORMALISED = """
    func @normalised(%x: f64[n], %y: f64[m]) -> (%c: f64[m]) {
      %s = reduce sum (i < n | j < m) { exp(%x[i] * %y[j]) }
      %c = reduce sum (j < m | i < n) { exp(%x[i] * %y[j]) / %s[i] }
    }"""
EXTREMUM = """
    func @extremum(%x: f64[n], %y: f64[m]) -> (%r: f64[n], %c: f64[m]) {
      %r = reduce sum (i < n | j < m) { exp(%x[i] * %y[j]) }
      %c = reduce max (j < m | i < n) { exp(%x[i] * %y[j]) }
    }"""
TURNED = {"both": BOTH, "normalised": NORMALISED, "extremum": EXTREMUM}
REFUSED = {
    "all of the first": """
    func @f(%x: f64[n], %y: f64[m]) -> (%c: f64[m]) {
      %s = reduce sum (| i < n, j < m) { exp(%x[i] * %y[j]) }
      %c = reduce sum (j < m | i < n) { cos(exp(%x[i] * %y[j]) * %s) }
    }""",
    "to and fro": """
    func @f(%x: f64[n], %y: f64[m]) -> (%r: f64[n]) {
      %s = reduce sum (i < n | j < m) { exp(%x[i] * %y[j]) }
      %c = reduce sum (j < m | i < n) { exp(%x[i] * %y[j]) / %s[i] }
      %r = reduce sum (i < n | j < m) { exp(%x[i] * %y[j]) / %c[j] }
    }""",
    "a triangle": """
    func @f(%x: f64[n], %y: f64[n]) -> (%r: f64[n], %c: f64[n]) {
      %r = reduce sum (i < n | j < n) { select(j < i, exp(%x[i] * %y[j]), 0.0) }
      %c = reduce sum (j < n | i < n) { select(j < i, exp(%x[i] * %y[j]), 0.0) }
    }""",
    "cheap": """
    func @f(%x: f64[n], %y: f64[m]) -> (%r: f64[n], %c: f64[m]) {
      %r = reduce sum (i < n | j < m) { abs(%x[i] - %y[j]) }
      %c = reduce sum (j < m | i < n) { abs(%x[i] - %y[j]) }
    }""",
    "extrema": """
    func @f(%x: f64[n], %y: f64[m]) -> (%r: f64[n], %c: f64[m]) {
      %r = reduce max (i < n | j < m) { exp(%x[i] * %y[j]) }
      %c = reduce max (j < m | i < n) { exp(%x[i] * %y[j]) }
    }""",
}


def turned(text):
    """The program for the scheduler, with sums turned."""
    return run(FINISH, turn(run(PREPARE, optimised(program(text)), check)), check)


def clouds(n, m, dtype=np.float64):
    rng = np.random.default_rng(n + m)
    return [rng.standard_normal(shape).astype(dtype) for shape in ((n, 3), (m, 3), m, n)]


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (1, 1), (7, 5), (200, 90)])
def test_a_value_of_pairs_is_computed_once(name, n, m):
    func = turned(TURNED[name])
    assert func.turned
    assert shares(func)
    kernel = emit(func)
    assert kernel.text.count("math.exp") == 1
    results = {kernel.arrays[r] for r in kernel.func.results}
    assert all(len(b.shape) < 2 for b in kernel.buffers if b.name not in results), "no array over pairs"
    rng = np.random.default_rng(0)
    args = arguments(func, [rng.standard_normal(n), rng.standard_normal(m)])
    sizes = sizes_of(func, args)
    with np.errstate(all="ignore"):
        for got, expected in zip(Compiled(func)(sizes, args), Reference(func)(sizes, args), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_other_sums_stay_as_they_are(name):
    func = turned(REFUSED[name])
    assert not (func.turned and shares(func))


def test_lengths_decide():
    assert pays((LONGEST, FEWEST))
    assert not pays((LONGEST + 1, FEWEST))
    assert not pays((LONGEST, FEWEST - 1))
    assert not pays((10, FEWEST, 10, FEWEST - 1))


@pytest.mark.parametrize(("n", "m"), [(600, 80), (80, 600), (5, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_both_kernels_give_the_gradients_of_the_reference(n, m, dtype):
    source = GAUSSIAN.replace("f64", "f32") if dtype == np.float32 else GAUSSIAN
    f, slow = (adc.value_and_grad(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
    args = clouds(n, m, dtype)
    (value, slopes), (expected, others) = f(*args), slow(*args)
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)
    for got, other in zip(slopes, others, strict=True):
        np.testing.assert_allclose(got, other, rtol=tolerance, atol=tolerance)


def test_the_bits_do_not_depend_on_threads():
    f = adc.value_and_grad(adc.compile(GAUSSIAN))
    args = clouds(700, 300)
    same_bits(lambda: f(*args))


def test_derivatives_of_second_order_are_turned_too(monkeypatch):
    met = []
    monkeypatch.setattr(variants, "turned_pays", lambda lengths: met.append(lengths) or True)
    adc.check_grad(adc.compile(GAUSSIAN), *clouds(4, 3), order=2)
    assert met
