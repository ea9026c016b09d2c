"""Rows that a loop reads at one place: the reverse loop collects values and places, not whole rows."""

from __future__ import annotations

from itertools import takewhile

import numpy as np
import pytest
from judges.compared import near

import adcompiler as adc

RNG = np.random.default_rng(3)
TABLE, X = RNG.normal(size=(4, 12)), RNG.normal(size=4)
PLACES = np.array([3, 0, -1, 3])

PROGRAMS = {
    "one place": "y = sin(y) + T[i, idx[i]] * x[i]",
    "two places": "y = sin(y) + T[i, idx[i]] * T[i, 2]",
    "the same place twice": "y = cos(y) * T[i, idx[i]] + exp(T[i, idx[i]])",
    "under a condition": "y = sin(y) + (T[i, idx[i]] if x[i] > 0 else x[i])",
    "a place that a value decides": "y = sin(y) + T[i, int64(abs(y) * 3)]",
    "a place and the whole row": "y = sin(y) * T[i, idx[i]] + sum(T[i]**2)",
}


def program(line: str) -> str:
    return f"""
def f(T: f64[n, m], x: f64[n], idx: i64[n]):
    y = 0.3
    for i in range(n):
        {line}
    return y
"""


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_two_orders(name: str) -> None:
    f = adc.compile(program(PROGRAMS[name]))
    adc.check_grad(f, TABLE, X, PLACES, order=2)
    slow = adc.compile(program(PROGRAMS[name]), backend="numpy")
    for rows in (0, 1, 4):
        args = TABLE[:rows], X[:rows], PLACES[:rows]
        for found, expected in zip(adc.grad(f)(*args), adc.grad(slow)(*args), strict=True):
            near(found, expected, 1e-13)


def test_an_iteration_does_not_go_over_the_row() -> None:
    """The reverse loop has no loop over the 12 columns: it stores a value and a place."""
    f = adc.grad(adc.compile(program(PROGRAMS["one place"])))
    f(TABLE, X, PLACES)
    driver = f.show("kernel").partition("def run(")[2]
    back = driver.partition("_back in ")[2]
    body = list(takewhile(lambda line: line.startswith(" " * 8), back.splitlines()[1:]))
    assert body
    assert not any("for " in line for line in body)


NEAREST = """
def nearest(T: f64[n, m], x: f64[m]):
    best = 1e30
    for i in range(n):
        r = 0.0
        for j in range(m):
            r += (x[j] - T[i, j])**2
            if r > best:
                break
        best = min(best, r)
    return best
"""


def test_a_row_that_an_inner_loop_reads_until_it_ends_is_a_row() -> None:
    """The reverse loop collects one row in each iteration, and does not go over the table."""
    f = adc.compile(NEAREST)
    x = RNG.normal(size=12)
    adc.check_grad(f, TABLE, x, order=2)
    gradient = adc.grad(f)
    gradient(TABLE, x)
    loops = gradient.show("ir").partition("loop backward")[2]
    assert "all %T" not in loops
    assert "accumulate [n, m]" not in loops
