"""The example of dose-response curves finds SciPy's parameters, and prints and draws what the page says."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import adcompiler as adc


@pytest.fixture(scope="module")
def example(imported):
    return imported("examples.dose_response")


@pytest.mark.slow
def test_a_loop_over_scipy_finds_the_same(capsys, example):
    example.main(["--compounds", "60", "--sample", "12"])
    printed = capsys.readouterr().out
    assert printed.count("<60 fits of 4 parameters: ") == 2
    screen = example.simulated(12, idle=0)
    fits = adc.fit.batch(example.response, screen.doses, screen.responses, example.START)
    here = example.active(fits)
    assert here.sum() >= 10
    assert fits.x[here] == pytest.approx(example.with_scipy(screen, 12)[here], rel=1e-3, abs=1e-3)


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_draws(tmp_path, example):
    example.main(["--compounds", "60", "--draw", str(tmp_path / "found.png")])
    assert np.frombuffer((tmp_path / "found.png").read_bytes()[:4], np.uint8).tolist() == [137, 80, 78, 71]
