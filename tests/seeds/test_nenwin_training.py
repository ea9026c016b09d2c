"""The logbook of Nenwin (seed 001) from 06-03 on, entry by entry: a loss, epochs, and a sample of MNIST."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Parameter, Variable, tape
from tests.seeds.particles import Particle, particle

# -- 06-03: a loss of what was eaten -----------------------------------------------------------


def test_idea_1_a_count_with_the_gradient_of_a_position():
    """On "Set num_marbles_eaten <- pos / pos.item(); its gradient is 1": it is 1 / pos, and so says ours."""
    pos = Parameter(4.0)
    count = pos / pos.item()
    count.backward()
    assert count.item() == 1.0
    assert pos.grad.item() == 0.25


CLOSEST = """
def loss(target: f64[d], pos: f64[n, d], vel: f64[n, d], alpha):
    return min(sum((target[k] - (pos[i, k] + alpha * vel[i, k]))**2 for k in range(d)) for i in range(n))
"""
TARGET = np.array([0.5, -0.25])
POSITIONS = np.array([[1.0, 0.5], [-1.0, 0.25], [2.0, 2.0]])
VELOCITIES = np.array([[0.5, 0.5], [3.0, -1.0], [0.0, 0.0]])


@pytest.mark.parametrize(("alpha", "blamed"), [(0.0, 0), (0.5, 1)])
def test_idea_2_the_closest_marble_is_blamed(alpha, blamed):
    """The least |x_1 - (pos + alpha * vel)|**2; with alpha a marble on its way is the closest one."""
    loss = adc.compile(CLOSEST)
    guess = POSITIONS + alpha * VELOCITIES
    distances = ((TARGET - guess) ** 2).sum(1)
    assert np.argmin(distances) == blamed
    value, (dp, dv) = adc.value_and_grad(loss, ("pos", "vel"))(TARGET, POSITIONS, VELOCITIES, alpha)
    expected = np.zeros((3, 2))
    expected[blamed] = 2 * (guess[blamed] - TARGET)
    assert value == pytest.approx(distances[blamed])
    np.testing.assert_allclose(dp, expected)
    np.testing.assert_allclose(dv, alpha * expected)


def test_idea_2_on_the_tape_and_to_second_order():
    """The same loss of Variables; its Hessian is that of the blamed marble."""
    pos = Parameter(POSITIONS)
    loss = ((pos - TARGET) ** 2).sum(1).min()
    first = tape.grad(loss, pos, create_graph=True)
    compiled = adc.grad(adc.compile(CLOSEST), "pos")
    np.testing.assert_allclose(first.value, compiled(TARGET, POSITIONS, VELOCITIES, 0.0))
    second = tape.grad(first.sum(), pos)
    np.testing.assert_allclose(second.value, [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]])


def test_alpha_is_not_trained():
    """A loss that could be lowered by alpha would be: what is no part of wrt is a constant."""
    loss = adc.compile(CLOSEST)
    s = loss.split(("pos", "vel"))
    _, saved = s.forward(TARGET, POSITIONS, VELOCITIES, 0.5)
    assert len(s.propagate(saved, 1.0)) == 2


# -- 13-03: "some variable has been modified in-place" -----------------------------------------


def epochs(step, count=2):
    """An epoch of `step(particle)` and an optimiser's step, `count` times; the particle."""
    p = particle()
    optimiser = adc.optim.Adam(adc.parameters(p), lr=0.1)
    for _ in range(count):
        optimiser.zero_grad()
        step(p).backward()
        optimiser.step()
    return p


def moved(p):
    p.update_movement(0.5)
    return (p.pos * p.pos).mean()


def test_the_second_epoch_with_a_stale_state():
    """The author found no difference between first and second epoch: the message names it.

    The state still hangs on the graph of the epoch before, which was freed: line and remedy are there.
    """
    with pytest.raises(adc.GraphError) as caught:
        epochs(moved)
    text = str(caught.value)
    assert "was freed by an earlier backward()" in text
    assert "particles.py" in text
    assert "detach()" in text


def test_the_second_epoch_with_a_reset():
    """What was meant: each epoch begins at the initial values, of which it makes new clones."""

    def step(p):
        p.reset()
        return moved(p)

    p = epochs(step)
    assert p.init_pos._version == 2
    assert p.init_pos.value.tolist() != [0.0, 1.0]


