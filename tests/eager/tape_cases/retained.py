"""Which graphs a pass frees."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


@case
def backward_twice(t):
    a = t.leaf(3.0)
    b = a * a
    b.backward()
    b.backward()


@case
def backward_twice_of_a_retained_graph(t):
    a = t.leaf(3.0)
    b = a * a
    b.backward(retain_graph=True)
    b.backward()
    return a.grad


@case
def backward_three_times_where_one_was_not_retained(t):
    a = t.leaf(3.0)
    b = a * a
    b.backward(retain_graph=True)
    b.backward()
    b.backward()


@case
def backward_twice_of_a_sum(t):
    a = t.leaf([3.0, 4.0])
    b = (a + 1.0).sum()
    b.backward()
    b.backward()
    return a.grad


@case
def backward_twice_of_views(t):
    a = t.leaf([3.0, 4.0])
    b = -a.reshape(2, 1)[1:].mean()
    b.backward()
    b.backward()
    return a.grad


@case
def backward_twice_of_a_gather(t):
    a = t.leaf([3.0, 4.0])
    b = a[t.whole([0, 0])].sum()
    b.backward()
    b.backward()


@case
def backward_twice_of_exp(t):
    a = t.leaf(3.0)
    b = a.exp()
    b.backward()
    b.backward()


@case
def backward_twice_of_a_multiple(t):
    a = t.leaf(3.0)
    b = a * 2.0
    b.backward()
    b.backward()


@case
def a_part_of_a_freed_graph(t):
    a = t.leaf(3.0)
    b = a * a
    (b * 2.0).backward()
    (b * 3.0).backward()


@case
def beyond_a_freed_graph(t):
    a, c = t.leaf(3.0), t.leaf(2.0)
    b = a * a
    b.backward()
    return t.grad(b * c, [b, c])


@case
def a_detached_part_of_a_freed_graph(t):
    a = t.leaf(3.0)
    b = a * a
    b.backward()
    (b.detach() * a).backward()
    return a.grad


@case
def two_losses_that_share_a_part(t):
    a = t.leaf(3.0)
    shared = a * a
    first, second = shared * 2.0, shared * 3.0
    first.backward(retain_graph=True)
    second.backward()
    return a.grad


@case
def grad_frees_the_graph(t):
    a = t.leaf(3.0)
    b = a * a
    t.grad(b, a)
    return t.grad(b, a)


@case
def grad_retains_the_graph(t):
    a = t.leaf(3.0)
    b = a * a
    return [t.grad(b, a, retain_graph=True), t.grad(b, a)]


@case
def create_graph_retains_the_graph(t):
    a = t.leaf(3.0)
    b = a * a
    return [t.grad(b, a, create_graph=True), t.grad(b, a), a.grad]


@case
def create_graph_without_retaining(t):
    a = t.leaf(3.0)
    b = a * a * a
    first = t.grad(b, a, create_graph=True, retain_graph=False)
    return [first, t.quiet(lambda: t.grad(b, a))]


@case
def grad_frees_only_what_it_walked(t):
    a, c = t.leaf(3.0), t.leaf(2.0)
    b, d = a * a, c * c
    end = b + d
    return [t.grad(end, a), t.grad(end, c)]


@case
def walking_twice_after_a_sum_of_squares(t):
    a = t.leaf([1.0, 2.0])
    y = (a**2).sum()
    return [t.grad(y, a, retain_graph=True), t.grad(y, a, retain_graph=True), t.grad(y, a)]


@case
def a_freed_part_behind_a_live_one(t):
    a = t.leaf(2.0)
    b = a.exp()
    c = b * 3.0
    c.backward()
    d = b + 1.0
    d.backward()


@case
def a_freed_part_that_is_not_walked(t):
    a, c = (t.leaf(2.0), t.leaf(1.0))
    b = a.exp()
    b.backward()
    return t.grad(b + c * c, c)


@case
def a_freed_output_of_a_sum_again(t):
    a = t.leaf([1.0, 2.0])
    y = a.sum()
    y.backward()
    y.backward()
    y.backward()
    return a.grad


@case
def a_value_of_a_freed_graph(t):
    a = t.leaf(2.0)
    b = a * a
    b.backward()
    return [b, b.requires_grad, b.is_leaf]


@case
def gradient_of_a_view_of_a_freed_graph(t):
    a = t.leaf([1.0, 2.0])
    b = a * a
    b[0].backward()
    b[1].backward()


@case
def retain_graph_on_the_first_of_two(t):
    a = t.leaf([1.0, 2.0])
    b = a * a
    b[0].backward(retain_graph=True)
    b[1].backward()
    return a.grad
