"""`adc.tape.anomaly`: NaN is an error at the operation that made it, with the user's line and a remedy."""

from __future__ import annotations

import traceback
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc

LINES = Path(__file__).read_text("utf-8").splitlines()
X = np.array([4.0, 0.0, 1.0])
ZEROS = np.zeros((2, 3))


def raised(run, *args, **options):
    """The explanation of the error that `run` raises on Variables of these values."""
    made = [
        adc.Variable(np.asarray(a), requires_grad=True, name=n) for n, a in zip("xyz", args, strict=False)
    ]
    with pytest.raises(adc.Error) as caught, adc.tape.anomaly(**options):  # noqa: PT012
        result = run(*made)
        result.sum().backward()
    return caught.value


def text_at(found):
    """The user's expression that an explanation points at."""
    return LINES[found.line - 1][found.column - 1 : found.span.end_column - 1]


# What a user writes, the values, and what is said: the expression, the pass, the operands.
ORIGINS = {
    "root": (lambda x, y: np.sqrt(x) * y, (X, X), "np.sqrt(x)", "backward", {"x[1]": 0.0}),
    "negative root": (lambda x: np.sqrt(x), (-X,), "np.sqrt(x)", "forward", {"x[0]": -4.0}),
    "logarithm": (lambda x: np.log(x) * x, (X,), "np.log(x) * x", "forward", None),
    "0 / 0": (lambda x, y: x / y, (X, X), "x / y", "forward", {"x[1]": 0.0, "y[1]": 0.0}),
    "power": (lambda x, y: x**0.5 * y, (X, X), "x**0.5", "backward", {"x[1]": 0.0}),
    "power of a negative": (lambda x: x**0.5, (-X,), "x**0.5", "forward", {"x[0]": -4.0}),
    "acos": (lambda x, y: np.arccos(x) * y, ([1.0], [0.0]), "np.arccos(x)", "backward", {"x[0]": 1.0}),
    "inf - inf": (lambda x: np.exp(x) - np.exp(x), ([1e3],), "np.exp(x) - np.exp(x)", "forward", None),
    "the trap of where": (
        lambda x: np.where(x.value > 0, np.sqrt(x), 0.0), (X,), "np.sqrt(x)", "backward", {"x[1]": 0.0}
    ),
    "broadcast": (lambda x, y: np.sqrt(x) * y, (X, ZEROS), "np.sqrt(x)", "backward", {"x[1]": 0.0}),
}  # fmt: skip


@pytest.mark.parametrize("case", ORIGINS)
def test_the_operation_is_named_as_the_user_wrote_it(case):
    run, args, expression, phase, operands = ORIGINS[case]
    error = raised(run, *args)
    found = error.explanation
    assert (text_at(found), found.phase) == (expression, phase)
    assert (error.line, error.column) == (found.line, found.column)
    if operands is not None:
        assert dict(found.operands) == operands


def test_a_cotangent_that_was_infinite_is_traced_with_infinite():
    """inf * 0 is NaN one operation after the root: the message says how to find the root."""

    def distance(x):
        return np.sqrt((x * x).sum())

    first = raised(distance, [0.0, 0.0])
    assert text_at(first.explanation) == "x * x"
    assert "adc.tape.anomaly(infinite=True) shows what made" in str(first)
    second = raised(distance, [0.0, 0.0], infinite=True)
    assert text_at(second.explanation) == "np.sqrt((x * x).sum())"
    assert "infinite=True" not in str(second)


MENDED = {
    "root": lambda x: np.where(x.value > 0, np.sqrt(np.where(x.value > 0, x, 1)), 0) * x,
    "power": lambda x: np.where(x.value > 0, np.where(x.value > 0, x, 1) ** 0.5, 0) * x,
    "logarithm": lambda x: np.where(x.value > 0, np.log(np.where(x.value > 0, x, 1)), 0) * x,
}


@pytest.mark.parametrize("case", MENDED)
def test_what_is_suggested_helps(case):
    x = adc.Variable(X, requires_grad=True)
    with adc.tape.anomaly(infinite=True):
        MENDED[case](x).sum().backward()
    assert np.isfinite(x.grad).all()


