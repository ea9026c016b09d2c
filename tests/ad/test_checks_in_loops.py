# ruff: noqa: F821
"""Checks of values and loops that end when a test says so: a failed check ends them and is raised, whatever
it made of the values, and one that the test makes counts where it is evaluated last."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

X = np.array([0.5, 0.25, 1.5])


@adc.function
def reached(y):
    s = 0.0
    while s < 4.9:
        s = s + y * y
    return s


def added_in_python(x, i, v):
    s = 0.0
    while s < v:
        s = s + x[i] ** 2
    return s


added = adc.function(added_in_python)


def past_the_end_while_true(x: f64[n], k: i64[m], v: f64):
    i = 0
    while x[i] < v:
        i = i + 1
    return i * v + x[0]


def past_the_end_while_false(x: f64[n], k: i64[m], v: f64):
    i = 0
    while x[i] > -v:
        i = i + 1
    return i * v + x[0]


def a_condition_of_two(x: f64[n], k: i64[m], v: f64):
    i, t = 0, 0.0
    while t < 2 and x[k[i]] < v:
        t = t + x[k[i]] ** 2
        i = i + 1
    return t


def a_break(x: f64[n], k: i64[m], v: f64):
    i, t = 0, 0.0
    while True:
        if x[i] > v:
            break
        t = t + x[i] ** 2
        i = i + 1
    return t


def in_the_body(x: f64[n], k: i64[m], v: f64):
    t = 0.0
    while t < v:
        t = t + x[k[0]] ** 2
    return t


def before_the_loop(x: f64[n], k: i64[m], v: f64):
    y = x[k[0]] ** 2
    t = 0.0
    while t < v:
        t = t + y
    return t


def a_length(x: f64[n], k: i64[m], v: f64):
    t = 0.0
    while t < v:
        t = t + sum((zeros(k[0] - 3) + x[0]) ** 2)
    return t


def a_window(x: f64[n], k: i64[m], v: f64):
    t, i = 0.0, k[0]
    while t < v:
        t = t + sum(x[i : i + 2] ** 2)
    return t


def a_long_range(x: f64[n], k: i64[m], v: f64):
    t = 0.0
    for _ in range(10**13):
        if t > v:
            break
        t = t + x[k[0]] ** 2
    return t


def in_a_loop(x: f64[n], k: i64[m], v: f64):
    t = 0.0
    for i in range(m):
        y = x[k[i]]
        s = 0.0
        while s < v:
            s = s + y**2
        t = t + s
    return t


def carried_by_the_loop_around(x: f64[n], k: i64[m], v: f64):
    y, t = 1.0, 0.0
    for i in range(m):
        y = y * x[k[i]]
        s = 0.0
        while s < v:
            s = s + y**2 + 0.001 * y
        t = t + s
    return t


def for_each_point(x: f64[n], k: i64[m], v: f64):
    return sum(reached(x[k[i]]) * v for i in range(m))


def a_loop_in_the_test(x: f64[n], k: i64[m], v: f64):
    i = 0
    while i < 3 and added(x, k[i], v) < v + 0.5:
        i = i + 1
    return i * v + x[0]


def after_the_loop(x: f64[n], k: i64[m], v: f64):
    t = 0.0
    for i in range(m):
        t = t + x[k[i]]
    y, s = x[k[0]], 0.0
    while s < v:
        s = s + y**2
    return s + t**2


# What is right, and what is refused: the arguments k and v.
CASES = {
    past_the_end_while_true: (([0], 1.2), ([0], 1.7)),
    past_the_end_while_false: (([0], -0.3), ([0], 1.0)),
    a_condition_of_two: (([0, 1, 2], 1.7), ([0, 3, 1], 1.7)),
    a_break: (([0], 1.2), ([0], 1.7)),
    in_the_body: (([1], 1.2), ([3], 1.2)),
    before_the_loop: (([1], 1.2), ([3], 1.2)),
    a_length: (([5], 1.2), ([1], 1.2)),
    a_window: (([1], 5.2), ([2], 5.2)),
    a_long_range: (([1], 1.2), ([-4], 1.2)),
    in_a_loop: (([1, 0], 1.2), ([1, 3, 0], 1.2)),
    carried_by_the_loop_around: (([1, 0], 0.2), ([1, 3, 0], 0.2)),
    for_each_point: (([1, 0], 1.2), ([1, 3, 0], 1.2)),
    a_loop_in_the_test: (([0, 1, 2], 1.2), ([0, 3, 2], 1.2)),
    after_the_loop: (([1, 0], 1.2), ([0, 3], 1.2)),
}


@pytest.mark.thinned(10)
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
def test_a_failed_check_ends_the_loop(program, backend: str) -> None:
    (right, v), (wrong, w) = CASES[program]
    f = adc.compile(program, backend=backend)
    arguments = X, np.array(right), v
    expected = interpreted(program)(*arguments)
    assert f(*arguments) == pytest.approx(expected, rel=1e-14)
    for call in (f, adc.grad(f, wrt="x")):
        with pytest.raises((adc.OutOfRangeError, adc.ShapeError)):
            call(X, np.array(wrong), w)
    with pytest.raises((adc.OutOfRangeError, adc.ShapeError)):
        adc.jvp(f, (X, np.array(wrong), w), (X, None, 1.0))
    with pytest.raises((IndexError, ValueError)):
        interpreted(program)(X, np.array(wrong), w)


@pytest.mark.thinned(10)
@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
def test_derivatives_of_what_is_right(program) -> None:
    k, v = CASES[program][0]
    f = adc.compile(program)
    slope = adc.grad(f, wrt="x")

    def changes(of):  # steps so small that no loop ends earlier or later
        steps = 1e-5 * np.eye(3)
        return [(of(X + h, np.array(k), v) - of(X - h, np.array(k), v)) / 2e-5 for h in steps]

    np.testing.assert_allclose(slope(X, np.array(k), v), changes(f), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(
        adc.hessian(f, wrt="x")(X, np.array(k), v), changes(slope), rtol=1e-7, atol=1e-8
    )


def test_a_batch_with_one_case_that_fails() -> None:
    mapped = adc.vmap(adc.compile(past_the_end_while_true), in_axes=(0, None, None))
    cases = np.array([[0.5, 0.25, 1.5], [2.0, 0.25, 1.5]])
    np.testing.assert_array_equal(mapped(cases, np.array([0]), 1.2), [2.9, 2.0])
    with pytest.raises(adc.OutOfRangeError):
        mapped(cases, np.array([0]), 1.7)


def interpreted(program):
    """The program as Python runs it, with indices that are refused where a program of ours refuses them."""
    scope = {"zeros": np.zeros, "sum": sum, "reached": reached_in_python, "added": added_in_python}

    def run(x, k, v):
        def window(self, at):
            if isinstance(at, slice) and at.stop is not None and at.stop > len(self):
                raise IndexError("a window that does not lie in the axis")
            return np.ndarray.__getitem__(self, at)

        array = type("Strict", (np.ndarray,), {"__getitem__": window})
        names = scope | {"m": len(k), "n": len(x)}
        return type(program)(program.__code__, names)(x.view(array), k, v)

    return run


def reached_in_python(y):
    s = 0.0
    while s < 4.9:
        s = s + y * y
    return s
