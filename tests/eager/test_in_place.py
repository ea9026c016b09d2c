"""Changes of Variables in place: what they may not do, and what an error says of them.

The cases that PyTorch has too stand in its table (tape_cases).
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import DtypeError, GraphError, OutOfRangeError, ShapeError, Variable, tape


def leaf(value, name=None):
    return Variable(value, requires_grad=True, name=name)


def test_an_error_names_the_array_and_both_lines():
    w = leaf([1.0, 2.0], "w")
    loss = (w * w).sum()  # needs w
    with adc.no_grad():
        w -= 0.5  # changes w
    with pytest.raises(GraphError) as told:
        loss.backward()
    first, changed, needed, *_ = str(told.value).splitlines()
    assert first == f"w was given another value after `{loss.entry.edges[0].entry.line()}` had read it"
    assert "test_in_place.py:" in changed
    assert changed.endswith("w -= 0.5  # changes w")
    assert needed.endswith("loss = (w * w).sum()  # needs w")


def test_an_error_names_the_line_that_changed_a_result():
    y = leaf(1.0).exp()
    y *= 2.0
    with pytest.raises(GraphError, match=r"its derivative needs the result\n  changed by .*: y \*= 2.0"):
        y.backward()


@pytest.mark.parametrize(
    ("name", "slope"),
    [
        ("tanh", lambda x: 1 / np.cosh(x) ** 2),
        ("sigmoid", lambda x: 0.25 / np.cosh(x / 2) ** 2),
        ("expm1", np.exp),
        ("relu", np.ones_like),
    ],
)
def test_derivatives_that_read_the_operand_where_pytorch_keeps_the_result(name, slope):
    x = leaf([0.7, 30.0])
    result = getattr(x, name)()
    result *= 2.0
    result.sum().backward()
    np.testing.assert_allclose(x.grad.value, 2 * slope(x.value), rtol=1e-13)
    operand = leaf([0.7, 30.0]) + 0.0
    result = getattr(operand, name)()
    operand += 1.0
    with pytest.raises(GraphError, match=r"changed by .*: operand \+= 1.0"):
        result.sum().backward()


def test_a_compiled_function_tells_too():
    f = adc.compile("sin(x) * y", backend="numpy")
    x, y = leaf([1.0, 2.0]) * 1.0, leaf([3.0, 4.0])
    result = f(x, y)
    held = f(x, y)
    x += 1.0
    with pytest.raises(GraphError, match=r"changed by .*: x \+= 1.0\n  needed by .*: result = f\(x, y\)"):
        result.backward([1.0, 1.0])
    held *= 2.0  # the value of the function itself is not needed
    np.testing.assert_allclose(tape.grad(held, y).value, 2 * np.sin([1.0, 2.0]))


def test_arrays_that_were_given_out_do_not_change():
    x = Variable([1.0, 2.0])
    before, apart = x.value, x.detach()
    x += 1.0
    x[0] = 9.0
    assert before.tolist() == apart.value.tolist() == [1.0, 2.0]
    assert x.value.tolist() == [9.0, 3.0]


def test_an_element_that_is_assigned_twice_counts_once():
    """NumPy keeps the last of several values for one place, and only that one has a gradient."""
    x, values = leaf([1.0, 2.0]) * 1.0, leaf([5.0, 6.0, 7.0])
    x[[0, 0, 1]] = values
    assert x.value.tolist() == [6.0, 7.0]
    assert tape.grad((x * x).sum(), values).value.tolist() == [0.0, 12.0, 14.0]


@pytest.mark.parametrize(
    "where", [0, slice(None, None, 2), [2, 0], np.array([True, False, True]), (..., 1), None]
)
def test_assignments_to_second_order(where):
    """The gradient of an assigned element goes to its value, that of the others to what was there."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=3)
    count = np.zeros(3)[where].shape
    given = rng.normal(size=count)
    x, value = leaf(start), leaf(given)
    y = x * x
    y[where] = value * value * value
    dx, dv = tape.grad((y * y).sum(), [x, value], create_graph=True)
    kept = np.ones(3)
    kept[where] = 0
    np.testing.assert_allclose(dx.value, 4 * start**3 * kept)
    np.testing.assert_allclose(dv.value, 6 * given**5)
    np.testing.assert_allclose(tape.grad(dv.sum(), value, retain_graph=True).value, 30 * given**4)
    np.testing.assert_allclose(tape.grad(dx.sum(), x).value, 12 * start**2 * kept)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_value_is_broadcast_to_its_place_and_takes_its_type(kind):
    x, value = Variable(np.zeros((2, 3), kind)), leaf([[2.0, 3.0, 4.0]])
    x[:] = value * value
    assert x.dtype == kind
    slope = tape.grad(x.sum(), value)
    assert (slope.dtype, slope.value.tolist()) == (np.float64, [[8.0, 12.0, 16.0]])
    row = Variable(np.zeros(3, kind))
    row[:] = value  # NumPy ignores leading axes of length 1
    assert tape.grad(row.sum(), value).value.tolist() == [[1.0, 1.0, 1.0]]