def test_a_retained_graph_of_changed_values():
    """On "modified in place": array, line of the change and line of the need are named."""
    w = Parameter([1.0, 2.0], name="w")
    optimiser = adc.optim.SGD([w], lr=0.1)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optimiser.step()
    with pytest.raises(adc.GraphError) as caught:
        loss.backward()
    text = str(caught.value)
    assert "w was given another value" in text
    assert "changed by test_nenwin_training.py" in text and "optimiser.step()" in text  # noqa: PT018
    assert "needed by test_nenwin_training.py" in text and "loss = (w * w).sum()" in text  # noqa: PT018
    assert "clone()" in text


def test_without_an_optimiser_nothing_crashes():
    """On "When only computing the gradient, and keeping retain_graph=True, it does not crash"."""
    p = particle()
    for _ in range(3):
        moved(p).backward(retain_graph=True)
    assert p.init_pos.grad is not None


def test_versions_of_five_parameters():
    """On "The _version does turn to 1 in the second epoch": a step is one change of each, and
    harmless."""
    p = particle()
    named = [p.init_pos, p.init_vel, p.init_acc, p._Particle__mass]
    optimiser = adc.optim.Adam(named)
    seen = []
    for _ in range(2):
        optimiser.zero_grad(set_to_none=True)
        p.reset()
        loss = moved(p) + p.mass
        seen.append([v._version for v in named])
        loss.backward()
        seen.append([v._version for v in named])
        optimiser.step()
    assert seen == [[0] * 4, [0] * 4, [1] * 4, [1] * 4]


def test_a_parameter_that_was_not_used_stays_at_version_0():
    """On "Of course the mass has not been used": it has no gradient, and the optimiser leaves it alone."""

    def step(p):
        p.reset()
        return moved(p)

    p = epochs(step)
    assert (p._Particle__mass._version, p.init_pos._version) == (0, 2)


def test_the_loop_with_one_marble():
    """25 epochs of ten steps to the origin: with reset() it trains."""

    def step(p):
        p.reset()
        for _ in range(10):
            p.update_movement(0.5)
        return (p.pos * p.pos).mean()

    before, after = step(particle()).item(), step(epochs(step, 25)).item()
    assert after < 0.5 * before


class Forgetful(Particle):
    """reset() leaves the previous acceleration as it is: it comes from the epoch before."""

    def reset(self):
        before = getattr(self, "prev_acc", None)
        super().reset()
        self.prev_acc = self.prev_acc if before is None else before

    def update_movement(self, time):
        self.acc = self.acc * self.mass
        super().update_movement(time)


def test_is_it_the_previous_acceleration():
    """It "may depend on values of init_acc from before the last optimizer step": the error shows the line."""
    p = Forgetful([0.0, 1.0], [1.0, 0.0], [0.0, 0.5])
    moved(p).backward()
    p.reset()
    with pytest.raises(adc.GraphError) as caught:
        moved(p).backward()
    assert "self.acc = self.acc * self.mass" in str(caught.value)
    assert "if it is a constant here, use detach()" in str(caught.value)


def test_reset_prev_acc():
    """The author's test compares _version of a parameter and of its clone: they differ, rightly.

    The clone is new in each epoch and was never changed; what tells is whether it has the new value.
    """
    p = particle()
    optimiser = adc.optim.Adam(adc.parameters(p))
    for _ in range(2):
        p.update_movement(5.0)
        p.pos.backward(np.ones(2))
        optimiser.step()
        optimiser.zero_grad()
        p.reset()
    assert (p.init_acc._version, p.prev_acc._version) == (2, 0)
    np.testing.assert_array_equal(p.prev_acc.value, p.init_acc.value)


def test_some_code_that_works():
    """It prints versions 2, 0 and 0: a parameter may change after the pass that has read it is over."""
    my_param = Parameter([1.0])
    optimiser = adc.optim.Adam([my_param])

    def mm(x):
        return my_param.clone() * x

    for _ in range(2):
        optimiser.zero_grad()
        loss = mm(Variable([2.0]))
        loss.backward()
        optimiser.step()
    assert (my_param._version, mm(Variable([2.0]))._version, loss._version) == (2, 0, 0)


# -- 17-04: MNIST ------------------------------------------------------------------------------


