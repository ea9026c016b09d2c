"""The notebook "Simple Autograd" (seed 004), second half: aggregates, PyTorch, and every exercise."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Variable, tape
from tests.seeds.notebook import SECOND, A, B, begin, differences, near, run_gradients, simple

# -- aggregates by hand ------------------------------------------------------------------------


def test_simple_type_error():
    """dr_db is a plain array: PyTorch's reader got an AttributeError, here the message says what to do."""

    def simple_type_error(a, b):
        t = a.value + b.value
        r = Variable(t * b.value)

        def propagate(dL_doutputs):
            (dL_dr,) = dL_doutputs
            dL_dt = dL_dr * b
            return [dL_dt, dL_dt + dL_dr * t]

        tape.record([a, b], [r], propagate)
        return r

    with pytest.raises(adc.GraphError, match=r"plain array(.|\n)*record it as an output"):
        run_gradients(simple_type_error)


def simple_recompute(a, b):
    r = Variable((a.value + b.value) * b.value)

    def propagate(dL_doutputs):
        (dL_dr,) = dL_doutputs
        t = a + b  # RECOMPUTE!
        dL_dt = dL_dr * b
        return [dL_dt, dL_dt + dL_dr * t]

    tape.record([a, b], [r], propagate)
    return r


def test_simple_recompute():
    """Right, at the price of computing t again and of keeping a."""
    near(run_gradients(simple_recompute), SECOND)


def simple_variable_wrong(a, b):
    t_v = Variable(a.value + b.value, name="t")
    r = Variable(t_v.value * b.value)

    def propagate(dL_doutputs):
        (dL_dr,) = dL_doutputs
        dL_dt = dL_dr * b
        return [dL_dt, dL_dt + dL_dr * t_v]

    tape.record([a, b], [r], propagate)
    return r


def test_simple_variable_wrong_warns():
    """On "We do not get an error", but something is wrong: da is None. The warning names t."""
    with pytest.warns(
        UserWarning, match=r"reads t(.|\n)*not one of its inputs or outputs(.|\n)*Record t as an"
    ):
        da, db = run_gradients(simple_variable_wrong)
    assert da is None
    near([db], [[1.4312, 2.7896, 7.8169, 4.6857]])


@pytest.mark.filterwarnings("ignore:the propagate of")
def test_simple_variable_wrong_is_right_once():
    """On "Very easy to make it appear to work for a single backward pass"."""
    near(run_gradients(simple_variable_wrong, second_loss=False), [B, A + 2 * B], 1e-12)


@pytest.mark.filterwarnings("ignore:the propagate of")
def test_a_check_finds_what_is_wrong():
    """On "It is important to test changes on these cases": one call does it."""
    assert tape.check(simple_variable_wrong, A, B, order=1) < 1e-5
    with pytest.raises(
        adc.GradientError, match=r"second derivative(.|\n)*must be one of the recorded outputs"
    ):
        tape.check(simple_variable_wrong, A, B)


def simple_variable_almost(a, b):
    t_v = Variable(a.value + b.value, name="t_v")
    r = Variable(t_v.value * b.value)

    def propagate(dL_doutputs):
        dL_dr, dL_dt0 = (Variable(np.zeros(4)) if g is None else g for g in dL_doutputs)
        dL_dt = dL_dt0 + dL_dr * b
        return [dL_dt, dL_dr * t_v + dL_dt]

    tape.record([a, b], [r, t_v], propagate)
    return r


def test_simple_variable_almost():
    """t is an output: right, with zeros where a cotangent is None."""
    near(run_gradients(simple_variable_almost), SECOND)


def add_optional(a, b):
    return b if a is None else a if b is None else a + b


def watched_variable(seen):
    def simple_variable(a, b):
        t_v = Variable(a.value + b.value, name="t_v")
        r = Variable(t_v.value * b.value)

        def propagate(dL_doutputs):
            seen.append([g is not None for g in dL_doutputs])
            dL_dr, dL_dt = dL_doutputs
            dL_dt = add_optional(dL_dt, None if dL_dr is None else dL_dr * b)
            dL_db = None if dL_dr is None else dL_dr * t_v
            return [dL_dt, add_optional(dL_db, dL_dt)]

        tape.record([a, b], [r, t_v], propagate)
        return r

    return simple_variable


def test_simple_variable():
    """add_optional in place of zeros."""
    near(run_gradients(watched_variable([])), SECOND)


def test_exercise_why_dr_is_none_the_second_time():
    """Exercise: in the second pass L1 reaches the operation through t alone, so dL_dr is None there."""
    seen = []
    run_gradients(watched_variable(seen))
    assert seen == [[True, False], [False, True]]


