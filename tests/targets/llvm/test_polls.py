"""Loops poll for signals as often as their work needs it."""

from __future__ import annotations

import re

import numpy as np

import adcompiler as adc
from adcompiler.targets.llvm.limits import POLL_ELEMENTS
from adcompiler.targets.llvm.runtime.jit import translated

ROWS = "def f(x: f64[n, m, k]):\n    return [[sum(x[i, j] * x[i, 0]) for j in range(m)] for i in range(n)]"


def test_short_loops_of_long_blocks_count_their_elements():
    """A poll after each of them would take longer than they do."""
    f = adc.compile(ROWS)
    f(np.ones((2, 3, 4)))
    source = f._specialise(f._last).executable.general.source
    text = translated(source._replace(heavy=True), True).text
    polls = re.findall(r"call i1 @ask\(", text)
    always = re.findall(rf"sub i64 %\w+, {POLL_ELEMENTS}\b", text)
    assert len(polls) > 3
    assert not always


ELIMINATION = """
def f(A: f64[n, n]):
    U = A.copy()
    for k in range(n):
        for i in range(k + 1, n):
            factor = U[i, k] / U[k, k]
            for j in range(k, n):
                U[i, j] -= factor * U[k, j]
    return sum(U)
"""


def test_innermost_loops_of_a_program_count_their_iterations():
    """A row of a matrix is shorter than what may run between two polls."""
    f = adc.compile(ELIMINATION)
    f(np.eye(3))
    text = translated(f._specialise(f._last).executable.general.source, True).text
    assert re.search(r"call i1 @ask\(", text)
    assert not re.findall(rf"sub i64 %\w+, {POLL_ELEMENTS}\b", text)
