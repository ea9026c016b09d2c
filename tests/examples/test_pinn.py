"""The physics-informed network of examples/pinn.py learns the heat equation."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc

PINN = Path(__file__).parents[2] / "examples" / "pinn.py"


@pytest.fixture(scope="module")
def pinn():
    spec = spec_from_file_location("pinn", PINN)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_residual_is_the_equations(pinn):
    """For a network of one neuron the derivatives are known."""
    p, x, t, a = np.array([[0.7], [-0.4], [0.2], [1.5]]), 0.3, 0.6, 0.1
    h = np.tanh(0.7 * x - 0.4 * t + 0.2)
    slope, curvature = 1 - h**2, -2 * h * (1 - h**2)
    assert pinn.residual(x, t, p, a) == pytest.approx(1.5 * (-0.4 * slope - a * 0.49 * curvature))


@pytest.mark.slow
def test_the_gradient_of_its_loss_is_right(pinn):
    random = np.random.default_rng(1)
    args = random.normal(0, 1, (4, 3)), *random.uniform(0, 1, (2, 5)), np.linspace(0, 1, 4), 0.1
    assert adc.check_grad(pinn.loss, *args, wrt="p") < 1e-6


def test_it_learns(pinn):
    result = pinn.train(steps=300)
    assert result.loss < 0.02
    assert result.error < 0.05
