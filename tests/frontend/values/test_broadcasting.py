"""Broadcasting: NumPy's rule for values, sums over exactly the broadcast axes for gradients."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adcompiler as adc

# Ranks 0 to 3, each axis full, 1 or empty.
SHAPES: list[tuple[int, ...]] = [
    *[(), (1,), (3,), (0,), (1, 1), (1, 3), (2, 1), (2, 3), (0, 3), (2, 0), (1, 0), (0, 1)],
    *[(1, 1, 1), (4, 1, 1), (1, 2, 1), (1, 1, 3), (4, 2, 1), (4, 1, 3), (1, 2, 3), (4, 2, 3)],
    *[(0, 2, 3), (4, 0, 3), (4, 2, 0), (5,), (5, 3), (4, 5, 3)],
]
RANDOM = np.random.default_rng(11)

multiply = adc.compile("x * y", backend="numpy")


def array(shape: tuple[int, ...]) -> np.ndarray:
    return RANDOM.uniform(1, 2, shape)


def fits(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def summed_to(shape: tuple[int, ...], value: np.ndarray) -> np.ndarray:
    """The sum over exactly the axes along which `shape` was repeated."""
    leading = value.ndim - len(shape)
    repeated = [k + leading for k, n in enumerate(shape) if n == 1 and value.shape[k + leading] != 1]
    return value.sum((*range(leading), *repeated)).reshape(shape)


def partners(shape: tuple[int, ...], fitting: bool) -> list[tuple[int, ...]]:
    return [other for other in SHAPES if fits(shape, other) == fitting]


def test_there_are_many_pairs() -> None:
    assert sum(len(partners(shape, True)) for shape in SHAPES) > 200
    assert sum(len(partners(shape, False)) for shape in SHAPES) > 200


@pytest.mark.thinned(6)
@pytest.mark.parametrize("first", SHAPES, ids=str)
def test_values_and_gradients(first: tuple[int, ...]) -> None:
    for second in partners(first, True):
        x, y = array(first), array(second)
        value, pullback = adc.vjp(multiply, x, y)
        assert np.shape(value) == np.broadcast_shapes(first, second)
        np.testing.assert_array_equal(value, x * y)
        cotangent = array(np.shape(value))
        dx, dy = pullback(cotangent)
        assert (np.shape(dx), np.shape(dy)) == (first, second)
        np.testing.assert_allclose(dx, summed_to(first, cotangent * y), rtol=1e-13)
        np.testing.assert_allclose(dy, summed_to(second, cotangent * x), rtol=1e-13)


@pytest.mark.parametrize("first", [s for s in SHAPES if partners(s, False)], ids=str)
def test_errors_name_the_operands_and_their_place(first: tuple[int, ...]) -> None:
    for second in partners(first, False):
        with pytest.raises(adc.ShapeError) as caught:
            multiply(array(first), array(second))
        error = caught.value
        assert (error.line, error.column) == (1, 1)
        assert error.cause.startswith("multiply: axis -")
        assert " of x)" in error.cause
        assert " of y)" in error.cause
        assert f"x: {first}, y: {second}" in (error.remedy or "")


def test_an_error_stands_where_the_operation_stands() -> None:
    f = adc.compile("def f(a, b, c):\n    t = a + b\n    return t * c", backend="numpy")
    with pytest.raises(adc.ShapeError, match=r"3 \(axis 0 of a\) and 4 \(axis 1 of c\)") as caught:
        f(np.ones(3), np.ones(3), np.ones((2, 4)))
    assert (caught.value.line, caught.value.column) == (3, 12)


@given(st.lists(st.sampled_from(SHAPES), min_size=3, max_size=3))
def test_three_operands(shapes: list[tuple[int, ...]]) -> None:
    """`where` of a comparison: the guard broadcasts as well, and the branches share the cotangent."""
    f = adc.compile("where(c > 1.5, x * c, y)", backend="numpy")
    c, x, y = map(array, shapes)
    if not fits(*shapes):
        with pytest.raises(adc.ShapeError):
            f(c, x, y)
        return
    value, pullback = adc.vjp(f, c, x, y)
    np.testing.assert_array_equal(value, np.where(c > 1.5, x * c, y))
    cotangent = array(np.shape(value))
    expected = [np.where(c > 1.5, d * cotangent, 0) for d in (x, c)] + [np.where(c > 1.5, 0, cotangent)]
    for gradient, wanted, shape in zip(pullback(cotangent), expected, shapes, strict=True):
        np.testing.assert_allclose(gradient, summed_to(shape, wanted), rtol=1e-13)


@pytest.mark.parametrize(
    ("first", "second"),
    [((4, 2, 3), (2, 1)), ((4, 1, 3), (2, 1)), ((0, 3), (3,)), ((), (4, 2, 3)), ((1,), (1, 1))],
)
def test_compiled(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    f = adc.compile("x * y")
    x, y = array(first), array(second)
    value, pullback = adc.vjp(f, x, y)
    np.testing.assert_array_equal(value, x * y)
    cotangent = array(np.shape(value))
    for gradient, other, shape in zip(pullback(cotangent), (y, x), (first, second), strict=True):
        np.testing.assert_allclose(gradient, summed_to(shape, cotangent * other), rtol=1e-13)


# ---- What is compiled anew ----


def kernels(f: adc.Function) -> int:
    return len(f._programs)


def test_another_length_is_no_other_program() -> None:
    f = adc.compile("sum(x * y)", backend="numpy")
    for n, m in [(2, 3), (5, 3), (100, 7), (0, 3), (4, 0)]:
        x, y = array((n, m)), array((m,))
        np.testing.assert_allclose(f(x, y), np.sum(x * y), rtol=1e-13)
    assert kernels(f) == 1


def test_an_axis_of_length_one_is() -> None:
    f = adc.compile("sum(x * y)", backend="numpy")
    for n, m in [(2, 3), (1, 3), (2, 1), (7, 3)]:
        f(array((n, m)), array((2, 3)) if n == 2 else array((n, 3)))
    assert kernels(f) == 3


def test_lengths_that_fitted_once_are_checked_again() -> None:
    f = adc.compile("x * y", backend="numpy")
    f(array((3,)), array((3,)))
    with pytest.raises(adc.ShapeError, match=r"4 \(axis 0 of x\) and 3 \(axis 0 of y\)"):
        f(array((4,)), array((3,)))


# ---- Strict broadcasting ----

STRICT = adc.compile("x * y", broadcasting="strict", backend="numpy")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_strict_takes_identical_shapes(shape: tuple[int, ...]) -> None:
    x, y = array(shape), array(shape)
    np.testing.assert_array_equal(STRICT(x, y), x * y)


@pytest.mark.parametrize("scalar", [2.0, np.float64(2), np.array(2.0)])
@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 2, 3)], ids=str)
def test_strict_takes_scalars(scalar: Any, shape: tuple[int, ...]) -> None:
    x = array(shape)
    np.testing.assert_array_equal(STRICT(x, scalar), 2 * x)
    np.testing.assert_array_equal(STRICT(scalar, x), 2 * x)


@pytest.mark.parametrize("first", [s for s in SHAPES if s], ids=str)
def test_strict_refuses_the_rest(first: tuple[int, ...]) -> None:
    for second in partners(first, True):
        if second in ((), first):
            continue
        with pytest.raises(adc.ShapeError, match="strict") as caught:
            STRICT(array(first), array(second))
        error = caught.value
        assert (error.line, error.column) == (1, 1)
        assert "reshape" in (error.remedy or "")
        assert re.search(r"\bx\b.*\by\b", error.cause)


def test_strict_names_the_arguments_and_their_shapes() -> None:
    f = adc.compile("def f(a, b, c):\n    return a * b + c", broadcasting="strict", backend="numpy")
    for g in (f, adc.vmap(f, (None, None, 0))._of, adc.jacobian(f)):
        with pytest.raises(adc.ShapeError, match=r"a has \(4, 1\), c has \(4, 3\)") as caught:
            g(np.ones((4, 1)), 2.0, np.ones((4, 3)))
        assert (caught.value.line, caught.value.column) == (1, 1)
    with pytest.raises(adc.ShapeError, match=r"a has \(3,\), b has \(4,\)"):
        adc.vjp(f, np.ones(3), np.ones(4), 1.0)
    with pytest.raises(adc.ShapeError, match=r"a has \(3,\), b has \(4,\)"):
        f.backward(adc.DiffPair(np.ones(3)), np.ones(4), 1.0, np.ones(3))
    with pytest.raises(adc.ShapeError, match=r"a has \(3,\), b has \(4,\)"):
        f(adc.Variable(np.ones(3)), np.ones(4), 1.0)


def test_strict_binds_calls_and_not_the_inside_of_functions() -> None:
    """A function broadcasts as it likes; annotated arrays, structs and constants inside are no batches."""
    source = (
        "def f(a, b, w: f64[n], p):\n    m = a[:, None] * w[None, :]\n    return sum(m) + sum(b) * p['k'][0]"
    )
    f = adc.compile(source, broadcasting="strict", backend="numpy")
    a, w, p = array((3,)), array((5,)), {"k": array((2,))}
    value, pullback = adc.vjp(f, a, a, w, p)
    np.testing.assert_allclose(value, a.sum() * w.sum() + a.sum() * p["k"][0])
    np.testing.assert_allclose(pullback(1.0)[2], np.full(5, a.sum()))
    with pytest.raises(adc.ShapeError, match=r"a has \(3,\), b has \(4,\)"):
        f(a, array((4,)), w, p)


def test_strict_checks_each_call() -> None:
    f = adc.compile("x * y", broadcasting="strict")
    for n in (3, 3, 0, 1):
        assert len(f(array((n,)), array((n,)))) == n
    with pytest.raises(adc.ShapeError, match=r"x has \(3,\), y has \(1,\)"):
        f(array((3,)), array((1,)))


# ---- Annotated sizes ----


def test_an_annotated_size_is_one_length() -> None:
    f = adc.compile("def f(x: f64[n], y: f64[n, m]):\n    return sum(x) * sum(y)", backend="numpy")
    with pytest.raises(
        adc.ShapeError, match=r"annotated n: .* 3 \(axis 0 of x\) and 4 \(axis 0 of y\)"
    ) as caught:
        f(np.ones(3), np.ones((4, 2)))
    assert (caught.value.line, caught.value.column) == (1, 25)


def test_annotations_do_not_broadcast() -> None:
    f = adc.compile("def f(x: f64[n], y: f64[n]):\n    return sum(x) * sum(y)", backend="numpy")
    with pytest.raises(adc.ShapeError, match=r"annotated n") as caught:
        f(np.ones(3), np.ones(1))
    assert "equal or 1" not in str(caught.value)


def test_lowering_names_operands() -> None:
    f = adc.compile("def f(x: f64[3], y: f64[4]):\n    return x * y", backend="numpy")
    with pytest.raises(adc.ShapeError, match=r"3 \(axis 0 of x\) and 4 \(axis 0 of y\)") as caught:
        f(np.ones(3), np.ones(4))
    assert (caught.value.line, caught.value.column) == (2, 12)


@pytest.mark.parametrize("given", [np.ones(4), np.ones(1), np.ones(0)], ids=len)
def test_an_annotated_number_is_that_length(given: np.ndarray) -> None:
    f = adc.compile("def f(x: f64[3]):\n    return sum(x)", backend="numpy")
    with pytest.raises(adc.ShapeError, match=rf"axis 0 of x, annotated 3: .*\b{len(given)}\b") as caught:
        f(given)
    assert (caught.value.line, caught.value.column) == (1, 14)


@pytest.mark.parametrize(("given", "rank"), [(1.0, 0), (np.ones((3, 3)), 2)])
def test_an_annotated_rank_is_that_rank(given: Any, rank: int) -> None:
    f = adc.compile("def f(x: f64[3]):\n    return sum(x)", backend="numpy")
    with pytest.raises(adc.ShapeError, match=f"x has rank {rank}, but its annotation has rank 1"):
        f(given)


def test_slices_of_equal_length_make_their_axes_equal():
    """x[1:] and y[:-1] have one length, so x and y have, unless both slices are empty."""
    f = adc.compile("def f(x, y):\n    return sum((x[1:] * y[:-1])**2) + sum(x) + sum(y)")
    f(np.ones(4), np.ones(4))
    assert "%x: f64[n], %y: f64[n]" in f.show("ir")
    for x, y in ((4, 4), (2, 2), (0, 0), (0, 1), (1, 0), (1, 1)):
        a, b = np.arange(1.0, x + 1), np.arange(2.0, y + 2)
        assert f(a, b) == np.sum((a[1:] * b[:-1]) ** 2) + np.sum(a) + np.sum(b)
    with pytest.raises(adc.ShapeError, match="the lengths 2 and 4 differ"):
        f(np.zeros(3), np.zeros(5))


def test_numbers_may_be_one_where_axes_are_not():
    f = adc.compile("def f(k: int, l: int):\n    return sum(ones(k)[1:] * ones(l)[:-1]) + k + l")
    assert [f(3, 3), f(1, 0), f(0, 1), f(1, 1)] == [8, 1, 1, 2]


HALVES = "def f(x: f64[n, d], w: f64[m, p]):\n    return sum(x[:, : d // 2] @ w)"


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_a_computed_length_may_be_one(d: int) -> None:
    """An axis of length 1 has no symbol; whether a part of another axis is as long is known in the call."""
    x, w = np.arange(1.0, 1 + 2 * d).reshape(2, d), np.ones((d // 2, 3))
    f = adc.compile(HALVES)
    assert f(x, w) == np.sum(x[:, : d // 2] @ w)
    adc.check_grad(f, x, w, order=2)


def test_a_computed_length_that_differs_from_one_is_refused_in_the_call() -> None:
    with pytest.raises(adc.ShapeError, match="the lengths 2 and 1 differ"):
        adc.compile(HALVES)(np.ones((2, 4)), np.ones((1, 3)))


GATES = """
def f(x: f64[t, g], U: f64[h, g], out: f64[h]):
    s = zeros(h)
    c = zeros(h)
    total = 0.0
    for k in range(t):
        z = x[k] + s @ U
        c = tanh(z[:h]) * c + tanh(z[h : 2 * h])
        s = tanh(z[2 * h :]) * c
        total += (s @ out)**2
    return total
"""


def test_a_length_computed_from_an_axis_that_it_must_equal_is_that_axis():
    """Loops over parts of z and over the state are one: each function is called once."""
    rng = np.random.default_rng(3)
    args = rng.normal(size=(4, 6)), rng.normal(size=(2, 6)), rng.normal(size=2)
    f, slow = adc.compile(GATES), adc.compile(GATES, backend="numpy")
    assert f(*args) == pytest.approx(slow(*args))
    assert f.show("kernel").count("math.exp(") == 3
    adc.check_grad(f, *args, order=2)
    with pytest.raises(adc.ShapeError, match="lengths"):
        f(args[0][:, :5], args[1][:, :5], args[2])
