"""Views of Variables, beside PyTorch's answers (tape_cases/views.py): messages, lifetimes, neighbours."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Variable


def test_a_view_of_a_leaf_names_the_leaf_and_the_remedy():
    w = Variable([1.0, 2.0], requires_grad=True, name="w")
    row = w[0]
    with pytest.raises(adc.GraphError, match=r"w is a leaf that requires a gradient(.|\n)*no_grad"):
        row += 1.0
    assert w.value.tolist() == [1.0, 2.0]


def test_elements_that_are_one_cannot_be_changed_apart():
    x = Variable([[1.0], [2.0]])
    wide = x.expand(2, 3)
    with pytest.raises(adc.GraphError, match=r"share memory(.|\n)*clone\(\)"):
        wide += 1.0
    x += 1.0
    assert wide.value.tolist() == [[2.0] * 3, [3.0] * 3]


def test_what_was_read_before_a_change_is_refused_with_the_line():
    x = Variable([1.0, 2.0], requires_grad=True)
    y = x * 1.0
    head = y[0]
    square = head * head
    y += 1.0
    with pytest.raises(adc.GraphError, match=r"changed by test_views\.py(.|\n)*y \+= 1\.0(.|\n)*needed by"):
        square.backward()


def test_the_value_of_a_view_can_be_assigned():
    x = Variable([1.0, 2.0, 3.0])
    with adc.no_grad():
        tail = x[1:]
    tail.value = [5.0, 6.0]
    assert x.value.tolist() == [1.0, 5.0, 6.0]


def test_an_optimiser_changes_what_views_show():
    w = Variable([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    columns = w.T
    optimiser = adc.optim.SGD([w], lr=0.5)
    (columns[0] * columns[1]).sum().backward()
    optimiser.step()
    np.testing.assert_array_equal(columns.value, w.value.T)


def test_detach_and_value_stay_as_they_were():
    x = Variable([1.0, 2.0])
    before, value = x.detach(), x.value
    x += 1.0
    assert before.value.tolist() == value.tolist() == [1.0, 2.0]
    before += 5.0
    assert x.value.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_functions_read_views(dtype):
    f = adc.compile("sum(x**2)")
    x = Variable(np.array([1.0, 2.0, 3.0], dtype))
    y = x * 1.0
    tail = y[1:]
    y *= 2.0
    total = f(tail)
    assert total.dtype == dtype
    np.testing.assert_array_equal(adc.tape.grad(total, x).value, np.array([0.0, 16.0, 24.0], dtype))


def test_views_die_at_once_and_leave_nothing():
    x = Variable(np.ones(3))
    y = x * 2.0
    root = weakref.ref(y)
    for _ in range(1000):
        last = y[0]
    assert len(y._views) <= 64
    del y, last
    assert root() is None


def test_a_whole_that_was_computed_from_its_own_part_is_collected():
    x = Variable(np.ones(3))
    y = x * 2.0
    y[0] = y[1] * x[2]
    held = weakref.ref(y)
    del y
    gc.collect()
    assert held() is None


def test_a_view_that_becomes_a_leaf_is_no_view():
    x = Variable([1.0, 2.0])
    part = x[:1].requires_grad_()
    x += 1.0
    (part * part).backward()
    assert (part.item(), part.grad.item()) == (1.0, 2.0)


def test_an_operation_and_its_assignment_are_one_entry():
    """PyTorch counts both; the graph has one change, of what was there before."""
    x = Variable([1.0, 2.0])
    y = x * 3.0
    before = y.entry
    y[0] += 1.0
    assert (y._version, y.value.tolist()) == (2, [4.0, 6.0])
    assert y.entry.edges[0].entry is before
