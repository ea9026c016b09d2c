"""Tables that nested loops fill stay in place: no iteration copies a whole one, in a value or a gradient."""

from __future__ import annotations

import re

import numpy as np
import pytest
from judges.compared import leaves, near
from programs.written_loops import PROGRAMS as WRITTEN

import adcompiler as adc

RNG = np.random.default_rng(5)
SQUARE = RNG.normal(size=(4, 4)) + 5 * np.eye(4)
ROWS = RNG.normal(size=(5, 3))

ELIMINATION = """
def f(A: f64[n, n], b: f64[n]):
    U, y = A.copy(), b.copy()
    for k in range(n):
        for i in range(k + 1, n):
            factor = U[i, k] / U[k, k]
            for j in range(k, n):
                U[i, j] -= factor * U[k, j]
            y[i] -= factor * y[k]
    return sum(U**2) + sum(y**2)
"""
FORWARD = """
def f(logit: f64[s, s], emission: f64[t, s]):
    table = zeros((t, s))
    for j in range(s):
        table[0, j] = emission[0, j]
    for k in range(1, t):
        for j in range(s):
            acc = 0.0
            for i in range(s):
                acc += exp(table[k - 1, i] + logit[i, j])
            table[k, j] = log(acc) + emission[k, j]
    return sum(sin(table))
"""
FACTOR = """
def f(A: f64[n, n]):
    L = zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = sqrt(s) if i == j else s / L[j, j]
    return sum(L**2) + sum(cos(L))
"""
STORED_AFTER = """
def f(A: f64[n, n]):
    T = A.copy()
    for k in range(1, n):
        for j in range(n):
            T[k, j] += sin(T[k - 1, j])
        T[k, 0] = T[k, 1] * T[k - 1, 0]
    return sum(T**2)
"""
SPANS = """
def f(A: f64[n, n]):
    T = 0.5 * A
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            s = A[i, j]
            for k in range(i, j):
                s += sin(T[i, k] * T[k + 1, j])
            T[i, j] = s
    return sum(cos(T))
"""
PROGRAMS = {
    "spans": (SPANS, (SQUARE,)),
    "elimination": (ELIMINATION, (SQUARE, ROWS[:4, 0])),
    "forward algorithm": (FORWARD, (SQUARE[:3, :3], ROWS)),
    "factor": (FACTOR, (SQUARE @ SQUARE.T,)),
    "stored after a loop": (STORED_AFTER, (SQUARE,)),
}


def copies(kernel: str) -> int:
    """How often iterations of a program loop copy a whole table from another one."""
    inside = re.findall(r"for iteration.*:\n|for c1 in .*\n +(\w+)\[c0, c1\] = \w+\[c0, c1\]", kernel)
    first = next((k for k, found in enumerate(inside) if not found), len(inside))
    return sum(map(bool, inside[first:]))


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_iteration_copies_a_table(name: str) -> None:
    source, args = PROGRAMS[name]
    f = adc.compile(source)
    f(*args)
    assert not copies(f.show("kernel"))
    gradient = adc.grad(f)
    gradient(*args)
    between = 1  # where the reverse loop begins, outside of iterations
    assert copies(gradient.show("kernel")) <= between


def test_the_adjoint_of_a_part_of_a_row_is_stored_in_that_part() -> None:
    """Both branches store L[i, j], which L[i, :j] and L[j, :j] decide: no iteration goes along whole rows."""
    gradient = adc.grad(adc.compile(FACTOR))
    gradient(*PROGRAMS["factor"][1])
    inner = [line for line in gradient.show("kernel").splitlines() if line.startswith(" " * 12 + "for ")]
    assert inner
    assert not any("uint64(n)" in line for line in inner)


