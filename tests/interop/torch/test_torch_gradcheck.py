"""PyTorch's own judges, `gradcheck` and `gradgradcheck`, on every function of the table and of the examples.

They compare with finite differences in float64: the results' derivatives, and the derivatives of these, by
reverse and by forward mode. Programs are interpreted, for kernels take minutes to compile; those of the
table are compiled in the slow tests. `test_torch_table.py` compares kernels with PyTorch's derivatives.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
from interop.functions import CASES

import adcompiler as adc

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

EXAMPLES = Path(__file__).parents[3] / "examples"
EVALS = EXAMPLES / "gradbench" / "evals"
INTERPRETED = "numpy"


def drawn(*shapes, seed=0, low=-1.0, high=1.0):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(np.asarray(rng.uniform(low, high, s))) for s in shapes]


def assert_both_orders(f, *given, fast=False):
    """The judges on a function of tensors; of those given the floats have gradients."""
    leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in given]
    with_forward = {"check_forward_ad": True, "fast_mode": fast}
    assert torch.autograd.gradcheck(f, leaves, **with_forward)
    assert torch.autograd.gradgradcheck(f, leaves, check_fwd_over_rev=True, fast_mode=fast)


@pytest.mark.parametrize("backend", [INTERPRETED, pytest.param("cpu", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table(case, backend):
    given = [torch.from_numpy(np.asarray(a)) for a in case.arguments(seed=3)]
    assert_both_orders(adc.compile(case.source, backend=backend), *given)


# -- examples -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _examples(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


def evals(name):
    return adc.load(EVALS / f"{name}.adc", backend=INTERPRETED)


def interpreted(function):
    """A function of an example on the interpreter."""
    copied = copy.copy(function)
    copied._backend = INTERPRETED
    return copied


def test_simple_autograd():
    from simple_autograd import generated

    assert_both_orders(generated(INTERPRETED), *drawn(3, 3))


def test_misra1a():
    loss = adc.load(EXAMPLES / "misra1a" / "misra1a.adc", backend=INTERPRETED).loss
    assert_both_orders(loss, *drawn((), (), 4, 4, low=0.3))


def test_force_matching():
    from force_matching import MORSE

    (x,) = drawn((4, 3), high=2.0)
    assert_both_orders(adc.compile(MORSE, backend=INTERPRETED), x, *drawn((), (), (), low=0.5))


@pytest.mark.slow
def test_pinn():
    import pinn

    p, xs, edge, a = drawn((4, 3), 3, 2, ())
    assert_both_orders(interpreted(pinn.network), xs[0], xs[1], p)
    assert_both_orders(interpreted(pinn.residual), xs[0], xs[1], p, a)
    assert_both_orders(interpreted(pinn.loss), p, xs, xs**2, edge, a, fast=True)


@pytest.mark.slow
def test_nenwin():
    from nenwin import particles

    p, q, w, v = drawn((3, 2), (2, 2), 2, (3, 2))
    mass = torch.tensor([0.3, 0.5, 0.2], dtype=torch.float64)
    assert_both_orders(interpreted(particles.attraction), p, q, w)
    moved = interpreted(particles.moved)
    for method in ("beeman", "verlet"):
        assert_both_orders(lambda *a, m=method: moved(*a, 2, 0.1, m), p, v, -v, mass, q, w, fast=True)


@pytest.mark.slow
def test_nenwin_loss_of_a_model():
    from nenwin import particles

    whole = interpreted(particles.loss)

    def loss(images, at, pull, begin, focus):
        emitters = [particles.Emitter(begin[k], 0.1 * begin[k], 0 * begin[k]) for k in range(3)]
        nodes = [particles.Node(at[k], pull[k]) for k in range(3)]
        model = particles.Model(emitters, nodes, 0.1, focus)
        return whole(images, torch.tensor([0, 1]), model, 2, 2, 0.1, 0.05, "beeman")

    images, at, pull, begin, focus = drawn((2, 3), (3, 2), 3, (3, 2), ())
    assert_both_orders(loss, images.abs(), at, pull, begin, focus, fast=True)


@pytest.mark.slow
def test_gradbench_smooth_formulas():
    assert_both_orders(evals("hello").square, *drawn(()))
    assert_both_orders(evals("lse").lse, *drawn(5))
    assert_both_orders(lambda x: evals("llsq").llsq(x, 6), *drawn(3))
    assert_both_orders(lambda x: evals("ode").ode(x, 3), *drawn(3))
    assert_both_orders(lambda x: evals("ode").last(x, 3), *drawn(3))
    assert_both_orders(lambda A: evals("det").det(A, 3), *drawn((3, 3)))
    assert_both_orders(evals("kmeans").cost, *drawn((4, 2), (2, 2)))


@pytest.mark.slow
def test_gradbench_lstm():
    assert_both_orders(evals("lstm").loss, *drawn((2, 8), (3, 2), (2, 2), (3, 2)), fast=True)


@pytest.mark.slow
def test_gradbench_gmm():
    given = drawn(2, (2, 2), (2, 2), (2, 1), (3, 2))
    assert_both_orders(lambda *a: evals("gmm").log_posterior(*a, 0.7, 1.0), *given, fast=True)


@pytest.mark.slow
def test_gradbench_bundle_adjustment():
    camera, point, weight, feature = drawn(11, 3, (), 2)
    point[2] += 5  # before the camera
    assert_both_orders(evals("ba").reprojection, camera, point, weight, feature, fast=True)
    seen = torch.tensor([[0, 0], [0, 1], [0, 1]])
    given = camera[None], torch.stack([point, point + 0.1]), *drawn(3, (3, 2)), seen
    assert_both_orders(evals("ba").errors, *given, fast=True)


@pytest.mark.slow
def test_gradbench_hand():
    hand = evals("ht")
    theta, rest, weights, points = drawn(26, (3, 4), (3, 5), (2, 3), low=0.1)
    bones = [torch.eye(4, dtype=torch.float64) + 0.1 * m for m in drawn((5, 4, 4), (5, 4, 4))]
    parents, vertex = torch.tensor([-1, 0, 1, 2, 3]), torch.tensor([0, 2])
    assert_both_orders(
        lambda *a: hand.simple(*a[:1], parents, *a[1:5], 1, a[5], vertex),
        theta, *bones, rest, weights, points, fast=True,
    )  # fmt: skip


@pytest.mark.slow
def test_gradbench_descents(tmp_path):
    """Where a descent ends jumps with its first point; what it descends on is smooth."""

    def loaded(name, end):
        parts = [(EVALS / f"{part}.adc").read_text("utf-8") for part in ("descent", name)]
        (tmp_path / f"{name}.adc").write_text("\n".join([*parts, end]), "utf-8")
        return adc.load(tmp_path / f"{name}.adc", backend=INTERPRETED)

    crosses = loaded("particle", "def crosses(w):\n    return crossing(w, reverse)\n").crosses
    assert_both_orders(crosses, *drawn((), low=0.5), fast=True)
    assert_both_orders(loaded("saddle", "").height, *drawn(2, 2))
