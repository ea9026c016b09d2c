"""Sums over pairs along both axes share one loop, where lengths make that worth while."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from judges.threads import same_bits
from programs.ir_evaluated import arguments, check, optimised, program, sizes_of

import adcompiler as adc
from adcompiler.interpreter.reference import Reference
from adcompiler.kernels.emit import block_partition as cuts
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.passes.order.interchange import (
    ELEMENTS_AN_ITERATION,
    FEWEST_OUTER_ITERATIONS,
    FEWEST_WIDE_ITERATIONS,
    LONGEST_SUM,
    LONGEST_WIDE_SUM,
    interchange,
    pays,
)
from adcompiler.passes.pipeline import FINISH, PREPARE, run
from adcompiler.runtime.programs.backends import BACKENDS
from adcompiler.targets.cpu import targets
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.kernels import KernelSelector
from adcompiler.targets.cpu.targets import shares

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
# Sums over the points of what is made point by point.
OUTER = {
    "weights": """
    func @weights(%x: f64[n, d], %w: f64[d, k], %g: f64[n]) -> (%r: f64[n], %s: f64[d, k]) {
      %y = reduce sum (i < n, l < k | a < d) { %x[i, a] * %w[a, l] }
      %r = reduce sum (i < n | l < k) { tanh(%y[i, l]) }
      %s = reduce sum (a < d, l < k | i < n) { %x[i, a] * (tanh(%y[i, l]) * %g[i] * %r[i]) }
    }""",
    "nearest": """
    func @nearest(%x: f64[n, d], %w: f64[k, d]) -> (%s: f64[k, d]) {
      %y = reduce sum (i < n, l < k | a < d) { (%x[i, a] - %w[l, a]) * (%x[i, a] - %w[l, a]) }
      %m = reduce min (i < n | l < k) { %y[i, l] }
      %s = reduce sum (l < k, a < d | i < n) { select(%y[i, l] == %m[i], %x[i, a] - %w[l, a], 0.0) }
    }""",
    # Where the functions of one axis become an array, most reads that are left have the other axis last.
    "gates": """
    func @gates(%x: f64[n, d], %w: f64[d, k], %v: f64[d, k], %u: f64[d, d]) -> (%s: f64[k, d]) {
      %y = reduce sum (i < n, l < k | a < d) { %x[i, a] * %w[a, l] }
      %z = reduce sum (i < n, l < k | a < d) { %x[i, a] * %v[a, l] }
      %p = reduce sum (i < n, a < d | b < d) { %x[i, b] * %u[b, a] }
      %q = reduce sum (i < n, a < d | b < d) { %x[i, b] * %u[a, b] }
      %s = reduce sum (l < k, a < d | i < n) {
        tanh(%y[i, l]) * exp(%z[i, l]) * %y[i, l] * (cos(%p[i, a]) * sin(%q[i, a]) * %x[i, a])
      }
    }""",
}
INTERCHANGED = {"both": BOTH, "normalised": NORMALISED, "extremum": EXTREMUM}
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
    "what all points need": """
    func @f(%x: f64[n, d], %w: f64[d, k]) -> (%s: f64[d, k]) {
      %y = reduce sum (i < n, l < k | a < d) { %x[i, a] * %w[a, l] }
      %m = reduce max (| i < n, l < k) { %y[i, l] }
      %s = reduce sum (a < d, l < k | i < n) { %x[i, a] * (%y[i, l] - %m) }
    }""",
    "inputs alone": """
    func @f(%x: f64[n, d], %y: f64[n, k]) -> (%s: f64[d, k]) {
      %s = reduce sum (a < d, l < k | i < n) { %x[i, a] * %y[i, l] }
    }""",
    "made along another axis": """
    func @f(%x: f64[n, d], %w: f64[d, k]) -> (%s: f64[d, k], %y: f64[k, n]) {
      %y = reduce sum (l < k, i < n | a < d) { %x[i, a] * %w[a, l] }
      %s = reduce sum (a < d, l < k | i < n) { %x[i, a] * %y[l, i] * %y[l, i] }
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


@cache
def interchanged(text):
    """The program for the scheduler, with sums interchanged."""
    return run(FINISH, interchange(run(PREPARE, optimised(program(text)), check)), check)


def clouds(n, m, dtype=np.float64):
    rng = np.random.default_rng(n + m)
    return [rng.standard_normal(shape).astype(dtype) for shape in ((n, 3), (m, 3), m, n)]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", INTERCHANGED)
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (1, 1), (7, 5), (200, 90)])
def test_a_value_of_pairs_is_computed_once(name, n, m):
    func = interchanged(INTERCHANGED[name])
    assert func.interchanged
    assert shares(func)
    kernel = emit(scheduled(func))
    assert kernel.text.count("math.exp") == 1
    results = {kernel.arrays[r] for r in kernel.func.results}
    assert all(len(b.shape) < 2 for b in kernel.plan.buffers if b.name not in results), "no array over pairs"
    rng = np.random.default_rng(0)
    args = arguments(func, [rng.standard_normal(n), rng.standard_normal(m)])
    sizes = sizes_of(func, args)
    with np.errstate(all="ignore"):
        found = CpuKernel(scheduled(func))(sizes, args)
        for got, expected in zip(found, Reference(func)(sizes, args), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_other_sums_stay_as_they_are(name):
    func = interchanged(REFUSED[name])
    assert not (func.interchanged and shares(func))


@pytest.mark.parametrize("name", OUTER)
def test_interchanged_sums_are_added_to_in_the_order_of_memory(name):
    made = scheduled(interchanged(OUTER[name]))
    (task,) = (t for t in made.schedule.tasks if t.array is made.func.results[-1])
    assert task.order == (2, 0, 1)


def test_lengths_decide():
    assert pays((LONGEST_SUM, FEWEST_OUTER_ITERATIONS))
    assert not pays((LONGEST_SUM + 1, FEWEST_OUTER_ITERATIONS))
    assert not pays((LONGEST_SUM, FEWEST_OUTER_ITERATIONS - 1))
    assert pays((LONGEST_WIDE_SUM // 2, 2, LONGEST_WIDE_SUM // ELEMENTS_AN_ITERATION))
    assert not pays((LONGEST_WIDE_SUM // 2, 2, LONGEST_WIDE_SUM // ELEMENTS_AN_ITERATION - 1))
    assert not pays((LONGEST_WIDE_SUM // 2, 3, LONGEST_WIDE_SUM))
    assert not pays((1, 1, FEWEST_WIDE_ITERATIONS - 1))


@pytest.mark.thinned(3)
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


def test_another_order_that_no_lengths_select_is_not_scheduled(monkeypatch):
    met = []
    monkeypatch.setattr(targets, "shares", lambda func: met.append(func) or shares(func))
    selector = KernelSelector(targets.Cpu(), optimised(program(BOTH)))
    form = selector.form(selector.select((4, 5)))
    assert not met
    assert form.pays((LONGEST_SUM, FEWEST_OUTER_ITERATIONS))
    assert form.pays((LONGEST_SUM, FEWEST_OUTER_ITERATIONS + 1))
    assert len(met) == 1
    assert form.other().interchanged


def test_the_bits_do_not_depend_on_threads():
    f = adc.value_and_grad(adc.compile(GAUSSIAN))
    args = clouds(700, 300)
    same_bits(lambda: f(*args))


def test_derivatives_of_second_order_are_interchanged_too(monkeypatch):
    met = []
    monkeypatch.setattr(targets, "interchange_pays", lambda lengths: met.append(lengths) or True)
    adc.check_grad(adc.compile(GAUSSIAN), *clouds(4, 3), order=2)
    assert met


# -- sums over the points of what is made point by point --------------------------------------------

LAYERS = """
def f(x: f64[n, d], w: f64[d, k], u: f64[k, k], v: f64[k]):
    h = [[tanh(sum(x[i, a] * w[a, l] for a in range(d))) for l in range(k)] for i in range(n)]
    g = [[tanh(sum(h[i, l] * u[l, m] for l in range(k))) for m in range(k)] for i in range(n)]
    return sum(sum(g[i, m] * v[m] for m in range(k))**2 for i in range(n))
"""
# Each point adds to the sums of its own centroid, beside a sum over all points.
CENTROIDS = """
def f(x: f64[n, d], w: f64[k, d], u: f64[d, d]):
    y = [[tanh(sum(x[i, b] * u[b, a] for b in range(d))) for a in range(d)] for i in range(n)]
    return sum(min(sum((y[i, a] - w[j, a])**2 for a in range(d)) for j in range(k)) for i in range(n))
"""
# The weights of the last layer multiply functions of several products, as do their gradients.
GATES = """
def f(x: f64[n, d], w: f64[d, k], v: f64[d, k], u: f64[k, d]):
    z = tanh(x @ w) * tanh(x @ v)
    y = tanh(z @ u + x)
    return sum((y @ w) * (y @ v))
"""
SOURCES = {"layers": LAYERS, "centroids": CENTROIDS, "gates": GATES}
D, K = 6, 9


def given(name, n, dtype=np.float64):
    rng = np.random.default_rng(n)
    shapes = {
        "layers": ((n, D), (D, K), (K, K), K),
        "centroids": ((n, D), (K, D), (D, D)),
        "gates": ((n, D), (D, K), (D, K), (K, D)),
    }[name]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.fixture
def always(monkeypatch):
    """Sums are interchanged for all lengths, in small blocks; which programs were."""
    met = []
    monkeypatch.setattr(targets, "interchange_pays", lambda lengths: met.append(lengths) or True)
    monkeypatch.setattr(cuts, "BLOCK_POINTS", 200)
    monkeypatch.setattr(cuts, "ADDING_ITERATIONS", 1)
    return met


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", OUTER)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 17, 200])
def test_what_is_made_point_by_point_is_not_stored_for_all_points(name, n):
    func = interchanged(OUTER[name])
    assert func.interchanged
    assert shares(func)
    kernel = emit(scheduled(func))
    assert len(kernel.nests) == 1
    rng = np.random.default_rng(n)
    shapes = [
        tuple({"n": n, "d": D, "k": K}[func.size_names[s.number]] for s in i.shape) for i in func.inputs
    ]
    args = arguments(func, [rng.standard_normal(shape) for shape in shapes])
    sizes, compiled = sizes_of(func, args), CpuKernel(scheduled(func))
    assert {name for name, f in compiled.kernel.transformed.items() if f.lanes} == {"nest0"}
    for got, expected in zip(compiled(sizes, args), Reference(func)(sizes, args), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    results = {kernel.arrays[r] for r in kernel.func.results}
    long = [b for b in kernel.plan.buffers if b.name not in results and b.nest is None]
    assert not [b for b in long if len(b.shape) > 1]


@pytest.mark.thinned(4)
@pytest.mark.slow_when(lambda dtype, lengths: dtype is np.float32 and lengths == (1,))
@pytest.mark.parametrize(
    "lengths", [(0, 7, 8, 17, 40, 131), (1,)], ids=str
)  # one point is a program of its own
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_by_weights_are_those_of_the_reference(name, dtype, lengths, always):
    source = SOURCES[name] if dtype is np.float64 else SOURCES[name].replace("f64", "f32")
    ours, numpy = (adc.value_and_grad(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
    slack = 1e-11 if dtype is np.float64 else 3e-4
    for n in lengths:
        args = given(name, n, dtype)
        (value, slopes), (expected, others) = ours(*args), numpy(*args)
        assert value == pytest.approx(expected, rel=slack, abs=slack)
        for got, other in zip(slopes, others, strict=True):
            np.testing.assert_allclose(got, other, rtol=slack, atol=slack)
    assert always or lengths == (1,)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", SOURCES)
def test_second_order_of_outer_sums(name, always):
    args = given(name, 43)
    for wrt in (1, 2):
        direction = np.random.default_rng(wrt).standard_normal(args[wrt].shape)
        ours, numpy = (
            adc.hvp(adc.compile(SOURCES[name], backend=b), wrt)(args, direction) for b in ("cpu", "numpy")
        )
        np.testing.assert_allclose(ours, numpy, rtol=1e-10, atol=1e-10)
    assert always


@pytest.mark.parametrize("order", ["C", "F"])
def test_outer_sums_over_arrays_of_any_layout(order, always):
    f, numpy = (adc.grad(adc.compile(CENTROIDS, backend=b), "w") for b in ("cpu", "numpy"))
    x, *rest = given("centroids", 50)
    for points in (np.asarray(x, order=order), np.repeat(x, 2, axis=0)[::2], x[::-1]):
        np.testing.assert_allclose(f(points, *rest), numpy(points, *rest), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", SOURCES)
def test_bits_of_outer_sums_do_not_depend_on_threads(name):
    f = adc.value_and_grad(adc.compile(SOURCES[name]))
    args = given(name, 3000)
    same_bits(lambda: f(*args))


def test_ties_share_the_gradient(always):
    ours, numpy = (adc.grad(adc.compile(CENTROIDS, backend=b)) for b in ("cpu", "numpy"))
    x, w, u = given("centroids", 30)
    w[3] = w[5] = w[8]
    for got, other in zip(ours(x, w, u), numpy(x, w, u), strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-11, atol=1e-11)


def test_products_that_are_not_called_are_interchanged_where_lengths_say_so():
    func = optimised(program(OUTER["weights"]))
    made = BACKENDS["cpu"](func)
    assert isinstance(made, KernelSelector)
    names = {"n": 200, "d": D, "k": K}
    many = [names[name] for name in func.size_names]
    names["n"] = FEWEST_WIDE_ITERATIONS - 1
    few = [names[name] for name in func.size_names]
    one, other = made.at(many), made.at(few)
    assert isinstance(one, CpuKernel)
    assert isinstance(other, CpuKernel)
    assert len(one.kernel.nests) == 1
    assert len(other.kernel.nests) > 1


@pytest.mark.slow
def test_a_sum_of_what_has_a_reduction_outermost():
    """Its outermost loop is along none of its axes: nothing is interchanged."""
    source = "def f(a, v): return sum((einsum('bij,bj->i', a, v) + einsum('bij,kj->i', a, v))**2)"
    random = np.random.default_rng(0)
    args = random.normal(size=(2, 3, 4)), random.normal(size=(2, 4))
    f, slow = (adc.compile(source, backend=b) for b in ("cpu", "numpy"))
    assert f(*args) == pytest.approx(slow(*args))
    for one, other in zip(adc.grad(f)(*args), adc.grad(slow)(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    for row, rows in zip(adc.hessian(f)(*args), adc.hessian(slow)(*args), strict=True):
        for one, other in zip(row, rows, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
