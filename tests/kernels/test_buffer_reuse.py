"""Costly values that several nests need stand in the memory of a result until it is made."""

from __future__ import annotations

import numpy as np
import pytest
from judges.threads import same_bits
from programs.ir_evaluated import backends, kernel, program, prove

import adcompiler as adc
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.schedule.materialise import scheduled

SUM = "def f(x: f64[n]):\n    a = max(x)\n    return a + log(sum(exp(x[i] - a) for i in range(n)))"
# The value is needed once more after the first result that is made of it; the second one may lend to it.
TWICE = """
    func @twice(%x: f64[n]) -> (%p: f64[n], %q: f64[n]) {
      %s = reduce sum (| i < n) { exp(%x[i]) }
      %p = array (i < n) { exp(%x[i]) / %s }
      %t = reduce sum (| i < n) { exp(%x[i]) * %p[i] }
      %q = array (i < n) { exp(%x[i]) * %t + %x[i] }
    }"""
# Each result's place is read by others in its own iteration.
SHARED = """
    func @shared(%x: f64[n, m], %y: f64[n]) -> (%p: f64[n, m], %q: f64[n, m]) {
      %s = reduce sum (| i < n, j < m) { sin(%x[i, j]) * cos(%x[i, j]) }
      %p = array (i < n, j < m) { sin(%x[i, j]) * %s * %y[i] }
      %q = array (i < n, j < m) { sin(%x[i, j]) + cos(%x[i, j]) * %s }
    }"""
# Read at another place, read after the result's nest, of another type, of another order.
REFUSED = {
    "elsewhere": """
    func @f(%x: f64[n]) -> (%p: f64[n]) {
      %e = array (i < n) { exp(%x[i]) }
      %s = reduce sum (| i < n) { %e[i] }
      %p = array (i < n) { %e[n - 1 - i] * %s }
    }""",
    "later": """
    func @f(%x: f64[n]) -> (%p: f64[n], %t: f64) {
      %s = reduce sum (| i < n) { exp(%x[i]) }
      %p = array (i < n) { exp(%x[i]) * %s }
      %u = reduce sum (| i < n) { %p[i] }
      %t = reduce sum (| i < n) { exp(%x[i]) * cos(%x[i] * %u) }
    }""",
    "float32": """
    func @f(%x: f64[n]) -> (%p: f32[n]) {
      %s = reduce sum (| i < n) { exp(%x[i]) }
      %p = array (i < n) { f32(exp(%x[i]) * %s) }
    }""",
    "turned": """
    func @f(%x: f64[n, n]) -> (%p: f64[n, n]) {
      %s = reduce sum (| i < n, j < n) { exp(%x[i, j]) }
      %p = array (i < n, j < n) { exp(%x[j, i]) * %s }
    }""",
}


def reused(func):
    """How many values stand in the memory of results."""
    return len(scheduled(func).buffers)


def buffers(func):
    return [b.name for b in emit(scheduled(func)).plan.buffers if b.nest is None]


@pytest.mark.slow
def test_an_exponential_is_computed_once_for_a_sum_and_its_gradient():
    f = adc.value_and_grad(adc.compile(SUM))
    x = np.random.default_rng(0).uniform(-100, 100, 1000)
    value, slope = f(x)
    expected = np.exp(x - x.max())
    assert value == pytest.approx(x.max() + np.log(expected.sum()), rel=1e-14)
    np.testing.assert_allclose(slope, expected / expected.sum(), rtol=1e-12)
    assert f.show("kernel").count("math.exp") == 1
    adc.check_grad(adc.compile(SUM), x[:5] / 100, order=2)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "x",
    [[], [2.0], [np.inf, 1.0], [-np.inf, 1.0], [-np.inf] * 2, [np.nan, 1.0], [3.0, 3.0, 1.0], [1e30, 0.0]],
)
def test_special_values_are_those_of_the_reference(x, dtype):
    source = SUM.replace("f64", "f32") if dtype == np.float32 else SUM
    f, slow = (adc.value_and_grad(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
    with np.errstate(all="ignore"):
        for got, expected in zip(f(np.array(x, dtype)), slow(np.array(x, dtype)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.optimised
@pytest.mark.parametrize("n", [0, 1, 7, 20_000, 100_003])
def test_any_length_and_any_number_of_threads(n):
    x = np.random.default_rng(n).uniform(-3, 3, n)
    f, slow = (adc.grad(adc.compile(SUM, backend=b)) for b in ("cpu", "numpy"))
    np.testing.assert_allclose(same_bits(lambda: f(x)), slow(x), rtol=1e-11)


@pytest.mark.slow
def test_what_reads_a_value_under_a_condition_reads_it_before_the_result_is_in_its_place():
    """The exponentials stand in the first gradient, of which the others need them too."""
    source = "logsumexp(a[i] * b[i] + c[i] for i in range(n))"
    f = adc.compile(f"def f(a: f64[n], b: f64[n], c: f64[n]):\n    return {source}")
    args = [np.random.default_rng(5).standard_normal(7) for _ in range(3)]
    exponentials = np.exp(args[0] * args[1] + args[2])
    share = exponentials / exponentials.sum()
    found = adc.grad(f)(*args)
    for one, other in zip(found, (share * args[1], share * args[0], share), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    adc.check_grad(f, *args, order=2)


def test_a_result_may_be_written_over_what_it_is_made_of():
    f = adc.grad(adc.compile(SUM))
    x = np.random.default_rng(1).uniform(-3, 3, 100)
    expected = f(x)
    f.into(x, x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.slow
def test_the_last_result_that_is_made_of_a_value_lends_to_it():
    func = kernel(program(TWICE))
    assert reused(func) == 1
    assert buffers(func) == ["p", "q"]
    rng = np.random.default_rng(2)
    backends(program(TWICE), [rng.standard_normal(9)])
    prove(program(TWICE), [rng.standard_normal(3)])


@pytest.mark.slow
def test_what_shares_the_iteration_of_a_result_reads_the_value_before():
    func = kernel(program(SHARED))
    assert reused(func) == 2, "the sine stands in one result, the cosine in the other"
    assert buffers(func) == ["p", "q"]
    text = emit(scheduled(func)).text
    assert text.count("math.sin") == text.count("math.cos") == 1
    rng = np.random.default_rng(3)
    backends(program(SHARED), [rng.standard_normal((5, 4)), rng.standard_normal(5)])
    prove(program(SHARED), [rng.standard_normal((3, 2)), rng.standard_normal(3)])


@pytest.mark.parametrize("name", REFUSED)
def test_otherwise_nothing_is_lent(name):
    func = kernel(program(REFUSED[name]))
    assert not reused(func)
    shape = (4, 4) if name == "turned" else 9
    backends(program(REFUSED[name]), [np.random.default_rng(4).standard_normal(shape)])
