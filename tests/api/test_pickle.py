"""What was called can be pickled and copied, and then called again."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc

TEXT = "def f(x, y):\n    t = x * y\n    return sum(sin(t) * t)"
X, Y = np.linspace(0.1, 1, 5), np.linspace(2, 3, 5)
WAYS = [lambda v: pickle.loads(pickle.dumps(v)), copy.copy, copy.deepcopy]


@adc.function
def decorated(x: f64[n], y: f64[n]):  # noqa: F821
    return sum(x * y)


def loaded(folder: Path):
    (folder / "model.adc").write_text(TEXT)
    return adc.load(folder / "model.adc").f


MAKE = {
    "compiled": lambda folder: adc.compile(TEXT),
    "loaded": loaded,
    "decorated": lambda folder: decorated,
    "grad": lambda folder: adc.grad(adc.compile(TEXT)),
    "value_and_grad": lambda folder: adc.value_and_grad(loaded(folder)),
    "hessian": lambda folder: adc.hessian(adc.compile(TEXT), "x"),
    "jacobian": lambda folder: adc.jacobian(adc.compile("def f(x, y):\n    return x * y * sum(x)")),
    "sparse": lambda folder: adc.jacobian(adc.compile("def f(x, y):\n    return x * y"), sparse=True),
}


def dense(found):
    """Arrays of what may be sparse matrices."""
    return [p.toarray() if hasattr(p, "toarray") else p for p in (found if type(found) is tuple else [found])]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MAKE)
def test_functions_that_ran(tmp_path, name, way):
    f = MAKE[name](tmp_path)
    for _ in range(3):
        want = f(X, Y)
    np.testing.assert_equal(dense(way(f)(X, Y)), dense(want))
    np.testing.assert_equal(dense(f(X, Y)), dense(want))


@pytest.mark.parametrize("way", WAYS)
def test_pullbacks_and_products_with_hessians(way):
    f = adc.compile(TEXT)
    _, pullback = adc.vjp(f, X, Y)
    product = adc.hvp(f)
    want = product((X, Y), (Y, X))
    np.testing.assert_equal(way(pullback)(2.0), pullback(2.0))
    np.testing.assert_equal(way(product)((X, Y), (Y, X)), want)


@pytest.mark.parametrize("way", WAYS)
def test_pullbacks_of_arrays_that_propagate_does_not_read(way):
    _, pullback = adc.vjp(adc.compile("x * y"), X, Y)
    np.testing.assert_equal(way(pullback)(X), (X * Y, X * X))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("save", ["partials", "auto", ["t"]])
@pytest.mark.parametrize("way", WAYS)
def test_split_functions_and_what_they_saved(way, save):
    split = adc.compile(TEXT).split(save=save)
    value, saved = split.forward(X, Y)
    want = split.propagate(saved, (1.0,))
    other = way(split)
    again, other_saved = other.forward(X, Y)
    assert again == value
    for function, kept in [(other, other_saved), (other, way(saved)), (split, way(saved))]:
        np.testing.assert_equal(function.propagate(kept, (1.0,)), want)
    assert way(saved).names == saved.names


def test_another_process_goes_on_with_what_forward_saved(tmp_path):
    split = adc.compile(TEXT).split()
    _, saved = split.forward(X, Y)
    want = split.propagate(saved, (1.0,))
    (tmp_path / "saved").write_bytes(pickle.dumps((split, saved)))
    program = f"""
import pickle
split, saved = pickle.load(open({str(tmp_path / "saved")!r}, "rb"))
print([g.tolist() for g in split.propagate(saved, (1.0,))])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == str([g.tolist() for g in want])
