"""`no_grad` and `enable_grad`."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


@case
def no_grad_records_nothing(t):
    a = t.leaf(3.0)
    with t.no_grad():
        b = a * a
    return [b.requires_grad, b.is_leaf]


@case
def backward_of_what_no_grad_computed(t):
    a = t.leaf(3.0)
    with t.no_grad():
        b = a * a
    b.backward()


@case
def enable_grad_inside_no_grad(t):
    a = t.leaf(3.0)
    with t.no_grad():
        with t.enable_grad():
            b = a * a
        c = a * a
    b.backward()
    return [a.grad, c.requires_grad]


@case
def no_grad_as_a_decorator(t):
    a = t.leaf(3.0)
    return [t.no_grad()(lambda: a * a)().requires_grad, t.no_grad(lambda: a * a)().requires_grad]


@case
def no_grad_ends_with_an_error(t):
    a = t.leaf(3.0)
    try:
        with t.no_grad():
            raise KeyError
    except KeyError:
        return (a * a).requires_grad


@case
def a_leaf_made_under_no_grad(t):
    with t.no_grad():
        a = t.leaf(3.0)
    (a * a).backward()
    return a.grad


@case
def backward_under_no_grad(t):
    a = t.leaf(3.0)
    b = a * a
    with t.no_grad():
        b.backward()
    return a.grad


@case
def grad_with_create_graph_under_no_grad(t):
    a = t.leaf(3.0)
    b = a * a * a
    with t.no_grad():
        first = t.grad(b, a, create_graph=True)
    return t.grad(first, a)


@case
def no_grad_result_used_with_grad(t):
    a = t.leaf(2.0)
    with t.no_grad():
        s = a * a
    y = s * a
    y.backward()
    return [a.grad, s.requires_grad]


@case
def nested_no_grad(t):
    a = t.leaf(2.0)
    with t.no_grad():
        with t.no_grad():
            pass
        b = a * a
    c = a * a
    return [b.requires_grad, c.requires_grad]


@case
def a_generator_under_no_grad(t):
    a = t.leaf(2.0)

    @t.no_grad()
    def g():
        yield (a * a)
        yield (a * a)

    return [[v.requires_grad, (a * a).requires_grad] for v in g()]


@case
def enable_grad_as_a_decorator(t):
    a = t.leaf(2.0)
    with t.no_grad():
        return t.enable_grad()(lambda: a * a)().requires_grad
