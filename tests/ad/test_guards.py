"""Guards: what stands in a branch that is not taken never reaches a value or a derivative."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs.ir_evaluated import backends, orders, program, reference

import adcompiler as adc
from adcompiler.ad.guards import TRUE, both, conjunction, negation, total, united
from adcompiler.ir.nodes import Const, Index, Reduce, const, select
from adcompiler.ir.walk import arrays_of
from adcompiler.ops.build import apply

SQRT = """
    func @sqrt(%x: f64[n], %y: f64[n]) -> (%r: f64[n]) {
      %r = array (i < n) { select(%x[i] > 0.0, sqrt(%x[i] * %y[i]), 0.0) }
    }"""
NESTED = """
    func @nested(%x: f64[n], %y: f64[n]) -> (%r: f64[n]) {
      %r = array (i < n) {
        a = select(%y[i] > 0.0, log(%y[i]) / %x[i], sqrt(%x[i]))
        select(%x[i] > 0.0, a, select(%y[i] > 1.0, sqrt(%y[i] - 1.0), 0.0))
      }
    }"""
SHARED = """
    func @shared(%x: f64[n], %y: f64[n]) -> (%r: f64[n], %q: f64[n]) {
      %r = array (i < n) {
        s = sqrt(%x[i])
        select(%x[i] > 0.0, s * %y[i], 0.0) + select(%x[i] > 0.0 and %y[i] > 0.0, log(s), 1.0)
      }
      %q = array (i < n) { select(%x[i] > 0.0, sqrt(%x[i]), 0.0) }
    }"""
MORE_AXES = """
    func @more(%x: f64[n], %mask: bool[n, m]) -> (%r: f64[n]) {
      %r = reduce sum (i < n | j < m) { select(%mask[i, j], log(%x[i]) * sqrt(%x[i]), 0.0) }
    }"""
BETWEEN = """
    func @between(%x: f64[n], %y: f64[n]) -> (%r: f64[n]) {
      %s = array (i < n) { sqrt(%x[i]) }
      %q = array (i < n) { %s[i] * %y[i] + log(%x[i]) }
      %r = array (i < n) { select(%x[i] > 0.0, %q[i] * %s[i], %y[i]) }
    }"""
REDUCED = """
    func @reduced(%x: f64[n, m], %y: f64[n]) -> (%r: f64[n]) {
      %s = reduce sum (i < n | j < m) { %x[i, j] * %x[i, j] }
      %r = array (i < n) { select(%s[i] > 0.0, sqrt(%s[i]) * %y[i], 0.0) }
    }"""
OUTSIDE = """
    func @outside(%x: f64[n]) -> (%r: f64[n]) {
      %r = array (i < n) { select(i > 1 and i < n - 2, sqrt(%x[i + 1]) * log(%x[i - 2]), %x[i]) }
    }"""
EMPTY = """
    func @empty(%x: f64[n], %w: f64[m]) -> (%r: f64[n]) {
      %r = array (i < n) { select(i < m, %w[i] * %x[i], %x[i] + select(m > 0, %w[0], 1.0)) }
    }"""

X = np.array([0.0, 0.5, -1.0, 2.0, 0.0])
Y = np.array([1.5, 2.0, 0.0, 0.7, 0.0])
MASK = np.array([[False, False], [True, False], [False, False], [True, True], [False, False]])
ROWS = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.5], [0.0, 0.0], [-1.0, 1.0]])
CASES = {
    SQRT: (X, Y),
    NESTED: (X, Y),
    SHARED: (X, Y),
    MORE_AXES: (X, MASK),
    BETWEEN: (X, Y),
    REDUCED: (ROWS, Y),
    OUTSIDE: (np.array([1.0, 0.0, 2.0, 3.0, -1.0]),),
    EMPTY: (X, np.zeros(0)),
}
SHORTER = (X, np.array([3.0, 5.0]))


@pytest.mark.thinned(4)
@pytest.mark.parametrize("text", CASES, ids=lambda text: program(text).name)
def test_no_nan_leaks_out_of_a_branch(text):
    func, args = program(text), CASES[text]
    backends(func, args)
    for _, joint in orders(func, 2):
        for result, name in zip(reference(joint, args), joint.result_names, strict=True):
            assert np.isfinite(result).all(), (joint.name, name, result)
        backends(joint, args)


def test_arrays_shorter_than_the_loop():
    """Where the guard keeps an index inside, nothing outside is read or written."""
    func = program(EMPTY)
    backends(func, SHORTER)
    for _, joint in orders(func, 2):
        backends(joint, SHORTER)


def inside(func, args):
    """The results of two orders of derivatives."""
    return [[np.asarray(r) for r in reference(joint, args)] for _, joint in orders(func, 2)]


@pytest.mark.parametrize("text", [SQRT, NESTED, SHARED, BETWEEN], ids=lambda text: program(text).name)
def test_points_are_independent(text):
    """The derivatives at one point are what they are without the points beside it."""
    func, (x, y) = program(text), CASES[text]
    whole = inside(func, (x, y))
    first = inside(func, (x[:2], y[:2]))  # weights follow the position: a prefix keeps its own
    for results, prefix in zip(whole, first, strict=True):
        for a, b in zip(results[1:], prefix[1:], strict=True):
            np.testing.assert_allclose(a[:2], b, rtol=1e-13)


def test_loops_that_end_before_they_begin_have_no_iterations():
    """for k in range(j, m if ... else 0), where the guard does not hold: 2**64 iterations less a few,
    else."""
    source = """def f(c: f64[m], v: f64[n]):
    return sum(max(hypot(tanh(sum(erf(c[j]) for k in range(j, m))) + 2.1,
                         0.2 * sum(0.1 * k - v[i] for k in range(j, m)))
                   for j in range(m)) for i in range(n))"""
    rng = np.random.default_rng(0)
    args = rng.normal(size=3), rng.normal(size=7)
    compiled, judge = (adc.grad(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
    for found, expected in zip(compiled(*args), judge(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


LINEAR = """
    func @linear(%x: f64[n], %w: f64[m], %mask: bool[n, m]) -> (%r: f64[n]) {
      %twice = array (j < m) { 2.0 * %w[j] + 1.0 }
      %r = reduce sum (i < n | j < m) { select(%mask[i, j], log(%x[i]) * %twice[j], 0.0) }
    }"""
ROOTS = LINEAR.replace("2.0 * %w[j] + 1.0", "sqrt(%w[j])")


def test_sums_and_multiples_need_no_guard():
    """Cotangents that a mask makes zero stay zero on their way to an input through finite factors. Only where
    the next factor may be infinite, a gradient must know whether the mask holds anywhere."""
    args = (X, np.array([3.0, 0.0]), MASK & [True, False])
    for text, most in ((LINEAR, 0), (ROOTS, 1)):
        (_, joint), *_ = orders(program(text), 1)
        extrema = [a for a in arrays_of(joint.roots) if isinstance(a, Reduce) and a.op == "max"]
        assert len(extrema) == most, text
        for result in reference(joint, args):
            assert np.isfinite(result).all(), text
        backends(joint, args)


def test_a_guard_is_reduced_before_elements_with_other_axes():
    """Where a layer of maxima reads another one, the sum over the outer layer ends before the inner maximum:
    it has no condition on the inner layer, and is a product of matrices."""
    text = """
        func @layers(%x: f64[n, h], %w: f64[h, g]) -> (%r: f64) {
          %0 = reduce sum (i < n, j < g | k < h) { maximum(%x[i, k] * 3.0, 0.0) * %w[k, j] }
          %r = reduce sum (| i < n, j < g) { maximum(%0[i, j], 0.0) ** 2.0 }
        }"""
    args = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, -1.0]]), np.array([[1.0, -1.0], [0.5, -2.0], [-1.0, -3.0]])
    (_, joint), (_, second) = orders(program(text), 2)
    extrema = [a for a in arrays_of(joint.roots) if isinstance(a, Reduce) and a.op == "max"]
    assert all(len(a.domain) < 3 for a in extrema)
    for func in (joint, second):
        backends(func, args)


def test_equal_values_in_different_branches_have_one_guard():
    """A store at [2, 3] in both branches of a condition leaves the rest as it is."""
    row, column, branch = (apply("equal", Index(k), const(k + 2, "i64")) for k in range(3))
    unchanged = [
        conjunction((b, *rest))
        for b in (branch, negation(branch))
        for rest in ((negation(row),), (row, negation(column)))
    ]
    assert united(unchanged) is negation(conjunction((row, column)))
    assert united([branch, negation(branch)]) is TRUE
    assert united([row, column]) is None, "both may hold"


ATOMS = [apply("equal", Index(k), const(0, "i64")) for k in range(3)]
MORE = st.lists(st.sampled_from([*ATOMS, *map(negation, ATOMS)]), max_size=3)


def holds(guard, truths):
    """Whether a guard holds where the atoms have these truths."""
    if guard in ATOMS:
        return truths[ATOMS.index(guard)]
    if isinstance(guard, Const):
        return bool(guard.value)
    values = [holds(a, truths) for a in guard.args]
    return {"logical_not": lambda x: not x, "logical_and": bool.__and__, "logical_or": bool.__or__}[guard.op](
        *values
    )


@given(MORE, MORE)
def test_united_guards_hold_where_one_of_them_does(one, other):
    """Also if conditions of one guard contradict each other: it never holds."""
    guards = [conjunction((ATOMS[0], *one)), conjunction((negation(ATOMS[0]), *other))]
    found = united(guards)
    for truths in product((False, True), repeat=len(ATOMS)):
        each = [holds(g, truths) for g in guards]
        assert found is None or holds(found, truths) == any(each), (truths, each)


CONTRADICTION = """
    func @contradiction(%x: f64[n], %m: f64[d, n]) -> (%r: f64[n]) {
      %0 = array () { 0.5 * %x[0] }
      %1 = array (i < d, j < n) { select(i == 0, select(j == 0, %0, %m[i, j]), %m[i, j]) }
      %2 = array (i < d, j < n) { select(%x[0] > 0.4, %1[i, j], %m[i, j]) }
      %r = array (i < n) { %2[0, i] }
    }"""


def test_a_store_in_a_row_that_is_read_leaves_other_rows_without_cotangent():
    func, args = program(CONTRADICTION), (np.array([0.5, 0.2]), np.array([[0.7, 0.8], [0.3, 0.6]]))
    (_, joint), *_ = orders(func, 1)
    *_, rows = reference(joint, args)
    assert not np.asarray(rows)[1].any()
    backends(joint, args)


def test_both_sides_of_a_condition_are_chosen_between():
    """Neither is masked, and nothing is added."""
    here, there = (apply("less", Index(k), Index(k + 1)) for k in range(2))
    one, two, three = (const(float(k), "f64") for k in range(3))
    parts = [(both(here, there), one), (negation(here), two), (both(here, negation(there)), three)]
    guard, value = total(parts)
    assert guard is TRUE
    assert value is select(here, select(there, one, three), two)
