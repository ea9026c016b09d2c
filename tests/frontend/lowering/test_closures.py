"""Definitions inside of definitions: they read the names around them as these are when they are called."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import agrees, along, directions, has_oracles_value, totalled
from programs import Program

import adcompiler as adc

X = np.array([1.2, 0.7, 2.1, 0.4])

PROGRAMS = {
    "the test of a loop": """
def f(x):
    k, s = 0, 0.0
    def more():
        return k < 3
    while more():
        s, k = s * s + x[k], k + 1
    return s
""",
    "what a loop carries": """
def f(x):
    s = x[0]
    def g(v):
        return sin(s * v)
    for v in x:
        s = s + g(v)
    return s + g(2.0)
""",
    "a branch": """
def f(x):
    s = x[0]
    def g(v):
        return s * v
    if x[1] > 0.5:
        s = s * x[1]
        t = g(x[2])
    else:
        t = g(x[3])
    return t + g(1.0)
""",
    "a branch that leaves": """
def f(x):
    s = 1.0
    def g(v):
        return s * v
    for v in x:
        if v > 2:
            continue
        s = s * v
        if g(v) > 10:
            return g(x)
        s = s + g(v)
    return g(x**2)
""",
    "an iteration written out": """
def f(x):
    s = x[0]
    def g(v):
        return s * v
    for k in range(3):
        s = g(x[k]) + s
    return s
""",
    "names that come later": """
def f(x):
    def g(v):
        return later * v
    later = x[0]
    for v in x:
        later = later * g(v)
    return later
""",
    "passed on": """
def each(g, x):
    s = 2.0
    return [s * g(v) for v in x]

def f(x):
    s = x[0]
    def g(v):
        return s * v
    y = x
    for i in range(len(x)):
        s = s + y[i]
        y = y + each(g, x)
    return y
""",
    "returned": """
def scaling(a):
    def by(v):
        return a * v
    a = a + 1
    return by

def f(x):
    return scaling(x[0])(x[1]) + scaling(x[2])(x[3])
""",
    "differentiated": """
def f(x):
    s = x[0]
    def g(v):
        return s * v**3
    for v in x:
        s = s + grad(g)(v) * diff(g, v)
    return s
""",
    "functions of functions": """
def f(x):
    s = x[0]
    def g(v):
        return s * v
    def h(v):
        return g(v) + s
    for v in x:
        s = h(v)
    return s
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    has_oracles_value(Program(PROGRAMS[name], (X,)), "numpy")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str) -> None:
    """In both modes, and of second order."""
    program = totalled(Program(PROGRAMS[name], (X,)))
    f = adc.compile(program.source, backend="numpy")
    way, other = (d[0] for d in directions(program, 2))
    agrees((adc.grad(f)(X),), (way,), along(program, (way,)))
    assert adc.jvp(f, (X,), (way,))[1] == pytest.approx(along(program, (way,)))
    agrees((adc.hvp(f)((X,), way),), (other,), along(program, (way,), (other,)))


def test_in_a_kernel() -> None:
    program = Program(PROGRAMS["what a loop carries"], (X.astype(np.float32),))
    has_oracles_value(program, "cpu")


@pytest.mark.parametrize("line", ["k = k + 1", "k += 1"])
def test_a_name_that_the_body_assigns_is_its_own(line: str) -> None:
    """As in Python, where reading it first is an UnboundLocalError."""
    source = f"def f(x):\n    k = 1\n    def g():\n        {line}\n        return k * x\n    return g() + k\n"
    with pytest.raises(adc.ParseError, match="a local name") as caught:
        adc.compile(source)
    assert "pass it as an argument" in caught.value.remedy
    passed = adc.compile(source.replace("g()", "g(k)"))
    assert passed(2.0) == 5.0
