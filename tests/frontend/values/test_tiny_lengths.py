"""Moved elements at lengths 0, 1 and 2: an axis that has length 1 only after joining, cutting or shifting is
an axis of length 1, in values and derivatives."""

import random

import numpy as np
import pytest
from oracle import evaluate, gradient

import adcompiler as adc

SLICES = ["1:", ":1", ":-1", "-1:", "::-1", "::2", "1::2", "1:2", ":0", "-2:", ":"]
MOVES = [
    "roll({0}, 1)", "roll({0}, -1)", "flip({0})", "tile({0}, 2)", "repeat({0}, 2)", "pad({0}, (1, 0))",
    "pad({0}[:1], (0, 1))[1:]", "concatenate(({0}, {1}))", "concatenate(({0}, {1}, {2}))",
    "hstack(({0}, {1}))", "reshape({0}, (-1, 1))[:, 0]", "reshape({0}, (1, -1))[0]",
    "vstack(({0}, {0})).T.ravel()", "2 * {0}", "concatenate((diff({0}), {1}))", "cumsum({0})",
    "[v * v for v in {0}]",
    "diag({0})[:1].ravel()", "stored({0}, {1})",
]  # fmt: skip
PROGRAM = """
def stored(a, b):
    c = 1.0 * concatenate((a, b))
    c[:1] = 2 * c[:1]
    c[1:] += 1.0
    c[::-1] = c * c
    return c

def f(x, y):
    e = {}
    return {}
"""
ENDS = ["sum(e)", "sum(e * e)", "sum(e[1:] * e[:-1])", "sum(e**2 * arange(len(e), 0, -1))"]


def vector(source: random.Random, depth: int) -> str:
    """A random text of a vector made of x and y by moving elements."""
    if not depth or source.random() < 0.1:
        name = source.choice("xy")
        return name if source.random() < 0.3 else f"{name}[{source.choice(SLICES)}]"
    parts = [vector(source, depth - 1 - source.randrange(2) if depth > 1 else 0) for _ in range(3)]
    text = source.choice(MOVES).format(*parts)
    return text if source.random() < 0.6 else f"({text})[{source.choice(SLICES)}]"


def agrees(source: str, x: np.ndarray, y: np.ndarray, backend: str) -> None:
    """The value and the gradient of a program are those of the oracle."""
    f = adc.compile(source, backend=backend)
    np.testing.assert_allclose(f(x, y), evaluate(source, x, y, name="f"), rtol=1e-12, err_msg=source)
    for found, expected in zip(adc.grad(f)(x, y), gradient(source, (x, y), name="f"), strict=True):
        found = np.zeros_like(expected) if found is None else found
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=source)


LENGTHS = [(n, m) for n in range(3) for m in range(3)]


@pytest.mark.slow_when(lambda seed: seed > 9)
@pytest.mark.parametrize("seed", range(250))
def test_moved_elements_are_numpys(seed):
    choose = random.Random(seed)
    source = PROGRAM.format(vector(choose, 2), choose.choice(ENDS))
    for n, m in LENGTHS:
        agrees(source, np.arange(n) + 1.5, np.arange(m) - 3.25, "numpy")


JOINED = [
    "sum(concatenate((y[1:], x[:1])))", "sum(concatenate((x[1:], y[:1]))**2)",
    "sum(hstack((x[:-1], y[1:], x[:1])))",
    "concatenate((y[1:], x[:1])) @ concatenate((x[1:], y[:1]))", "max(concatenate((y[1:], x[:1])))",
]  # fmt: skip


@pytest.mark.parametrize("source", JOINED)
def test_what_has_length_1_only_when_joined_is_an_axis_of_length_1(source):
    for n, m in [(1, 1), (2, 2)]:
        agrees(f"def f(x, y):\n    return {source}", np.arange(n) + 1.5, np.arange(m) - 3.25, "cpu")


@pytest.mark.parametrize("empty", ["x[1:, 1:]", "x[1:]", "x[2:, 2:]", "x[:, 1:]", "x[::2, 3:]"])
@pytest.mark.parametrize("form", ["ravel({})", "reshape({}, -1)", "reshape({}, (1, -1))[0]", "repeat({}, 2)"])
def test_reshaping_what_a_slice_left_empty_leaves_nothing(form, empty):
    source = f"def f(x, y):\n    return concatenate((y, {form.format(empty)}))"
    f = adc.compile(source, backend="numpy")
    for n, m in [(0, 0), (0, 2), (1, 0), (3, 1), (2, 3)]:
        x, y = np.arange(1.0 + n * m)[1:].reshape(n, m), np.array([5.0, 6.0])
        np.testing.assert_array_equal(f(x, y), evaluate(source, x, y))
