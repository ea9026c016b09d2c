"""What is a leaf, and which `.grad` a backward pass fills."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


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


@case
def a_single_element_of_any_rank_needs_no_cotangent(t):
    a, b = (t.leaf([3.0]), t.leaf([[2.0]]))
    (a * a).backward()
    (b * b).backward()
    return [a.grad, b.grad]


@case
def an_empty_array_needs_a_cotangent(t):
    t.leaf([]).exp().backward()


@case
def sum_of_an_empty_array(t):
    a = t.leaf([])
    a.exp().sum().backward()
    return [a.grad, a.grad.shape == a.shape]


@case
def backward_of_a_leaf_twice(t):
    a = t.leaf(3.0)
    a.backward()
    a.backward()
    return a.grad


@case
def backward_of_a_leaf_with_cotangent(t):
    a = t.leaf([3.0, 4.0])
    a.backward(t.const([1.0, 2.0]))
    return a.grad


@case
def backward_by_keyword(t):
    a = t.leaf([3.0, 4.0])
    (a * a).backward(gradient=t.const([1.0, 2.0]))
    return a.grad


@case
def a_gradient_assigned_is_added_to(t):
    a = t.leaf(3.0)
    a.grad = t.const(5.0)
    (a * a).backward()
    return a.grad


@case
def a_gradient_of_another_shape_is_refused(t):
    a = t.leaf([3.0, 1.0])
    a.grad = t.const([5.0])


@case
def a_gradient_that_is_a_number_is_refused(t):
    t.leaf(3.0).grad = 5.0


@case
def a_gradient_of_another_dtype_is_refused(t):
    t.leaf(3.0).grad = t.single(5.0, False)


@case
def a_gradient_is_a_leaf_without_gradient(t):
    a = t.leaf(3.0)
    (a * a).backward()
    g = a.grad
    return [g.requires_grad, g.is_leaf, g.retains_grad, g.grad]


@case
def a_gradient_scaled_in_place(t):
    a = t.leaf([3.0, 1.0])
    (a * a).sum().backward()
    a.grad *= 0.5
    v = a.grad
    (a * a).sum().backward()
    return [a.grad, v is a.grad]


@case
def a_gradient_clipped(t):
    a = t.leaf([3.0, -1.0])
    (a * a).sum().backward()
    n = t.np.linalg.norm(a.grad)
    a.grad = a.grad / n
    return [a.grad, a.grad.requires_grad]


@case
def grad_of_a_computed_value_warns(t):
    a = t.leaf(3.0)
    b = a * a
    b.backward()
    return [t.warned(lambda: b.grad), t.warned(lambda: a.grad)]


@case
def retain_grad_twice_adds_up(t):
    a = t.leaf(3.0)
    b = a * a
    b.retain_grad()
    b.retain_grad()
    (2.0 * b).backward(retain_graph=True)
    b.backward()
    return [b.grad, a.grad]


@case
def retain_grad_serves_grad_too(t):
    a = t.leaf(3.0)
    b = a * a
    b.retain_grad()
    t.grad(b * b, a)
    return [b.grad, a.grad]


@case
def retain_grad_after_a_pass(t):
    a = t.leaf(3.0)
    b = a * a
    b.backward(retain_graph=True)
    b.retain_grad()
    b.backward()
    return b.grad


@case
def retained_grad_set_to_none(t):
    a = t.leaf(3.0)
    b = a * a
    b.retain_grad()
    b.backward(retain_graph=True)
    b.grad = None
    b.backward()
    return [b.grad, a.grad]


@case
def retain_grad_of_an_unused_result(t):
    a = t.leaf(3.0)
    b = a * a
    c = a * 2.0
    c.retain_grad()
    b.backward()
    return t.quiet(lambda: c.grad)


@case
def retain_grad_of_a_part_of_the_way(t):
    a = t.leaf(3.0)
    b = a * a
    b.retain_grad()
    c = b * 2.0
    c.backward()
    return [b.grad, b.requires_grad, b.is_leaf]


@case
def backward_for_some_inputs(t):
    a, b = (t.leaf(3.0), t.leaf(2.0))
    (a * b).backward(inputs=[a])
    return [a.grad, b.grad]


@case
def backward_for_one_input(t):
    a, b = (t.leaf(3.0), t.leaf(2.0))
    (a * b).backward(inputs=a)
    return [a.grad, b.grad]


@case
def backward_for_a_computed_input(t):
    a = t.leaf(3.0)
    b = a * a
    (b * b).backward(inputs=[b])
    return [a.grad, t.quiet(lambda: b.grad)]


@case
def backward_for_no_inputs(t):
    a = t.leaf(3.0)
    (a * a).backward(inputs=[])