def test_the_trap_of_where_is_explained():
    found = raised(lambda x: np.where(x.value > 0, np.sqrt(x), 0.0), X).explanation
    assert "the branch of a where that is not taken" in str(found)
    assert found.guard == "np.where(x > 0, np.sqrt(np.where(x > 0, x, 1)), 0)"


def test_an_input_that_is_nan_already():
    found = raised(lambda x: x * 2, np.array([1.0, np.nan])).explanation
    assert found.phase == "input"
    assert "x[1] is nan before x * 2" in str(found)


def test_infinities_are_errors_if_asked_for():
    x = adc.Variable(np.array([0.0]), requires_grad=True)
    with adc.tape.anomaly():
        assert np.isinf((1 / x).value).all()
    found = raised(lambda x: 1 / x, np.array([0.0]), infinite=True).explanation
    assert (found.operation, found.value, text_at(found)) == ("divide", np.inf, "1 / x")


def test_nothing_is_looked_at_outside():
    x = adc.Variable(-X, requires_grad=True)
    assert np.isnan(np.sqrt(x).value).any()
    with pytest.raises(adc.Error), adc.tape.anomaly():
        np.sqrt(x)
    assert np.isnan(np.sqrt(x).value).any()


def test_no_grad_is_looked_at_too():
    x = adc.Variable(-X, requires_grad=True)
    with pytest.raises(adc.Error, match=r"np\.sqrt\(x\) made nan"), adc.tape.anomaly(), adc.no_grad():
        np.sqrt(x)


masked = adc.compile("def masked(x):\n    t = 2 * x\n    return sum(sqrt(t) * (x > 0))\n")


def test_a_compiled_function_is_explained_from_inside():
    error = raised(lambda x: masked(x) * 3, X)
    found = error.explanation
    assert (found.operation, found.phase, found.line, found.element) == ("sqrt", "backward", 3, (1,))
    assert "in the call masked(x) (test_anomaly.py:" in str(error)
    found = raised(lambda x: masked(x - 5), X).explanation
    assert (found.operation, found.phase, found.line) == ("sqrt", "forward", 3)


def test_a_compiled_function_of_a_constant():
    with adc.no_grad(), adc.tape.anomaly(), pytest.raises(adc.Error, match="sqrt"):
        masked(adc.Variable(-X))


def test_second_order_names_the_forward_operation():
    x = adc.Variable(np.array(0.0), requires_grad=True)
    with adc.tape.anomaly():
        y = abs(x) ** 1.5
        first = adc.tape.grad(y, x, create_graph=True)
        with pytest.raises(adc.Error) as caught:
            adc.tape.grad(first, x)
    assert text_at(caught.value.explanation) == "abs(x) ** 1.5"
    assert "in the derivative of abs(x) ** 1.5" in str(caught.value)


def test_a_recorded_operation_of_ones_own():
    def cube_root(x):
        y = adc.Variable(np.cbrt(x.value))
        adc.tape.record([x], [y], lambda g: [g[0] / (3.0 * y * y) * 0.0])
        return y

    found = raised(cube_root, np.array([0.0, 8.0])).explanation
    assert found.phase == "backward"
    assert "adc.tape.record" in LINES[found.line - 1]


def test_a_python_function_is_explained():
    def loss(x, y):
        return np.sum(np.log(x) * y)

    found = adc.explain_nan(loss, X, X)
    assert (found.operation, text_at(found), found.element) == ("log", "np.log(x)", (1,))
    assert not adc.explain_nan(loss, X + 1, X)
    assert not adc.explain_nan(lambda x, y: np.sqrt(x) + y, 0.0, 1.0, wrt=1)
    assert adc.explain_nan(lambda x, y: np.sqrt(x) + y, 0.0, 1.0, wrt=0).phase == "backward"


def test_the_error_is_raised_at_the_users_line():
    with pytest.raises(adc.Error) as caught, adc.tape.anomaly():
        np.sqrt(adc.Variable(-X, requires_grad=True))
    files = {Path(frame.filename).name for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert "test_anomaly.py" in files
    assert isinstance(caught.value, adc.GraphError)


def test_float32_and_empty_arrays():
    found = raised(lambda x: np.sqrt(x) * 1.0, np.float32([-1.0])).explanation
    assert found.phase == "forward"
    x = adc.Variable(np.ones(0), requires_grad=True)
    with adc.tape.anomaly():
        np.sqrt(x).sum().backward()
    assert x.grad.shape == (0,)
