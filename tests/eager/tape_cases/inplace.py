"""Changes in place."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


@case
def adding_to_a_leaf_in_place(t):
    a = t.leaf(3.0)
    a += 1.0


@case
def a_step_under_no_grad(t):
    a = t.leaf(3.0)
    (a * a).backward()
    same = a
    with t.no_grad():
        a -= 0.5 * a.grad
    return [a, same is a, a.is_leaf, a.requires_grad, a._version]


@case
def a_step_between_forward_and_backward(t):
    a = t.leaf(3.0)
    b = a * a
    with t.no_grad():
        a -= 0.5
    b.backward()


@case
def a_step_after_a_sum_is_harmless(t):
    a = t.leaf([3.0, 4.0])
    b = (a + 2.0).sum()
    with t.no_grad():
        a -= 0.5
    b.backward()
    return a.grad


@case
def a_step_of_what_is_not_needed_is_harmless(t):
    a, c = t.leaf([3.0, 4.0]), t.const([1.0, 2.0])
    b = (a * c).sum()
    with t.no_grad():
        a -= 0.5
    b.backward()
    return a.grad


@case
def versions_count_changes(t):
    a = t.const([1.0, 2.0])
    found = [a._version]
    a += 1.0
    found.append(a._version)
    a *= 2.0
    a[0] = 5.0
    return [*found, a._version, a]


@case
def adding_in_place_to_a_result(t):
    a = t.leaf(3.0)
    b = a * a
    same = b
    b += a
    b.backward()
    return [same is b, b, a.grad]


@case
def changing_a_result_that_its_derivative_needs(t):
    a = t.leaf(3.0)
    b = a.exp()
    b += 1.0
    b.backward()


@case
def changing_a_result_that_another_derivative_needs(t):
    a = t.leaf(3.0)
    b = a * 2.0
    c = b * b
    b += 1.0
    c.backward()


@case
def changing_a_result_that_no_derivative_needs(t):
    a = t.leaf(3.0)
    b = a * 2.0
    c = b + 1.0
    b *= 5.0
    (b + c).backward()
    return [b, c, a.grad]


@case
def a_constant_takes_part_of_a_graph(t):
    a, c = t.leaf(3.0), t.const(2.0)
    c *= a
    c.backward()
    return [c, a.grad, c.is_leaf, c.requires_grad]


@case
def a_product_with_one_is_another_object(t):
    a = t.const(3.0)
    b, c = a * 1.0, 1.0 * a
    b += 1.0
    c += 2.0
    return [a, b, c]


@case
def squaring_in_place(t):
    a = t.leaf(3.0)
    b = a * a
    b *= b
    b.backward()


@case
def doubling_in_place(t):
    a = t.leaf(3.0)
    b = a * a
    b += b
    b.backward()
    return a.grad


@case
def in_place_to_third_order(t):
    a = t.leaf(1.5)
    b = a * a
    b += a * a * a
    b -= 2.0 * a
    first = t.grad(b, a, create_graph=True)
    second = t.grad(first, a, create_graph=True)
    return [first, second, t.grad(second, a)]


@case
def in_place_of_another_shape(t):
    a = t.leaf([1.0, 2.0]) * 1.0
    a += t.const([[1.0, 1.0], [2.0, 2.0]])


@case
def functions_in_place(t):
    a = t.leaf([0.5, 2.0])
    b = a * 3.0
    b.exp_()
    b.sum().backward()
    return [b, a.grad, b._version]


@case
def assigning_an_element(t):
    a, c = t.leaf([1.0, 2.0]), t.leaf(7.0)
    b = a + 1.0
    b[0] = c
    (b * b).sum().backward()
    return [b, a.grad, c.grad]


@case
def assigning_a_slice(t):
    a, c = t.leaf([1.0, 2.0, 3.0]), t.leaf([7.0])
    b = a * 2.0
    b[1:] = c * c
    (b * t.const([1.0, 2.0, 3.0])).sum().backward()
    return [b, a.grad, c.grad]


@case
def assigning_to_a_leaf(t):
    a = t.leaf([1.0, 2.0])
    a[0] = 5.0


@case
def assigning_to_a_leaf_under_no_grad(t):
    a = t.leaf([1.0, 2.0])
    with t.no_grad():
        a[0] = 5.0
    (a * a).sum().backward()
    return a.grad


@case
def assigning_after_a_use(t):
    a = t.leaf([1.0, 2.0])
    b = a * 2.0
    c = (b * b).sum()
    b[0] = 0.0
    c.backward()


@case
def assigning_to_second_order(t):
    a = t.leaf([1.0, 2.0])
    b = a * a * a
    b[0] = a[1] * a[0] * a[0]
    first = t.grad(b.sum(), a, create_graph=True)
    return [first, t.grad(first.sum(), a)]


@case
def filling_from_a_loop(t):
    a, out = t.leaf(2.0), t.const([0.0, 0.0, 0.0])
    for k in range(3):
        out[k] = a ** (k + 1)
    out.sum().backward()
    return [out, a.grad]


@case
def zeroing_a_gradient_in_place(t):
    a = t.leaf(3.0)
    (a * a).backward()
    a.grad.zero_()
    before = float(a.grad)
    (a * a).backward()
    return [before, a.grad]


@case
def a_change_after_retain_grad(t):
    a = t.leaf(3.0)
    b = a * 2.0
    b.retain_grad()
    b *= 5.0
    (b * 7.0).backward()
    return [a.grad, b.grad]


@case
def a_running_state_through_time(t):
    w, state = t.leaf(0.5), t.const(1.0)
    for _ in range(3):
        state = (w * state).tanh()
    state.backward()
    return w.grad


@case
def truncating_a_running_state(t):
    w, state = t.leaf(0.5), t.const(1.0)
    for _ in range(3):
        state = (w * state.detach()).tanh()
    state.backward()
    return w.grad


@case
def a_stale_state_in_the_second_epoch(t):
    w, state = t.leaf(0.5), t.const(1.0)
    for _ in range(2):
        state = (w * state).tanh()
        state.backward()


@case
def a_leaf_zeroed_in_place(t):
    t.leaf([1.0]).zero_()


@case
def a_leaf_changed_by_copy(t):
    t.leaf([1.0]).copy_(t.const([2.0]))


@case
def a_leaf_changed_by_exp(t):
    t.leaf([1.0]).exp_()


@case
def a_leaf_changed_inside_enable_grad(t):
    a = t.leaf([1.0])
    with t.no_grad(), t.enable_grad():
        a += 1.0


@case
def a_leaf_added_to_itself_under_no_grad(t):
    a = t.leaf([1.0])
    with t.no_grad():
        a += a
    return [a, a._version, a.is_leaf]
