"""`memory=`: loops differentiated in reverse within a budget."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

import adcompiler as adc

STEPS = """
def swing(push: f64[n], angle, speed):
    energy = 0.0
    for t in range(n):
        speed = speed - 0.01 * sin(angle) + 0.01 * push[t]
        angle = angle + 0.01 * speed
        energy = energy + angle * angle
    return energy
"""

SMOOTH = """
def smooth(x: f64[n], k: i64, rate):
    y = x
    path = zeros(k)
    for t in range(k):
        y = y + rate * (tanh(y) - y)
        path[t] = sum(y * y)
    return sum(path) + y[0]
"""


@pytest.mark.thinned(6)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("iterations", [0, 1, 2, 7, 50])
def test_a_budget_changes_no_bit(backend, iterations):
    push = np.sin(np.arange(iterations))
    whole, *parts = (
        adc.value_and_grad(adc.compile(STEPS, backend=backend, memory=m))(push, 0.3, 0.2)
        for m in (None, 1, "500 B", "1MB")
    )
    for part in parts:
        assert part[0] == whole[0]
        for got, expected in zip(part[1], whole[1], strict=True):
            np.testing.assert_array_equal(got, expected)


STEPS_OF_VECTORS = (
    "y + 0.01 * sin(y) * a - 0.001 * y * y",
    "y * a",
    "y - 0.001 * y * y",
    "tanh(a * y) + 0.1 * y",
)


@pytest.mark.thinned(6)
@pytest.mark.slow_when(lambda backend, step: backend == "cpu" and step not in STEPS_OF_VECTORS[:2])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("step", STEPS_OF_VECTORS)
def test_a_budget_changes_no_bit_of_what_each_iteration_adds_to(step, backend):
    """The gradient by `a` is a sum over iterations: segments go on where the others have ended."""
    source = f"def f(a: f64[n], k: i64):\n    y = a\n    for _ in range(k):\n        y = {step}\n    return y"
    whole, *parts = (adc.compile(source, backend=backend, memory=m) for m in (None, 1, "5 kB", "1MB"))
    a = np.random.default_rng(0).random(50)
    for iterations in (0, 1, 2, 9, 60):
        expected = adc.vjp(whole, a, iterations)[1](np.ones(50))[0]
        for part in parts:
            np.testing.assert_array_equal(adc.vjp(part, a, iterations)[1](np.ones(50))[0], expected)


LOOPS = {
    "a linear recurrence": """
def f(x, a):
    y = zeros(len(x))
    y[0] = x[0]
    for t in range(1, len(x)):
        y[t] = a[t] * y[t - 1] + x[t] * y[t - 1]
    return y
""",
    "scalars": """
def f(x, a):
    s, p = 0.1, 1.0
    for t in range(len(x)):
        s, p = a[t] * s + x[t] * p, p * s + a[t]
    return s * p
""",
    "a filter": """
def f(x, a):
    m, v, s = 0.0, 1.0, 0.0
    for t in range(len(x)):
        v = v * a[0] ** 2 + a[1] ** 2
        gain = v / (v + 0.5)
        s = s + log(v + 0.5) + (x[t] - m) ** 2 / (v + 0.5)
        m = a[0] * (m + gain * (x[t] - m))
        v = (1 - gain) * v
    return s
""",
    "leapfrog": """
def f(x, a):
    q, v = x, a
    for t in range(25):
        v = v - 0.01 * q * (1 + q * q)
        q = q + 0.01 * v
    return sum(q * q + v * v)
""",
    "heat": """
def f(x, a):
    u, n = x, len(x)
    for t in range(30):
        u = [u[i] + 0.1 * a[i] * (u[max(i - 1, 0)] - 2 * u[i] + u[min(i + 1, n - 1)]) for i in range(n)]
    return u
""",
    "a matrix of rank one": """
def f(x, a):
    h = x
    for t in range(20):
        h = tanh(outer(x, a) @ h + a)
    return h
""",
    "sums of what is carried": """
def f(x, a):
    w, n = a[0], len(x)
    for t in range(n):
        w = tanh(tanh(sum(w for k in range(n))) + tanh(max(w for k in range(n))))
        x = [(w if w > 0.1 else w) for k in range(n)]
    return x
""",
    "a network of constant weights": """
def f(x, a):
    n = len(x)
    w = [[sin(i + 3 * j) for j in range(n)] for i in range(n)]
    h = x
    for t in range(12):
        h = tanh(w @ h + a * x[t % n])
    return h
""",
}


@pytest.mark.thinned(12)
@pytest.mark.parametrize(("size", "kind"), [(7, np.float64), (40, np.float64), (40, np.float32)])
@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS)
def test_segments_contract_the_same_products(source, size, kind):
    """Products and sums become one fused operation in segments where they do in the whole loop, and sums have
    as many partial sums."""
    whole, *parts = (adc.compile(source, memory=m) for m in (None, 100))
    for seed in range(3):
        x, a, ones = np.random.default_rng(seed).standard_normal((3, size)).astype(kind)
        value, pullback = adc.vjp(whole, x, a)
        ones = ones if np.ndim(value) else ones[0]
        for part in parts:
            found, of_part = adc.vjp(part, x, a)
            np.testing.assert_array_equal(found, value)
            for got, expected in zip(of_part(ones), pullback(ones), strict=True):
                np.testing.assert_array_equal(got, expected)


def test_a_sum_of_one_costly_number_has_the_order_of_others():
    """A loop that repeats a term adds up as a loop over terms from memory does, not as one that calls
    functions: so a whole loop, which has read the cosine from a stack, and a segment agree."""
    source = """
