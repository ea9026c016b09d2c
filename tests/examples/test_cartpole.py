"""The pole swings up in examples/cartpole.py, at a small size."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "examples" / "cartpole.py"


@pytest.mark.slow
def test_the_pole_swings_up():
    spec = spec_from_file_location("cartpole_example", FILE)
    cartpole = module_from_spec(spec)
    spec.loader.exec_module(cartpole)
    problem, result = cartpole.solve(25, "slsqp", coarse=15)
    assert (problem.n, problem.m) == (125, 96)
    assert result.success
    assert result.fun == pytest.approx(60.1, abs=0.1)
    assert result.params["angle"][-1] == pytest.approx(np.pi)
    assert np.abs(result.constraints).max() < 1e-6
