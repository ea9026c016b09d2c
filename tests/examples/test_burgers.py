"""The network of examples/burgers.py: its residual, the exact solution, and training at a small size."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest


@pytest.fixture(scope="module")
def example(imported):
    return imported("examples.burgers")


def differences(u, x, t, viscosity, h=1e-3):
    """What Burgers' equation leaves of a function, by central differences."""
    first = (u(x + h, t) - u(x - h, t)) / (2 * h)
    second = (u(x + h, t) - 2 * u(x, t) + u(x - h, t)) / h**2
    return (u(x, t + h) - u(x, t - h)) / (2 * h) + u(x, t) * first - viscosity * second


def test_the_residual_is_the_equations(example):
    p, x, t = example.start(5), np.array([-0.7, 0.1, 0.6]), np.array([0.2, 0.5, 0.9])
    expected = differences(lambda x, t: example.field(x, t, p), x, t, example.VISCOSITY)
    assert example.residuals(p, x, t) == pytest.approx(expected, abs=1e-4)


def test_the_reference_solves_the_equation(example):
    x, t = np.linspace(-0.8, 0.8, 8), np.full(8, 0.2)
    assert differences(example.exact, x, t, example.VISCOSITY) == pytest.approx(0, abs=1e-3)
    assert example.exact(x, np.full(8, 1e-9)) == pytest.approx(-np.sin(np.pi * x), abs=1e-6)


@pytest.mark.slow
def test_it_learns(capsys, without_bar, example):
    example.main([])
    size, doubt, error = capsys.readouterr().out.splitlines()
    assert size == "200 steps, 608 parameters, 1,500 points"
    assert float(doubt.split()[-1]) < 1e-12
    assert float(error.split()[4]) < 5e-3


def test_a_step_reduces_the_residual(example):
    x, t = np.meshgrid(np.linspace(-0.9, 0.9, 9), np.linspace(0.1, 0.9, 7))
    before, after = (
        np.square(example.residuals(p, x.ravel(), t.ravel())).sum()
        for p in (example.start(5), example.train(example.start(5), 60, range(8)))
    )
    assert after < before / 2


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_draws(tmp_path, example):
    example.draw(example.solved(example.start(5), 32, 20), tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"
