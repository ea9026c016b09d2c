"""Quotients and remainders of counters: a division for each strip of a loop, the values of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

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


@pytest.mark.parametrize(("name", "count"), [("two axes", 1), ("floats", 0)])
def test_each_strip_divides_once(name: str, count: int) -> None:
    f = adc.compile(source(name))
    f(X, 7, 30)
    assert f.show("llvm").count(" sdiv ") == count
