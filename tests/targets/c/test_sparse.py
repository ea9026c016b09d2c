"""Sparse derivatives in C: the values of their entries at places in tables."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest
from judges.c_files import Exported

import adcompiler as adc
from adcompiler.cli import main

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

RNG = np.random.default_rng(1)
X, U = RNG.uniform(0.5, 1.5, (5, 2)), RNG.uniform(0.5, 1.5, 4)
CHAIN = "def chain(x: f64[9], a: f64):\n    return a * sum((x[i + 1] - x[i] ** 2) ** 2 for i in range(8))\n"
SHOOTING = """
def shoot(x: f64[5, 2], u: f64[4]):
    y = zeros((4, 2))
    for i in range(4):
        p, q = x[i, 0], x[i, 1]
        for s in range(30):
            p, q = p + 0.01 * q, q + 0.01 * (u[i] - sin(p))
        y[i, 0] = x[i + 1, 0] - p
        y[i, 1] = x[i + 1, 1] - q
    return y
"""
COST = SHOOTING.replace("return y", "return sum(y ** 2) + sum(u ** 4)").replace("shoot", "cost")
TALL = """
def tall(x: f64[9], a: f64):
    y = x
    for k in range(20):
        y = y * 0.9 + sin(x) * a
    return sum(y), y
"""
MODELS = {
    "entry by entry": (CHAIN, "jacobian", (X.ravel()[:9], 0.7)),
    "a Hessian entry by entry": (CHAIN, "hessian", (X.ravel()[:9], 0.7)),
    "by directions": (SHOOTING, "jacobian", (X, U)),
    "a Hessian by directions": (COST, "hessian", (X, U)),
    "by cotangents": (TALL, "jacobian", (X.ravel()[:9], 0.3)),
}


def dense(source: str, what: str, args: tuple[object, ...]) -> np.ndarray:
    """The whole matrix: entries of all results by entries of all arguments."""
    f = adc.compile(source)
    blocks = (adc.hessian if what == "hessian" else adc.jacobian)(f)(*args)
    widths = [np.size(a) for a in args]
    rows = blocks if isinstance(blocks, tuple) and isinstance(blocks[0], tuple) else (blocks,)
    flat = ([np.reshape(b, (-1, w)) for b, w in zip(row, widths, strict=True)] for row in rows)
    return np.vstack([np.hstack(row) for row in flat])


@pytest.mark.slow_when(lambda model: model == "a Hessian by directions")
@pytest.mark.parametrize("model", MODELS)
def test_entries_are_those_of_the_dense_derivative(tmp_path, model):
    """Of a Hessian they are the lower triangle. Each place occurs once, and rows are in order."""
    source, what, args = MODELS[model]
    exported = Exported(tmp_path, source, what, sparse=True)
    library, name = exported.library(), f"{exported.name}_{what}"
    count = exported.count(name)
    rows, columns = (
        np.array((ctypes.c_int64 * count).in_dll(library, f"{name}_{s}")) for s in ("rows", "columns")
    )
    want = dense(source, what, args)
    found = np.zeros_like(want)
    values = exported.sparse_values(library, name, count, *args)
    found[rows, columns] = values
    if what == "hessian":
        assert (rows >= columns).all()
        found = np.tril(found) + np.tril(found, -1).T
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-14 * np.abs(want).max())
    places = list(zip(rows.tolist(), columns.tolist(), strict=True))
    assert places == sorted(set(places))
    assert count <= want.size


def test_no_entries(tmp_path):
    exported = Exported(tmp_path, "def f(x: f64[3]):\n    return floor(x)\n", "jacobian", sparse=True)
    exported.compile("-c", output="f.o")
    assert "f_jacobian_entries = 0" in exported.texts["f.h"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (CHAIN.replace("f64[9]", "f64[n]").replace("8", "n - 1"), "unknown lengths: n\n  help: give numbers"),
        (
            "def f(x: f64[3], k: i64):\n    for i in range(k):\n        x = sin(x)\n    return x\n",
            "place of k",
        ),
    ],
)
def test_places_that_are_unknown_are_refused(tmp_path, capsys, source, says):
    (file := Path(tmp_path) / "model.adc").write_text(source)
    command = [
        "build",
        str(file),
        "--emit",
        "c",
        "--what",
        "jacobian",
        "--sparse",
        "-o",
        str(tmp_path / "src"),
    ]
    assert main(command) == 1
    assert says in capsys.readouterr().err
