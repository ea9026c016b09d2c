"""What an iteration saves where its reverse needs one array that is computed from several."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ad.programs.split import value_and_grad
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.pipeline import SIMPLIFY, run

FIELDS = """
def fields(c: f64[n, m], source: f64[k]):
    E = zeros((n, m))
    H = zeros((n, m - 1))
    J = zeros((n - 1, m))
    total = 0.0
    for t in range(k):
        H -= 0.5 * (E[:, 1:] - E[:, :-1])
        J += 0.5 * (E[1:, :] - E[:-1, :])
        E[1:-1, 1:-1] += 0.5 / c[1:-1, 1:-1] * (J[1:, 1:-1] - J[:-1, 1:-1] - H[1:-1, 1:] + H[1:-1, :-1])
        E[n // 2, m // 2] += source[t]
        total += E[n // 3, m // 3]**2
    return total
"""
PRODUCT = """
def product(x: f64[n], y: f64[n], w: f64[n], k: i64):
    for t in range(k):
        x, y = w * (x * y + x), y + x
    return sum(x * y)
"""
DENSEST = """
def densest(x: f64[n, d], scale: f64[k], rows: f64[k, d]):
    z = zeros(d)
    total = 0.0
    for i in range(n):
        best = -inf
        for j in range(k):
            quad = 0.0
            logdet = 0.0
            for a in range(d):
                s = x[i, a]
                for b in range(a):
                    s -= rows[j, b] * z[b]
                z[a] = s
                logdet += rows[j, a]
                quad += s * s
            best = max(best, -d * log(scale[j]) - logdet - quad)
        total += best
    return total
"""
RNG = np.random.default_rng(3)


def stacks(f: adc.Function, *args: object) -> list[Array]:
    """What the gradient saves in each iteration."""
    func = f._trace(f._describe(args, {})[0]).func
    gradient = run(SIMPLIFY, value_and_grad(func, [0, 1], with_value=True))
    return [a for a in arrays_of(gradient.results) if isinstance(a, Item) and a.k >= len(a.loop.results)]


def arguments(n: int = 5, m: int = 4, steps: int = 3) -> tuple[np.ndarray, np.ndarray]:
    return RNG.uniform(1, 3, (n, m)), RNG.standard_normal(steps)


def test_one_curl_is_saved_instead_of_three_fields() -> None:
    assert sum(a.rank == 3 for a in stacks(adc.compile(FIELDS), *arguments())) == 1


def test_what_is_not_smaller_is_not_saved_instead_of_carried_values() -> None:
    """The reverse needs `x * y + x` for `w`, and both `x` and `y` for each other."""
    x, y, w = RNG.uniform(0.5, 1, (3, 4))
    assert sum(a.rank == 2 for a in stacks(adc.compile(PRODUCT), x, y, w, 3)) == 2


def test_a_saved_sum_of_inputs_is_not_needed_for_what_follows_from_inputs() -> None:
    """`-d * log(scale[j]) - logdet` is computed from inputs, but `logdet` would have been saved for it."""
    f = adc.compile(DENSEST)
    args = RNG.uniform(size=(3, 2)), RNG.uniform(5, 6, 3), RNG.uniform(size=(3, 2))
    adc.check_grad(f, *args, wrt=("scale", "rows"), order=1)


@pytest.mark.parametrize("shape", [(2, 2, 1), (3, 3, 2), (5, 4, 3), (5, 4, 0)])
def test_derivatives(shape: tuple[int, int, int]) -> None:
    adc.check_grad(adc.compile(FIELDS), *arguments(*shape), order=2)


def test_derivatives_in_float32_are_those_of_float64() -> None:
    c, source = arguments(6, 7, 5)
    exact = adc.grad(adc.compile(FIELDS), ("c", "source"))(c, source)
    single = adc.grad(adc.compile(FIELDS.replace("f64", "f32")), ("c", "source"))
    for got, expected in zip(single(c.astype("f4"), source.astype("f4")), exact, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
