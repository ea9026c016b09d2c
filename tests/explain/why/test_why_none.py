"""Why a gradient is None: the line that cut the path, and what to write instead."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import GraphError, Variable, tape
from adcompiler.eager.graph.provenance import MASK_BITS


def leaf(value=3.0, name=None):
    return Variable(value, requires_grad=True, name=name)


def marked(function, mark="# cut"):
    """file.py:12 for the line of a function that ends with a comment."""
    lines, first = inspect.getsourcelines(function)
    (k,) = [k for k, line in enumerate(lines) if line.rstrip().endswith(mark)]
    return f"test_why_none.py:{first + k}"


def by_item(x, b):
    s = (x * x).item()  # cut
    return b * s


def by_float(x, b):
    return b * float(x)  # cut


def by_int(x, b):
    return b * int(x)  # cut


def by_math(x, b):
    return b * math.exp(x)  # cut


def by_value(x, b):
    array = x.value  # cut
    return (b * array).sum()


def by_numpy(x, b):
    return (b * (2.0 * x).numpy()).sum()  # cut


def by_asarray(x, b):
    return (b * np.asarray(x)).sum()  # cut


def by_detach(x, b):
    d = (x * 2.0).detach()  # cut
    return b * d


def by_no_grad(x, b):
    with adc.no_grad():
        m = x * 2.0  # cut
    return b * m


def by_compiled_no_grad(x, b):
    with adc.no_grad():
        m = SQUARE(x)  # cut
    return b * m


def by_no_grad_in_place(x, b):
    total = Variable(0.0)
    with adc.no_grad():
        total += x  # cut
    return b * total


def by_variable(x, b):
    v = Variable((x * 2.0).value, requires_grad=True)  # cut
    return b * v


def by_parameter(x, b):
    p = adc.Parameter(x.value)  # cut
    return b * p


def by_variable_of_a_number(x, b):
    v = Variable(x.item())  # cut
    return b * v


def by_integer(x, b):
    i = (x * 2.0).astype(int)  # cut
    return b * i


def by_floor(x, b):
    y = np.floor(x)  # cut
    return b * y


def by_sign(x, b):
    y = x.sign()  # cut
    return b * y


def by_comparison(x, b):
    above = x > 1.0  # cut
    return b * above


def by_gradient(x, b):
    g = tape.grad(x * x * x, x)  # cut
    return b * g


def by_propagate(x, b):
    y = Variable(x.value**2)
    tape.record([x], [y], lambda cotangents: [None])  # cut
    return b * y


def by_assignment(x, b):
    z = Variable([1.0, 2.0])
    z[0] = x.item()  # cut
    return (b * z).sum()


def by_assigned_integers(x, b):
    z = Variable([1.0, 2.0])
    z[0] = x.astype(int)  # cut
    return (b * z).sum()


def by_view(x, b):
    z = x * np.array([1.0, 2.0])
    s = z[0].item()  # cut
    return b * s


def by_change_in_place(x, b):
    z = b * np.array([1.0, 2.0])
    z[1:] *= x.detach()  # cut
    return z.sum()


def by_compiled_floor(x, b):
    return STEP(x, b)  # cut


SQUARE = adc.compile("a * a")
STEP = adc.compile("floor(a) * b")

NUMBER = "compute with the Variable itself"
CUTS = [
    (by_item, "remove .item()"),
    (by_float, "remove float()"),
    (by_int, "remove int()"),
    (by_math, "np.exp, not math.exp"),
    (by_value, "remove .value"),
    (by_numpy, "remove .numpy()"),
    (by_asarray, "np.stack joins Variables"),
    (by_detach, "remove detach()"),
    (by_no_grad, "outside of `with adc.no_grad():`"),
    (by_compiled_no_grad, "outside of `with adc.no_grad():`"),
    (by_no_grad_in_place, "outside of `with adc.no_grad():`"),
    (by_variable, "use the Variable itself; clone()"),
    (by_parameter, "use the Variable itself; clone()"),
    (by_variable_of_a_number, "use the Variable itself; clone()"),
    (by_integer, "remove astype(int)"),
    (by_floor, "use a smooth function"),
    (by_sign, "use a smooth function"),
    (by_comparison, "use a smooth step"),
    (by_gradient, "create_graph=True"),
    (by_propagate, "return its cotangent from propagate"),
    (by_assignment, "remove .item()"),
    (by_assigned_integers, "remove astype(int)"),
    (by_view, "remove .item()"),
    (by_change_in_place, "remove detach()"),
    (by_compiled_floor, "smooth"),
]
PERHAPS = (by_int, by_math)  # where only an equal value, or a line nearby, tells


@pytest.mark.parametrize("backward", [False, True], ids=["kept", "freed"])
@pytest.mark.parametrize(("function", "remedy"), CUTS, ids=[f.__name__ for f, _ in CUTS])
def test_a_cut_is_named_with_its_line_and_what_to_write_instead(function, remedy, backward):
    x, b = leaf(), leaf(5.0)
    y = function(x, b)
    assert tape.grad(y, x, retain_graph=True) is None
    if backward:
        y.backward()  # frees the graph
    text = str(adc.why_none(y, x))
    assert marked(function) in text
    assert remedy in text
    assert ("perhaps" in text) == (function in PERHAPS)


@pytest.mark.parametrize(("function", "remedy"), CUTS, ids=[f.__name__ for f, _ in CUTS])
def test_a_cut_is_named_where_operations_are_fused(function, remedy):
    fused = adc.fuse(lambda x, b: function(x, b) + b)
    for _ in range(3):  # the third call runs what the others have compiled
        x = leaf()
        y = fused(x, leaf(5.0))
    assert tape.grad(y, x, retain_graph=True) is None
    text = str(adc.why_none(y, x))
    assert remedy.split()[-1] in text
    assert marked(function) in text


def test_a_cut_in_a_compiled_function_is_shown_in_its_source():
    x = leaf()
    text = str(adc.why_none(STEP(x, 5.0), x))
    assert "<expression>:1:1: floor: its derivative is zero everywhere" in text
    assert "    floor(a) * b\n    ^^^^^^^^\n" in text


def test_what_a_recorded_propagate_gives_is_known_when_it_has_run():
    x, b = leaf(), leaf(5.0)
    y = by_propagate(x, b)
    assert "ask again after a backward pass" in adc.why_none(y, x)
    y.backward()
    assert "return its cotangent from propagate" in adc.why_none(y, x)


def test_a_gradient_that_is_none_is_refused_with_the_same_text():
    x, b = leaf(), leaf(5.0)
    with pytest.raises(GraphError, match=r"remove \.item\(\)") as refused:
        tape.grad(by_item(x, b), x, allow_unused=False)
    assert marked(by_item) in str(refused.value)


@pytest.mark.parametrize("function", [by_detach, by_no_grad, by_variable_of_a_number])
def test_backward_of_what_requires_nothing_names_the_cut(function):
    y = function(leaf(), Variable(5.0))
    with pytest.raises(GraphError, match="depends on nothing") as refused:
        y.backward()
    assert marked(function) in str(refused.value)


def test_an_input_that_nothing_reads():
    x, b = leaf(name="x"), leaf(5.0, name="b")
    y = b * 2.0
    text = adc.why_none(y, x)
    assert "nothing on the way to" in text
    assert "reads x" in text
    assert "b  test_why_none.py" in text  # what it reads


def test_an_equal_number_is_perhaps_the_one_that_was_taken():
    x, b = leaf(), leaf(5.0)
    taken = x.item()
    y = b * (taken + 0.0)  # another object of the same value
    text = adc.why_none(y, x)
    assert "perhaps .item() cuts the path" in text


def test_a_conversion_in_a_comprehension_belongs_to_its_function():
    x, b = leaf([1.0, 2.0]), leaf(5.0)
    y = b * sum([v.item() for v in x])  # sum
    text = adc.why_none(y, x)
    assert "perhaps one of these values was used instead" in text
    assert marked(test_a_conversion_in_a_comprehension_belongs_to_its_function, "# sum") in text


@pytest.mark.parametrize("choose", [np.argmax, lambda x: x.argmax(), lambda x: np.nonzero(x > 1.0)[0][0]])
def test_what_was_chosen_by_values(choose):
    x, b = leaf([1.0, 2.0]), leaf([5.0, 6.0])
    y = b[choose(x)]
    text = adc.why_none(y, x)
    assert "perhaps" in text
    assert "softmax" in text or "smooth step" in text


def test_a_value_that_is_taken_later_is_not_what_was_used():
    x, b = leaf(5.0, name="x"), leaf(5.0, name="b")
    constant = Variable(2.0)
    y = b * constant * 7.0
    assert (x - 3.0).item() == 2.0  # equal to a leaf that was there before
    assert (x + 2.0).item() == 7.0
    text = adc.why_none(y, x)
    assert ".item()" not in text
    assert "b  test_why_none.py" in text or "b is a leaf" in text


def test_a_step_of_training_that_makes_a_new_object():
    w = leaf(name="w")
    loss = w * w
    loss.backward()
    old, w = w, w - 0.1 * w.grad  # rebound
    line = marked(test_a_step_of_training_that_makes_a_new_object, "# rebound")
    with pytest.warns(UserWarning, match=f"not a leaf: it was computed \\({line}"):
        assert w.grad is None
    text = adc.why_none(loss, w)
    assert "is another object than what" in text
    assert line in text
    assert "with adc.no_grad(): w -= lr * w.grad" in text
    assert "is not None" in adc.why_none(loss, old)


def test_a_property_that_makes_a_clone_each_time():
    """The logbook's question: the clone has no gradient, the parameter behind the property has."""

    class Model:
        def __init__(self):
            self._mass = adc.Parameter(1.0, name="mass")

        @property
        def mass(self):
            return self._mass.clone()

    model = Model()
    loss = model.mass * 2.0
    loss.backward()
    text = adc.why_none(loss, model.mass)
    assert "is another object" in text
    assert "with respect to mass" in text


