"""Lengths in annotations: names, numbers, sums and products of them, and the constants of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judges.compared import has_oracles_value
from programs import Program

import adcompiler as adc

X = np.array([1.5, 2.0, 4.0])


def z(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(float(np.prod(shape))).reshape(shape) + 0.5


PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a sum": ("x: f64[n], y: f64[n + 1]", "(y[1:] - y[:-1]) * x * n", (X, z(4))),
    "a sum alone": ("y: f64[n + 1]", "sum(y[i] * y[i + 1] for i in range(n)) / n", (z(4),)),
    "a product": ("y: f64[2 * n, m]", "(y[:n] - y[n:]) * m", (z(4, 2),)),
    "a product of names": ("y: f64[n * m], x: f64[n]", "y.reshape(n, m).T * x * m", (z(6), X[:2])),
    "a difference": ("y: f64[n - 1], x: f64[n]", "n * y * x[1:]", (z(2), X)),
    "from what is taken away": ("y: f64[7 - n]", "n * y", (z(4),)),
    "both": ("y: f64[(n + 1) * 3]", "n * y", (z(9),)),
    "checked": ("x: f64[n], b: f64[m], c: f64[n + m]", "x * sum(b) * sum(c) * n * m", (X, z(2), z(5))),
    "one after the other": ("x: f64[n + m], y: f64[2 * m]", "n * m * sum(x) * y", (z(5), z(4))),
    "halves": ("x: f64[n], y: f64[n // 2]", "sum(x) * y * n", (X, z(1))),
    "any": ("x: f64[:, n], y: f64[:], k: np.int64, a: Optional[float]", "x[k] * sum(y) * n * a",
            (z(2, 3), z(4), 1, 2.0)),
    "length 1": ("y: f64[n + 1]", "y * 2 + n", (z(1),)),
}  # fmt: skip


def written(parameters: str, body: str) -> str:
    return f"def f({parameters}):\n    return {body}"


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name: str) -> None:
    parameters, body, args = PROGRAMS[name]
    text = written(parameters, body)
    has_oracles_value(Program(text, args), "cpu")
    assert adc.check_grad(adc.compile(text, backend="numpy"), *args, order=2) < 1e-7


def test_every_definition_has_names_of_its_own() -> None:
    f = adc.compile(
        "def g(x: f64[n + 1]):\n    return x[1:] * n\n\n"
        "def f(x: f64[n + 2], y: f64[n]):\n    return g(x) * sum(g(x[:n])) * n, g(y)"
    )
    x = z(6)
    np.testing.assert_array_equal(f(x, z(4))[0], x[1:] * 5 * sum(x[1:4] * 3) * 4)
    np.testing.assert_array_equal(f(x, z(4))[1], z(4)[1:] * 3)


def test_a_constant_of_the_text_is_that_length_in_all_its_definitions() -> None:
    text = "D = 3\n\ndef g(w: f64[D]):\n    return sum(w)\n\n"
    f = adc.compile(text + "def f(x: f64[n, D], y: f64[D + 1]):\n    return x @ y[1:] * g(y[:D]) * n * D")
    np.testing.assert_array_equal(f(z(2, 3), z(4)), z(2, 3) @ z(4)[1:] * sum(z(4)[:3]) * 6)
    with pytest.raises(adc.ShapeError, match="axis 1 of x, annotated D: the lengths 3 and 2"):
        f(z(2, 2), z(4))


def test_lengths_in_other_modes() -> None:
    f = adc.compile(written("x: f64[n], y: f64[n + 1]", "sum(y[1:] * x) * n"))
    np.testing.assert_array_equal(adc.vmap(f)(z(2, 3), z(2, 4)), [f(z(2, 3)[k], z(2, 4)[k]) for k in (0, 1)])
    with pytest.raises(adc.ShapeError, match="annotated n \\+ 1"):
        adc.vmap(f)(z(2, 3), z(2, 3))
    with pytest.raises(adc.ShapeError, match="annotated n \\+ 1"):
        adc.grad(f, "x")(z(3), z(3))

    @adc.function
    def g(x: f64[n], y: f64[2 * n]):  # noqa: F821
        return sum(x) * sum(y) / n  # noqa: F821

    assert g(np.ones(2), np.ones(4)) == 4


KIND = "a name, a number, or a sum or product"
REFUSED: dict[str, tuple[str, tuple[Any, ...], str, str]] = {
    "too short": (
        "x: f64[n], y: f64[»n + 1]",
        (X, X),
        "y, annotated n + 1: the lengths 4 and 3",
        "(3,)",
    ),
    "odd": ("y: f64[»2 * n]", (z(5),), "annotated 2 * n: the lengths 4 and 5", "y: (5,)"),
    "below zero": ("y: f64[»n + 1]", (z(0),), "annotated n + 1: n of -1", "lengths must be 0 or more"),
    "one": ("x: f64[n], y: f64[»n + 1]", (X, z(1)), "annotated n + 1: the lengths 4 and 1", "(1,)"),
    "two unknown": ("y: f64[»n * m]", (z(6),), "n and m cannot follow", "alone on another axis"),
    "a square": ("y: f64[»n * n]", (z(9),), "n cannot follow from", "alone on another axis"),
    "a half": ("y: f64[»n // 2]", (z(9),), "n cannot follow from", "alone on another axis"),
    "a quotient": ("y: f64[»n / 2]", (z(9),), KIND, "f64[n + 1, 2 * m]"),
    "a function": ("y: f64[»sin(n)]", (z(9),), KIND, "f64[n + 1, 2 * m]"),
    "a negative number": (
        "y: f64[»-1]",
        (z(9),),
        "a name, a number, or a sum or product",
        "f64[n + 1, 2 * m]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    parameters, args, cause, remedy = REFUSED[name]
    with pytest.raises(adc.Error) as caught:
        adc.compile(written(parameters.replace("»", ""), "0.0"))(*args)
    assert cause in caught.value.cause
    assert remedy in (caught.value.remedy or "")
    assert (caught.value.line, caught.value.column) == (1, len("def f(") + parameters.index("»") + 1)


FOUR_GATES = """
def f(x: f64[t, d], W: f64[d, 4 * h], U: f64[h, 4 * h], b: f64[4 * h]):
    s = zeros(h)
    c = zeros(h)
    for k in range(t):
        z = x[k] @ W + s @ U + b
        c = sin(z[h : 2 * h]) * c + sin(z[:h]) * tanh(z[2 * h : 3 * h])
        s = cos(z[3 * h :]) * tanh(c)
    return sum(s**2)
"""


@pytest.mark.parametrize("h", [0, 1, 2, 3])
def test_an_axis_has_the_length_of_its_annotation(h: int) -> None:
    """Slices by multiples of this length are inside, so that nothing is compared in the kernel."""
    rng = np.random.default_rng(h)
    args = [rng.normal(size=shape) for shape in ((2, 3), (3, 4 * h), (h, 4 * h), 4 * h)]
    f, slow = adc.compile(FOUR_GATES), adc.compile(FOUR_GATES, backend="numpy")
    np.testing.assert_allclose(f(*args), slow(*args), rtol=1e-12)
    adc.check_grad(f, *args, order=2)
    if h > 1:
        assert "minimum(" not in f.show("ir")
        assert "4 * h" in f.show("ir")
        with pytest.raises(adc.ShapeError, match=rf"annotated 4 \* h: the lengths {4 * h} and {4 * h - 1}"):
            f(*args[:3], args[3][1:])
