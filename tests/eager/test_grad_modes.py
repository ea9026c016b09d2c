"""no_grad and enable_grad, hooks, requires_grad_ and detach_: as PyTorch has them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import DtypeError, GraphError, ShapeError, Variable, tape


def leaf(value, name=None):
    return Variable(value, requires_grad=True, name=name)


def records():
    return (leaf(2.0) * 3.0).requires_grad


def test_modes_nest_and_end_with_their_block():
    mode = adc.no_grad()
    with mode:
        assert not records()
        with adc.enable_grad():
            assert records()
            with mode:  # entered again
                assert not records()
            assert records()
        assert not records()
    assert records()
    with pytest.raises(ZeroDivisionError), adc.no_grad():
        1 / 0  # noqa: B018
    assert records()


def test_modes_are_decorators_with_and_without_brackets():
    for decorator in (adc.no_grad, adc.no_grad()):
        assert decorator(records)() is False
    assert adc.no_grad()(adc.enable_grad()(records))() is True
    assert adc.no_grad(records).__name__ == "records"


def test_a_decorated_generator_is_in_its_mode_while_it_runs():
    @adc.no_grad()
    def steps():
        received = yield records()
        try:
            yield received, records()
        except KeyError:
            yield "thrown", records()
        return "end"

    found = steps()
    assert (next(found), records()) == (False, True)
    assert found.send("sent") == ("sent", False)
    assert found.throw(KeyError()) == ("thrown", False)
    with pytest.raises(StopIteration, match="end"):
        next(found)
    assert records()


def test_modes_belong_to_a_thread():
    found = []
    with adc.no_grad():
        other = threading.Thread(target=lambda: found.append(records()))
        other.start()
        other.join()
    assert found == [True]


def test_a_result_without_a_graph_is_a_constant():
    x = leaf([1.0, 2.0])
    with adc.no_grad():
        y = x * x
        made = leaf(1.0)
    assert (y.requires_grad, y.is_leaf, made.requires_grad) == (False, True, True)
    assert tape.grad((y * x).sum(), x).value.tolist() == [1.0, 4.0]
    with adc.no_grad():  # a backward pass may run there
        (x * x).requires_grad_()
        (x.sum() * 0.0).requires_grad_().backward()


def test_create_graph_records_inside_no_grad():
    x = leaf(3.0)
    y = x * x * x
    with adc.no_grad():
        first = tape.grad(y, x, create_graph=True)
    assert tape.grad(first, x).item() == 18


# -- hooks -------------------------------------------------------------------------------------


def test_hooks_outlive_the_name_of_their_variable():
    x = leaf(2.0)
    seen = []

    def compute():
        y = x * x
        y.register_hook(lambda g: seen.append(g.item()))
        return y * 3.0

    compute().backward()
    assert seen == [3.0]


@pytest.mark.parametrize(
    ("hook", "error", "match"),
    [
        (lambda g: g.value, DtypeError, "a hook of w returned a ndarray"),
        (lambda g: g.sum(), ShapeError, r"shape \(\) for a gradient of shape \(2,\)"),
    ],
)
def test_a_wrong_hook_is_told(hook, error, match):
    w = leaf([1.0, 2.0], "w")
    w.register_hook(hook)
    with pytest.raises(error, match=match):
        (w * w).sum().backward()


def test_a_hook_is_a_function():
    with pytest.raises(DtypeError, match="a hook is a float"):
        leaf(2.0).register_hook(3.0)


def test_threads_add_to_the_gradient_of_one_leaf():
    w = leaf(np.arange(100_000.0))  # NumPy lets others run while it adds so many

    def work():
        for _ in range(20):
            w.sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(w.grad.value, 80)


def test_a_hook_needs_a_gradient():
    with pytest.raises(GraphError, match="no hook would run"):
        Variable(1.0).register_hook(print)


# -- leaves ------------------------------------------------------------------------------------


def test_requires_grad_begins_a_graph():
    x, w = Variable([1.0, 2.0]), leaf([3.0, 4.0])
    before = x * 5.0
    assert x.requires_grad_() is x
    (x * w + before).sum().backward()
    assert x.grad.value.tolist() == [3.0, 4.0]  # `before` was computed without a graph
    assert not x.requires_grad_(False).requires_grad
    with pytest.raises(GraphError, match="detach"):
        (w * 2.0).requires_grad_(False)
    with pytest.raises(DtypeError, match="int64"):
        Variable(np.array([1])).requires_grad_()


# -- grad --------------------------------------------------------------------------------------


def test_grad_frees_what_requires_a_gradient_unless_it_is_retained():
    x = leaf(2.0)
    y = x * x
    tape.grad(y, x, retain_graph=True)
    tape.grad(y, x)
    with pytest.raises(GraphError, match="retain_graph=True"):
        tape.grad(y, x)
    z = Variable(2.0)
    w = z * z
    assert tape.grad(w, z).item() == tape.grad(w, z).item() == 4.0


def test_unused_inputs():
    x, other = leaf([1.0, 2.0]), leaf(np.ones((2, 2), np.float32), "other")
    y = (x * x).sum()
    assert tape.grad(y, other, retain_graph=True) is None
    zeros = tape.grad(y, [other, x], retain_graph=True, materialize_grads=True)[0]
    assert (zeros.shape, zeros.dtype, zeros.value.any()) == ((2, 2), np.float32, False)
    with pytest.raises(GraphError, match="does not depend on other"):
        tape.grad(y, [x, other], allow_unused=False)
