"""The table of what eager Variables share with PyTorch: each case is a function of one of the two libraries.

`t` has `leaf`, `const`, `grad`, `where`, `no_grad` and `enable_grad` of the library. What a case returns is
made of numbers, lists, truth values and None; an error is "refused".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CASES: dict[str, Callable[[Any], Any]] = {}


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[function.__name__] = function
    return function


# -- values to third order ---------------------------------------------------------------------

EXPRESSIONS = {
    "add": "x + y",
    "subtract": "2.0 - x - y",
    "multiply": "x * y * x",
    "divide": "x / y",
    "reciprocal": "1.0 / x",
    "power": "x ** 3",
    "power_of_variables": "x ** y",
    "power_of_a_number": "2.0 ** x",
    "negative": "-x * y",
    "remainder": "(5.0 * x) % 3.0 * y",
    "exp": "(x * y).exp()",
    "log": "(x * y).log()",
    "sqrt": "(x + y).sqrt()",
    "sin": "(x * y).sin()",
    "cos": "x.cos() * y",
    "tan": "x.tan() * y",
    "tanh": "(x * y).tanh()",
    "sigmoid": "(x * y).sigmoid()",
    "arcsin": "(x / 3.0).arcsin() * y",
    "arctan": "(x * y).arctan()",
    "arctan2": "x.arctan2(y)",
    "sinh": "x.sinh() * y",
    "erf": "(x * y).erf()",
    "log1p": "(x * y).log1p()",
    "expm1": "(x * y).expm1()",
    "abs": "abs(x - y) * x",
    "maximum": "x.maximum(y) * x",
    "minimum": "x.minimum(y) * y * y",
    "where": "t.where(x > y, x * x * y, y * y)",
    "sum": "(x * y).sum() * x",
    "mean": "(x * x).mean() * y",
    "sum_of_an_axis": "((x * y).reshape(1, 2) ** 2).sum(0)",
    "reshape": "x.reshape(2, 1) * y ** 2 * x",
    "index": "x[0] * x[1] * y",
    "slice": "x[:1] * y * x",
    "mask": "x[x > 1.0] * x * y",
    "broadcast": "x.reshape(2, 1) ** 2 * y * y",
    "clone": "x.clone() * x * y.clone()",
    "matmul": "x @ y * x",
    "max": "x.max() * x * y",
    "min": "x.min() * x * y",
    "prod": "x.prod() * y",
    "cumsum": "(x * x).cumsum(0) * y",
    "softplus": "(1.0 + (x * y).exp()).log()",
}


def expression(source: str) -> Callable[[Any], Any]:
    """The value and the gradients of orders 1 to 3, each order of a weighted sum of the last."""

    def run(t: Any) -> Any:
        x, y = t.leaf([0.7, 1.6]), t.leaf([1.2, 0.9])
        result = eval(source, {"t": t, "x": x, "y": y})
        found = [result]
        total = (result * t.const([1.0, -0.5])).sum() if result.shape == (2,) else (result * result).sum()
        for _ in range(3):
            slopes = t.grad(total, [x, y], create_graph=True)
            found.append(slopes)
            total = sum((g * g * t.const([0.3, 0.8])).sum() for g in slopes if g is not None)
            if isinstance(total, int) or not total.requires_grad:
                break
        return found

    return run


for _name, _source in EXPRESSIONS.items():
    CASES[f"value_of_{_name}"] = expression(_source)


# -- leaves ------------------------------------------------------------------------------------


@case
def leaves_and_what_is_computed(t):
    a, c = t.leaf([3.0]), t.const([5.0])
    b, d, e = a * a, c * c, a * c
    return [[v.requires_grad, v.is_leaf] for v in (a, b, c, d, e)]


@case
def grad_of_a_computed_value_is_none(t):
    a = t.leaf(3.0)
    b = a * a
    (b * b).backward()
    return [a.grad, t.quiet(lambda: b.grad)]


@case
def retain_grad_of_a_computed_value(t):
    a = t.leaf(3.0)
    b = a * a
    b.retain_grad()
    (b * b).backward()
    return [a.grad, b.grad, b.retains_grad, a.retains_grad]


@case
def retain_grad_of_a_leaf_changes_nothing(t):
    a = t.leaf(3.0)
    a.retain_grad()
    (a * a).backward()
    return [a.grad, a.retains_grad]


@case
def retain_grad_without_a_gradient(t):
    t.const(3.0).retain_grad()


@case
def gradients_accumulate(t):
    a = t.leaf(3.0)
    (a * a).backward()
    (a * a * a).backward()
    return a.grad


@case
def gradients_accumulate_in_the_same_object(t):
    a = t.leaf(3.0)
    (a * a).backward()
    held = a.grad
    (a * a).backward()
    return [held is a.grad, held]


@case
def grad_can_be_reset(t):
    a = t.leaf(3.0)
    (a * a).backward()
    a.grad = None
    before = a.grad
    (a * a).backward()
    return [before, a.grad]


@case
def a_constant_has_no_gradient(t):
    a, c = t.leaf(3.0), t.const(2.0)
    (a * c).backward()
    return [a.grad, c.grad]


@case
def backward_of_a_constant(t):
    t.const(3.0).backward()


@case
def backward_of_a_leaf(t):
    a = t.leaf(3.0)
    a.backward()
    return a.grad


@case
def backward_of_an_array(t):
    a = t.leaf([1.0, 2.0])
    (a * a).backward()


@case
def backward_with_a_cotangent(t):
    a = t.leaf([1.0, 2.0])
    (a * a).backward(t.const([1.0, 10.0]))
    return a.grad


@case
def backward_with_a_cotangent_of_another_shape(t):
    a = t.leaf([1.0, 2.0])
    (a * a).backward(t.const([1.0, 10.0, 3.0]))


@case
def the_same_input_twice(t):
    a = t.leaf(3.0)
    (a * a + a).backward()
    return a.grad


@case
def an_unused_leaf_keeps_none(t):
    a, b = t.leaf(3.0), t.leaf(4.0)
    (a * a).backward()
    return [a.grad, b.grad]


@case
def a_factor_of_zero_gives_zero_not_none(t):
    a, b = t.leaf(3.0), t.leaf(4.0)
    (a * b * 0.0).backward()
    return [a.grad, b.grad]


@case
def integers_require_no_gradient(t):
    t.whole([1, 2]).requires_grad_()


@case
def comparisons_carry_no_gradient(t):
    a = t.leaf([1.0, 3.0])
    (a * t.where(a > 2.0, t.const([1.0, 1.0]), t.const([0.0, 0.0]))).sum().backward()
    return a.grad


# -- retain_graph ------------------------------------------------------------------------------


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


# -- grad --------------------------------------------------------------------------------------


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


# -- modes -------------------------------------------------------------------------------------


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
def a_part_computed_under_no_grad_is_a_constant(t):
    a = t.leaf(3.0)
    with t.no_grad():
        b = a * a
    (a * b).backward()
    return a.grad


# -- detach, clone, requires_grad_ -------------------------------------------------------------


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


# -- hooks -------------------------------------------------------------------------------------


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


# -- changes in place --------------------------------------------------------------------------


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
