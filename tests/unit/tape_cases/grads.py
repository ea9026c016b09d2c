"""`grad` of outputs, inputs and cotangents; derivatives of derivatives."""

from __future__ import annotations

from tests.unit.tape_cases.registry import case


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
