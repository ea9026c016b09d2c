"""TorchScript's autodiff.cpp, which the notebook (seed 004) asks its readers to read: its concepts here.

docs/autodiff_cpp.md relates them name by name.
"""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Variable, tape

A, B = np.array([1.0, 2.0, -0.5]), np.array([3.0, 4.0, 0.25])
SOURCE = """
def simple(a, b):
    t = a + b
    return t * b
"""


@pytest.fixture
def simple():
    return adc.compile(SOURCE)


def test_a_graph_is_split_into_forward_and_backward(simple):
    """`differentiate(graph)`: f returns results and what df reads; df takes cotangents of both."""
    split = simple.split()
    result, saved = split.forward(A, B)
    assert saved.names == ("b", "t")
    np.testing.assert_array_equal(result, (A + B) * B)
    da, db = split.propagate(saved, np.ones(3))
    np.testing.assert_array_equal(da, B)
    np.testing.assert_array_equal(db, A + 2 * B)


def test_captured_temporaries_receive_cotangents(simple):
    """df_input_vjps: t is an output of f with a cotangent of its own, which makes the second order right."""
    split = simple.split()
    _, saved = split.forward(A, B)
    da, db = split.propagate(saved, (None, np.ones(3)))
    np.testing.assert_array_equal(da, np.ones(3))
    np.testing.assert_array_equal(db, np.ones(3))


def test_undefined_tensors_are_none(simple):
    """`any_defined`: a pattern of undefined cotangents for which nothing is computed."""
    split = simple.split()
    _, saved = split.forward(A, B)
    assert split.propagate(saved, (None, None)) == (None, None)


def test_autograd_add_of_two_and_of_one(simple):
    """`AutogradAdd`: a sum whose sides may be undefined is the sum where both are there."""
    split = simple.split()
    _, saved = split.forward(A, B)
    both = split.propagate(saved, (np.ones(3), np.ones(3)))
    np.testing.assert_array_equal(both[0], B + 1)
    np.testing.assert_array_equal(both[1], A + 2 * B + 1)


def test_each_pattern_that_was_seen_has_a_program(simple):
    """`specializeAutogradZero`: straight-line programs, and the branches above them."""
    split = simple.split()
    _, saved = split.forward(A, B)
    split.propagate(saved, (np.ones(3), None))
    shown = simple.show("propagate", A, B)
    assert "simple.propagate[1-|11]" in shown
    assert "simple.propagate[11|11]" not in shown.partition("func @")[2]


def test_gradients_that_nobody_wants_are_not_computed(simple):
    """df_output_vjps: only the inputs that are asked for."""
    split = simple.split("a")
    _, saved = split.forward(A, B)
    assert saved.names == ("b",)
    np.testing.assert_array_equal(split.propagate(saved, np.ones(3))[0], B)


def test_sizes_after_broadcasting():
    """`_grad_sum_to_size`: a cotangent is summed over the axes that were broadcast."""
    f = adc.compile("x * y")
    split = f.split()
    _, saved = split.forward(A[:, None], B[None, :])
    dx, dy = split.propagate(saved, np.ones((3, 3)))
    np.testing.assert_allclose(dx, np.full((3, 1), B.sum()))
    np.testing.assert_allclose(dy, np.full((1, 3), A.sum()))


def test_propagate_is_differentiated_again(simple):
    """df is a graph: split again, to any order. The Hessian of sum((a + b) * b) by finite differences."""
    total = adc.compile("sum((a + b) * b)")
    adc.check_grad(total, A, B, order=2)
    (aa, ab), (_, bb) = adc.hessian(total)(A, B)
    np.testing.assert_array_equal(aa, np.zeros((3, 3)))
    np.testing.assert_array_equal(ab, np.eye(3))
    np.testing.assert_array_equal(bb, 2 * np.eye(3))


def opaque(x):
    """An operation that no compiler sees into: NumPy's, with a propagate by hand."""
    r = Variable(np.interp(x.value, [-1e3, 1e3], [-2e3, 2e3]))
    tape.record([x], [r], lambda g: [g[0] * 2.0])
    return r


def test_differentiable_subgraphs_around_opaque_operations(simple):
    """`CreateAutodiffSubgraphs`: what is compiled is one entry of the tape."""
    a, b = Variable(A), Variable(B)
    after = adc.compile("sum(x**3)")
    loss = after(opaque(simple(a, b)))
    da, db = tape.grad(loss, [a, b], create_graph=True)
    outer = 3 * (2 * (A + B) * B) ** 2 * 2
    np.testing.assert_allclose(da.value, outer * B)
    np.testing.assert_allclose(db.value, outer * (A + 2 * B))
    daa = tape.grad(da.sum(), a)
    np.testing.assert_allclose(daa.value, 3 * 2 * (2 * (A + B) * B) * 2 * 2 * B * B)


def python(a, b):
    t = a + b
    if float(t.sum()) > 0:  # forces what was deferred
        t = t * 2.0
    return opaque(t) * b


def test_subgraphs_that_are_found_while_python_runs():
    """The same around an opaque call and a branch, without a compiled function in sight."""
    fused = adc.fuse(python)
    for sign in (1.0, -1.0):
        a, b = Variable(sign * A), Variable(sign * B)
        found = tape.grad(fused(a, b).sum(), [a, b])
        expected = tape.grad(python(a, b).sum(), [a, b])
        for g, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(g.value, e.value, rtol=1e-12)


def test_a_branch_carries_its_condition():
    """prim::If ends a subgraph there; here the branch that is not taken cannot spoil the gradient."""
    root = adc.compile("""
    def root(x):
        if x > 0:
            return sqrt(x)
        return 0.0
    """)
    assert adc.grad(root)(0.0) == 0.0
    assert adc.grad(root)(4.0) == 0.25
    assert adc.grad(adc.grad(root))(-1.0) == 0.0


def test_a_loop_is_differentiated():
    """prim::Loop is not differentiable there."""
    power = adc.compile("""
    def power(x, n: i64):
        r = 1.0
        for _ in range(n):
            r = r * x
        return r
    """)
    assert adc.grad(power, "x")(2.0, 5) == 80.0
    assert adc.grad(adc.grad(power, "x"), "x")(2.0, 5) == 160.0
