"""Sums over triangles: what no condition lets through is not computed, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from judges.threads import same_bits
from programs.ir_evaluated import check, optimised, program

import adcompiler as adc
from adcompiler.frontend.lowering.program import lower
from adcompiler.ir.nodes import Reduce
from adcompiler.ir.walk import arrays_of
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.passes.order.triangles import are_bounded, pays, triangles
from adcompiler.passes.pipeline import FINISH, PREPARE, run
from adcompiler.pytree.kinds import ArgType
from adcompiler.targets.cpu import targets

PRODUCTS = """
def f(x: f64[d, n]):
    return [[sum(x[i, k] * x[j, k] if j {} i else 0.0 for k in range(n)) for j in range(d)] for i in range(d)]
"""


@pytest.mark.parametrize("d", [0, 1, 2, 5, 33])
@pytest.mark.parametrize("how", ["<", "<=", ">", ">="])
def test_elements_whose_sum_takes_nothing_are_zero(d, how):
    """The sum of each element is in a register, and loops over what is kept have bounds."""
    f, x = adc.compile(PRODUCTS.format(how)), np.random.default_rng(d).standard_normal((d, 7))
    out = np.full((d, d), 9.0)
    f.into(out, x)
    expected = np.tril(x @ x.T) if "<" in how else np.triu(x @ x.T)
    off = np.eye(d) if len(how) == 1 else 0
    np.testing.assert_allclose(out, expected * (1 - off), rtol=1e-12, atol=1e-12)


# L is lower triangular, however that is said; x are points, and w what they weigh.
LOWER = {
    "diagonal": "[[l[i, j] if i > j else exp(q[i]) if i == j else 0.0 for j in range(d)] for i in range(d)]",
    "strict": "[[l[i, j] if j < i else 0.0 for j in range(d)] for i in range(d)]",
    "where": "[[where(i >= j, l[i, j], 0.0) * q[j] for j in range(d)] for i in range(d)]",
    "sum": "[[(l[i, j] if i > j else 0.0) + (q[i] if i == j else 0.0) for j in range(d)] for i in range(d)]",
    "upper": "[[l[i, j] if i < j else 0.0 for j in range(d)] for i in range(d)]",
    "band": "[[l[i, j] if i - 2 <= j and j <= i else 0.0 for j in range(d)] for i in range(d)]",
}
LOSS = """
def loss(l: f64[d, d], q: f64[d], m: f64[d], x: f64[n, d], w: f64[n]):
    L = {lower}
    y = [[sum(L[a, b] * (x[i, b] - m[b]) for b in range(d)) for a in range(d)] for i in range(n)]
    return sum(w[i] * exp(-sum(y[i, a]**2 for a in range(d)) / 2) for i in range(n))
"""
MIXTURE = """
def f(l: f64[k, d, d], q: f64[k, d], m: f64[k, d], x: f64[n, d]):
    L = [[[l[c, a, b] if a > b else exp(q[c, a]) if a == b else 0.0 for b in range(d)] for a in range(d)]
         for c in range(k)]
    y = [[[sum(L[c, a, b] * (x[i, b] - m[c, b]) for b in range(d)) for a in range(d)] for i in range(n)]
         for c in range(k)]
    return sum(logsumexp(-sum(y[c, i, a]**2 for a in range(d)) / 2 for c in range(k)) for i in range(n))
