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


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
def test_a_length_that_a_check_refuses(program, backend: str) -> None:
    right, *wrong = CASES[program]
    f = adc.compile(program, backend=backend)
    k = np.array(right)
    names = {"linspace": np.linspace, "reshape": np.reshape, "tile": np.tile, "repeat": np.repeat, "sum": sum}
    assert f(X, k) == pytest.approx(type(program)(program.__code__, names)(X, k), rel=1e-14)
    adc.check_grad(f, X, k, wrt="x", order=1)
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
    with pytest.raises(adc.OutOfRangeError, match="not a 64-bit integer"):
        f(*before, 1e300)


# Lengths that 64 bits do not hold, or that no memory does, by an argument or a constant.
TOO_LONG = {
    "repeat(x, k)": 2**62,
    "repeat(x, 2**62)": 0,
    "tile(x, k)": 2**62 + 1,
    "tile(x, (k, 2))": 2**62,
    "pad(x, (k, k))": 2**62,
    "kron(ones(k), ones(k))": 2**32,
    "concatenate((ones(k), ones(k)))": 2**62,
    "broadcast_to(x, (k, 12))": 2**60,
    "zeros(k) + 1": 2**60,
    "zeros(2**60) + 1": 0,
    "zeros((k, k)) + 1": 2**32,
    "full((k, 4), 2.0) * x[0]": 2**60,
    "outer(ones(k), ones(k))": 2**31,
    "linspace(0, 1, k)": 2**60,
    "arange(k)": 2**60,
    "arange(0, k, 3)": 2**63 - 1,
    "[x[0] for i in range(k)]": 2**60,
    "[[x[0] for i in range(k)] for j in range(k)]": 2**32,
    "[x[0] for i in range(-k, k)]": 2**62,
    "[x[0] for i in range(-(2**62) - 1, 2**62)]": 0,
}


@pytest.mark.slow_when(lambda backend, made: backend == "cpu" and "k" not in made[:9])
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("made", TOO_LONG)
def test_a_length_that_cannot_be(made: str, backend: str) -> None:
    """It is refused at once, and not taken modulo 2**64, or for a loop of years."""
    f = adc.compile(f"def f(x, k: i64):\n    return sum({made}) * x[0]", backend=backend)
    for call in (f, adc.grad(f, "x")):
        with pytest.raises(adc.LimitError, match="more memory than available"):
            call(X, TOO_LONG[made])


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_a_computed_length_that_cannot_be(backend: str) -> None:
    f = adc.compile("def f(x, k: i64[m]):\n    return sum(zeros(k[0]) + 1) * x[0]", backend=backend)
    assert f(X + 1, np.array([3])) == 3.0
    with pytest.raises(adc.ShapeError, match="more memory than available"):
        f(X, np.array([2**60]))


def test_where_a_length_cannot_be() -> None:
    f = adc.compile("def f(x, k: i64):\n    y = x * 2\n    return sum(repeat(y, k))", backend="numpy")
    with pytest.raises(adc.LimitError, match="55,340,232,221,128,654,848 elements take") as found:
        f(X, 2**62)
    assert (found.value.line, found.value.column) == (3, 12)


@pytest.mark.parametrize("bounds", [
    (0, 2**63 - 1, 2**63 - 1), (2**63 - 1, -2, -(2**63 - 1)), (-(2**62), 2**62, 2**61), (5, 2, 2**62),
])  # fmt: skip
def test_ranges_of_long_steps(bounds: tuple[int, int, int]) -> None:
    """Few elements far apart, as Python has them."""
    text = ", ".join(map(str, bounds))
    f = adc.compile(f"def f(x):\n    return sum([x[1] for i in range({text})])", backend="numpy")
    assert f(X) == pytest.approx(len(range(*bounds)) / 7)
    start, stop, step = bounds
    g = adc.compile(f"def g(x, k: i64):\n    return sum([x[1] for i in range({start}, k, {step})])")
    assert stop < 0 or g(X, stop) == pytest.approx(len(range(*bounds)) / 7)
    h = adc.compile(f"def h(x):\n    return sum(x[:: {abs(step)}])", backend="numpy")
    assert h(X + 1) == 1.0