def test_exercise_two_characters():
    """Exercise: `*a` in L0 makes both cotangents come in the second pass."""
    seen = []
    found = run_gradients(watched_variable(seen), times_a=True)
    assert seen == [[True, False], [True, True]]
    near(found, differences(simple, times_a=True), 1e-4)
    near(run_gradients(adc.compile("(a + b) * b"), times_a=True), differences(simple, times_a=True), 1e-4)


# -- PyTorch vs Simple Grad --------------------------------------------------------------------


def test_a_value_that_is_changed_before_it_is_needed():
    """On "Track if a user mutated a tensor that is needed by backward and report an error on use"."""
    w = Variable(B, requires_grad=True, name="w")
    loss = (w * w).sum()
    with adc.no_grad():
        w += 1.0
    with pytest.raises(adc.GraphError, match=r"w was given another value(.|\n)*changed by(.|\n)*w \+= 1\.0"):
        loss.backward()


def test_uses_before_and_after_a_change():
    """Before it gradients propagate to the original value, after it to the new one."""
    a, b = begin()
    x = a * 2.0
    before = x * 3.0
    x *= b
    after = x + 0.0
    near(tape.grad((before + after).sum(), [a, b]), [6.0 + 2.0 * B, 2.0 * A], 1e-12)


# -- where to go from here ---------------------------------------------------------------------


def test_a_new_operator():
    """On "Adding a new operator with propagate formula", verified by finite differences to second order."""

    def softsign(x):
        r = Variable(x.value / (1 + np.abs(x.value)))
        tape.record([x], [r], lambda g: [g[0] / (1 + abs(x)) ** 2])
        return r

    assert tape.check(softsign, np.array([-2.0, -0.3, 0.4, 3.0])) < 1e-4


def test_weirder_higher_order_gradients():
    """A gradient of a loss that mixes orders, of its own algebra."""
    a, b = begin()
    L0 = simple(a, b).sum()
    (db,) = tape.grad(L0, [b], create_graph=True)  # a + 2b
    L1 = (db * db * a).sum() * L0
    expected = ((A + 2 * B) ** 2 + 2 * (A + 2 * B) * A) * L0.item() + B * ((A + 2 * B) ** 2 * A).sum()
    near(tape.grad(L1, [a]), [expected], 1e-12)


def test_zeros_in_place_of_none():
    """On "Remove None and implement gradients using zeros": one argument."""
    a, b = begin()
    near(tape.grad(a * a, [a, b], materialize_grads=True), [2 * A, np.zeros(4)], 1e-12)


def test_another_aggregate():
    """exp(-(a - b)**2) by hand, its difference declared, and generated."""

    def bump(a, b):
        d = Variable(a.value - b.value, name="d")
        r = Variable(np.exp(-(d.value**2)), name="r")

        def propagate(cotangents):
            dr, dd = cotangents
            total = add_optional(dd, None if dr is None else dr * r * d * -2.0)
            return [total, None if total is None else -total]

        tape.record([a, b], [r, d], propagate)
        return r

    assert tape.check(bump, A, B) < 1e-4
    generated = run_gradients(adc.compile("exp(-((a - b) ** 2))"))
    near(run_gradients(bump), [g.value for g in generated], 1e-10)


def test_a_compiler_for_small_expressions():
    """On "Write a 'compiler' that can take a small expression similar to simple": t is declared."""
    fused = adc.compile("""
    def simple(a, b):
        t = a + b
        return t * b
    """)
    near(run_gradients(fused), SECOND)
    assert "-> (%r: f64[n], %t: f64[n])" in fused.show("forward", A, B)


def test_the_compiler_of_python_that_runs():
    """TorchScript's idea: the function above as it is, its operations fused."""
    near(run_gradients(adc.fuse(simple)), SECOND)


def test_all_branches_at_the_top_and_a_program_for_each_pattern():
    """On "Rewrite simple_variable so all the branching is at the top", and specialise."""
    fused = adc.compile("""
    def simple(a, b):
        t = a + b
        return t * b
    """)
    run_gradients(fused)
    shown = fused.show("propagate")
    branches, _, programs = shown.partition("func @")
    assert branches.count("if ") == 4
    assert " if " not in programs
    assert "simple.propagate[1-|11]" in shown
    assert "simple.propagate[-1|11]" in shown
    run_gradients(fused, times_a=True)
    assert "simple.propagate[11|11]" in fused.show("propagate")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_stays(dtype):
    a, b = Variable(A.astype(dtype)), Variable(B.astype(dtype))
    for f in (simple, simple_recompute, adc.compile("(a + b) * b")):
        for g in tape.grad(f(a, b).sum(), [a, b]):
            assert g.dtype == dtype


def test_empty_arrays():
    a, b = Variable(np.zeros(0)), Variable(np.zeros(0))
    for f in (simple, simple_recompute, adc.compile("(a + b) * b")):
        assert [g.shape for g in tape.grad(f(a, b).sum(), [a, b])] == [(0,), (0,)]
