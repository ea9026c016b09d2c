"""NaN in the eager layer: guards are Python that helps, NumPy's routines are told as the user calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adcompiler as adc

LINES = Path(__file__).read_text("utf-8").splitlines()
SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


def explained(run: Any, *args: Any, infinite: bool = True) -> Any:
    """The explanation of what `run` makes of Variables x, y."""
    made = [adc.Variable(np.asarray(a), True, n) for n, a in zip("xy", args, strict=False)]
    with pytest.raises(adc.Error) as caught, adc.tape.anomaly(infinite):  # noqa: PT012
        result = run(*made)
        (result if not result.ndim else result.sum()).backward()
    return caught.value.explanation


# One operation on x and y, and their values: its guard can stand in its place.
GUARDED = {
    "root": (lambda x: np.sqrt(x), [0.0]),
    "method": (lambda x: x.log(), [0.0]),
    "sum of squares": (lambda x: np.sqrt((x**2).sum()), [0.0, 0.0]),
    "quotient": (lambda x, y: x / y, [1.0], [0.0]),
    "remainder": (lambda x, y: x % y, [1.0], [0.0]),
    "power": (lambda x: x**0.5, [0.0]),
    "power by its exponent": (lambda x, y: x**y, [-2.0], [3.0]),
    "cube root": (lambda x: np.cbrt(x), [0.0]),
    "arc": (lambda x: np.arccos(x), [1.0]),
    "arc of float32": (lambda x: np.arccos(x), np.float32([1.0])),
    "exponential": (lambda x: np.exp(x), [1000.0]),
    "exponential of float32": (lambda x: np.exp(x), np.float32([89.0])),
    "routine": (lambda x, y: np.linalg.solve(x, y), SINGULAR, [1.0, 1.0]),
    "inverse": (lambda x: np.linalg.inv(x), SINGULAR),
    "determinant": (lambda x: np.linalg.slogdet(x)[1], SINGULAR),
    "factor": (lambda x: np.linalg.cholesky(x), -np.eye(2)),
}  # fmt: skip


@pytest.mark.parametrize("case", GUARDED)
def test_the_guard_is_python_that_helps(case):
    run, *values = GUARDED[case]
    guard = explained(run, *values).guard
    made = {n: adc.Variable(np.asarray(v), True) for n, v in zip("xy", values, strict=False)}
    with adc.tape.anomaly(infinite=True):
        result = eval(guard, {"np": np, **made})
        result = result[1] if isinstance(result, tuple) else result  # of slogdet
        (result if not result.ndim else result.sum()).backward()
    assert all(np.isfinite(v.grad.value).all() for v in made.values() if v.grad is not None)


def test_a_statement_is_guarded_by_a_statement():
    def run(x):
        y = x * 1
        y /= x
        return y

    assert explained(run, [0.0]).guard == "y = np.where(x != 0, y / np.where(x != 0, x, 1), 0)"


def test_numpys_routines_are_the_users_operations():
    found = explained(lambda x: np.linalg.cholesky(x), -np.eye(2))
    assert (found.operation, dict(found.operands)) == ("cholesky", {"the smallest eigenvalue of x": -1.0})
    assert "np.linalg.cholesky(x)" in LINES[found.line - 1]
    assert "np.linalg.cholesky(x) made nan" in str(found)
    found = explained(lambda x: np.linalg.pinv(x), SINGULAR)
    assert found.phase == "backward"
    assert "the derivative of np.linalg.pinv(x) is nan" in str(found)
    found = explained(lambda x: np.cumprod(x), [0.0, np.inf])
    assert "x[1] is inf before np.cumprod(x)" in str(found)


@pytest.mark.parametrize(
    ("run", "value"), [(lambda x: np.exp(x) * 0, 1000.0), (lambda x: np.sqrt((x**2).sum()), 0.0)]
)
def test_where_infinities_meet_it_is_said_how_to_find_the_first(run, value):
    found = explained(run, [value], infinite=False)
    assert found.suggestion.startswith("adc.tape.anomaly(infinite=True) shows what made")
    assert found.guard is None


# -- explain_nan of Python functions -----------------------------------------------------------


def test_containers_integers_and_names():
    found = adc.explain_nan(lambda p, i: np.log(p["w"][i]).sum(), {"w": [1.0, 0.0]}, np.array([0, 1]))
    assert found.operation == "log"
    assert found.element == (1,)
    assert adc.explain_nan(lambda x, k: (x**k).sum() / k, np.ones(2), 0).operands["k"] == 0
    assert adc.explain_nan(lambda x: np.log(x), 0).operation == "log"
    assert not adc.explain_nan(lambda x, y: np.sqrt(x) + y, 0.0, 1.0, wrt="y")
    assert adc.explain_nan(lambda x, y: np.sqrt(x) + y, 0.0, 1.0, wrt=("x", "y")).operation == "sqrt"
    with pytest.raises(adc.Error, match="wrt='z': <lambda> has no such parameter"):
        adc.explain_nan(lambda x: x, 1.0, wrt="z")


def test_float32_stays_float32():
    found = adc.explain_nan(lambda x: np.exp(x), np.float32([89.0]))
    assert found.guard == "np.exp(np.minimum(x, 80))"
    assert not adc.explain_nan(lambda x: np.exp(x), np.array([89.0]))


def test_what_a_function_raises_it_raises():
    def run(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        adc.explain_nan(run, 1.0)
