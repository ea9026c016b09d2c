"""Tables that loops fill: elements that are never stored again are read from the final table, not saved."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import leaves, near

import adcompiler as adc
from adcompiler.ad.programs.split import value_and_grad
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.pipeline import SIMPLIFY, run

SQUARE = np.random.default_rng(8).normal(size=(5, 5))

FINAL = {  # loops that save a number for each element at most
    "rows": """
    for i in range(1, n):
        T[i, :] = sin(T[i - 1, :]) * x[i, :]""",
    "upwards": """
    for i in range(n - 2, -1, -1):
        T[i, :] = sin(T[i + 1, :]) * x[i, :]""",
    "elements": """
    for i in range(1, n):
        for j in range(1, n):
            T[i, j] = sin(T[i - 1, j]) * x[i, j] + T[i, j - 1] * T[i - 1, j - 1]""",
    "triangle": """
    for i in range(n):
        for j in range(i):
            T[i, j] = x[i, j] + sum(T[i, k] * T[j, k] for k in range(j))""",
    "slices": """
    for k in range(n - 1):
        T[k + 1:, k] = T[k + 1:, k] * T[k, k] + sin(T[k, k + 1:])""",
    "rows of an outer iteration": """
    for k in range(n):
        for i in range(k + 1, n):
            for j in range(k, n):
                T[i, j] -= T[k, j] * x[i, k]""",
    "diagonals": """
    for span in range(1, n):
        for i in range(n - span):
            T[i, i + span] = x[i, span] + sum(T[i, k] * T[k + 1, i + span] for k in range(i, i + span))""",
    "not stored yet": """
    for i in range(n - 1):
        T[i, :] = T[i, :] * T[i + 1, :]""",
}
WINDOWS = {  # loops that save what they compute of some rows
    "windows of earlier rows": """
    U = 0.5 * x
    for i in range(n):
        for k in range(n):
            s = -9.0
            e = 0.0
            for d in range(1, min(3, i) + 1):
                e += x[d, k]
                s = logaddexp(s, T[i - d, k] + e)
            U[i, k] = s
        T[i, :] = sin(U[i, :])""",
}
OTHERS = {  # elements that change later, or functions of the table that are saved
    "largest": """
    for i in range(1, n):
        for j in range(n):
            top = T[i - 1, 0] + x[0, j]
            for k in range(1, n):
                top = max(top, T[i - 1, k] + x[k, j])
            acc = 0.0
            for k in range(n):
                acc += exp(T[i - 1, k] + x[k, j] - top)
            T[i, j] = top + log(acc)""",
    "a row above": """
    for i in range(1, n):
        T[i, :] = sin(T[i - 1, :]) * x[i, :]
        T[i - 1, 0] = T[i, 0]""",
    "a border": """
    for i in range(n):
        for j in range(i + 1):
            T[i, 0] = T[i, 0] + sin(T[j, 0]) * x[i, j]""",
    "the last row": """
    for i in range(n):
        T[i, :] = T[n - 1, :] * T[i, :]""",
    "a counter": """
    k = n - 1
    while k > 0:
        T[k, :] = sin(T[k - 1, :]) * T[k, :]
        k = k - 1""",
    "a counter that turns round": """
    k = 0
    for i in range(4):
        T[k, :] = sin(T[i, :]) * T[k, :]
        k = (k + 2) % n""",
    "a copy that an inner loop changes": """
    for i in range(1, n):
        U = T.copy()
        s = 0.0
        for j in range(n):
            U[0, j] = sin(U[0, j] * T[i - 1, j])
            s += U[0, j] * U[0, (j + 1) % n] * U[i, j]
        T[i, :] = sin(T[i - 1, :] + U[0, :]) * s""",
    "later rows": """
    for i in range(n):
        T[i:, 0] = T[i:, 0] * T[i, 1]
        T[:, 1] = T[:, 0] * 0.5""",
    "with no condition on the iteration": """
    for i in range(n):
        for j in range(max(i, 2)):
            T[j, 0] = sin(T[i, 0]) * T[j, 0]
        T[max(i, 2), 0] = T[0, 0] * 2""",
}


def program(body: str) -> str:
    return f"def f(x: f64[n, n]):\n    T = 0.5 * x{body}\n    return sum(T**2) + sum(cos(T))"


@pytest.mark.parametrize("body", (FINAL | WINDOWS | OTHERS).values(), ids=FINAL | WINDOWS | OTHERS)
def test_gradients(body: str) -> None:
    adc.check_grad(adc.compile(program(body)), SQUARE)


@pytest.mark.slow_when(lambda name: name not in ("slices", "a counter"))
@pytest.mark.parametrize("name", [*FINAL, *OTHERS])
def test_second_derivatives(name: str) -> None:
    body = (FINAL | OTHERS)[name]
    adc.check_grad(adc.compile(program(body)), SQUARE[:4, :4], order=2)


@pytest.mark.parametrize("name", FINAL | WINDOWS)
def test_no_iteration_saves_the_table(name: str) -> None:
    f = adc.compile(program((FINAL | WINDOWS)[name]))
    func = f._trace(f._describe((SQUARE,), {})[0]).func
    gradient = run(SIMPLIFY, value_and_grad(func, [0], with_value=True))
    stacks = [a for a in arrays_of(gradient.results) if isinstance(a, Item) and a.k >= len(a.loop.results)]
    assert all(stack.shape[1:] != func.inputs[0].shape for stack in stacks)
    assert name in WINDOWS or all(stack.rank <= 2 for stack in stacks)


INSIDE = """
def f(x: f64[n, s], rule: f64[s, s, s]):
    T = zeros((n, n + 1, s))
    for i in range(n):
        T[i, i + 1] = x[i]
    for span in range(2, n + 1):
        for i in range(n - span + 1):
            for a in range(s):
                best = -9.0
                for k in range(i + 1, i + span):
                    for b in range(s):
                        for c in range(s):
                            best = logaddexp(best, rule[a, b, c] + T[i, k, b] + T[k, i + span, c])
                T[i, i + span, a] = best
    return sum(T[0, n])
"""


def test_loops_that_run_again_read_the_final_table() -> None:
    f = adc.compile(INSIDE)
    args = SQUARE[:4, :2], np.sin(np.arange(8.0)).reshape(2, 2, 2)
    func = f._trace(f._describe(args, {})[0]).func
    gradient = run(SIMPLIFY, value_and_grad(func, [0, 1], with_value=True))
    stacks = [a for a in arrays_of(gradient.results) if isinstance(a, Item) and a.k >= len(a.loop.results)]
    assert all(stack.rank <= 3 for stack in stacks)
    adc.check_grad(f, *args)


@pytest.mark.parametrize("length", [0, 1, 2])
@pytest.mark.parametrize("name", ["elements", "slices"])
def test_short_tables_in_single_precision(name: str, length: int) -> None:
    x = SQUARE[:length, :length]
    source = program(FINAL[name])
    single, double = (adc.grad(adc.compile(s)) for s in (source.replace("f64", "f32"), source))
    for found, expected in zip(leaves(single(x.astype(np.float32))), leaves(double(x)), strict=True):
        near(np.float64(found), expected, 1e-5)