def test_another_leaf_of_the_same_value():
    x, y = leaf([1.0, 2.0], name="x"), leaf([1.0, 2.0], name="y")
    text = adc.why_none((y * 2.0).sum(), x)
    assert "perhaps it has the same value, but is another object" in text
    assert "use one object" in text


def test_a_gradient_of_a_computed_value_is_kept_by_retain_grad():
    x = leaf()
    h = x * x  # here
    y = h * 2.0
    y.backward()
    text = adc.why_none(y, h)
    assert "retain_grad()" in text
    assert marked(test_a_gradient_of_a_computed_value_is_kept_by_retain_grad, "# here") in text


def test_a_leaf_without_requires_grad():
    x = Variable(3.0)
    assert "requires_grad=True" in adc.why_none(leaf() * x, x)


def test_what_was_set_or_changed_too_late():
    x, b = Variable(3.0, name="x"), leaf(2.0)
    y = x * b
    x.requires_grad_()  # late
    text = adc.why_none(y, x)
    assert marked(test_what_was_set_or_changed_too_late, "# late") in text
    assert "requires_grad=True, before it is read" in text

    t = x * 2.0
    z = t + b
    t += 1.0  # changed
    text = adc.why_none(z, t)
    assert marked(test_what_was_set_or_changed_too_late, "# changed") in text
    assert "take the gradient before the change" in text