def test_a_marble_without_gradients():
    """`m.requires_grad(False)` has an underscore here; the gradients of others are still there."""
    marble, node = particle(), particle()
    for value in adc.parameters(marble):
        value.requires_grad_(False)
    (marble.init_pos * node.init_pos).sum().backward()
    assert marble.init_pos.grad is None
    assert node.init_pos.grad.value.tolist() == [0.0, 1.0]


def test_no_grad_around_the_training():
    """Nothing is recorded, and the loss says that it depends on nothing."""
    p = particle()
    with adc.no_grad():
        p.reset()
        loss = moved(p)
    assert not loss.requires_grad
    with pytest.raises(adc.GraphError, match="depends on nothing that requires a gradient"):
        loss.backward()


def test_no_grad_is_named_by_the_message():
    """The line that was computed under no_grad, and what to write."""
    p = particle()
    with adc.no_grad():
        p.reset()
        loss = moved(p)
    with pytest.raises(adc.GraphError) as caught:
        loss.backward()
    assert "test_nenwin_training.py" in str(caught.value)
    assert "computed under no_grad" in str(caught.value)
    assert "outside of `with adc.no_grad():`" in str(caught.value)
    assert "help: if no input requires one, create" in str(caught.value)  # these do


ROLLOUT = """
def rollout(pos: f64[n, d], vel: f64[n, d], mass: f64[n], nodes: f64[m, d], weight: f64[m], target: f64[d],
            steps: i64):
    for _ in range(steps):
        force = [[sum(mass[i] * weight[j] * (nodes[j, k] - pos[i, k])
                      / (sum((nodes[j, c] - pos[i, c])**2 for c in range(d)) + 0.1)**1.5 for j in range(m))
                  + sum(where(i == j, 0.0, mass[i] * mass[j] * (pos[j, k] - pos[i, k])
                        / (sum((pos[j, c] - pos[i, c])**2 for c in range(d)) + 0.1)**1.5) for j in range(n))
                  for k in range(d)] for i in range(n)]
        vel = vel + 0.05 * force
        pos = pos + 0.05 * vel
    return min(sum((target[k] - pos[i, k])**2 for k in range(d)) for i in range(n))
"""


def sample(n, m, seed=0):
    random = np.random.default_rng(seed)
    return (
        random.normal(size=(n, 2)), np.zeros((n, 2)), random.uniform(0.1, 1.0, n),
        random.normal(size=(m, 2)), random.uniform(0.1, 1.0, m), np.array([3.0, 0.0]),
    )  # fmt: skip


@pytest.fixture(scope="module")
def rollout():
    return adc.compile(ROLLOUT)


@pytest.mark.slow
def test_forces_between_all_particles_through_time(rollout):
    """Gradients by pos, vel, mass, nodes and weights through ten steps, against finite differences."""
    adc.check_grad(rollout, *sample(5, 3), 10, order=1)


@pytest.mark.slow
def test_a_whole_sample_of_mnist_with_gradients(rollout):
    """28 by 28 marbles, 8 nodes and 10 eaters, 10 steps, which ran out of memory, in O(n)."""
    args = sample(784, 18)
    value, (dnodes, dweight) = adc.value_and_grad(rollout, ("nodes", "weight"))(*args, 10)
    assert dnodes.shape == (18, 2)
    assert np.isfinite(value) and np.isfinite(dnodes).all()  # noqa: PT018
    step = 1e-5
    ends = [rollout(*args[:4], args[4] + s * np.eye(18)[0], *args[5:], 10) for s in (step, -step)]
    assert dweight[0] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-9)


def test_the_sample_does_not_depend_on_the_number_of_threads(rollout):
    """On "Use multiprocessing": threads, without a protocol and with the same result."""
    args, before = sample(60, 4), adc.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            adc.set_num_threads(count)
            found.append(adc.value_and_grad(rollout, ("nodes", "weight"))(*args, 10))
    finally:
        adc.set_num_threads(before)
    assert found[0][0] == found[1][0]
    for one, two in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_complexity_is_told(rollout):
    """On "evaluate runtime/memory complexity": what is saved for the backward pass, and why."""
    text = rollout.explain("nodes")
    assert "nodes: flows" in text
    assert "grad and value_and_grad are one fused program and save nothing" in text
    assert "f64[n, d], 8 * n * d bytes" in text  # of what a split would save
