"""Many cases at once: what a loop over the cases gives, in one program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from judges.compared import totalled
from programs import Program
from programs.loops import loop_programs

import adcompiler as adc

RANDOM = np.random.default_rng(2)
X, W = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=4)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_gradients_for_each_case(backend):
    f = adc.compile("sum(tanh(x * w)) + s", backend=backend)
    each = adc.vmap(adc.grad(f), (0, None, None))
    dx, dw, ds = each(X, W, 2.0)
    for k, x in enumerate(X):
        one = adc.grad(f)(x, W, 2.0)
        np.testing.assert_allclose(dx[k], one[0])
        np.testing.assert_allclose(dw[k], one[1])
    np.testing.assert_array_equal(ds, np.ones(6))


def test_any_axis_may_be_mapped():
    f = adc.compile("a @ x", backend="numpy")
    a = RANDOM.normal(size=(3, 6, 4))
    found = adc.vmap(f, (1, 0))(a, X)
    np.testing.assert_allclose(found, np.einsum("ibj,bj->bi", a, X))
    np.testing.assert_allclose(adc.vmap(f, (-2, 0))(a, X), found)


def test_maps_nest_and_are_differentiated():
    f = adc.compile("sum(x * x) * y", backend="numpy")
    table = adc.vmap(adc.vmap(f, (None, 0)), (0, None))(X, W)
    np.testing.assert_allclose(table, np.sum(X * X, 1)[:, None] * W)
    _, pullback = adc.vjp(adc.vmap(f, (0, None)), X, 2.0)
    np.testing.assert_allclose(pullback(np.ones(6))[0], 4 * X)


def test_one_case_and_no_case():
    f = adc.vmap(adc.compile("sum(x)", backend="numpy"))
    np.testing.assert_array_equal(f(np.ones((1, 3))), [3.0])
    assert f(np.ones((0, 3))).shape == (0,)


TABLES = """
def f(x: f64[n, n], y: f64[n, n]):
    T = zeros((n, n))
    for i in range(1, n):
        for j in range(n):
            T[j, i] += sin(x[i, j])
            T[i, j] -= T[i - 1, j] * y[j, i]
        for j in range(n):
            T[j, i] = sin(T[j - 1, j])
    return sum(T[-1, :] * x[0, :])
"""


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("axes", [(0, None), (None, 0)])
def test_loops_of_which_only_some_results_depend_on_the_case(axes, backend):
    tables = RANDOM.normal(size=(3, 4, 4))
    gradient = adc.grad(adc.compile(TABLES, backend=backend), ("x", "y"))
    found = adc.vmap(gradient, axes)(*(tables if axis == 0 else tables[0] for axis in axes))
    for k in range(3):
        one = gradient(*(tables[k] if axis == 0 else tables[0] for axis in axes))
        for many, single in zip(found, one, strict=True):
            np.testing.assert_allclose(many[k], single, rtol=1e-12)


def maps(program: Program) -> None:
    """One argument at a time has cases: values and gradients are those of a loop over them."""
    program = totalled(program)
    f = adc.compile(program.source, backend="numpy")
    floats = [k for k, a in enumerate(program.args) if np.asarray(a).dtype.kind == "f"]
    gradient = adc.value_and_grad(f, tuple(floats))
    for k in floats:
        cases = [a * c if j == k else a for c in (1.0, 0.75) for j, a in enumerate(program.args)]
        first, second = cases[: len(program.args)], cases[len(program.args) :]
        axes = tuple(0 if j == k else None for j in range(len(program.args)))
        given = [np.stack([first[k], second[k]]) if j == k else a for j, a in enumerate(program.args)]
        try:
            value, slopes = adc.vmap(gradient, axes)(*given)
        except adc.ShapeError:  # a length that differs from case to case
            continue
        for case, args in enumerate((first, second)):
            one, own = gradient(*args)
            np.testing.assert_allclose(value[case], one, rtol=1e-12, atol=1e-12)
            for found, expected in zip(slopes, own, strict=True):
                np.testing.assert_allclose(found[case], expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=2)
@given(loop_programs())
def test_random_loops(program: Program) -> None:
    maps(program)


@pytest.mark.slow
@settings(max_examples=200)
@given(loop_programs())
def test_many_random_loops(program: Program) -> None:
    maps(program)


def test_what_does_not_fit_is_refused():
    f = adc.compile("x * y", backend="numpy")
    with pytest.raises(adc.ShapeError, match=r"vmap: the mapped axes: the lengths 6 .* and 4"):
        adc.vmap(f, 0)(X[:, 0], W)
    with pytest.raises(adc.ShapeError, match="multiply: axis -1 of its operands"):
        adc.vmap(f, (0, None))(X, np.ones(3))
    with pytest.raises(adc.ShapeError, match="does not map any axis"):
        adc.vmap(f, None)(X, W)
    with pytest.raises(adc.ShapeError, match="no axis 0"):
        adc.vmap(f, 0)(X, 1.0)
    with pytest.raises(adc.Error, match="in_axes"):
        adc.vmap(f, (0,))


COUNTED = {
    "a loop": (
        "def f(x, k: i64):\n    t = x\n    for i in range(k):\n        t = sin(t) * x\n    return t",
        "def f(x, k: i64):\n    t, i = x, 0\n    while i < k:\n        t, i = sin(t) * x, i+1\n    return t",
    ),
    "a sum": (
        "def f(x, k: i64):\n    return sum(x**i for i in range(k))",
        "def f(x, k: i64):\n    return sum(x**i for i in range(10) if i < k)",
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_differing_trip_counts_say_what_to_write(name):
    """And what they say is right, with its derivatives."""
    refused, written = map(adc.compile, COUNTED[name])
    x, k = np.array([0.5, 1.5, 2.0]), np.array([0, 3, 5])
    with pytest.raises(adc.ShapeError, match="k is a number of iterations") as caught:
        adc.vmap(refused)(x, k)
    assert "`while i < k:`" in str(caught.value.remedy)
    assert "if i < k" in str(caught.value.remedy)
    for transform in (lambda f: f, lambda f: adc.hessian(f, "x")):
        expected = [transform(refused)(a, int(n)) for a, n in zip(x, k, strict=True)]
        np.testing.assert_allclose(adc.vmap(transform(written))(x, k), expected)


@pytest.mark.parametrize("source", ["[x for i in range(k)]", "sum(zeros(k) + x)", "sum([x] * k)"])
def test_differing_lengths_are_refused(source):
    with pytest.raises(adc.ShapeError, match="k is a number of iterations or a length") as caught:
        adc.vmap(adc.compile(f"def f(x, k: i64):\n    return {source}"))(np.ones(2), np.array([1, 2]))
    assert "in_axes" in str(caught.value.remedy)
