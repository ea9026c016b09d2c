"""Which graphs a pass frees."""

from __future__ import annotations

from tests.unit.tape_cases.registry import case


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