def test_the_adjoint_of_an_update_stores_only_what_changes() -> None:
    """The adjoint of U[i, j] -= factor * U[k, j] changes row k only. What it adds to the adjoint of `factor`
    is a sum, so that iterations do not wait for each other."""
    gradient = adc.grad(adc.compile(ELIMINATION))
    gradient(*PROGRAMS["elimination"][1])
    kernel = gradient.show("kernel")
    inner = kernel[kernel.rindex("_back in ") :].splitlines()[1:]
    body = [line for line in inner if line.startswith(" " * 16)]
    assert sum(bool(re.search(r"\w+\[.*\] \+?= ", line)) for line in body) == 1
    assert any("= reduce_add(" in line for line in body)


def test_the_adjoint_of_a_part_of_a_column_has_no_rows() -> None:
    """T[i, j] is decided by T[i + 1 : j + 1, j]: the adjoint of this part of a column is stored there."""
    gradient = adc.grad(adc.compile(SPANS))
    gradient(SQUARE)
    assert not re.search(r"max\(\w+ \+ 1, 0\), max\(n, 0\)", gradient.show("kernel"))


@pytest.mark.slow_when(lambda name: name in ("elimination", "forward algorithm"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives_of_two_orders(name: str) -> None:
    source, args = PROGRAMS[name]
    f, slow = adc.compile(source), adc.compile(source, backend="numpy")
    assert f(*args) == pytest.approx(slow(*args), rel=1e-13)
    adc.check_grad(f, *args, order=2)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", ["elimination", "factor", "stored after a loop"])
@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_tables(name: str, length: int) -> None:
    """Inner loops without iterations save stacks without rows."""
    source, args = PROGRAMS[name]
    short = [a[:length, :length] if a.ndim == 2 else a[:length] for a in args]
    f, slow = adc.compile(source), adc.compile(source, backend="numpy")
    for found, expected in zip(leaves(adc.grad(f)(*short)), leaves(adc.grad(slow)(*short)), strict=True):
        near(found, expected, 1e-12)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_single_precision(name: str) -> None:
    source, args = PROGRAMS[name]
    single, double = adc.compile(source.replace("f64", "f32")), adc.compile(source)
    gradients = adc.grad(single)(*(a.astype(np.float32) for a in args))
    for found, expected in zip(leaves(gradients), leaves(adc.grad(double)(*args)), strict=True):
        assert found.dtype == np.float32
        near(np.float64(found), expected, 2e-3 * np.max(np.abs(expected)))


@pytest.mark.slow_when(lambda rows: rows == 5)
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_table_that_reads_the_row_before_is_updated_in_place(rows: int) -> None:
    """The adjoint of y[i - 1, j] is stored at one place, though row -1 may be row i itself."""
    source = f"{WRITTEN['table'].source}\ndef g(x):\n    return sum(f(x)**2)"
    f, slow = adc.compile(source, name="g"), adc.compile(source, name="g", backend="numpy")
    x = WRITTEN["table"].args[0][[k % 3 for k in range(rows)]]
    for derive in (adc.grad, adc.hessian):
        assert derive(f)(x) == pytest.approx(derive(slow)(x), rel=1e-12)
    adc.check_grad(slow, x, order=2)


ROWS_READ_LATE = """
def f(s: f64[m, n], x: f64[t, n], w: f64[n, n]):
    total = 0.0
    for k in range(t):
        h = s[0]
        for j in range(2):
            h = tanh(w @ h + s[j] * x[k])
            s[j] = h
            s[j, :] += sum(s[1]) * x[k]
        total += sum(s[0] * s[1] * x[k])
    return total + sum(s * s)
"""


@pytest.mark.parametrize("n", [0, 1, 5])
def test_stores_of_rows_that_are_read_before_and_after(n: int) -> None:
    args = RNG.normal(size=(2, n)), RNG.normal(size=(3, n)), RNG.normal(size=(n, n)) / 3
    ours, slow = (adc.value_and_grad(adc.compile(ROWS_READ_LATE, backend=b)) for b in ("cpu", "numpy"))
    for found, expected in zip(leaves(ours(*args)), leaves(slow(*args)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
