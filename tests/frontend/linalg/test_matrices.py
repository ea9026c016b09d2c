"""Matrices by their indices, and running totals, against NumPy; derivatives by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

RANDOM = np.random.default_rng(5)
V, W = RANDOM.normal(size=5), RANDOM.normal(size=3)
M, N = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(3, 4))
C = RANDOM.uniform(0.5, 2.0, size=(3, 4, 2))
VALUES = {"v": V, "w": W, "m": M, "n": N, "c": C}

SOURCES = [
    "trace(m)",
    "diag(v)",
    "diag(v, 2)",
    "diag(v, -1)",
    "diag(m)",
    "diag(n, 1)",
    "diag(m, k=-2)",
    "diag(m, -7)",
    "np.diagonal(m)",
    "tril(m)",
    "triu(m, 1)",
    "tril(c, k=-1)",
    "eye(len(v)) * v",
    "eye(3, 4, 1) @ m",
    "identity(4) @ m",
    "outer(v, w)",
    "outer(m, v)",
    "inner(v, v)",
    "inner(m, m)",
    "inner(m, w)",
    "inner(n, c[:, :, 0])",
    "vdot(m, m)",
    "kron(m, n)",
    "kron(v, m)",
    "kron(c, v)",
    "tensordot(c, n.T, ((1,), (0,)))",
    "tensordot(m, c, axes=((0, 1), (1, 0)))",
    "tensordot(m, n, 1)",
    "tensordot(v, w, 0)",
    "tensordot(m, n, axes=[[-1], [0]])",
    "np.tensordot(m, c, axes=[(0, -1), [-2, 0]])",
    "tensordot(m, n, [-1, 0])",
    "tensordot(m, m, [[-1, -2], [-1, -2]])",
    "tensordot(v, w, axes=[[], []])",
    *(f"{name}(c, axis={axis})" for name in ("cumsum", "cumprod") for axis in (0, 1, -1)),
    "cumsum(m)",
    "cumsum(v)",
    "cumprod(v)",
    "cumsum(v * v)[::2] * 3",
    "cumsum(c[:, :1, :], axis=1)",
]


def arguments(source):
    f = adc.compile(source)
    return [VALUES[p.name] for p in f._parameters]


def numpy_value(source):
    return eval(source.replace("np.", ""), {n: getattr(np, n) for n in dir(np)} | VALUES)


def same(found, expected):
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("source", SOURCES)
def test_a_function_means_what_it_means_in_numpy(source):
    f = adc.compile(source, backend="numpy")
    same(f(*arguments(source)), numpy_value(source))
    assert np.asarray(f(*(a.astype(np.float32) for a in arguments(source)))).dtype == np.float32
    adc.check_grad(f, *arguments(source), order=2)


def test_kernels_give_the_same():
    """Some of them as one program, and the gradient of the sum of their squares."""
    listed = ["diag(v, -1)", "tril(c, k=-1)", "kron(m, n)", "cumsum(c, axis=1)", "cumprod(c, axis=-1)"]
    lines = [f"    r{k} = {source}" for k, source in enumerate(listed)]
    total = " + ".join(f"sum(r{k}**2)" for k in range(len(listed)))
    text = "\n".join(["def f(v, w, m, n, c):", *lines, f"    return {total}"])
    found, expected = (
        adc.value_and_grad(adc.compile(text, backend=b))(*VALUES.values()) for b in ("cpu", "numpy")
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("name", "of"), [("cummax", np.maximum), ("cummin", np.minimum)])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_running_extrema(name, of, backend):
    f = adc.compile(f"{name}(x, axis=1)", backend=backend)
    same(f(C), of.accumulate(C, axis=1))
    adc.check_grad(adc.compile(f"{name}(x, axis=1)", backend="numpy"), C)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_integers_and_nothing_at_all(backend):
    counted = adc.compile("cumsum(x > 0), cumsum(k), cummax(k)", backend=backend)
    k = np.array([3, 1, 4, 1, 5])
    for found, expected in zip(
        counted(V, k), (np.cumsum(V > 0), np.cumsum(k), np.maximum.accumulate(k)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64
    assert adc.compile("cumsum(x)", backend=backend)(np.zeros(0)).shape == (0,)


def test_the_derivative_of_a_running_product_is_right_at_zero():
    x = np.array([2.0, 0.0, 3.0])
    g = adc.grad(adc.compile("sum(cumprod(x))", backend="numpy"))(x)
    np.testing.assert_allclose(g, [1.0, 2.0 * (1 + 3.0), 0.0])


def test_running_totals_inside_a_comprehension():
    f = adc.compile("def f(x):\n    return [cumsum(x[i] * x[i, 0]) for i in range(len(x))]", backend="numpy")
    same(f(M), np.cumsum(M * M[:, :1], axis=1))
    adc.check_grad(f, M, order=2)


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("diag(c)", "diag takes a vector or a matrix"),
        ("trace(v)", "takes a matrix"),
        ("tensordot(m, n, 5)", "tensordot over 5 axes"),
        ("tensordot(m, n, ((0,), (0, 1)))", "unequal numbers of axes"),
        ("tensordot(m, n, [1])", "tensordot over"),
        ("inner(m, n)", "the axis"),
    ],
)
def test_mistakes_are_named(source, cause):
    with pytest.raises(adc.ShapeError, match=cause):
        adc.compile(source, backend="numpy")(*arguments(source))


@pytest.mark.parametrize(
    ("axes", "kind", "cause"),
    [
        ("[[2], [0]]", adc.OutOfRangeError, "axis 2 is out of range"),
        ("[[0, 0], [0, 1]]", adc.OutOfRangeError, "an axis is given twice"),
        ("[[0.5], [0]]", adc.ParseError, "integers known at compile time"),
        ("[[sum(m)], [0]]", adc.ParseError, "integers known at compile time"),
    ],
)
def test_axes_that_are_none(axes, kind, cause):
    with pytest.raises(kind, match=cause):
        adc.compile(f"tensordot(m, n, {axes})", backend="numpy")(M, M.T)
