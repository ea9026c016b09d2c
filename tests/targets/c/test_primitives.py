"""Every primitive in C: its value is that of compiled kernels, also at the edges of its domain."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from judges.c_files import STRICT

from adcompiler.ir.nodes import Func, Index, Input, Map, Read, Size, const
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.ops.build import apply
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.runtime.programs.backends import BACKENDS
from adcompiler.targets.c.files import c_files
from adcompiler.targets.c.functions import CFile
from adcompiler.targets.c.program import CProgram

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.7, 1e-310, 1e30, np.inf, -np.inf, np.nan)
WHOLE = (0, 1, -1, 3, -7, 2**62, -(2**63), 63, 64)
ULPS = 16  # of special functions: kernels contract products with sums; near roots the error is absolute


def program(entry: Primitive, dtype: Dtype) -> Func:
    """The primitive of arrays, each element by element; an order is 3."""
    shape = (Size(0),)
    ordered = entry.orders is not None
    inputs = tuple(Input(k, dtype, shape) for k in range(len(entry.params) - ordered))
    elements = [Read(i, (Index(0),)) for i in inputs]
    orders = [const(3, "i64")] * ordered
    result = Map(shape, apply(entry.name, *orders, *elements))
    func = Func(entry.name, inputs, tuple("xyz"[: len(inputs)]), (result,), ("r",), ("n",))
    return run((*OPTIMISE, *KERNEL), func)


def points(entry: Primitive, dtype: Dtype) -> list[np.ndarray]:
    """Arguments: samples of the domain and pairs of edges."""
    count = len(entry.params) - (entry.orders is not None)
    edges = {"i64": WHOLE, "bool": (False, True)}.get(dtype, EDGES)
    grid = np.array(np.meshgrid(*[np.array(edges, NUMPY[dtype])] * count)).reshape(count, -1)
    if entry.name == "power" and dtype == "i64":  # integers have no negative powers
        grid = grid[:, (grid[1] >= 0) & (grid[1] < 65)]
    if dtype[0] != "f":
        return list(np.ascontiguousarray(grid))
    rng = np.random.default_rng(0)
    inside = np.array([[rng.uniform(*rng.choice(d)) for _ in range(30)] for d in entry.domain[-count:]])
    return [np.concatenate(pair).astype(NUMPY[dtype]) for pair in zip(inside, grid, strict=True)]


def taken(entry: Primitive) -> list[Dtype]:
    """The types that a primitive takes."""
    kinds: dict[str, list[Dtype]] = {"integer": ["i64"], "logical": ["bool"], "float": ["f64", "f32"]}
    return kinds.get(entry.kind, ["f64", "f32", "i64"])


CASES = [(entry, dtype) for entry in TABLE.values() for dtype in taken(entry)]


@pytest.mark.slow
def test_every_primitive(tmp_path: Path) -> None:
    file = CFile()
    names = [f"p_{entry.name}_{dtype}" for entry, dtype in CASES]
    programs = [CProgram(file, program(*case), name) for case, name in zip(CASES, names, strict=True)]
    for name, text in c_files("all", file, programs).items():
        (tmp_path / name).write_text(text)
    command = [
        "gcc",
        *STRICT,
        "-fsanitize=undefined",
        "-fsanitize-undefined-trap-on-error",
        "-fPIC",
        "-shared",
    ]
    subprocess.run([*command, "-fPIC", "-shared", "-o", "all.so", "all.c", "-lm"], check=True, cwd=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    wrong = []
    for (entry, dtype), name, made in zip(CASES, names, programs, strict=True):
        given = points(entry, dtype)
        got = np.zeros(len(given[0]), NUMPY[made.func.results[0].dtype])
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*given, got)]
        assert getattr(library, name)(ctypes.c_int64(len(got)), *pointers, None) == 0
        with np.errstate(all="ignore"):
            (want,) = BACKENDS["cpu-precise"](made.func)([len(got)], given)
        same = (got == want) | (np.isnan(got) & np.isnan(want) if got.dtype.kind == "f" else False)
        if got.dtype.kind == "f":
            with np.errstate(all="ignore"):
                same |= np.abs(got - want) <= ULPS * np.finfo(got.dtype).eps * np.maximum(np.abs(want), 1)
        if not same.all():
            k = int(np.argmin(same))
            wrong.append(f"{name}({', '.join(str(a[k]) for a in given)}) = {got[k]}, not {want[k]}")
    assert not wrong, "\n".join(wrong)
