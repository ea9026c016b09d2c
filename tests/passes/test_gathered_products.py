"""Products of rows that are gathered or added up at computed places: lengths make them products over rows."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.cpu.kernels import Rows

LAYER = """
def layer(x: f64[n, d], a: i64[e], b: i64[e], w: f64[e], W: f64[d, h], V: f64[h, c]):
    m = maximum(w[:, None] * (x[a] @ W), 0.1 * x[b] @ W)
    y = segment_sum(m @ V, b, n)
    return sum(y * y / (1.0 + abs(x[:, :1])))
"""
ROUNDS = """
def rounds(x: f64[n, d], a: i64[e], b: i64[e], w: f64[e], W: f64[d, h], V: f64[h, d]):
    for _ in range(3):
        m = tanh(x[a] @ W + x[b] @ W * 0.5) @ V
        x = x + 0.1 * segment_sum(m * w[:, None], b, n)
    return sum(x * x)
"""
CHOSEN = """
def chosen(x: f64[n, d], a: i64[e], b: i64[e], w: f64[e], W: f64[d, h], V: f64[h, c]):
    y = zeros((n, c))
    if w[0] < 100.0:
        z = sin(x[a] @ W)
        for k in range(e):
            if w[k] > 0.0:
                y[b[k]] += (z @ V)[k]
    return sum(y**3) + sum(x)
"""
SOURCES = {"layer": (LAYER, 5), "rounds": (ROUNDS, 6), "chosen": (CHOSEN, 7)}
BACKENDS = ("cpu", "numpy")
FEW, NO_PLACES, NO_ROWS = (40, 7, 6, 8), (0, 3, 6, 8), (0, 0, 6, 8)


def arguments(
    edges: int, nodes: int, d: int, h: int, c: int, dtype: str = "float64"
) -> tuple[np.ndarray, ...]:
    """Edges end at all nodes but the last, and some places count from the end."""
    random = np.random.default_rng(edges)
    x, w, W, V = ((random.normal(size=s) / 2).astype(dtype) for s in ((nodes, d), (edges,), (d, h), (h, c)))
    a, b = (random.integers(0, max(nodes - 1, 1), edges) for _ in range(2))
    a[::3] -= nodes
    return x, a, b, w, W, V


def of(name: str, lengths: tuple[int, ...], dtype: str = "float64") -> tuple[str, tuple[np.ndarray, ...]]:
    """A program and its arguments."""
    source, c = SOURCES[name]
    edges, nodes, d, h = lengths
    args = arguments(edges, nodes, d, h, d if name == "rounds" else c, dtype)
    if name == "chosen" and not edges:  # it reads w[0]
        args = arguments(1, max(nodes, 1), d, h, c, dtype)
    return source.replace("f64", "f32") if dtype == "float32" else source, args


def rows(f: adc.Function, *args: np.ndarray) -> Rows:
    """The choices about products of gathered rows in a call."""
    f(*args)
    bound = f._bind(args)
    return bound.program.executable.select(bound.sizes).rows


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SOURCES)
def test_derivatives_are_those_of_the_reference(name: str, dtype: str) -> None:
    source, _ = of(name, FEW, dtype)
    ours, plain = (adc.compile(source, backend=backend) for backend in ("cpu", "numpy"))
    wrt = ("x", "w", "W", "V")
    for lengths in (FEW, NO_PLACES, NO_ROWS):
        _, args = of(name, lengths, dtype)
        directions = (*(np.ones_like(args[k]) for k in (0, 3, 4, 5)),)
        found, expected = (
            [*adc.value_and_grad(f, wrt)(*args)[1], f(*args), *adc.hvp(f, wrt)(args, directions)]
            for f in (ours, plain)
        )
        for one, other in zip(found, expected, strict=True):
            rtol, atol = (2e-3, 1e-3) if dtype == "float32" else (1e-9, 1e-11)
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
    assert any(rows(ours, *of(name, FEW, dtype)[1]))


@pytest.mark.parametrize("name", SOURCES)
def test_they_agree_with_finite_differences(name: str) -> None:
    source, args = of(name, FEW)
    adc.check_grad(adc.compile(source), *args)


def test_lengths_choose() -> None:
    f = adc.compile(ROUNDS)
    assert any(rows(f, *of("rounds", (40, 7, 6, 8))[1]))
    assert not any(rows(f, *of("rounds", (40, 39, 6, 8))[1]))  # a row for each place
    assert not any(rows(f, *of("rounds", (7, 40, 6, 8))[1]))  # few of many rows are gathered


def test_rows_that_no_place_needs_may_be_infinite() -> None:
    for name in SOURCES:
        source, args = of(name, FEW)
        args[0][-1, :3] = np.nan, np.inf, -np.inf
        args[1][:] %= 6
        found, expected = (
            adc.grad(adc.compile(source, backend=b), ("x", "w", "W", "V"))(*args) for b in BACKENDS
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
        assert all(np.isfinite(a).all() for a in found[1:])


def test_a_row_that_nothing_is_added_to_is_zero() -> None:
    """It is not multiplied by infinity."""
    source, args = of("layer", FEW)
    args[5][0, 0] = np.inf
    f = adc.compile(source.replace("sum(y * y / (1.0 + abs(x[:, :1])))", "y[n - 1]"))
    assert any(rows(f, *args))
    np.testing.assert_array_equal(f(*args), np.zeros(5))


def test_places_out_of_range_raise_the_same_error() -> None:
    for name in SOURCES:
        source, args = of(name, FEW)
        for k in (1, 2):
            wrong = [*args]
            wrong[k] = args[k].copy()
            wrong[k][3] = 7
            messages = []
            for backend in ("cpu", "numpy"):
                for f in (derive(adc.compile(source, backend=backend)) for derive in (lambda f: f, adc.grad)):
                    with pytest.raises(adc.OutOfRangeError) as raised:
                        f(*wrong)
                    messages.append(str(raised.value))
            assert len({*messages[::2]}) == len({*messages[1::2]}) == 1
