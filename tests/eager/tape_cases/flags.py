"""`detach`, `clone`, `requires_grad_`."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


@case
def detach_cuts(t):
    a = t.leaf(3.0)
    b = a * a
    (a * b.detach()).backward()
    return [a.grad, b.detach().requires_grad, b.detach().is_leaf]


@case
def a_detached_leaf_of_its_own(t):
    a = t.leaf(3.0)
    b = (a * a).detach().requires_grad_()
    (b * b).backward()
    return [a.grad, b.grad]


@case
def detach_in_place(t):
    a = t.leaf(3.0)
    b = a * a
    c = b * 2.0
    b.detach_()
    (c + b).backward()
    return [a.grad, b.requires_grad, b.is_leaf]


@case
def clone_keeps_the_graph(t):
    a = t.leaf(3.0)
    b = a.clone()
    (b * b).backward()
    return [a.grad, t.quiet(lambda: b.grad), b.is_leaf]


@case
def requires_grad_of_a_constant_result(t):
    c = t.const(2.0)
    d = (c * c).requires_grad_()
    (d * d).backward()
    return [c.grad, d.grad]


@case
def requires_grad_after_a_use(t):
    c, w = t.const(2.0), t.leaf(3.0)
    before = c * 5.0
    c.requires_grad_()
    (c * w + before).backward()
    return [c.grad, w.grad]


@case
def requires_grad_taken_back(t):
    a, b = t.leaf(2.0), t.leaf(3.0)
    y = a * b
    a.requires_grad_(False)
    y.backward()
    return [a.grad, b.grad]


@case
def requires_grad_taken_from_a_result(t):
    (t.leaf(2.0) * 3.0).requires_grad_(False)


@case
def requires_grad_set_on_a_result_again(t):
    a = t.leaf(2.0)
    b = (a * 3.0).requires_grad_()
    b.backward()
    return [a.grad, b.is_leaf]


@case
def a_frozen_leaf_can_be_changed(t):
    a = t.leaf([1.0])
    a.requires_grad_(False)
    a += 1.0
    a.requires_grad_()
    (a * a).sum().backward()
    return [a, a.grad]


@case
def requires_grad_assigned(t):
    a = t.const([1.0])
    a.requires_grad = True
    (a * a).sum().backward()
    return a.grad


@case
def requires_grad_of_no_truth_value(t):
    t.const([1.0]).requires_grad = "yes"


@case
def requires_grad_under_no_grad(t):
    with t.no_grad():
        a = t.const(2.0).requires_grad_()
    (a * a).backward()
    return a.grad


@case
def requires_grad_false_of_a_constant(t):
    return t.const(1.0).requires_grad_(False).requires_grad


@case
def detach_of_a_leaf(t):
    a = t.leaf(2.0)
    d = a.detach()
    return [d.requires_grad, d.is_leaf, d is a, d.grad]


@case
def detach_in_place_of_a_leaf(t):
    a = t.leaf(2.0)
    a.detach_()
    return [a.requires_grad, a.is_leaf]


@case
def clone_of_a_leaf_under_no_grad(t):
    a = t.leaf(2.0)
    with t.no_grad():
        c = a.clone()
    return [c.requires_grad, c.is_leaf]


@case
def clone_of_a_constant(t):
    c = t.const(2.0).clone()
    return [c.requires_grad, c.is_leaf]


@case
def changing_a_clone_leaves_the_original(t):
    a = t.const([1.0, 2.0])
    c = a.clone()
    c += 1.0
    return [a, c, a._version, c._version]


@case
def a_leaf_that_is_frozen_for_a_while(t):
    a = t.leaf([1.0, 2.0])
    b = (a * a).sum()
    a.requires_grad_(False)
    a.requires_grad_()
    (b + (a * 10.0).sum()).backward()
    return a.grad


@case
def a_retained_gradient_is_nobody_elses(t):
    a = t.leaf([1.0, 2.0])
    b = a + 1.0
    b.retain_grad()
    first = t.grad((b * b).sum(), a, create_graph=True)
    before = first * 1.0
    t.grad((first * first).sum(), a)
    return [first, before, b.grad]


@case
def a_gradient_with_a_graph_is_nobody_elses(t):
    a, c = t.leaf([1.0, 2.0]), t.leaf([3.0, 4.0])
    t.quiet(lambda: ((a + c) ** 2).sum().backward(create_graph=True))
    first = c.grad * 1.0
    a.grad *= 2.0
    ((a + c) ** 2).sum().backward()
    return [a.grad, c.grad, first]
