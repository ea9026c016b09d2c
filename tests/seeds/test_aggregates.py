"""The notebook "Simple Autograd" (seed 004), second half: aggregates and PyTorch.

The cells and exercises that examples/simple_autograd.py has are tested with it."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Variable, tape
from tests.seeds.notebook import SECOND, A, B, begin, near, run_gradients, simple

# -- aggregates by hand ------------------------------------------------------------------------


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
def test_a_check_finds_what_is_wrong():
    """On "It is important to test changes on these cases": one call does it."""
    assert tape.check(simple_variable_wrong, A, B, order=1) < 1e-5
    with pytest.raises(
        adc.GradientError, match=r"second derivative(.|\n)*must be one of the recorded outputs"
    ):
        tape.check(simple_variable_wrong, A, B)


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


def test_the_compiler_of_python_that_runs():
    """TorchScript's idea: the function above as it is, its operations fused."""
    near(run_gradients(adc.fuse(simple)), SECOND)


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
