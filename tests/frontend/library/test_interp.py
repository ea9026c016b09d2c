"""`interp` follows NumPy at infinite and undefined points and values, and has derivatives between them."""

import itertools

import numpy as np
import pytest

import adcompiler as adc

inf, nan = np.inf, np.nan
X = np.array([-inf, -1e308, -2, -1, -0.5, -0.0, 0.25, 0.5, 1, 1.5, 2, 3, 1e308, inf, nan])
TABLES = [
    [0.0], [1, 2], [0, 1, 2], [-inf, 0, 1], [0, 1, inf], [-inf, 0, inf], [-inf, inf], [0, 0, 1], [0, 1, 1],
    [0, 0, 0], [-inf, -inf, 0], [0, inf, inf], [-1e+308, 1e+308], [0, 1, nan], [nan, 0, 1], [nan],
    [0, 1, 1, 2], [0, 1, inf, inf], [0, 1, 1, 1, 2],
]  # fmt: skip
VALUES = [1.0, 2.0, inf, -inf, nan]


def same(found, expected, rtol=1e-13):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, expected, rtol=rtol)


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_values_at_all_combinations_of_special_points_and_values(backend):
    plain = adc.compile("def f(x, xp, fp):\n    return interp(x, xp, fp)", backend=backend)
    ends = adc.compile("def f(x, xp, fp):\n    return interp(x, xp, fp, left=-7, right=nan)", backend=backend)
    noise = np.random.default_rng(5)
    for points in TABLES:
        xp = np.array(points, float)
        tables = (
            itertools.product(VALUES, repeat=len(xp)) if len(xp) < 4 else noise.choice(VALUES, (40, len(xp)))
        )
        for fp in map(np.array, tables):
            same(plain(X, xp, fp), np.interp(X, xp, fp))
        same(ends(X, xp, fp), np.interp(X, xp, fp, left=-7, right=nan))


def test_the_last_point_has_the_last_value_to_the_bit():
    f = adc.compile("def f(x, xp, fp):\n    return interp(x, xp, fp)")
    noise = np.random.default_rng(6)
    for _ in range(20):
        xp, fp = np.sort(noise.normal(size=4)), noise.normal(size=4)
        np.testing.assert_array_equal(f(xp, xp, fp), fp)


def test_numbers_of_32_bits():
    f = adc.compile("def f(x, xp, fp):\n    return interp(x, xp, fp)")
    x, xp, fp = (np.array(v, np.float32) for v in ([-1, 0, 0.5], [-inf, 0, 1], [1, 2, inf]))
    found = f(x, xp, fp)
    assert found.dtype == np.float32
    same(found, [2, 2, inf])


DERIVATIVES = [  # (x, xp, fp), derivatives by x and by fp
    ((-1.0, [-inf, 0, 1], [1, 2, 3]), 0, [0, 1, 0]),
    ((0.5, [-inf, 0, 1], [1, 2, 4]), 2, [0, 0.5, 0.5]),
    ((3.0, [0, 1, inf], [1, 2, 4]), 0, [0, 1, 0]),
    ((0.0, [0, 1, 2], [1, inf, 2]), 0, [1, 0, 0]),
    ((2.0, [0, 1, 2], [1, inf, 2]), 0, [0, 0, 1]),
    ((1.0, [0, 1, 2], [1, 3, 7]), 4, [0, 1, 0]),
    ((2.0, [0, 1, 2], [1, 3, 7]), 4, [0, 0, 1]),
    ((0.0, [0, 1, 2], [1, 3, 7]), 2, [1, 0, 0]),
    ((0.25, [0, 1, 2], [1, 3, nan]), 2, [0.75, 0.25, 0]),
    ((0.25, [0, 1, inf], [1, 3, inf]), 2, [0.75, 0.25, 0]),
    ((3.0, [0, 1, 2], [1, 3, 7]), 0, [0, 0, 1]),
    ((0.5, [0, 1, 1, 2], [1, 3, 7, 9]), 2, [0.5, 0.5, 0, 0]),
    ((1.5, [0, 1, 1, 2], [1, 3, 7, 9]), 2, [0, 0, 0.5, 0.5]),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_derivatives_are_finite_where_the_function_is_smooth(backend):
    f = adc.compile("def f(x, xp, fp):\n    return interp(x, xp, fp)", backend=backend)
    gradient, hessian = adc.grad(f), adc.hessian(f, "x")
    for (x, xp, fp), by_x, by_values in DERIVATIVES:
        args = x, np.array(xp, float), np.array(fp, float)
        found = gradient(*args)
        same(found[0], by_x)
        same(found[2], by_values)
        assert np.isfinite(found[1]).all()
        way = np.linspace(1, 2, len(fp))
        same(adc.jvp(f, args, (1.0, None, None))[1], by_x)
        same(adc.jvp(f, args, (None, None, way))[1], way @ by_values)
        assert (hessian(*args) or 0) == 0


def test_derivatives_of_an_ordinary_table_are_differences():
    f = adc.compile("def f(x, xp, fp):\n    return sum(sin(interp(x, xp, fp)))")
    noise = np.random.default_rng(7)
    args = noise.uniform(0.1, 3.9, 6), np.arange(5) + noise.uniform(0, 0.2, 5), noise.normal(size=5)
    assert adc.check_grad(f, *args) < 1e-6
