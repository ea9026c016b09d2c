"""What the tape says to those who come from PyTorch, and where Python itself would say nothing."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc


@pytest.mark.parametrize(
    ("name", "instead"),
    [("unsqueeze", "np.expand_dims"), ("view", "x.reshape"), ("numel", "x.size"), ("grad_fn", "adc.tape")],
)
def test_pytorchs_names_say_ours(name, instead):
    with pytest.raises(AttributeError, match=f"no attribute '{name}': write {instead}"):
        getattr(adc.Variable([1.0, 2.0]), name)


def test_an_unknown_name_is_an_ordinary_error():
    assert not hasattr(adc.Variable(1.0), "nothing")


def test_pytorchs_names_of_operators():
    x = adc.Variable([4.0, 6.0])
    np.testing.assert_array_equal(x.mul(2.0).sub(2.0).div(3.0).neg().value, [-2.0, -10 / 3])
    x.mul_(0.5)
    np.testing.assert_array_equal(x.value, [2.0, 3.0])


def test_a_number_has_no_length_and_no_elements():
    """Where only __getitem__ is there, Python takes an index error for the end: the list would be empty."""
    x = adc.Variable(2.0, name="x")
    for ask in (len, list, iter):
        with pytest.raises(adc.DtypeError, match="x is a single number"):
            ask(x)


@pytest.mark.parametrize(
    "pack",
    [
        lambda x, y: adc.Variable([x, y]),
        lambda x, y: adc.Parameter([[1.0, x], [y, 2.0]]),
        lambda x, y: adc.Variable([1.0, 2.0]) * [x, y],
        lambda x, y: [x, 2.0] * adc.Variable([1.0, 2.0]),
        lambda x, y: adc.tape.where(np.array([True, False]), [x, y], adc.Variable([1.0, 2.0])),
        lambda x, y: adc.Variable([1.0, 2.0]).copy_([x, y]),
        lambda x, y: adc.Variable([1.0, 2.0, 3.0]).__setitem__(slice(2), (x, y)),
    ],
)
def test_lists_of_variables_do_not_lose_their_graphs(pack):
    x, y = adc.Variable(1.0, name="x"), adc.Variable(2.0, name="y")
    with pytest.raises(adc.GraphError, match=r"with the Variable x(.|\n)*np\.stack"):
        pack(x, y)
    stacked = np.stack([x, y])
    assert adc.tape.grad((stacked * stacked).sum(), [x, y])[1].item() == 4.0


def test_a_loss_is_printed_with_a_format():
    loss = (adc.Variable([1.0, 2.0], requires_grad=True) ** 2).sum()
    assert f"{loss:.2f} {loss:>6.1f}" == "5.00    5.0"
    assert f"{loss}" == str(loss)
    with pytest.raises(adc.ShapeError, match=r"shape \(2,\) is not a number"):
        format(adc.Variable([1.0, 2.0]), ".2f")


def test_no_parameters_are_an_error():
    class Model:
        def __init__(self):
            self.w = adc.Variable(1.0, requires_grad=True)  # no Parameter

    model = Model()
    with pytest.raises(adc.GraphError, match=r"inputs is empty(.|\n)*adc\.Parameters"):
        adc.tape.grad(model.w * 2.0, adc.parameters(model))


def test_what_backward_is_asked_for_must_require_a_gradient():
    x, c = adc.Variable(2.0, requires_grad=True), adc.Variable(3.0, name="c")
    with pytest.raises(adc.GraphError, match=r"c does not require a gradient(.|\n)*requires_grad_"):
        (x * c).backward(inputs=[c])
    with pytest.raises(adc.DtypeError, match="inputs holds a float"):
        (x * c).backward(inputs=[2.0])


def test_a_gradient_is_assigned_in_its_shape_and_dtype():
    x = adc.Variable([1.0, 2.0], requires_grad=True, name="x")
    with pytest.raises(adc.DtypeError, match=r"float32(.|\n)*assign None, or a Variable of shape \(2,\)"):
        x.grad = adc.Variable(np.ones(2, np.float32))


def test_a_quotient_may_be_added_to_and_keeps_its_derivative():
    """To second order: the derivative reads the quotient as it was."""
    x, y = adc.Variable(3.0), adc.Variable(2.0)
    loss = x / y
    loss += x
    first = adc.tape.grad(loss, y, create_graph=True)
    assert first.item() == -3.0 / 4.0
    assert adc.tape.grad(first, y).item() == 2 * 3.0 / 8.0


def test_zeros_of_an_infinite_cotangent_are_zeros():
    x = adc.Variable([-1.0, -2.0])
    np.testing.assert_array_equal(adc.tape.grad(x.relu(), x, np.array([np.inf, np.nan])).value, [0.0, 0.0])
