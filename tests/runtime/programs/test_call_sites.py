"""Calls like one before run at once, also with containers: by dtypes and lengths, and by nothing else."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest

import adcompiler as adc

X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
CASES = {
    "dict": ("def f(p):\n    return p['a'] * p['b']", {"a": X, "b": Y}, {"a": Y, "b": X}),
    "other order": ("def f(p):\n    return p['a'] - p['b']", {"a": X, "b": Y}, {"b": X, "a": Y}),
    "numbers": ("def f(p):\n    return p[0] + 2 * p[1]", (1.0, 2.0), (2.0, 1.0)),
    "nested": ("def f(p):\n    return sum(p['a'][0]) + p['a'][1]", {"a": (X, 1.0)}, {"a": (Y, 2.0)}),
    "lengths": ("def f(p):\n    return sum(p[0] * p[1])", [X, Y], [X[:2], Y[:2]]),
    "float32": ("def f(p):\n    return p[0] * p[1]", [X, Y], [X.astype("f4"), Y.astype("f4")]),
    "strides": ("def f(p):\n    return p[0] * p[1]", [X, Y], [X[::-1], Y[::-1]]),
    "indices": ("def f(p):\n    return p[0][p[1]]", (X, np.array([0, 1])), (X, np.array([2, 2]))),
}


@pytest.mark.parametrize("case", CASES)
def test_a_call_is_done_as_the_first_one(case):
    source, *arguments = CASES[case]
    f = adc.compile(source)
    expected = [adc.compile(source)(p) for p in arguments]
    for k, _ in product((0, 1, 1, 0), range(2)):
        found = f(arguments[k])
        np.testing.assert_array_equal(found, expected[k])
        assert type(found) is type(expected[k])
        assert getattr(found, "dtype", None) == getattr(expected[k], "dtype", None)


def test_lengths_that_do_not_fit_are_refused_after_some_that_do():
    f = adc.compile("def f(p):\n    return p['a'] * p['b']")
    f({"a": X, "b": Y})
    with pytest.raises(adc.ShapeError, match="differ"):
        f({"a": X, "b": Y[:2]})


def test_variables_and_arrays_have_sites_of_their_own():
    f, x = adc.compile("def f(p):\n    return sum(p['a'] * p['b'])"), adc.Variable(X, requires_grad=True)
    for _ in range(3):
        assert f({"a": X, "b": Y}) == 32.0
        f({"a": x, "b": Y}).backward()
        with adc.no_grad():
            assert not f({"a": x, "b": Y}).requires_grad
    np.testing.assert_array_equal(x.grad.value, 3 * Y)


def test_containers_are_called_with_before_there_are_variables():
    call = "import adcompiler as adc; print(adc.compile('def f(p): return p[0] + p[1]')((1.0, 2.0)))"
    assert subprocess.check_output([sys.executable, "-c", call], text=True) == "3.0\n"
