"""Dtypes, Python's numbers, truth values, iteration: where values enter and leave the graph."""

from __future__ import annotations

from tests.eager.tape_cases.registry import case


@case
def the_gradient_has_the_dtype_of_its_input(t):
    a, b = (t.single([1.0, 2.0]), t.leaf([3.0, 4.0]))
    (a * b).sum().backward()
    return [t.dtype(a.grad), t.dtype(b.grad), t.dtype(a * b), a.grad, b.grad]


@case
def numbers_do_not_promote(t):
    a = t.single([1.0, 2.0])
    b = (2.0 * a + 1.0) ** 2 / 3.0
    b.sum().backward()
    return [t.dtype(b), t.dtype(a.grad)]


@case
def a_cast_and_back(t):
    a = t.single([1.5, 2.0])
    b = t.cast(a, "float64")
    (b * b).sum().backward()
    return [t.dtype(b), t.dtype(a.grad), a.grad]


@case
def a_cast_to_the_same_dtype(t):
    a = t.leaf([1.5])
    b = t.cast(a, "float64")
    (b * 2.0).backward()
    return [a.grad, b.is_leaf]


@case
def integers_promote(t):
    a, k = (t.leaf([1.5, 2.0]), t.whole([2, 3]))
    r = a * k
    r.sum().backward()
    return [t.dtype(r), a.grad, k.requires_grad, k.is_leaf, k.grad]


@case
def backward_of_integers(t):
    k = t.whole([2, 3])
    (k * k).sum().backward()


@case
def a_cast_to_integers_ends_the_graph(t):
    a = t.leaf([1.5, 2.5])
    k = t.cast(a, "int64")
    return [k.requires_grad, k.is_leaf, k]


@case
def grad_of_a_cast_to_integers(t):
    a = t.leaf([1.5, 2.5])
    t.grad((t.cast(a, "int64") * 2).sum(), a)


@case
def argmax_carries_no_gradient(t):
    a = t.leaf([1.0, 3.0])
    return [int(a.argmax())]


@case
def a_gradient_through_argmax_index(t):
    a = t.leaf([1.0, 3.0])
    (a[int(a.argmax())] * 2.0).backward()
    return a.grad


@case
def item_cuts(t):
    a = t.leaf(3.0)
    (a * a.item()).backward()
    return a.grad


@case
def float_cuts(t):
    a = t.leaf(3.0)
    (a * float(a)).backward()
    return a.grad


@case
def item_of_several(t):
    t.leaf([1.0, 2.0]).item()


@case
def truth_of_several(t):
    bool(t.leaf([1.0, 2.0]))


@case
def truth_of_one(t):
    return [bool(t.leaf(0.0)), bool(t.leaf([2.0]))]


@case
def a_branch_on_a_value(t):
    a = t.leaf(3.0)
    b = a * a if a > 2.0 else a
    b.backward()
    return a.grad


@case
def iteration(t):
    a = t.leaf([1.0, 2.0, 3.0])
    s = sum(v * v for v in a)
    s.backward()
    return a.grad


@case
def iteration_over_rows(t):
    a = t.leaf([[1.0, 2.0], [3.0, 4.0]])
    s = sum(((r * r).sum() * k for k, r in enumerate(a)))
    s.backward()
    return [a.grad, len(a)]


@case
def unpacking(t):
    a = t.leaf([1.0, 2.0])
    x, y = a
    (x * y).backward()
    return a.grad


@case
def iteration_over_a_number(t):
    list(t.leaf(1.0))


@case
def length_of_a_number(t):
    len(t.leaf(1.0))


@case
def pythons_max(t):
    a, b = (t.leaf(1.0), t.leaf(2.0))
    max(a, b).backward()
    return [a.grad, b.grad]


@case
def pythons_abs_and_pow(t):
    a = t.leaf(-2.0)
    (abs(a) + pow(a, 2)).backward()
    return a.grad


@case
def a_plus_sign(t):
    a = t.leaf(2.0)
    b = +a
    b.backward()
    return a.grad
