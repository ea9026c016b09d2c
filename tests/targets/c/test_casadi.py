"""C source with CasADi's interface: called as CasADi calls it, and loaded by `casadi.external`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from judges.c_files import STRICT

import adcompiler as adc
from adcompiler.cli import main

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

RNG = np.random.default_rng(2)
MODEL = """
def model(x: f64[4], a: f64, m: f64[2, 3], k: i64):
    y = [sin(x[i]) * a * x[(i + 1) % 4] for i in range(4)]
    return y, sum(x ** 2) * sum(m ** 3) * k, m @ m.T, k + 1
"""
ARGS = RNG.normal(size=4), 0.7, RNG.normal(size=(2, 3)), 3
INTEGER, REAL = ctypes.c_longlong, ctypes.c_double


def built(folder: Path, source: str, name: str = "model") -> ctypes.CDLL:
    """The library of a source."""
    (folder / "source.adc").write_text(source)
    command = ["build", str(folder / "source.adc"), "--emit", "c", "--abi", "casadi", "-o", str(folder)]
    assert main(command) == 0
    command = ["gcc", *STRICT, "-O1", "-fPIC", "-shared", f"{name}.c", "-o", f"{name}.so", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / f"{name}.so"))


class External:
    """A function of a library, called as CasADi calls it."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.library, self.name = library, name
        self.inputs, self.outputs = self.called("n_in", INTEGER), self.called("n_out", INTEGER)

    def called(self, what: str, kind: type, *args: object) -> object:
        function = getattr(self.library, f"{self.name}_{what}")
        function.restype = kind
        return function(*args)

    def names(self, side: str) -> list[str]:
        count = self.inputs if side == "in" else self.outputs
        return [self.called(f"name_{side}", ctypes.c_char_p, INTEGER(k)).decode() for k in range(count)]

    def pattern(self, side: str, k: int) -> tuple[int, int, list[int], list[int]]:
        """Rows and columns, then the row and the column of each entry."""
        found = self.called(f"sparsity_{side}", ctypes.POINTER(INTEGER), INTEGER(k))
        rows, columns = found[0], found[1]
        if found[2] == 1:
            return rows, columns, [*range(rows)] * columns, [j for j in range(columns) for _ in range(rows)]
        begins = found[2 : 3 + columns]
        inside = [j for j, (a, b) in enumerate(pairwise(begins)) for _ in range(b - a)]
        return rows, columns, found[3 + columns : 3 + columns + begins[-1]], inside

    def __call__(self, args: list[np.ndarray | None], wanted: list[bool]) -> list[np.ndarray | None]:
        """Dense results; None is a null pointer."""
        sizes = [INTEGER() for _ in range(4)]
        assert self.called("work", ctypes.c_int, *map(ctypes.byref, sizes)) == 0
        given = [None if a is None else np.ravel(a, "F").astype(float) for a in args]
        patterns = [self.pattern("out", k) for k in range(self.outputs)]
        values = [np.full(len(p[2]), np.nan) if w else None for p, w in zip(patterns, wanted, strict=True)]
        arg = (ctypes.c_void_p * sizes[0].value)(*(None if a is None else a.ctypes.data for a in given))
        res = (ctypes.c_void_p * sizes[1].value)(*(None if v is None else v.ctypes.data for v in values))
        iw, w = (INTEGER * max(sizes[2].value, 1))(), (REAL * max(sizes[3].value, 1))()
        assert getattr(self.library, self.name)(arg, res, iw, w, self.called("checkout", ctypes.c_int)) == 0
        found: list[np.ndarray | None] = []
        for (rows, columns, at, beside), value in zip(patterns, values, strict=True):
            matrix = np.zeros((rows, columns))
            if value is not None:
                matrix[at, beside] = value
            found.append(None if value is None else matrix)
        return found


def by_columns(a: object) -> np.ndarray:
    """The entries of an array in column-major order, as a column."""
    return np.reshape(a, (-1, 1), "F") if np.ndim(a) < 2 else np.asarray(a).reshape(-1, 1, order="F")


def test_values_and_null_pointers(tmp_path):
    model = External(built(tmp_path, MODEL), "model")
    assert model.names("in") == ["x", "a", "m", "k"]
    assert [model.pattern("in", k)[:2] for k in range(4)] == [(4, 1), (1, 1), (2, 3), (1, 1)]
    want = adc.compile(MODEL)(*ARGS)
    found = model([*map(np.asarray, ARGS)], [True, False, True, True])
    assert found[1] is None
    for got, value in zip(found, want, strict=True):
        if got is not None:
            np.testing.assert_allclose(by_columns(got), by_columns(value), rtol=1e-14)
    zeros = model([None] * 4, [True] * 4)
    assert zeros[3] == 1
    assert not zeros[0].any()


