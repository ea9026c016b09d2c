"""Random programs of Variables, with views and changes in place: true slopes, and PyTorch's answers."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from tests.eager.tape_libraries import OURS, quiet, torch
from tests.eager.test_tape_torch import answer, same
from tests.programs.tape import program


def loss(made, leaves):
    """The loss of a program with other values of its leaves, or None where it is refused."""
    scope = {"t": OURS}
    a, c = (adc.Variable(v, requires_grad=True) for v in leaves)
    try:
        exec("\n".join(made.lines[:3]), scope)
        scope |= {"a": a, "c": c}
        exec("\n".join(made.lines[3:]), scope)
    except adc.Error:
        return None, (a, c)
    return scope["loss"], (a, c)


def slope(made, values, k, i, step=1e-6):
    ends = []
    for sign in (step, -step):
        shifted = [v.copy() for v in values]
        shifted[k][i] += sign
        ends.append(loss(made, shifted)[0].item())
    return (ends[0] - ends[1]) / (2 * step)


def test_gradients_are_slopes():
    """Where a backward pass is not refused its gradients are right: no change in place is overlooked."""
    values = [np.array([0.7, 1.6, 0.4]), np.array([1.2, -0.9, 0.3])]
    checked = 0
    for seed in range(60):
        made = program(seed, smooth=True)
        total, leaves = loss(made, values)
        if total is None or not total.requires_grad or abs(total.item()) > 1e3:
            continue
        try:
            found = adc.tape.grad(total, leaves)
        except adc.GraphError:
            continue  # of a value that was changed: PyTorch refuses as well, see below
        checked += 1
        for k, g in enumerate(found):
            got = np.zeros(3) if g is None else g.value
            expected = [slope(made, values, k, i) for i in range(3)]
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-5, err_msg=f"{seed}\n{made}")
    assert checked > 20


def outcome(made, mode):
    """What PyTorch and we should agree on: values, gradients of a mode, flags."""

    def run(t):
        scope = made.run(t)
        names = list(made.lengths)
        if mode == "backward":
            scope["loss"].backward()
            flags = [[scope[n].is_leaf, scope[n].requires_grad] for n in names]
            return [[scope[n] for n in names], [quiet(lambda n=n: scope[n].grad) for n in names], flags]
        first = t.grad(scope["loss"], [scope["a"], scope["c"]], create_graph=True)
        total = sum((g * g).sum() for g in first if g is not None)
        return [first, t.grad(total, [scope["a"], scope["c"]])]

    return run


@pytest.mark.parametrize("mode", ["backward", "second order"])
def test_the_same_as_pytorch(mode):
    """Where PyTorch answers, we give the same answer; we may answer where it refuses."""
    pytest.importorskip("torch")
    theirs, answered = torch(), 0
    for seed in range(1000):
        made = program(seed)
        expected = answer(outcome(made, mode), theirs)
        if expected != "refused":
            answered += 1
            found = answer(outcome(made, mode), OURS)
            assert same(found, expected), f"{seed}\n{made}\n{found}\nPyTorch: {expected}"
    assert answered > 200
