"""`grad` of outputs, inputs and cotangents; derivatives of derivatives."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


@case
def grad_does_not_touch_dot_grad(t):
    a = t.leaf(3.0)
    return [t.grad(a * a, a), a.grad]


@case
def grad_with_respect_to_a_computed_value(t):
    a = t.leaf(3.0)
    b = a * a
    return t.grad(b * a, [b, a])


@case
def grad_with_respect_to_the_output(t):
    a = t.leaf(3.0)
    b = a * a
    return t.grad(b, [b, a])


@case
def grad_of_an_unused_input(t):
    a, b = t.leaf(3.0), t.leaf(4.0)
    return t.grad(a * a, [a, b])


@case
def grad_of_an_unused_input_that_is_not_allowed(t):
    a, b = t.leaf(3.0), t.leaf(4.0)
    return t.grad(a * a, [a, b], allow_unused=False)


@case
def grad_of_a_used_input_where_none_may_be_unused(t):
    a = t.leaf(3.0)
    return t.grad(a * a, [a], allow_unused=False)


@case
def grad_of_an_unused_input_as_zeros(t):
    a, b = t.leaf(3.0), t.leaf([4.0, 5.0])
    return t.grad(a * a, [a, b], materialize_grads=True)


@case
def grad_with_cotangents(t):
    a = t.leaf([1.0, 2.0])
    return t.grad([a * a, a * 3.0], [a], [t.const([1.0, 2.0]), t.const([3.0, 4.0])])


@case
def grad_with_a_cotangent_that_is_none(t):
    a = t.leaf(2.0)
    return t.grad([a * a, a * 3.0], [a], [None, t.const(4.0)])


@case
def grad_through_its_cotangent(t):
    a, w = t.leaf([1.0, 2.0]), t.leaf([3.0, 4.0])
    found = t.grad(a * a, a, w, create_graph=True)
    return [found, t.grad(found.sum(), w)]


@case
def grad_with_a_wrong_number_of_cotangents(t):
    a = t.leaf(2.0)
    t.grad([a * a, a * 3.0], [a], [None])


@case
def grad_of_a_constant(t):
    a = t.leaf(2.0)
    return t.grad(a * a, a).requires_grad


@case
def gradient_of_a_gradient_without_a_graph(t):
    a = t.leaf(2.0)
    first = t.grad(a * a * a, a)
    first.backward()


@case
def third_derivative_of_a_cube(t):
    a = t.leaf(3.0)
    first = t.grad(a**3, a, create_graph=True)
    second = t.grad(first, a, create_graph=True)
    third = t.grad(second, a, create_graph=True)
    return [first, second, third, second.requires_grad]


@case
def backward_with_create_graph(t):
    a = t.leaf(5.0)
    b = a * a
    t.quiet(lambda: b.backward(create_graph=True))
    first = a.grad
    a.grad = None
    flags = [first.requires_grad, first.is_leaf]
    first.backward()
    return [flags, first, a.grad]


@case
def a_mixed_second_derivative(t):
    a, b = t.leaf(2.0), t.leaf(3.0)
    da, db = t.grad(a * a * b, [a, b], create_graph=True)
    return [t.grad(da, [a, b], retain_graph=True), t.grad(db, [a, b])]


@case
def a_second_derivative_that_is_none(t):
    a, b = t.leaf(2.0), t.leaf(3.0)
    da, db = t.grad(a * a + b * b, [a, b], create_graph=True)
    return [t.grad(da, [a, b]), t.grad(db, [a, b])]


@case
def a_gradient_penalty(t):
    w, x = t.leaf([1.0, 2.0]), t.leaf([0.5, 0.2])
    slope = t.grad((w * x).tanh().sum(), x, create_graph=True)
    (slope * slope).sum().backward()
    return [w.grad, x.grad]


@case
def the_same_input_asked_for_twice(t):
    a = t.leaf(3.0)
    return t.grad(a * a, [a, a])


@case
def the_same_output_twice(t):
    a = t.leaf(3.0)
    b = a * a
    return t.grad([b, b], [a], [t.const(1.0), t.const(1.0)])


@case
def no_inputs(t):
    a = t.leaf(3.0)
    return t.grad(a * a, [])


@case
def grad_of_a_leaf_by_itself(t):
    a = t.leaf(3.0)
    return t.grad(a, a)


@case
def grad_of_a_leaf_by_another(t):
    a, b = (t.leaf(3.0), t.leaf(2.0))
    return t.grad(a, [a, b])


@case
def grad_by_a_clone_made_afterwards(t):
    a = t.leaf(3.0)
    b = a * a
    return t.grad(b, a.clone())


@case
def grad_by_an_element(t):
    a = t.leaf([3.0, 2.0])
    return t.grad((a * a).sum(), a[0])


@case
def grad_by_an_element_that_was_used(t):
    a = t.leaf([3.0, 2.0])
    e = a[0]
    return t.grad(e * e, [e, a])


@case
def cotangent_of_rank_one_for_a_number(t):
    a = t.leaf(3.0)
    t.grad(a * a, a, t.const([1.0]))


@case
def cotangent_number_for_rank_one(t):
    a = t.leaf([3.0])
    t.grad(a * a, a, t.const(1.0))


@case
def cotangent_that_would_broadcast(t):
    a = t.leaf([[3.0, 1.0]])
    t.grad(a * a, a, t.const([1.0, 1.0]))


@case
def a_list_of_one(t):
    a = t.leaf(3.0)
    return t.grad([a * a], [a])


@case
def grads_through_a_shared_part_with_two_outputs(t):
    a = t.leaf([1.0, 2.0])
    s = a.exp()
    return t.grad([s.sum(), (s * s).sum()], [a, s])


@case
def materialized_second_derivative(t):
    a, b = (t.leaf(2.0), t.leaf(3.0))
    (da,) = t.grad(a * a + b, [a], create_graph=True)
    return t.grad(da, [a, b], materialize_grads=True)


@case
def second_derivative_of_a_linear_function(t):
    a = t.leaf(2.0)
    d = t.grad(3.0 * a, a, create_graph=True)
    return [d, d.requires_grad]


@case
def backward_of_a_second_derivative_of_a_linear_function(t):
    a = t.leaf(2.0)
    d = t.grad(3.0 * a, a, create_graph=True)
    d.backward()


@case
def hessian_vector_product(t):
    a = t.leaf([1.0, 2.0])
    v = t.const([0.5, -1.0])
    g = t.grad((a**3).sum() * a[0], a, create_graph=True)
    return t.grad(g, a, v)


@case
def hessian_by_rows(t):
    a = t.leaf([1.0, 2.0])
    g = t.grad((a**3).sum() * a[0], a, create_graph=True)
    return [t.grad(g[k], a, retain_graph=True) for k in range(2)]


@case
def forward_mode_by_two_reverse_passes(t):
    a = t.leaf([1.0, 2.0])
    b = a.sin() * a
    u = t.leaf([1.0, 1.0])
    g = t.grad(b, a, u, create_graph=True)
    return t.grad(g, u, t.const([1.0, 0.0]))


@case
def backward_adds_twice_over_a_shared_leaf(t):
    a = t.leaf(2.0)
    b = a * a
    c = b + b * a
    c.backward()
    return a.grad


@case
def backward_with_create_graph_keeps_the_retained_grad_plain(t):
    a = t.leaf(5.0)
    b = a * a
    b.retain_grad()
    t.quiet(lambda: b.backward(create_graph=True))
    return [a.grad.requires_grad, a.grad.is_leaf, b.grad.requires_grad, b.grad.is_leaf, a.grad, b.grad]


@case
def backward_with_create_graph_warns(t):
    a = t.leaf(5.0)
    b = a * a
    return t.warned(lambda: b.backward(create_graph=True))


@case
def backward_with_create_graph_adds_up(t):
    a = t.leaf(5.0)
    t.quiet(lambda: (a * a).backward(create_graph=True))
    t.quiet(lambda: (a * a * a).backward(create_graph=True))
    g = a.grad
    return [g, t.grad(g, a)]


@case
def backward_after_create_graph_adds_plainly(t):
    a = t.leaf(5.0)
    t.quiet(lambda: (a * a).backward(create_graph=True))
    (a * a).backward()
    return [a.grad, a.grad.requires_grad]


@case
def jacobian_by_rows(t):
    a = t.leaf([1.0, 2.0])
    b = a * a.sum()
    return [t.grad(b[k], a, retain_graph=True) for k in range(2)]


@case
def mixed_constant_and_leaf_outputs(t):
    a = t.leaf(2.0)
    return t.grad([a * a, a + 1.0], [a])


@case
def parameters_of_two_losses(t):
    w, b = (t.leaf([1.0, 2.0]), t.leaf(0.5))
    l1 = w.sum() * b
    l2 = (w * w).sum()
    return [t.grad(l1, [w, b]), t.grad(l2, [w, b])]
