"""The mixture of examples/gaussian_mixture.py: its cost is SciPy's, its minimum that of EM."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import adcompiler as adc


@pytest.fixture(scope="module")
def example(imported):
    return imported("examples.gaussian_mixture")


@pytest.fixture(scope="module")
def points(example):
    return example.sample(600)


@pytest.fixture(scope="module")
def newton(example, points):
    return example.by_newton(points, example.start(points, 4))


def test_the_cost_is_that_of_scipys_densities(example, points):
    random = np.random.default_rng(5)
    p = {"logits": random.normal(size=3), "means": random.normal(size=(3, 2))}
    p["scale"] = random.normal(0, 0.3, (3, 3))
    weights = p["logits"] - logsumexp(p["logits"])
    shapes = zip(p["means"], example.covariances(p), strict=True)
    logs = [multivariate_normal(mean, covariance).logpdf(points) for mean, covariance in shapes]
    expected = -logsumexp(np.stack(logs, axis=1) + weights, axis=1).mean()
    assert example.cost(p, points) == pytest.approx(expected, rel=1e-12)


def test_newton_finds_a_minimum_in_few_steps(example, points, newton):
    slope, _ = adc.ravel(adc.grad(example.cost, "p")(newton.params, points))
    assert np.abs(slope).max() < 1e-6
    assert len(newton.costs) < 50
    assert np.all(np.diff(newton.costs) <= 0)


@pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")
def test_em_finds_the_same_slowly(example, points, newton):
    em = example.by_em(points, example.start(points, 4), range(2000), newton.costs[-1])
    assert em.costs[-1] == pytest.approx(newton.costs[-1], abs=2e-10)
    assert example.cost(em.params, points) == pytest.approx(newton.costs[-1], abs=2e-10)
    assert len(em.costs) > len(newton.costs)


def test_without_scikit_learn_it_says_so(capsys, monkeypatch, without_bar, example):
    monkeypatch.setitem(sys.modules, "sklearn.mixture", None)
    example.main(["--points", "600"])
    newton, em = capsys.readouterr().out.splitlines()
    assert newton.startswith("Newton: ")
    assert em == "EM: no comparison, since scikit-learn is not installed: pip install scikit-learn"


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_draws(tmp_path, example, points, newton):
    example.draw(points, newton, None, tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"
