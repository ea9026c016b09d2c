"""A `.grad` that is None says why where it is read after a backward pass, once for each line."""

from __future__ import annotations

import warnings

import pytest

import adcompiler as adc
from adcompiler import Variable


def leaf(value, name):
    return Variable(value, requires_grad=True, name=name)


def silent(v):
    """Whether reading `.grad` gives None without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return v.grad is None


def test_a_leaf_that_the_last_backward_has_not_reached():
    w, u = leaf(2.0, "w"), leaf(3.0, "u")
    loss = w * u.item()
    loss.backward()
    with pytest.warns(
        UserWarning, match=r"\.grad of u is None after backward\(\) of loss \(v\d+\): \.item\(\) cuts"
    ):
        assert u.grad is None
    assert w.grad is not None


def test_a_loss_that_is_gone():
    w, u = leaf(2.0, "w"), leaf(3.0, "u")
    (w * 2.0).backward()
    with pytest.warns(UserWarning, match=r"did not reach it; adc\.why_none\(loss, u\)"):
        assert u.grad is None


def test_it_is_said_in_each_iteration_of_training_that_takes_gradients_away_before():
    w, u = leaf(2.0, "w"), leaf(3.0, "u")
    opt = adc.optim.SGD([w, u], lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        loss = w * 2.0
        loss.backward()
        opt.step()
    with pytest.warns(UserWarning, match="nothing on the way to loss"):
        assert u.grad is None


def test_nothing_is_said_where_none_is_to_be_expected():
    early = leaf(2.0, "early")
    assert silent(early)  # no backward pass yet
    w = leaf(2.0, "w")
    (w * w).backward()
    late = leaf(2.0, "late")
    assert silent(late)  # none since it was made
    w.grad = None
    assert silent(w)  # none since the gradient was taken away
    other = leaf(3.0, "other")
    (w * other).backward(inputs=[w])
    assert silent(other)  # the pass was asked for others
    assert silent(Variable(1.0))  # requires none


def test_what_is_no_leaf_names_the_leaves_also_when_the_graph_is_freed():
    mass, stored = leaf(2.0, "mass"), leaf(3.0, "stored")
    product = mass * stored * stored
    product.backward()
    with pytest.warns(UserWarning, match="not a leaf(.|\n)*computed from: mass, stored"):
        assert product.grad is None


def read_thrice(w):
    for _ in range(3):
        h = w * w  # another Variable, of another name, in each iteration
        h.backward()
        assert h.grad is None


def test_a_warning_comes_once_for_each_line():
    w = leaf(2.0, "w")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read_thrice(w)
        read_thrice(w)
        _ = (w * w).grad  # another line
    assert len(found) == 2


def test_an_error_in_place_of_the_warning_comes_each_time():
    w = leaf(2.0, "w")
    h = w * w
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="not a leaf"):
                _ = h.grad