def f(x, w):
    u, s, n = x[0], 0.0, len(x)
    for t in range(n):
        u = sin(u + w)
        s = cos(tanh(mean(u for k in range(n))) + 0.3)
    return s + u
"""
    whole, part = (adc.grad(adc.compile(source, memory=m), wrt="w") for m in (None, 1))
    for seed in range(100):  # a few in a hundred differed
        *x, w = np.random.default_rng(seed).standard_normal(10)
        assert whole(np.array(x), w) == part(np.array(x), w)


@pytest.mark.slow_when(lambda backend: backend == "cpu")
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_arrays_and_outs_within_a_budget(backend):
    x = np.linspace(-1, 1, 3)
    whole, part = (adc.compile(SMOOTH, backend=backend, memory=m) for m in (None, 100))
    for got, expected in zip(adc.grad(part)(x, 11, 0.1), adc.grad(whole)(x, 11, 0.1), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
    adc.check_grad(part, x, 7, 0.1, order=2)


@pytest.mark.slow
def test_second_order_within_a_budget():
    adc.check_grad(adc.compile(STEPS, memory=100), np.sin(np.arange(20)), 0.3, 0.2, order=2)


def test_a_million_iterations_stay_within_the_budget():
    gradient = adc.grad(adc.compile(SMOOTH, memory="1MB"), wrt="x")
    x = np.linspace(-1, 1, 100)
    gradient(x, 10, 0.1)
    tracemalloc.start()
    try:
        gradient(x, 20_000, 1e-4)  # the stacks of all iterations would take 16 MB
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2e6


@pytest.mark.slow
def test_a_length_that_a_segment_counts():
    """How long the inner loop is, and the array that it reads, is a number of the segment's loop."""
    source = """
def f(y: f64[n], w, at: i64[m], k: i64):
    s = 0.5
    for a in range(k):
        for b in range(k):
            for c in range(a):
                s = tanh(s + (y[at[c]] if w > 0.2 else 0.1 * c) * (w if b % 2 == 0 else 1.0) ** 2)
    return s
"""
    args = np.array([0.3, -0.7, 0.4]), 0.9, np.array([1, 2, 0, 1]), 4
    whole, part = (adc.compile(source, memory=m) for m in (None, 1))
    expected, found = (adc.grad(f, wrt=("y", "w"))(*args) for f in (whole, part))
    np.testing.assert_allclose(np.hstack(found), np.hstack(expected), rtol=1e-14)
    adc.check_grad(part, *args, order=2)


@pytest.mark.parametrize("memory", ["much", "-1", "64 XB", True, 1.5])
def test_what_is_no_amount_of_memory_is_refused(memory):
    with pytest.raises(adc.Error, match="size of memory"):
        adc.compile("x", memory=memory)


TRIANGLE = """
def triangle(x):
    s = 1.0
    for i in range(len(x)):
        for j in range(i):
            s = sin(s) * x[j] + x[i]
    return s
"""


@pytest.mark.slow_when(lambda backend, memory: backend == "cpu" or memory != 64)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("memory", [1, 64, "1MB"])
def test_splits_and_tapes_of_loops_in_loops_within_a_budget(memory, backend):
    """A segment's length is made of square roots, which a split would save; it stays a length."""
    x = np.random.default_rng(0).uniform(0.2, 1.0, 6)
    f = adc.compile(TRIANGLE, memory=memory, backend=backend)
    gradient, hessian = adc.grad(f)(x), adc.hessian(f)(x)
    _, saved = f.split().forward(x)
    np.testing.assert_allclose(f.split().propagate(saved, 1.0)[0], gradient, rtol=1e-12)
    v = adc.Variable(x, requires_grad=True)
    first = adc.tape.grad(f(v), v, create_graph=True)
    second = adc.tape.grad((first * first).sum(), v)
    np.testing.assert_allclose(first.value, gradient, rtol=1e-12)
    np.testing.assert_allclose(second.value, 2 * hessian @ gradient, rtol=1e-10)


RECURRENT = """
def recurrent(w: f64[d, d], x: f64[n, d], b: f64[d]):
    h = zeros(d)
    for t in range(n):
        h = tanh(w @ h + x[t] + b)
    return sum(h * h)
"""


@pytest.mark.slow_when(lambda backend: backend == "cpu")
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_rows_of_matrices_within_a_budget(backend):
    """The rows of a segment are as long as the segment, whatever passes mark in the square root it is."""
    random = np.random.default_rng(0)
    args = random.normal(size=(2, 2)), random.normal(size=(5, 2)), random.normal(size=2)
    adc.check_grad(adc.compile(RECURRENT, memory=1, backend=backend), *args, order=2)


def test_what_does_not_change_is_not_collected() -> None:
    """A function of constants is computed once, and so is an array of which every iteration reads a row."""
    f = adc.compile(
        "def f(x: f64[n], w):\n    s = 0.5\n    for v in x:\n        s = s * v * exp(w)\n    return s"
    )
    program = adc.value_and_grad(f).show("ir", np.ones(3), 0.3)
    outs = re.findall("out (.*)", program)
    assert len(outs) == 2  # what is carried, and the gradient of a row
    assert outs[0] == "%r"  # and it is the loop that computes the value, too
