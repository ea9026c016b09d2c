"""Values that each iteration of a loop sets anew are those of the last one, also in derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import leaves, near
from oracle import evaluate

import adcompiler as adc
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of

X = np.array([0.3, 0.8, -0.4, 1.1])
LAST = {
    "a number": """
    for i in range(n):
        s = sin(x[i] * w)""",
    "the first one": """
    for i in range(n - 1, -1, -1):
        s = x[i] * w + i""",
    "an array": """
    for i in range(n):
        z = x * w + x[i]""",
    "of inner loops": """
    for i in range(n):
        for k in range(i, n):
            s = x[i] * x[k] * w
            z = x * s""",
    "in a condition": """
    for i in range(n - 1):
        if w > 0.1:
            for k in range(n):
                s = max(x[k], x[i]) * w
        else:
            s = w
        z = x * s""",
    "of an array that stays": """
    for i in range(n):
        q = []
        for k in range(n):
            s = max(x[n - 1 - k], x[i])
            q.append(x[k])
        x = np.array(q)""",
}
OTHERS = {
    "read by the next iteration": """
    for i in range(n):
        z = x * s
        s = x[i] * w""",
    "of a part of the iterations": """
    for i in range(n):
        if x[i] > 0.5:
            s = x[i] * w""",
}


def program(body: str) -> str:
    head = "def f(x: f64[n], w: f64):\n    s = 0.5 * w\n    z = 2.0 * x"
    return f"{head}{body}\n    return s * s + sum(z * x) + w"


def loops(source: str) -> int:
    """The loops of a value and of its gradient."""
    f = adc.compile(source, backend="numpy")
    programs = (
        f._trace(f._describe((X, 0.7), {})[0]).func,
        adc.grad(f)._trace(f._describe((X, 0.7), {})[0]).func,
    )
    return sum(isinstance(a, Item) for func in programs for a in arrays_of(func.results))


@pytest.mark.parametrize("name", [*LAST, *OTHERS])
def test_values_and_two_orders(name: str) -> None:
    source = program((LAST | OTHERS)[name])
    f = adc.compile(source, backend="numpy")
    near(f(X, 0.7), evaluate(source, X, 0.7))
    adc.check_grad(f, X, 0.7, order=2)


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("name", ["a number", "the first one", "an array", "of inner loops"])
def test_few_iterations_in_single_precision(name: str, length: int) -> None:
    source, x = program(LAST[name]), X[:length]
    f = adc.compile(source.replace("f64", "f32"))
    near(np.float64(f(x.astype(np.float32), np.float32(0.7))), evaluate(source, x, 0.7), 1e-5)
    exact = adc.grad(adc.compile(source, backend="numpy"))(x, 0.7)
    for found, expected in zip(
        leaves(adc.grad(f)(x.astype(np.float32), np.float32(0.7))), leaves(exact), strict=True
    ):
        near(np.float64(found), expected, 1e-5)


@pytest.mark.parametrize("name", ["a number", "the first one", "an array", "of an array that stays"])
def test_no_loop_remains(name: str) -> None:
    assert not loops(program(LAST[name]))
