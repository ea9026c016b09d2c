"""`check_grad` of arguments with very many entries: some entries, and directions through all of them."""

# ruff: noqa: F821

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.api import check_grad as check

MANY = 20_000
WAVES = "def waves(x):\n    return sum(x**2 * sin(x)) + x[0] * log(x[1])"


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


@pytest.mark.parametrize("entry", [0, 7_123, MANY - 1])
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
