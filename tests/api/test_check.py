"""`check_grad`: arguments with very many entries, functions that change fast, and loops that are long."""

# ruff: noqa: F821

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.api import check_grad as check
from adcompiler.interpreter import complex_step

MANY = 20_000
WAVES = "def waves(x):\n    return sum(x**2 * sin(x)) + x[0] * log(x[1])"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_entries_take_few_evaluations(dtype, monkeypatch):
    """A gradient of 20,000 entries is judged by some hundreds of values, not by 240,000."""
    calls = []
    extrapolated = check.slope_along.__globals__["_extrapolated"]
    monkeypatch.setitem(
        check.slope_along.__globals__, "_extrapolated", lambda *a: calls.append(1) or extrapolated(*a)
    )
    x = np.random.default_rng(0).uniform(0.5, 2.0, MANY).astype(dtype)
    report = adc.check_report(adc.compile(WAVES), x)
    assert 0 < len(calls) < 400
    assert any("directions through all 20000 entries of x" in note for note in report.notes)


@adc.function
def one_wrong(x, k, r, dr):
    return [dr * cos(x[i]) * (1.5 if i == k else 1.0) for i in range(len(x))], None


@adc.custom_vjp(one_wrong, check=False)
def waves_with(x: f64[n], k: i64):
    return sum(sin(x))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("entry", [7_123, 0, MANY - 1])
def test_one_wrong_entry_of_many_is_found(entry):
    """Each direction moves every entry, so that none is overlooked."""
    x = np.random.default_rng(0).uniform(0.5, 1.0, MANY)
    assert adc.check_grad(waves_with, x, -1, order=1) < 1e-6
    with pytest.raises(adc.GradientError, match="along a direction"):
        adc.check_grad(waves_with, x, entry, order=1)


def test_a_terminal_shows_that_a_check_goes_on(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delenv("ADC_PROGRESS", raising=False)
    monkeypatch.setattr("adcompiler.progress.PATIENCE", 0.01)
    adc.check_grad(adc.compile(WAVES), np.linspace(0.5, 2.0, 300))
    assert "adc: checking waves" in terminal.getvalue()


# -- where differences are bad -------------------------------------------------------------------------

TIMES = np.linspace(0.0, 1000.0, 40)
FAST = {
    "exp(300 * w) - 300 * w": (0.0,),
    "sin(1000 * w)": (0.3,),
    "abs(sin(1000 * w))": (0.3,),  # no complex step
    "sum(sin(w * t))": (1.7, TIMES),
    "sum(max(sin(w * t), cos(w * t)))": (1.7, TIMES),  # none for the first order
    "tanh(400 * (w - 0.3)) * w": (0.3,),
    "1e12 + w**2": (0.7,),
    "sum(sin(1000 * x)**2)": (np.linspace(0.0, 1.0, 1100),),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("source", FAST)
def test_what_changes_fast_is_no_mistake(source):
    assert adc.check_grad(adc.compile(source), *FAST[source]) < 1e-6


@adc.function
def nearly(x, r, dr):
    return 1.001 * dr * 300 * cos(300 * x)


@adc.custom_vjp(nearly, check=False)
def fast_with(x):
    return sin(300 * x)


@adc.function
def nearly_without_complex_step(x, r, dr):
    return 1.001 * dr * 300 * cos(300 * x) * sign(sin(300 * x))


@adc.custom_vjp(nearly_without_complex_step, check=False)
def fast_abs_with(x):
    return abs(sin(300 * x))


@pytest.mark.parametrize("f", [fast_with, fast_abs_with])
def test_a_mistake_in_what_changes_fast_is_one(f):
    with pytest.raises(adc.GradientError, match=r"relative error 1\.0e-03"):
        adc.check_grad(f, 0.4, order=1)


@pytest.mark.parametrize("source", ["where(x > 0, x, 2 * x)", "max(x, 0) + x**2", "where(x > 0, 1, 0) + x"])
def test_kinks_and_jumps_are_told(source):
    with pytest.raises(adc.GradientError, match="if the point is at a kink, move it"):
        adc.check_grad(adc.compile(source), 0.0)


# -- complex steps of many entries are one pass --------------------------------------------------------

PENDULUM = """
def swing(x, v, w):
    for _ in range(60):
        v = v - 0.05 * sin(x) * w
        x = x + 0.05 * v
    return sum(x * x)
"""
UNTIL = "def f(x):\n    s = 0.0\n    while s < 3:\n        s += sum(x**2) * 0.1\n    return s * prod(x)"


@pytest.mark.parametrize(("source", "count"), [(PENDULUM, 3), (UNTIL, 1)])
def test_a_loop_is_interpreted_once_for_an_argument(source, count, monkeypatch):
    passes = []
    interpreted = complex_step.Reference.__call__
    monkeypatch.setattr(complex_step.Reference, "__call__", lambda *a: passes.append(1) or interpreted(*a))
    x, v = np.linspace(0.1, 1.0, 30), np.linspace(0.2, 0.7, 30)
    report = adc.check_report(adc.compile(source), *(x, v, 1.3)[:count])
    assert report.worst < 1e-9
    assert sum(c.reference == "complex step" for c in report.comparisons) == 2
    assert len(passes) <= 4 * count  # for each order one, and one beside it where rounding shows


def test_a_step_at_a_time_gives_the_same():
    f = adc.compile("def f(x, A):\n    return sum(exp(A @ x)) + logsumexp(x) * det(A)")
    x, a = np.linspace(0.1, 1.0, 4), np.eye(4) + 0.1 * np.arange(16.0).reshape(4, 4)
    found = f._specialise(f._describe((x, a), {})[0])
    for k, argument in enumerate((x, a)):
        steps = check.Steps(found, [x, a], None)
        places = list(np.ndindex(argument.shape))
        together = steps.slopes(k, places)
        alone = [steps.slopes(k, [place])[0] for place in places]
        np.testing.assert_allclose(together, alone, rtol=1e-13)
        np.testing.assert_allclose(together, adc.grad(f)(x, a)[k].ravel(), rtol=1e-12)
