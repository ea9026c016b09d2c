"""The cluster of examples/lennard_jones.py has the published energy and the symmetry of an octahedron."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import adcompiler as adc


@pytest.fixture(scope="module")
def example(imported):
    return imported("examples.lennard_jones")


def pair_hessian(x):
    """The Hessian by the formula for each pair: second derivatives along it, first ones across."""
    hessian = np.zeros((len(x), 3, len(x), 3))
    for i in range(len(x)):
        for j in range(i):
            r = np.linalg.norm(x[i] - x[j])
            first, second = 24 * r**-7 - 48 * r**-13, 624 * r**-14 - 168 * r**-8
            along = np.outer(x[i] - x[j], x[i] - x[j]) / r**2
            block = second * along + first / r * (np.eye(3) - along)
            for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
                hessian[a, :, b, :] += sign * block
    return hessian


@pytest.fixture(scope="module")
def fit(example):
    return adc.minimize(example.energy, example.octahedron(), method="trust-exact", options={"gtol": 1e-8})


def test_the_minimum_has_the_published_energy_and_an_octahedrons_vibrations(example, fit):
    assert fit.fun == pytest.approx(example.PUBLISHED, abs=1e-6)
    found = example.vibrations(fit.params)
    assert np.abs(found.squares[:6]).max() < 1e-6
    assert [sum(len(level) == k for level in found.levels) for k in (1, 2, 3)] == [9, 9, 27]
    outwards = np.sum(example.breathing(fit.params, found) * fit.params, axis=1)
    assert np.all(outwards > 0)


@pytest.mark.slow
def test_copies_relax(capsys, without_bar, example):
    example.main(["--copies", "8"])
    copies, energy, zeros, levels = capsys.readouterr().out.splitlines()
    assert copies.endswith(" of 8 copies relax to the octahedron, 0% to lower minima")
    assert energy.startswith("energy -173.928427 ε after ")
    assert zeros.endswith(" the others at least 10.0")
    assert levels == "108 vibrations: 9 simple, 9 double and 27 triple frequencies"


def test_the_hessian_is_that_of_the_pairs(example):
    x = example.octahedron() + np.random.default_rng(1).normal(0, 0.05, (38, 3))
    assert example.curvature(x) == pytest.approx(pair_hessian(x), rel=1e-11, abs=1e-9)


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_draws(tmp_path, example, fit):
    energies, found = np.array([example.PUBLISHED, -170.0]), example.vibrations(fit.params)
    example.draw(tmp_path / "found.png", np.array([0.1, 0.3]), energies, fit.params, found)
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"