def test_an_output_and_an_input_that_are_swapped():
    x = leaf(name="x")
    loss = (x * 2.0).sum()
    text = adc.why_none(x, loss)
    assert "loss was computed from x, not x from loss" in text
    assert "adc.why_none(loss, x)" in text
    assert "is not None" in adc.why_none(loss, x)


def test_what_is_no_variable_or_no_float():
    x = leaf()
    loss = (x * x).item()  # number
    text = adc.why_none(loss, x)
    assert "the output is a float" in text
    assert marked(test_what_is_no_variable_or_no_float, "# number") in text
    assert "the input is a ndarray" in adc.why_none(x * x, x.value)
    assert "integers have no derivative" in adc.why_none(x * 2.0, Variable(np.array([1, 2])))


def test_a_cut_is_found_however_long_the_path_is():
    x, b = leaf(), leaf(5.0)
    y = by_item(x, b)
    for _ in range(500):
        y = y + 1.0
    text = adc.why_none(y, x)
    assert marked(by_item) in text
    assert "more operations" in text
    assert len(text.splitlines()) < 20


def test_a_graph_that_reset_has_dropped():
    x = leaf()
    y = x * 2.0
    tape.reset()
    text = adc.why_none(y, x)
    assert "(dropped)" in text
    assert "compute it again after reset()" in text


def test_masks_that_collide_are_no_explanation():
    """Leaves are bits of a mask, and many leaves share one."""
    elsewhere()
    x, b = leaf(name="x"), leaf(5.0, name="b")
    text = adc.why_none(b * 2.0, x)
    assert "perhaps" not in text
    assert "b  test_why_none.py" in text


def elsewhere():
    """Takes values of leaves that are gone, with every bit among the last ones."""
    for _ in range(2):
        total = sum((leaf(1.0) for _ in range(MASK_BITS)), leaf(0.0))
        total.item()