"""


PRODUCT = """
def f(l: f64[d, d], x: f64[n, d]):
    L = [[l[i, j] if j <= i else 0.0 for j in range(d)] for i in range(d)]
    y = [[sum(L[a, b] * (2.0 * x[i, b]) for b in range(d)) for a in range(d)] for i in range(n)]
    return """
# Sums that are not the results, and a gradient that is.
SUMS = """
    func @sums(%l: f64[d, d], %x: f64[n, d], %w: f64[n]) -> (%s: f64[n], %g: f64[d, d]) {
      %y = reduce sum (i < n, a < d | b < d) { select(b <= a, %l[a, b], 0.0) * %x[i, b] }
      %s = reduce sum (i < n | a < d) { %y[i, a] * %y[i, a] }
      %p = reduce sum (a < d, b < d | i < n) { %w[i] * %y[i, a] * %x[i, b] }
      %g = array (a < d, b < d) { select(a > b, %p[a, b] * 2.0, 0.0) }
    }"""


@pytest.fixture
def always(monkeypatch):
    """Lengths that are too short to pay are compiled so too."""
    met = []
    monkeypatch.setattr(targets, "bounded_pays", lambda lengths: met.append(lengths) or True)
    return met


def points(d, n, dtype=np.float64):
    rng = np.random.default_rng(d * 100 + n)
    shapes = (d, d), d, d, (n, d), n
    return [(rng.standard_normal(shape) / 2).astype(dtype) for shape in shapes]


def mixture(k, d, n):
    rng = np.random.default_rng(k * 10_000 + d * 100 + n)
    return [rng.standard_normal(shape) / 2 for shape in ((k, d, d), (k, d), (k, d), (n, d))]


def same(found, expected, rtol=1e-10):
    found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
    for x, y in zip(found, expected, strict=True):
        scale = np.max(np.abs(y), initial=1e-300, where=np.isfinite(y))
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale)


def both(source, transform, args, rtol=1e-10):
    fast, slow = (transform(adc.compile(source, backend=b))(*args) for b in ("cpu", "numpy"))
    fast, slow = ((v[0], *v[1]) if isinstance(v[1], tuple) else v for v in (fast, slow))
    same(fast, slow, rtol)


@pytest.mark.slow_when(lambda lower, d: d != 5 if lower == "where" else d == 5 or lower != "diagonal")
@pytest.mark.parametrize(("d", "n"), [(0, 3), (1, 1), (2, 0), (5, 7), (9, 65)])
@pytest.mark.parametrize("lower", LOWER)
def test_value_and_gradient(always, lower, d, n):
    both(LOSS.format(lower=LOWER[lower]), adc.value_and_grad, points(d, n))
    assert always or 1 in (d, n)  # an axis of length 1 is none


@pytest.mark.slow_when(lambda lower, d: (lower, d) != ("diagonal", 5))
@pytest.mark.parametrize(("d", "n"), [(1, 2), (2, 1), (5, 9)])
@pytest.mark.parametrize("lower", ["diagonal", "where"])
def test_second_order(always, lower, d, n):
    args = points(d, n)
    v = tuple(points(d, n + 1)[:3])

    def product(f):
        pushed = adc.hvp(f, ("l", "q", "m"))
        return lambda *args: pushed(args, v)

    source = LOSS.format(lower=LOWER[lower])
    fast, slow = (product(adc.compile(source, backend=b))(*args) for b in ("cpu", "numpy"))
    same(tuple(fast), tuple(slow))
    both(source, lambda f: lambda *a: adc.hessian(f, ("q", "m"))(*a)[0], args)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("d", "n"), [(0, 2), (1, 1), (2, 5), (9, 70)])
def test_mixture(always, k, d, n):
    both(MIXTURE, adc.value_and_grad, mixture(k, d, n))


def test_float32(always):
    source = LOSS.format(lower=LOWER["diagonal"]).replace("f64", "f32")
    both(source, adc.value_and_grad, points(9, 65, np.float32), 1e-4)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e308])
@pytest.mark.parametrize("place", [(0, 0), (2, 4), (5, 3)])
def test_zeros_meet_what_is_not_finite(always, bad, place):
    """Zero times infinity is NaN, here as in NumPy: all of a row counts then."""
    lower, _, _, x, _ = points(6, 7)
    x[place] = bad
    with np.errstate(all="ignore"):
        for text in (PRODUCT + "y", PRODUCT + "[sum(y[i, a] for i in range(n)) for a in range(d)], sum(y)"):
            fast, slow = (adc.compile(text, backend=b)(lower, x) for b in ("cpu", "numpy"))
            same(fast, slow)


def test_the_same_bits_for_any_number_of_threads():
    args = mixture(60, 24, 300)
    gradient = adc.value_and_grad(adc.compile(MIXTURE))
    same_bits(lambda: gradient(*args))


def test_loops_are_over_points_and_half_of_the_pairs():
    prepared = run(PREPARE, optimised(program(SUMS)), check)
    text = emit(scheduled(run(FINISH, triangles(prepared), check))).text
    rows = [line for line in text.splitlines() if line.lstrip().startswith("for") and "min(" in line]
    assert len(rows) == 2, text  # L x, and the gradient of L


def test_lengths_choose(monkeypatch):
    met = {}
    monkeypatch.setattr(targets, "bounded_pays", lambda lengths: met.setdefault(lengths, pays(lengths)))
    f = adc.value_and_grad(adc.compile(MIXTURE))
    for d, n in ((16, 128), (16, 5), (5, 128)):
        f(*mixture(5, d, n))
    assert [*met.values()] == [True, False, False]


@pytest.mark.slow
def test_small_weights_are_scaled():
    """Weights below the smallest normal number, and gradients made of nothing else."""
    args = mixture(3, 9, 80)
    for scale in (1.0, 12.0, 40.0):
        more = [args[0], args[1], args[2] * scale, args[3] * scale]
        both(MIXTURE, adc.value_and_grad, more, 1e-9)


SKIPPED = {
    "sum(tanh([[sum((x[i, k] if k <= i else 0.0) * tanh(y[k, j]) for k in range(n)) for j in range(n)]"
    " for i in range(n)]))": True,
    "sum(tanh(x @ y)[i, j] if j <= i else 0.0 for i in range(n) for j in range(n))": True,  # what is not read
    "sum(tanh([[sum((x[i, k] if k <= i else 0.0) * y[k, j] for k in range(n)) for j in range(n)]"
    " for i in range(n)]))": True,
    "sum(tanh(x @ y)[i, j] if y[i, j] > 0 else 0.0 for i in range(n) for j in range(n))": False,
    "sum(tanh(x @ y)) + sum(x[i, j] if j <= i else 0.0 for i in range(n) for j in range(n))": False,
}


@pytest.mark.parametrize("text", SKIPPED)
def test_sums_of_which_loops_skip_points(text):
    """Conditions of other sums of the program do not count."""
    f = adc.compile(f"def f(x: f64[n, n], y: f64[n, n]):\n    return {text}")
    func = optimised(lower(f._closure, [ArgType("f64", (False, False))] * 2).func)
    sums = [a for a in arrays_of(func.roots) if isinstance(a, Reduce) and a.rank == 2]
    assert are_bounded(func, sums) == [SKIPPED[text]]
