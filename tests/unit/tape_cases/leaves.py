"""What is a leaf, and which `.grad` a backward pass fills."""

from __future__ import annotations

from tests.unit.tape_cases.registry import case


@case
def leaves_and_what_is_computed(t):
    a, c = t.leaf([3.0]), t.const([5.0])
    b, d, e = a * a, c * c, a * c
    return [[v.requires_grad, v.is_leaf] for v in (a, b, c, d, e)]


@case
def grad_of_a_computed_value_is_none(t):
    a = t.leaf(3.0)
    b = a * a
    (b * b).backward()
    return [a.grad, t.quiet(lambda: b.grad)]


@case
def retain_grad_of_a_computed_value(t):
    a = t.leaf(3.0)
    b = a * a
    b.retain_grad()
    (b * b).backward()
    return [a.grad, b.grad, b.retains_grad, a.retains_grad]


@case
def retain_grad_of_a_leaf_changes_nothing(t):
    a = t.leaf(3.0)
    a.retain_grad()
    (a * a).backward()
    return [a.grad, a.retains_grad]


@case
def retain_grad_without_a_gradient(t):
    t.const(3.0).retain_grad()


@case
def gradients_accumulate(t):
    a = t.leaf(3.0)
    (a * a).backward()
    (a * a * a).backward()
    return a.grad


@case
def gradients_accumulate_in_the_same_object(t):
    a = t.leaf(3.0)
    (a * a).backward()
    held = a.grad
    (a * a).backward()
    return [held is a.grad, held]


@case
def grad_can_be_reset(t):
    a = t.leaf(3.0)
    (a * a).backward()
    a.grad = None
    before = a.grad
    (a * a).backward()
    return [before, a.grad]


@case
def a_constant_has_no_gradient(t):
    a, c = t.leaf(3.0), t.const(2.0)
    (a * c).backward()
    return [a.grad, c.grad]


@case
def backward_of_a_constant(t):
    t.const(3.0).backward()


@case
def backward_of_a_leaf(t):
    a = t.leaf(3.0)
    a.backward()
    return a.grad


@case
def backward_of_an_array(t):
    a = t.leaf([1.0, 2.0])
    (a * a).backward()


@case
def backward_with_a_cotangent(t):
    a = t.leaf([1.0, 2.0])
    (a * a).backward(t.const([1.0, 10.0]))
    return a.grad


@case
def backward_with_a_cotangent_of_another_shape(t):
    a = t.leaf([1.0, 2.0])
    (a * a).backward(t.const([1.0, 10.0, 3.0]))


@case
def the_same_input_twice(t):
    a = t.leaf(3.0)
    (a * a + a).backward()
    return a.grad


@case
def an_unused_leaf_keeps_none(t):
    a, b = t.leaf(3.0), t.leaf(4.0)
    (a * a).backward()
    return [a.grad, b.grad]


@case
def a_factor_of_zero_gives_zero_not_none(t):
    a, b = t.leaf(3.0), t.leaf(4.0)
    (a * b * 0.0).backward()
    return [a.grad, b.grad]


@case
def integers_require_no_gradient(t):
    t.whole([1, 2]).requires_grad_()


@case
def comparisons_carry_no_gradient(t):
    a = t.leaf([1.0, 3.0])
    (a * t.where(a > 2.0, t.const([1.0, 1.0]), t.const([0.0, 0.0]))).sum().backward()
    return a.grad
