"""Quotients and remainders of counters: a division for each strip of a loop, the values of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.llvm.runtime.entry import translated

X = np.random.default_rng(0).normal(size=(40, 40))
VALUES = {
    "two axes": "[x[i // k, i % k] * 2 for i in range(c)]",
    "steps of two": "[x[0, (i * 2 + c) % k] + i // k for i in range(c)]",
    "downwards": "[x[0, (c - 3 * i) % k] + (5 - i) // k for i in range(c)]",
    "two divisors": "sum(x[0, i % k] * exp(x[1, (i + 1) % c]) for i in range(c))",
    "conditions": "[x[0, i % k] if i % k > 1 else i // k for i in range(c)]",
    "floats": "[(i + x[0, 0]) // (k + 0.5) for i in range(c)]",
    "numbers": "[1.0 * (i % k) + 100 * ((c - i) // k) for i in range(c)]",
}
LOOP = """
def f(x: f64[n, m], k: i64, c: i64):
    s = 0.0
    for i in range(c):
        s = sin(s) + x[0, i % k]
"""
# In an iteration p is first that of the iteration before.
BEFORE = """
def f(x: f64[m], k: i64, c: i64):
    z = x * 0.5
    p = 1
    for i in range(c):
        z[p % k] += sin(x[i] * z[(p + i) % k])
        p = {}
    return sum(z)
"""
LENGTHS = ((7, 30), (1, 5), (3, 0), (0, 6), (-3, 9), (40, 37))  # divisors, and iterations


def source(name: str) -> str:
    return f"def f(x: f64[n, m], k: i64, c: i64):\n    return {VALUES[name]}"


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_numpy(name: str) -> None:
    f, slow = (adc.compile(source(name), backend=backend) for backend in ("cpu", "numpy"))
    for k, c in LENGTHS:
        try:
            expected = slow(X, k, c)
        except adc.OutOfRangeError:  # of no column in all
            continue
        assert f(X, k, c) == pytest.approx(expected, rel=1e-12)


def test_gradients_of_a_program_loop() -> None:
    f = adc.compile(f"{LOOP}    return s")
    for k, c in ((7, 30), (1, 5), (3, 0)):
        adc.check_grad(f, X, k, c)


@pytest.mark.parametrize("after", ["p + 2", "3 * i", "3 * i % 7"])
def test_numbers_of_the_iteration_before(after: str) -> None:
    source = BEFORE.format(after)
    f, slow = (adc.compile(source, backend=backend) for backend in ("cpu", "numpy"))
    for k in (7, 3):
        for one, other in zip(adc.grad(f)(X[0], k, 9), adc.grad(slow)(X[0], k, 9), strict=True):
            assert one == pytest.approx(other, rel=1e-12)
        assert f(X[0], k, 9) == pytest.approx(slow(X[0], k, 9), rel=1e-12)


@pytest.mark.parametrize(("name", "count"), [("two axes", 1), ("floats", 0)])
def test_each_strip_divides_once(name: str, count: int) -> None:
    f = adc.compile(source(name))
    f(X, 7, 30)
    assert f.show("llvm").count(" sdiv ") == count


@pytest.mark.parametrize(("divisor", "strips"), [(3, False), (7, False), (8, True), (12, True), (16, True)])
def test_a_constant_divisor_has_strips_longer_than_a_vector(divisor: int, strips: bool) -> None:
    text = source("two axes").replace("// k", f"// {divisor}").replace("% k", f"% {divisor}")
    f, slow = (adc.compile(text, backend=backend) for backend in ("cpu", "numpy"))
    for count in (0, 1, divisor, 30, 40):
        assert f(X, 7, count) == pytest.approx(slow(X, 7, count), rel=1e-12)
    # As it is before LLVM, which makes other loops of strips of whole vectors, by the processor's.
    code = translated(f._specialise(f._last).executable.general.source, True).text
    assert ("%strip" in code) == strips


def test_a_loop_of_constant_length_is_vectorised_before_it_is_written_out() -> None:
    f = adc.compile("def f(X: f64[n, 20], b: f64[20]):\n    return [sum(X[i] * b) for i in range(n)]")
    assert f(X[:, :20], X[0, :20]) == pytest.approx(X[:, :20] @ X[0, :20], rel=1e-12)
    assert "llvm.vector.reduce.fadd" in f.show("llvm")
