"""Lengths that arguments hold and a check refuses are refused at once, however long the loops over them."""

# ruff: noqa: F821
from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

X = np.arange(12.0) / 7
HUGE = 2**45


def two_lengths_differ(x: f64[n], k: i64[m]):
    return sum(linspace(0, 1, k[0]) * x[: k[1]] ** 2)


def reshaped(x: f64[n], k: i64[m]):
    return sum(reshape(x, (k[0], k[1]))[1] ** 2)


def reshaped_with_a_length_that_follows(x: f64[n], k: i64[m]):
    return sum(reshape(x, (k[0], -1, k[1]))[1, 1] ** 2)


def a_loop_as_well(x: f64[n], k: i64[m]):
    t = 0.0
    for i in range(k[0]):
        t = t + i * sum(x[: k[1]] ** 2)
    return t + sum(reshape(x, (k[0], k[1]))[0])


def tiled(x: f64[n], k: i64[m]):
    return sum(tile(x, k[0]) ** 2) * k[1]


def repeated(x: f64[n], k: i64[m]):
    return sum(repeat(x, k[0]) ** 2) * k[1]


# What is right, what is too long, and what is equal modulo 2^64 only.
CASES = {
    two_lengths_differ: ([4, 4], [HUGE, 4]),
    reshaped: ([3, 4], [HUGE, 4], [2, HUGE], [2**62 + 3, 4], [2**32, 2**32]),
    reshaped_with_a_length_that_follows: ([2, 3], [HUGE, 4], [2**62 + 3, 4], [2**32, 2**32]),
    a_loop_as_well: ([3, 4], [HUGE, 4], [2**62 + 3, 4]),
    tiled: ([2, 3], [2**62, 1], [2**62 + 1, 1]),
    repeated: ([2, 3], [2**62, 1], [2**62 + 1, 1]),
}


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
def test_a_length_that_a_check_refuses(program, backend: str) -> None:
    right, *wrong = CASES[program]
    f = adc.compile(program, backend=backend)
    k = np.array(right)
    names = {"linspace": np.linspace, "reshape": np.reshape, "tile": np.tile, "repeat": np.repeat, "sum": sum}
    assert f(X, k) == pytest.approx(type(program)(program.__code__, names)(X, k), rel=1e-14)
    adc.check_grad(f, X, k, wrt="x")
    slope = adc.grad(f, wrt="x")
    changes = [(slope(X + h, k) - slope(X - h, k)) / 2e-5 for h in 1e-5 * np.eye(12)]
    np.testing.assert_allclose(adc.hessian(f, wrt="x")(X, k), changes, rtol=1e-7, atol=1e-7)
    for given in wrong:
        for call in (f, slope):
            with pytest.raises(adc.ShapeError):
                call(X, np.array(given))


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("places", ["k", "x, k"])
def test_a_length_that_a_scalar_holds(places: str, backend: str) -> None:
    """The scalar stays an input where the checked length that it gives replaces it throughout."""
    f = adc.compile(
        f"def f({places}):\n    s = 1.0\n    for i in range(int(k)):\n        s = s * k * 0.5\n    return s",
        backend=backend,
    )
    before = [0.0] * (places.count(",") > 0)
    assert f(*before, 3.7) == pytest.approx(1.85**3, rel=1e-14)
    assert f(*before, 0.2) == 1.0
    np.testing.assert_allclose(adc.grad(f, "k")(*before, 3.7), 1.5 * 1.85**2, rtol=1e-14)
    np.testing.assert_allclose(adc.hvp(f, "k")((*before, 3.7), 1.0), 1.5 * 1.85, rtol=1e-14)
    with pytest.raises(adc.OutOfRangeError, match="no number of 64 bits"):
        f(*before, 1e300)
