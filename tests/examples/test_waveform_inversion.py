"""Waves in examples/waveform_inversion.py: physics of the simulation, the gradient, and a small inversion."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import adcompiler as adc


@pytest.fixture(scope="module")
def example(imported):
    return imported("examples.waveform_inversion")


def test_source_and_receiver_may_be_exchanged(example):
    """Reciprocity holds wherever the speeds at both places are equal."""
    where = example.survey(40, 2, 60)
    speed = example.BACKGROUND * (1 + 0.1 * np.exp(-np.hypot(*(np.mgrid[:40, :40] - 20)) / 3))
    a, b = np.array([13, 14]), np.array([26, 25])
    speed[13, 14] = speed[26, 25] = example.BACKGROUND
    there = example.records(speed, where.damping, where.wavelet, a, b[None])
    back = example.records(speed, where.damping, where.wavelet, b, a[None])
    assert np.abs(there).max() > 0.1
    assert there == pytest.approx(back, abs=1e-12)


def test_waves_arrive_with_the_speed_of_sound(example):
    where = example.survey(60, 1, 120)
    receivers = np.array([[30, 20], [30, 40]])
    speed, source = np.full((60, 60), example.BACKGROUND), np.array([30, 10])
    near, far = example.records(speed, where.damping, where.wavelet, source, receivers).T
    lag = np.argmax(np.correlate(far, near, "full")) - (len(near) - 1)
    assert lag * example.STEP * example.BACKGROUND == pytest.approx(20 * example.SPACING, abs=10)


@pytest.mark.slow
def test_the_gradient_is_right(example):
    where, speed = example.survey(30, 1, 20), example.medium(30)
    shot = where.shots([example.records(0 * speed + example.BACKGROUND, *where.shots()[0])])[0]
    along = np.random.default_rng(1).normal(size=speed.shape)
    up, down = (example.misfit(speed + h * along, *shot) for h in (0.01, -0.01))
    slope = adc.grad(example.misfit, "c")(speed, *shot)
    assert np.sum(slope * along) == pytest.approx((up - down) / 0.02, rel=1e-6)


@pytest.mark.slow
def test_a_small_medium_is_found(capsys, without_bar, example):
    example.main(["--points", "64", "--shots", "6", "--steps", "160", "--iterations", "8"])
    misfit, error = capsys.readouterr().out.splitlines()
    assert float(misfit.split()[-4]) < 0.3
    before, after = (float(word) for word in error.replace(",", "").split() if word[0].isdigit())
    assert after < before / 2


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_draws(tmp_path, example):
    where, speed = example.survey(40, 2, 30), example.medium(40)
    example.draw(where, speed, example.Inversion(speed, [1.0, 0.1]), tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"
