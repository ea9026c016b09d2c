"""What several loops of an iteration read: computed once, and stored for that iteration alone."""

from __future__ import annotations

import numpy as np
import pytest
from judges.plain_kernels import executable as plain
from programs.ir_evaluated import backends, kernel, program, prove
from programs.ir_texts import SOFTMAX

import adcompiler as adc
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.targets.cpu.compiled import CpuKernel

LAYERS = """
def loss(x: f64[n, d], w: f64[d, k], b: f64[k], v: f64[k, m]):
    h = [[tanh(sum(x[i, a] * w[a, l] for a in range(d)) + b[l]) for l in range(k)] for i in range(n)]
    return sum(sum(h[i, l] * v[l, o] for l in range(k))**2 for i in range(n) for o in range(m))
"""
TURNED = """
    func @turned(%x: f64[n], %w: f64[m]) -> (%r: f64[n], %c: f64[m]) {
      %r = reduce sum (i < n | j < m) { exp(%x[i] * %w[j]) }
      %q = reduce max (i < n | j < m) { exp(%x[i] * %w[j]) * %x[i] }
      %c = reduce sum (j < m | i < n) { exp(%x[i] * %w[j]) * %q[i] }
    }"""
OF_POINTS = """
def energy(x: f64[n, 3]):
    def unit(p):
        r = sqrt(sum(p[a]**2 for a in range(3)) + 1)
        return [p[a] / r for a in range(3)]
    u = [unit(x[i]) for i in range(n)]
    return sum((u[i, 0] * x[i, 1] - u[i, 2])**2 * u[i, (i + 1) % 3] for i in range(n))
"""


ATTENTION = """
def attended(q: f64[b, t, e], k: f64[b, t, e], v: f64[b, t, e]):
    def scores(i, s):
        return [sum(q[i, s, u] * k[i, r, u] for u in range(e)) for r in range(t)]
    p = softmax([[scores(i, s) for s in range(t)] for i in range(b)], axis=-1)
    o = [[sum(p[i, s, r] * v[i, r] for r in range(t)) for s in range(t)] for i in range(b)]
    return sum(o * o)
"""


MESSAGES = """
def messages(x: f64[n, d], a: i64[e], b: i64[e], W: f64[d, h], V: f64[h, d], steps: i64):
    for _ in range(steps):
        x = x + 0.1 * segment_sum(tanh((x[a] - x[b]) @ W) @ V, b, n)
    return sum(x**2)
"""


TOLD = """
    func @told(%x: f64[n, m]) -> (%s: f64[n]) {
      %e = array (i < n, j < m) { exp(%x[i, j]) }
      %c = reduce sum (| i < n, j < m) { %x[i, j] }
      %s = reduce sum (i < n | j < m) { select(j < i64(%c), %e[i, j], 0.0) }
    }"""
TANH = "math.exp(-2.0 * "  # which its derivative shares
PREFIXES = """
def weighted(x: f64[n], w: f64[m]):
    u = 0.0
    for i in range(m):
        u += w[i] * tanh(sum(softmax(x[: i % n + 1]) * x[: i % n + 1]))
    return u
"""


def texts(func):
    """A line for each line of a kernel that calls a function of mathematics."""
    lines = emit(scheduled(func)).text.splitlines()
    return [line.strip() for line in lines if "math." in line and "inf" not in line]


def test_a_row_is_computed_once():
    func = kernel(program(SOFTMAX))
    assert sum("exp" in line for line in texts(func)) == 1
    (row,) = [b for b in emit(scheduled(func)).plan.buffers if b.nest is not None and b.shape]
    assert len(row.shape) == 1, "one row for each block, not one for each iteration"


def test_a_function_takes_the_place_of_what_it_is_computed_from():
    """The scores of an iteration are stored for the adjoints, which need their exponentials alone."""
    f = adc.value_and_grad(adc.compile(ATTENTION))
    args = np.random.default_rng(0).standard_normal((3, 2, 5, 3))
    slow = adc.value_and_grad(adc.compile(ATTENTION, backend="numpy"))
    for one, other in zip(f(*args), slow(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert f.show("kernel").count("exp(") == 1
    adc.check_grad(adc.grad(adc.compile(ATTENTION)), *args)


def test_iterations_of_loops_have_rows():
    """A function stands in a loop of its own, which is vectorised, not around the loop that reads it."""
    random = np.random.default_rng(1)
    x, w, v = (random.standard_normal(s) for s in ((4, 3), (3, 5), (5, 3)))
    args = x, np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 0, 2]), w, v, 3
    f, slow = (adc.compile(MESSAGES, backend=b) for b in ("cpu", "numpy"))
    np.testing.assert_allclose(f(*args), slow(*args), rtol=1e-12)
    lines = iter(f.show("kernel").splitlines())
    next(line for line in lines if TANH in line)
    row = next(line for line in lines if "copysign" not in line and "[" in line.partition(" = ")[0])
    assert not next(lines).startswith(row[: len(row) - len(row.lstrip())]), "the loop ends there"
    adc.check_grad(adc.grad(f, ("x", "W", "V")), *args)


