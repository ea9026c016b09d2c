"""What to write instead of a name that the language has not: the remedy is right, and fits the name."""

from __future__ import annotations

import re

import numpy as np
import pytest
from judges.numpy_functions import same

import adcompiler as adc
from adcompiler.frontend.values.operators import ELSEWHERE

X = np.array([1.5, np.nan, -2.0, 0.0])
EDGES = np.array([-1.0, 0.5, 1.0])
A, B, V, K = X.copy(), X[:2], 7.0, 1
GIVEN = {"x": X, "y": X + 1e-9, "a": A, "b": B, "v": V, "k": K, "edges": EDGES, "n": 3}

# What NumPy gives where its name stands, and the remedy's code.
EQUAL = {
    "partition": np.sort(X),
    "histogram": np.histogram(np.nan_to_num(X, nan=9.0), EDGES)[0],
    "array_equal": np.array_equal(X, X + 1e-9),
    "sorted": np.sort(X),
    "cat": np.concatenate((A, B)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_a_remedy_does_what_the_name_does(name):
    code = re.sub(r"^write |, where .*$", "", ELSEWHERE[name])
    f = adc.compile(code, backend="numpy")
    integers = [np.int64(GIVEN[p.name]) if p.name in "nk" else GIVEN[p.name] for p in f._parameters]
    same(f(*integers), EQUAL[name])


@pytest.mark.parametrize("name", ["piecewise", "np.unwrap", "np.linalg.tensorinv", "divmod"])
def test_a_name_that_numpy_or_python_has_is_no_misspelling(name):
    with pytest.raises(adc.ParseError, match="unknown function") as found:
        adc.compile(f"{name}(x)")
    assert "did you mean" not in str(found.value)


@pytest.mark.parametrize(
    ("name", "near"), [("tril2", "tril"), ("sqr", "sqrt"), ("softmx", "softmax"), ("meen", "mean")]
)
def test_a_misspelling_is_told_what_is_near(name, near):
    with pytest.raises(adc.ParseError, match=f"did you mean .*{near}"):
        adc.compile(f"{name}(x)")
