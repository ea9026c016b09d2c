"""Ties, kinks, edges of domains, and derivatives that are zero at these values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.eager.tape_cases.registry import CASES, case


def summed(source: str, values: list[float]) -> Callable[[Any], Any]:
    def run(t: Any) -> Any:
        a = t.leaf(values)
        eval(source, {"t": t, "a": a}).sum().backward()
        return a.grad

    return run


# Derivatives that are zero for these values, and would not be for others, are zeros and not None.
ZERO = {
    "relu": ("a.relu()", [-1.0, -2.0]),
    "clip": ("a.clip(0.0, 1.0)", [-1.0, 3.0]),
    "abs": ("abs(a)", [0.0, 0.0]),
    "maximum": ("t.np.maximum(a, t.const(5.0))", [1.0, 2.0]),
    "minimum": ("t.np.minimum(a, t.const(-5.0))", [1.0, 2.0]),
    "where": ("t.where(a > 5.0, a, t.const(0.0))", [1.0, 2.0]),
    "an_empty_mask": ("a[a > 5.0]", [1.0, 2.0]),
    "a_factor": ("a * 0.0", [1.0, 2.0]),
    "a_difference": ("a - a", [1.0, 2.0]),
    "a_product_with_a_reduction": ("a.max() * 0.0 + 1.0", [1.0, 2.0]),
    "a_power": ("a ** 0", [1.0, 2.0]),
    "powers_of_zero": ("t.const([0.0, 0.0]) ** a", [1.0, 2.0]),
    "powers_of_one": ("t.const([1.0, 1.0]) ** a", [1.0, 2.0]),
    "sign": ("a.sign() * a", [1.0, 2.0]),
    "remainder": ("a % 2.0", [1.0, 2.5]),
}
for _name, (_source, _values) in ZERO.items():
    CASES[f"zeros_of_{_name}"] = summed(_source, _values)


@case
def max_with_ties(t):
    a = t.leaf([2.0, 2.0, 1.0])
    a.max().backward()
    return a.grad


@case
def maximum_of_equals(t):
    a, b = (t.leaf(2.0), t.leaf(2.0))
    a.maximum(b).backward()
    return [a.grad, b.grad]


@case
def minimum_of_equals(t):
    a, b = (t.leaf(2.0), t.leaf(2.0))
    a.minimum(b).backward()
    return [a.grad, b.grad]


@case
def maximum_with_a_number(t):
    a = t.leaf([-1.0, 0.0, 2.0])
    t.np.maximum(a, t.const(0.0)).sum().backward()
    return a.grad


@case
def relu_at_zero(t):
    a = t.leaf([-1.0, 0.0, 2.0])
    a.relu().sum().backward()
    return a.grad


@case
def abs_at_zero(t):
    a = t.leaf([-1.0, 0.0, 2.0])
    abs(a).sum().backward()
    return a.grad


@case
def sqrt_at_zero(t):
    a = t.leaf([0.0, 1.0])
    a.sqrt().sum().backward()
    return a.grad


@case
def norm_at_zero(t):
    a = t.leaf([0.0, 0.0])
    t.np.linalg.norm(a).backward()
    return a.grad


@case
def power_at_zero(t):
    a = t.leaf([0.0, 1.0])
    (a**2).sum().backward()
    return a.grad


@case
def power_zero_at_zero(t):
    a = t.leaf([0.0, 1.0])
    (a**0).sum().backward()
    return a.grad


@case
def a_power_of_zero_by_exponent(t):
    a = t.leaf([2.0, 0.5])
    (t.const([0.0, 0.0]) ** a).sum().backward()
    return a.grad


@case
def power_half_at_zero(t):
    a = t.leaf([0.0])
    (a**0.5).sum().backward()
    return a.grad


@case
def prod_with_a_zero(t):
    a = t.leaf([0.0, 2.0, 3.0])
    a.prod().backward()
    return a.grad


@case
def prod_with_two_zeros(t):
    a = t.leaf([0.0, 0.0, 3.0])
    a.prod().backward()
    return a.grad


@case
def cumprod_with_a_zero(t):
    a = t.leaf([2.0, 0.0, 3.0])
    a.cumprod(0).sum().backward()
    return a.grad


@case
def division_by_zero(t):
    a, b = (t.leaf(1.0), t.leaf(0.0))
    (a / b).backward()
    return [a.grad, b.grad]


@case
def log_of_zero(t):
    a = t.leaf([0.0, -1.0])
    a.log().sum().backward()
    return a.grad


@case
def where_hides_no_nan(t):
    a = t.leaf([0.0, 4.0])
    t.where(a > 1.0, a.sqrt(), t.const([0.0, 0.0])).sum().backward()
    return a.grad


@case
def std_of_equals(t):
    a = t.leaf([2.0, 2.0])
    t.np.var(a).backward()
    return a.grad


@case
def arctan2_quadrants(t):
    a, b = (t.leaf([1.0, -1.0]), t.leaf([-2.0, -2.0]))
    t.np.arctan2(a, b).sum().backward()
    return [a.grad, b.grad]


@case
def sort_with_ties(t):
    a = t.leaf([2.0, 1.0, 2.0])
    (t.np.sort(a) * t.const([1.0, 2.0, 3.0])).sum().backward()
    return a.grad