def test_an_empty_place():
    x, value = Variable(np.zeros(3)), leaf(2.0)
    x[3:] = value
    assert tape.grad(x.sum(), value).item() == 0.0


def test_integers_are_changed_without_a_graph():
    k = Variable(np.array([1, 2]))
    k += 1
    k[0] = 7
    assert (k.value.tolist(), k.dtype, k.entry) == ([7, 3], np.int64, None)


@pytest.mark.parametrize(
    ("mistake", "error", "match"),
    [
        (lambda x: x.__iadd__(np.ones((2, 2))), ShapeError, "in place"),
        (lambda x: x.__iadd__(None), DtypeError, "means zero"),
        (lambda x: x.__setitem__(7, 1.0), OutOfRangeError, "index 7"),
        (lambda x: x.__setitem__(0, [1.0, 2.0]), ShapeError, "shape"),
        (lambda x: x.__setitem__(0, 1j), DtypeError, "real numbers"),
        (lambda x: x.__setitem__(0, "a"), DtypeError, "real numbers"),
        (lambda x: Variable(np.array([1])).__iadd__(x[:1]), DtypeError, "int64"),
        (lambda x: Variable(np.array([1])).__setitem__(0, x[0]), DtypeError, "int64"),
    ],
)
def test_mistakes_are_told_and_change_nothing(mistake, error, match):
    x = Variable([1.0, 2.0])
    with pytest.raises(error, match=match):
        mistake(x)
    assert (x.value.tolist(), x._version) == ([1.0, 2.0], 0)


def test_every_augmented_operator_changes_in_place():
    w = leaf([5.0, 7.0])
    for change in ("w += 2", "w -= 2", "w *= 2", "w /= 2", "w **= 2", "w //= 2", "w %= 2"):
        x = w * 1.0
        names = {"w": x}
        exec(change, names)
        assert names["w"] is x
        assert x._version == 1
        with pytest.raises(GraphError, match="no_grad"):
            exec(change, {"w": w})


@pytest.mark.slow
def test_steps_keep_memory_flat():
    """The graph of a step dies with it, whatever the step did."""
    w = leaf(np.ones((20, 20)))
    f = adc.compile("sum(tanh(w)**2)", backend="numpy")
    seen = []
    w.register_hook(lambda g: None)
    for step in range(60):
        loss = f(w) + (w[0] * w[1]).sum()
        state = w[2] * 2.0
        state += w[3]
        (loss + state.sum()).backward()
        with adc.no_grad():
            w -= 0.01 * w.grad
        w.grad = None
        if step in (20, 59):
            del loss, state
            gc.collect()
            seen.append(len(gc.get_objects()))
    assert seen[1] - seen[0] < 20


def test_a_loop_in_place_does_not_gather_memory_under_no_grad():
    w = leaf(1.0)
    with adc.no_grad():
        for _ in range(5):
            w -= 0.1
    assert (w.entry, w._version, w.is_leaf) == (None, 5, True)