@pytest.mark.slow
def test_the_jacobian_has_blocks_of_the_entries_that_are_there(tmp_path):
    jacobian = External(built(tmp_path, MODEL), "jac_model")
    assert jacobian.names("in")[4:] == ["out_r0", "out_r1", "out_r2", "out_r3"]
    assert jacobian.names("out")[:5] == ["jac_r0_x", "jac_r0_a", "jac_r0_m", "jac_r0_k", "jac_r1_x"]
    assert [len(jacobian.pattern("out", k)[2]) for k in range(16)] == [
        8,
        4,
        0,
        0,
        4,
        0,
        6,
        0,
        0,
        0,
        18,
        0,
        0,
        0,
        0,
        0,
    ]
    found = jacobian([*map(np.asarray, ARGS), *[None] * 4], [True] * 16)
    blocks = adc.jacobian(adc.compile(MODEL))(*ARGS)
    for r in range(3):
        for i in range(3):
            block = np.asarray(blocks[r][i])
            shapes = np.shape(adc.compile(MODEL)(*ARGS)[r]), np.shape(ARGS[i])
            split = len(shapes[0])
            want = block.transpose([*range(split)[::-1], *range(split, block.ndim)[::-1]])
            want = want.reshape(np.prod(shapes[0], dtype=int), -1)
            np.testing.assert_allclose(found[4 * r + i], want, rtol=1e-13, atol=1e-13)


def test_a_function_without_derivatives(tmp_path):
    library = built(tmp_path, "def model(k: i64, flag: bool):\n    return k + 1 if flag else k\n")
    assert External(library, "model")([np.array(4.0), np.array(1.0)], [True])[0] == 5
    assert not hasattr(library, "jac_model")


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("def f(x: f64[n]):\n    return sum(x)", [], "x has a length that is not known"),
        ("def f(x: f64[2, 2, 2]):\n    return sum(x)", [], "x has 3 axes\n  help: CasADi has matrices"),
        ("def f(x: f64[2]):\n    return x", ["--what", "grad"], "--what does not apply to --abi casadi"),
        ("def f(x: f64[2]):\n    return x", ["--wrt", "x"], "--wrt does not apply to --abi casadi"),
        ("def f(x: f64[2]):\n    return x", ["--emit", "library"], "--abi casadi applies only to C source"),
    ],
)
def test_what_casadi_cannot_call_is_refused(tmp_path, capsys, source, options, says):
    (tmp_path / "model.adc").write_text(source)
    command = ["build", str(tmp_path / "model.adc"), "--emit", "c", "--abi", "casadi", "-o", str(tmp_path)]
    assert main([*command, *options]) != 0
    assert says in capsys.readouterr().err


def test_casadi_differentiates_it_twice(tmp_path):
    """The Jacobian, and the gradient and Hessian of an expression around it, with CasADi's own patterns."""
    ca = pytest.importorskip("casadi")
    built(tmp_path, MODEL)
    model = ca.external("model", str(tmp_path / "model.so"))
    x, a, m = ca.MX.sym("x", 4), ca.MX.sym("a"), ca.MX.sym("m", 2, 3)
    own = ca.Function(
        "own",
        [x, a, m],
        [ca.sin(x) * a * x[[1, 2, 3, 0]], ca.sumsqr(x) * ca.sum1(ca.vec(m**3)) * 3, m @ m.T],
    )

    def derived(results):
        """The results, their Jacobian, and the gradient and the Hessian of an expression of them."""
        flat = ca.vertcat(*map(ca.vec, results))
        cost = ca.sum1(results[0] * ca.DM([1, 2, 3, 4])) * results[1] + ca.sumsqr(results[2])
        hessian = [ca.jacobian(ca.gradient(cost, p), q) for p in (x, a, m) for q in (x, a, m)]
        slopes = [ca.jacobian(flat, p) for p in (x, a, m)]
        return ca.Function("derived", [x, a, m], [flat, *slopes, *hessian])

    ours, theirs = derived(model(x, a, m, 3)[:3]), derived(own(x, a, m))
    for got, want in zip(ours(*ARGS[:3]), theirs(*ARGS[:3]), strict=True):
        np.testing.assert_allclose(np.array(got.full()), np.array(want.full()), rtol=1e-12, atol=1e-12)
    for k in range(1, 4):
        assert ours.sparsity_out(k) == theirs.sparsity_out(k)
    tangent = model.forward(1)(*ARGS, *[0] * 4, np.ones(4), 0, np.zeros((2, 3)), 0)
    slope = own.forward(1)(*ARGS[:3], *[0] * 3, np.ones(4), 0, np.zeros((2, 3)))
    for got, want in zip(tangent[:3], slope, strict=True):
        np.testing.assert_allclose(np.array(got.full()), np.array(want.full()), rtol=1e-13, atol=1e-14)
