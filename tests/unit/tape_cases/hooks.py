"""Hooks of leaves and of what is computed."""

from __future__ import annotations

from tests.unit.tape_cases.registry import case


@case
def a_hook_of_a_leaf(t):
    a = t.leaf(3.0)
    a.register_hook(lambda g: g * 10.0)
    (a * a).backward()
    return a.grad


@case
def a_hook_of_a_result(t):
    a = t.leaf(3.0)
    b = a * a
    b.retain_grad()
    b.register_hook(lambda g: g + 1.0)
    (b * 2.0).backward()
    return [a.grad, b.grad]


@case
def hooks_in_their_order(t):
    a, seen = t.leaf(3.0), []
    a.register_hook(lambda g: g * 10.0)
    a.register_hook(lambda g: seen.append(float(g)))
    a.register_hook(lambda g: g + 1.0)
    (a * a).backward()
    return [seen, a.grad]


@case
def a_hook_that_is_removed(t):
    a = t.leaf(3.0)
    handle = a.register_hook(lambda g: g * 10.0)
    handle.remove()
    handle.remove()
    (a * a).backward()
    return a.grad


@case
def a_hook_is_called_once_for_all_uses(t):
    a, seen = t.leaf(3.0), []
    b = a * a
    b.register_hook(lambda g: seen.append(float(g)))
    (b * b + 3.0 * b).backward()
    return seen


@case
def a_hook_is_called_in_each_pass(t):
    a, seen = t.leaf(3.0), []
    b = a * a
    b.register_hook(lambda g: seen.append(float(g)))
    b.backward(retain_graph=True)
    b.backward(retain_graph=True)
    return seen


@case
def a_hook_without_a_path_is_not_called(t):
    a, b, seen = t.leaf(3.0), t.leaf(2.0), []
    b.register_hook(lambda g: seen.append(float(g)))
    (a * a).backward()
    return seen


@case
def a_hook_of_a_constant(t):
    t.const(3.0).register_hook(lambda g: g)


@case
def a_hook_sees_the_gradient_of_grad(t):
    a, seen = t.leaf(3.0), []
    b = a * a
    b.register_hook(lambda g: seen.append(float(g)))
    a.register_hook(lambda g: g * 2.0)
    return [t.grad(b * 5.0, a), seen]


@case
def a_hook_in_the_second_derivative(t):
    a = t.leaf(3.0)
    a.register_hook(lambda g: g * g)
    first = t.grad(a * a, a, create_graph=True)
    return [first, t.grad(first, a)]


@case
def a_hook_that_returns_another_shape(t):
    a = t.leaf([1.0, 2.0])
    a.register_hook(lambda g: g.sum())
    (a * a).sum().backward()
