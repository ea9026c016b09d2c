"""Training loops: steps of leaves, states over epochs, and what was forgotten in them."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


@case
def a_step_with_momentum(t):
    w, m = (t.leaf([1.0, -2.0]), t.const([0.0, 0.0]))
    for _ in range(4):
        (w * w * w * w).sum().backward()
        with t.no_grad():
            m *= 0.9
            m += w.grad
            w -= 0.01 * m
            w.grad.zero_()
    return [w, m, w._version, w.is_leaf]


@case
def a_step_forgotten_no_grad_makes_a_new_result(t):
    w = t.leaf(1.0)
    (w * w).backward()
    w = w - 0.1 * w.grad
    return [w.is_leaf, w.requires_grad, t.quiet(lambda: w.grad)]


@case
def training_on_a_result_gives_none(t):
    w = t.leaf(1.0)
    (w * w).backward()
    w = w - 0.1 * w.grad
    (w * w).backward()
    return t.quiet(lambda: w.grad)


@case
def a_loss_summed_over_epochs(t):
    w, total = (t.leaf(2.0), 0.0)
    for k in range(3):
        total = total + (w * k) ** 2
    total.backward()
    return w.grad


@case
def a_loss_kept_over_epochs_is_freed(t):
    w, total = (t.leaf(2.0), 0.0)
    for k in range(2):
        total = total + w * w * k
        total.backward()


@case
def a_hidden_state_changed_in_place(t):
    w, h = (t.leaf(0.5), t.const([1.0, 1.0]))
    for _ in range(2):
        h *= w
    h.sum().backward()
    return w.grad


@case
def a_changed_constant_that_is_needed(t):
    w, x = (t.leaf([0.5, 1.0]), t.const([1.0, 2.0]))
    y = (w * x).sum()
    x += 1.0
    y.backward()


@case
def a_changed_constant_that_is_not_needed(t):
    w, x = (t.leaf([0.5, 1.0]), t.const([1.0, 2.0]))
    y = (w + x).sum()
    x += 1.0
    y.backward()
    return w.grad


@case
def a_weight_changed_twice_between(t):
    w = t.leaf([0.5])
    y = w.exp().sum()
    with t.no_grad():
        w *= 2.0
        w *= 0.5
    y.backward()
    return w.grad


@case
def a_power_after_a_step(t):
    w = t.leaf([0.5])
    y = (w**2).sum()
    with t.no_grad():
        w -= 0.1
    y.backward()


@case
def a_matmul_after_a_step_of_the_other_side(t):
    w, v = (t.leaf([[0.5]]), t.leaf([1.0]))
    y = (w @ v).sum()
    with t.no_grad():
        w -= 0.1
    return t.grad(y, v)


@case
def a_second_derivative_after_a_step(t):
    w = t.leaf([0.5])
    y = (w**3).sum()
    g = t.grad(y, w, create_graph=True)
    with t.no_grad():
        w -= 0.1
    t.grad(g.sum(), w)


@case
def leaf_created_from_a_leafs_value(t):
    a = t.leaf(2.0)
    b = t.leaf(a.item())
    (b * b).backward()
    return [a.grad, b.grad]
