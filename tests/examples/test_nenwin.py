"""Nenwin in examples/nenwin: its physics, its loss, and what it learns of handwritten digits."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adcompiler as adc

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def particles():
    return imported("particles")


def imported(name):
    """A module of the example, as it is imported from the repository's root."""
    sys.path.insert(0, str(ROOT))
    try:
        return __import__(f"examples.nenwin.{name}", fromlist=[name])
    finally:
        sys.path.remove(str(ROOT))


def needs(*modules):
    """Skip, with the reason, unless the extra `examples` is installed."""
    missing = [m for m in modules if find_spec(m) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: pip install 'adcompiler[examples]'")


def energy(p, v, q, w):
    """Kinetic and potential energy of one marble among fixed nodes."""
    return (v**2).sum() / 2 - (w / np.sqrt(((q - p) ** 2).sum(1) + 0.02)).sum()


@pytest.mark.parametrize("method", ["verlet", "beeman"])
def test_steps_keep_the_energy_to_second_order(particles, method):
    """Half the step, a quarter of the error; a node moves a marble, and no marble moves itself."""
    q, w = np.array([[0.5, 0.2], [-0.4, -0.6]]), np.array([0.3, 0.2])
    start, speed = np.array([[0.1, -0.8]]), np.array([[0.2, 0.1]])
    errors = []
    for steps in (100, 200):
        acc = particles.attraction(start, q, w)
        p, v = particles.moved(start, speed, acc, np.zeros(1), q, w, steps, 1.0 / steps, method)
        errors.append(abs(energy(p[0], v[0], q, w) - energy(start[0], speed[0], q, w)))
    assert errors[0] < 1e-4
    assert errors[1] < errors[0] / 3


def test_the_nearest_marble_is_blamed_by_where_it_will_be(particles):
    """Of two marbles the farther one is blamed, for it approaches; the other one has no gradient."""
    nodes = [particles.Node(np.zeros(2), 0.0), particles.Node(np.array([9.0, 9.0]), 0.0)]
    p, v, mass = np.array([[1.0, 0.0], [-1.2, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones(2)
    assert_allclose(particles.ahead(p, v, mass, nodes, 1, 0.0), [1.0])
    assert_allclose(particles.ahead(p, v, mass, nodes, 1, 0.5), [0.49])
    _, pull = adc.vjp(particles.ahead, p, v, mass, nodes, 1, 0.5, wrt=("p", "v"))
    by_place, by_speed = pull([1.0])
    assert_allclose(by_place, [[0, 0], [-1.4, 0]])
    assert_allclose(by_speed, 0.5 * by_place)


@pytest.mark.slow
def test_gradients_go_back_through_all_steps_to_everything(particles):
    """By emitters, nodes and numbers, as lists of structs, at second order too."""
    model = particles.begun(1, side=3, classes=3, hidden=6)
    ink = np.array([0, 0.5, 1, 1, 0, 0.2, 0.9, 0, 0.4])
    args = ink, 2, model, 3, 4, 0.1, 0.3, "verlet"
    assert adc.check_grad(particles.blame, *args, wrt="model", order=2) < 1e-5
    grads = adc.grad(particles.blame, "model")(*args)
    assert type(grads.emitters[3]) is particles.Emitter
    assert len(grads.nodes) == 9
    assert all(np.any(g.pos) for g in grads.nodes), "each node moves some marble"
    assert np.any(grads.emitters[2].acc)
    assert not np.any(grads.emitters[0].pos), "no ink, no marble, no gradient"
    assert grads.mass != 0
    assert grads.focus != 0


def test_a_batch_is_the_mean_of_its_images(particles):
    model = particles.begun(0, side=3, classes=3)
    images, labels = np.random.default_rng(0).uniform(0, 1, (5, 9)), np.array([0, 2, 1, 1, 0])
    how = 3, 3, 0.1, 0.3, "verlet"
    alone = [particles.blame(x, y, model, *how) for x, y in zip(images, labels, strict=True)]
    assert_allclose(particles.loss(images, labels, model, *how), np.mean(alone))


@pytest.mark.slow
def test_the_logbooks_sample_has_all_gradients(particles):
    sample = imported("sample")
    marbles, nodes, *rest = sample.arguments(side=5)
    step = adc.value_and_grad(particles.sample, ("marbles", "nodes"))
    value, (by_marbles, by_nodes) = step(marbles, nodes, *rest)
    assert np.isfinite(value)
    assert (by_marbles.pos.shape, by_marbles.mass.shape, len(by_nodes)) == ((25, 2), (25,), 18)
    assert np.any(by_marbles.acc)
    assert adc.check_grad(particles.sample, marbles, nodes, *rest, wrt=("marbles", "nodes")) < 1e-5


def made_up(count=60):
    """Images of 8 × 8 pixels with ink on one of two sides, by class."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, count)
    images = np.zeros((count, 8, 8))
    for image, label in zip(images, labels, strict=True):
        image[:, 6 * label : 6 * label + 2] = random.uniform(0.2, 1, (8, 2))
    return images.reshape(count, 64), labels


def test_training_lowers_the_loss_and_draws_pictures(particles, tmp_path):
    needs("tqdm", "matplotlib")
    train, pictures = imported("digits"), imported("pictures")
    data = made_up()
    trained = train.train(train.Settings(epochs=4, batch=15, steps=3, rate=0.05), data, progress=False)
    assert trained.losses[-1] < trained.losses[0] / 2
    assert trained.held[-1] > 0.9
    again = train.train(replace(trained.settings, epochs=1), data, progress=False)
    assert again.losses[0] == pytest.approx(trained.losses[0]), "a seed gives the same run"
    pictures.curves(trained, tmp_path / "curves.png")
    pictures.paths(trained, data[0][:2], data[1][:2], tmp_path / "paths.png")
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("curves.png", "paths.png"))


def test_a_missing_extra_says_what_to_install(particles):
    with pytest.raises(SystemExit, match=r"pip install 'adcompiler\[examples\]'"):
        imported("digits").extra("no_such_module_as_this.part")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_handwritten_digits(particles, seed):
    needs("tqdm", "sklearn")
    train = imported("digits")
    trained = train.train(train.Settings(epochs=15, seed=seed), progress=False)
    assert trained.held[-1] >= 0.35
