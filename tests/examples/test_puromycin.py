"""The example of confidence bands finds the published parameters, and draws what the page shows."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import adcompiler as adc


@pytest.fixture(scope="module")
def example(imported):
    return imported("examples.puromycin")


def test_the_parameters_are_those_of_bates_and_watts(capsys, example):
    example.main([])
    assert capsys.readouterr().out.splitlines() == ["limit: 212.7 ± 6.9", "half: 0.06412 ± 0.0083"]


@pytest.mark.slow
def test_bands_are_those_of_simulated_measurements(example):
    """The spread of curves fitted to simulated measurements is that of the band."""
    fit = adc.curve_fit(example.velocity, example.CONCENTRATION, example.VELOCITY, example.START)
    at = np.array([0.05, 0.3, 1.0])
    narrow, wide = example.bands(fit, at)
    assert np.all(narrow < wide)
    sigma, curve = np.sqrt(2 * fit.cost / 10), example.velocity(example.CONCENTRATION, **fit.params)
    data = curve + sigma * np.random.default_rng(3).normal(size=(2000, len(curve)))
    found = adc.fit.batch(example.velocity, example.CONCENTRATION, data, example.START)
    curves = example.velocity(at, found.params["limit"][:, None], found.params["half"][:, None])
    quantile = 2.2281388519649385  # of Student's t with ten degrees of freedom
    assert curves.std(axis=0) == pytest.approx(narrow / quantile, rel=0.1)


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_draws(tmp_path, example):
    example.main(["--draw", str(tmp_path / "found.png")])
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"
