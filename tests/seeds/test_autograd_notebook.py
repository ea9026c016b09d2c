"""The notebook "Simple Autograd" (seed 004) cell by cell: Variables, `propagate`, gradients of gradients.

test_aggregates.py has its second half.
"""

from __future__ import annotations

import numpy as np

import adcompiler as adc
from adcompiler import Variable, tape
from tests.seeds.notebook import SECOND, A, B, begin, differences, near, run_gradients, simple

# -- the implementation ------------------------------------------------------------------------


def test_fresh_names():
    """v0, v1, v2: "a new unique name for a variable", until the tape is reset."""
    tape.reset()
    assert [Variable(1.0).name for _ in range(3)] == ["v0", "v1", "v2"]
    tape.reset()
    assert Variable(1.0).name == "v0"


def test_a_variable_wraps_an_array():
    """It "is a wrapper around Tensor that tracks the compute" and shows its value."""
    a = Variable(A, name="a")
    np.testing.assert_array_equal(a.value, A)
    assert a.name == "a"
    assert "0.4605" in repr(a)


def test_pointwise_operators_sum_and_expand():
    """`*`, `+`, `sum(name)` and `expand(sizes)`."""
    a, b = begin()
    np.testing.assert_array_equal((a * b).value, A * B)
    np.testing.assert_array_equal((a + b).value, A + B)
    total = a.sum(name="total")
    assert (total.name, total.shape) == ("total", ())
    np.testing.assert_array_equal(total.expand(4).value, np.full(4, A.sum()))


def test_a_tape_entry_by_hand():
    """inputs, outputs and `propagate`, which captures both factors: operator_mul of the notebook."""

    def operator_mul(self, rhs):
        if isinstance(rhs, float) and rhs == 1.0:
            return self  # peephole optimisation
        r = Variable(self.value * rhs.value)

        def propagate(dL_doutputs):
            (dL_dr,) = dL_doutputs
            return [dL_dr * rhs, dL_dr * self]

        tape.record([self, rhs], [r], propagate)
        return r

    a, b = begin()
    assert operator_mul(a, 1.0) is a
    near(tape.grad(operator_mul(a, b), [a, b]), [B, A])
    assert tape.check(operator_mul, A, B) < 1e-5


def test_partial_derivatives_that_are_one():
    """operator_add: `dL_dr * 1.0` in a propagate is dL_dr itself, nothing is computed."""
    seen = []

    def operator_add(self, rhs):
        r = Variable(self.value + rhs.value)

        def propagate(dL_doutputs):
            (dL_dr,) = dL_doutputs
            seen.append(dL_dr * 1.0 is dL_dr)
            return [dL_dr * 1.0, dL_dr * 1.0]

        tape.record([self, rhs], [r], propagate)
        return r

    a, b = begin()
    near(tape.grad(operator_add(a, b), [a, b]), [np.ones(4), np.ones(4)])
    assert seen == [True]


def test_sum_and_expand_are_each_others_backward():
    """On "Closed under differentiation": expand is the backward of sum, and sum of expand."""
    a, _ = begin()
    s = Variable(2.0)
    near([tape.grad(a.sum(), a), tape.grad(s.expand(4) * A, s)], [np.ones(4), A.sum()])


# -- using grad --------------------------------------------------------------------------------


# -- zero gradients ----------------------------------------------------------------------------


def test_a_gradient_of_zero_is_none():
    """loss = a * a: da is 2a, db is None."""
    a, b = begin()
    da, db = tape.grad(a * a, [a, b])
    near([da], [2 * A])
    assert db is None


def test_propagate_is_skipped_where_all_cotangents_are_none():
    """On "We do not want to waste time computing zero gradients": v * J is 0 where v is."""
    ran = []

    def watched(x, name):
        r = Variable(x.value * 2.0)
        tape.record([x], [r], lambda g: (ran.append(name), [g[0] * 2.0])[1])
        return r

    a, b = begin()
    used, unused = watched(a, "used"), watched(b, "unused")
    tape.grad((used * used).sum(), [a, b])
    del unused
    assert ran == ["used"]


def test_propagate_is_the_vector_jacobian_product():
    """v * J for the vector v that is given: the compiled function's Jacobian beside it."""
    f, v = adc.compile("(a + b) * b"), np.array([1.0, -2.0, 0.5, 3.0])
    a, b = begin()
    found = tape.grad(simple(a, b), [a, b], v)
    jacobians = adc.jacobian(f)(A, B)
    near(found, [v @ J for J in jacobians], 1e-12)


# -- gradients of gradients --------------------------------------------------------------------


def test_gradients_of_gradients():
    """The gradient of the L2 norm of the gradient, as printed and by finite differences."""
    near(run_gradients(simple), SECOND)
    near(run_gradients(simple), differences(simple), 1e-4)
    near(run_gradients(simple, second_loss=False), differences(simple, second_loss=False), 1e-8)


def test_propagate_runs_again_in_the_second_backward():
    """On "Expect it to run multiple times": backward 0, and backward 0 again inside of backward 1."""
    ran = []

    def product(x, y):
        r = Variable(x.value * y.value)
        tape.record([x, y], [r], lambda g: (ran.append(r.name), [g[0] * y, g[0] * x])[1])
        return r

    run_gradients(lambda a, b: product(a + b, b))
    assert len(ran) == 1  # the second loss reads its factors, not its result
    ran.clear()
    run_gradients(lambda a, b: product(a + b, b), times_a=True)
    assert len(ran) == 2


def test_every_use_of_a_variable_counts():
    """First rule of thumb: the gradients of all uses are summed."""
    a, _ = begin()
    t = a * 2.0
    near([tape.grad(t * t + t * 3.0 + t.sum(), a)], [8.0 * A + 6.0 + 8.0], 1e-12)


def test_reads_become_writes():
    """Second rule: a propagate has an output for each input, and an input for each output."""
    s = adc.compile("def f(x: f64[n]): return sum(x)").split()
    total, saved = s.forward(A)
    (dx,) = s.propagate(saved, 2.0)
    assert np.shape(total) == ()
    np.testing.assert_array_equal(dx, np.full(4, 2.0))


def test_each_call_of_grad_is_of_another_loss():
    """Third rule: gradients of L0 and of L1 are different things."""
    a, b = begin()
    L0, L1 = simple(a, b).sum(), (a * a * b).sum()
    near(tape.grad(L0, [a, b]), [B, A + 2 * B], 1e-12)
    near(tape.grad(L1, [a, b]), [2 * A * B, A * A], 1e-12)