@pytest.mark.parametrize(("n", "m"), [(1, 3), (5, 9), (20, 4)])
def test_derivatives_of_parts_of_rows(n, m):
    args = tuple(np.random.default_rng(n).standard_normal(k) for k in (n, m))
    f, slow = (adc.compile(PREFIXES, backend=b) for b in ("cpu", "numpy"))
    np.testing.assert_allclose(f(*args), slow(*args), rtol=1e-12)
    for one, other in zip(adc.hvp(f)(args, args), adc.hvp(slow)(args, args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_the_iterations_that_read_a_part_of_a_row_compute_it():
    f, args = adc.compile(PREFIXES), (np.ones(5), np.ones(9))
    gradient = adc.value_and_grad(f, ("x", "w"))
    f(*args), gradient(*args)
    value, both = f.show("kernel"), gradient.show("kernel")
    bounds = [line.partition("range")[2] for line in value.splitlines() if "min(" in line and "for" in line]
    assert len(bounds) == 3
    assert len(set(bounds)) == 1
    assert "def nest2" not in value, "arithmetic tells how long the longest part is"
    assert value.count("math.exp(") - value.count(TANH) == 1
    assert both.count("math.exp(") - both.count(TANH) == 2, "each nest has a row"


def test_values_exist_before_what_tells_where_they_are_read():
    """The sum of all elements is known behind the nest that computes the functions."""
    x = np.random.default_rng(0).uniform(0, 0.2, (4, 9))
    count = int(x.sum())
    found = CpuKernel(scheduled(program(TOLD)))(list(x.shape), [x])[0]
    np.testing.assert_allclose(found, np.exp(x[:, :count]).sum(1), rtol=1e-13)


@pytest.mark.parametrize("n", [1, 7])
def test_softmax_of_several_rows(n):
    backends(program(SOFTMAX), [np.random.default_rng(n).standard_normal((n, 9))])
    prove(program(SOFTMAX), [np.random.default_rng(n).standard_normal((min(n, 3), 4))])


def test_what_another_nest_reads_is_computed_again():
    """Stored, it would be an array over pairs."""
    func = kernel(program(TURNED))
    made = emit(scheduled(func))
    results = {made.arrays[r] for r in made.func.results}
    assert all(len(b.shape) < 2 for b in made.plan.buffers if b.name not in results)
    rng = np.random.default_rng(0)
    backends(program(TURNED), [rng.standard_normal(6), rng.standard_normal(5)])


def test_a_program_without_rows_stays_as_it_is():
    func = kernel(program("func @f(%x: f64[n]) -> (%r: f64[n]) { %r = array (i < n) { exp(%x[i]) } }"))
    assert scheduled(func).func is func


@pytest.fixture
def layers():
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape) / 3 for shape in ((40, 5), (5, 11), (11,), (11, 3))]


def test_functions_stand_in_loops_without_loops_inside(layers):
    """So LLVM vectorises them; forward and gradient share one evaluation for each hidden unit and point."""
    f = adc.value_and_grad(adc.compile(LAYERS), (0, 1, 2, 3))
    f(*layers)
    lines = f.show("kernel").splitlines()
    found = [k for k, line in enumerate(lines) if TANH in line]
    assert len(found) == 2, "once for points, and once for the weights behind them, which other nests sum"
    for at in found:
        indent = len(lines[at]) - len(lines[at].lstrip())
        inside = next(line for line in lines[at + 1 :] if len(line) - len(line.lstrip()) != indent)
        assert len(inside) - len(inside.lstrip()) < indent, "what follows stands outside of its loop"


def test_layers_at_first_and_second_order(layers):
    kernels = [adc.compile(LAYERS, backend=b) for b in ("cpu", "numpy")]
    values = [adc.value_and_grad(f, (0, 1, 2, 3))(*layers) for f in kernels]
    np.testing.assert_allclose(values[0][0], values[1][0], rtol=1e-13)
    for a, b in zip(values[0][1], values[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    hessians = [adc.hessian(f, 1)(*layers) for f in kernels]
    np.testing.assert_allclose(hessians[0], hessians[1], rtol=1e-10, atol=1e-11)


def test_small_rows_are_arrays_of_the_nest():
    kernels = [adc.compile(OF_POINTS, backend=b) for b in ("cpu", "numpy")]
    for n in (2, 5, 50):
        x = np.random.default_rng(n).standard_normal((n, 3))
        for derive in (lambda f: f, adc.grad, adc.hessian):
            got, true = (derive(f)(x) for f in kernels)
            np.testing.assert_allclose(got, true, rtol=1e-11, atol=1e-12)
    assert "np.empty((3,), np.float64)" in kernels[0].show("kernel")


def test_one_and_many_blocks_agree():
    """Each block has rows of its own: threads do not share them."""
    func = program(SOFTMAX)
    x = np.random.default_rng(2).standard_normal((3000, 40))
    made = CpuKernel(scheduled(kernel(func)))
    result = made(list(x.shape), [x])[0]
    e = np.exp(x)
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=1e-14)
    slow = plain(func)([20, 40], [x[:20]])[0]
    np.testing.assert_allclose(result[:20], slow, rtol=1e-14)
