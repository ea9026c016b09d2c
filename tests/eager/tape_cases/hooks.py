"""Hooks of leaves and of what is computed."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


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


@case
def hooks_of_a_result_run_before_it_is_retained(t):
    a = t.leaf(3.0)
    b = a * a
    b.register_hook(lambda g: g * 2.0)
    b.retain_grad()
    b.register_hook(lambda g: g + 1.0)
    b.backward()
    return [a.grad, b.grad]


@case
def a_hook_registered_after_a_change_in_place(t):
    a = t.leaf(3.0)
    b = a * 2.0
    seen = []
    b.register_hook(lambda g: seen.append(["before", float(g)]))
    b *= 5.0
    b.register_hook(lambda g: seen.append(["after", float(g)]))
    (b * 7.0).backward()
    return [seen, a.grad]


@case
def a_hook_replaces_and_the_next_sees_it(t):
    a = t.leaf(3.0)
    b = a * a
    seen = []
    b.register_hook(lambda g: g * 2.0)
    b.register_hook(lambda g: seen.append(float(g)))
    a.register_hook(lambda g: seen.append(float(g)))
    b.backward()
    return [seen, a.grad]


@case
def hooks_run_from_the_output_to_the_leaves(t):
    a, seen = (t.leaf(3.0), [])
    b = a * a
    c = b * 2.0
    for k, v in ((0, a), (1, b), (2, c)):
        v.register_hook(lambda g, k=k: seen.append([k, float(g)]))
    c.backward()
    return seen


@case
def a_hook_that_fails(t):
    a = t.leaf(3.0)

    def hook(g):
        raise ValueError("mine")

    a.register_hook(hook)
    (a * a).backward()


@case
def a_hook_that_returns_a_number(t):
    a = t.leaf(3.0)
    a.register_hook(lambda g: 2.0)
    (a * a).backward()


@case
def a_hook_that_removes_itself(t):
    a, seen = (t.leaf(3.0), [])
    handle = a.register_hook(lambda g: (seen.append(float(g)), handle.remove())[0])
    (a * a).backward()
    (a * a).backward()
    return [seen, a.grad]


@case
def a_hook_of_the_output(t):
    a = t.leaf(3.0)
    b = a * a
    b.register_hook(lambda g: g * 3.0)
    b.backward()
    return a.grad


@case
def a_hook_of_an_asked_for_result(t):
    a = t.leaf(3.0)
    b = a * a
    b.register_hook(lambda g: g * 3.0)
    return t.grad(b * 2.0, b)


@case
def a_hook_of_a_result_that_is_off_the_way(t):
    a, b, seen = (t.leaf(3.0), t.leaf(2.0), [])
    c, d = (a * a, b * b)
    d.register_hook(lambda g: seen.append(float(g)))
    t.grad(c * d, a)
    return seen


@case
def a_hook_of_a_leaf_called_once_for_two_uses(t):
    a, seen = (t.leaf(3.0), [])
    a.register_hook(lambda g: seen.append(float(g)))
    (a * a + a).backward()
    return seen


@case
def a_hook_with_accumulation(t):
    a, seen = (t.leaf(3.0), [])
    a.register_hook(lambda g: seen.append(float(g)))
    (a * a).backward()
    (a * a).backward()
    return [seen, a.grad]


@case
def a_hook_sees_whether_a_graph_is_created(t):
    a, seen = (t.leaf(3.0), [])
    a.register_hook(lambda g: seen.append(g.requires_grad))
    t.grad(a * a, a, create_graph=True)
    t.grad(a * a, a)
    return seen


@case
def a_hook_through_no_grad(t):
    a, seen = (t.leaf(3.0), [])
    b = a * a
    b.register_hook(lambda g: seen.append(float(g)))
    with t.no_grad():
        b.backward()
    return seen


@case
def a_hook_of_a_detached_one_is_refused(t):
    (t.leaf(3.0) * 2.0).detach().register_hook(lambda g: g)


@case
def a_hook_stays_with_its_graph_after_detach_in_place(t):
    a, seen = (t.leaf(3.0), [])
    b = a * a
    b.register_hook(lambda g: seen.append(float(g)))
    c = b * 2.0
    b.detach_()
    c.backward()
    return seen


@case
def a_hook_of_a_clone_only_sees_the_clone(t):
    a, seen = (t.leaf(3.0), [])
    b = a.clone()
    b.register_hook(lambda g: seen.append(float(g)))
    (a * b).backward()
    return [seen, a.grad]


@case
def clipping_by_a_hook(t):
    a = t.leaf([3.0, -4.0])
    a.register_hook(lambda g: g.clip(-1.0, 1.0))
    (a * a).sum().backward()
    return a.grad


@case
def a_hook_that_writes_into_the_gradient(t):
    a = t.leaf([3.0, -4.0])

    def hook(g):
        g *= 2.0

    a.register_hook(hook)
    (a * a).sum().backward()
    return a.grad
