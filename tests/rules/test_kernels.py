"""Every kernel and expansion gives NumPy's values at special points, and keeps the type.

All entries of one arity and type are compiled together, as one function that returns a tuple.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest

from adcompiler.ops.build import result_dtype
from adcompiler.ops.primitive import Primitive
from adcompiler.ops.table import TABLE
from adcompiler.ir.types import NUMPY
from rules.evaluate import Kernels

FLOATS = (0.0, -0.0, 0.3, -0.3, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.5, 3.0, 40.0, -40.0, 1e4, -1e4,
          math.inf, -math.inf, math.nan)  # fmt: skip
SPECIAL = {
    "f64": (*FLOATS, 5e-324, -1e-310, 1e300, -1e300),
    "f32": (*FLOATS, 1e-45, -1e-40, 1e30, -1e30),
    "i64": (0, 1, -1, 2, 3, -3, 7, 63, 64, -64, 2**62, 2**63 - 1, -(2**63)),
    "bool": (False, True),
}
KINDS = {
    "f64": ("arithmetic", "float", "bool"),
    "f32": ("arithmetic", "float", "bool"),
    "i64": ("arithmetic", "bool", "integer"),
    "bool": ("logical",),
}
TOLERANCE = {"f64": 1e-13, "f32": 2e-6}


def entries(dtype: str, arity: int) -> list[Primitive]:
    return [e for e in TABLE.values() if e.kind in KINDS[dtype] and len(e.params) == arity]


@cache
def compiled(dtype: str, arity: int) -> Any:
    """One jitted function of `arity` scalars that returns the results of all entries."""
    names = "abc"[:arity]
    algebra = Kernels(NUMPY[dtype].name)
    values = [algebra.call(e.name, list(names)) for e in entries(dtype, arity)]
    results = " + ".join(f"({', '.join(values[k : k + 20])},)" for k in range(0, len(values), 20))
    source = "\n    ".join((f"def kernel({', '.join(names)}):", *algebra.statements, f"return {results}"))
    scope: dict[str, Any] = {"np": np, "math": math}
    exec(source, scope)
    kernel = numba.njit(error_model="numpy")(scope["kernel"])
    kernel.compile((numba.from_dtype(NUMPY[dtype]),) * arity)
    return kernel


CASES = [(d, n) for d in KINDS for n in (1, 2, 3) if entries(d, n)]


@pytest.mark.parametrize(("dtype", "arity"), CASES)
def test_types_are_kept(dtype: Any, arity: int) -> None:
    types = compiled(dtype, arity).nopython_signatures[0].return_type
    for entry, actual in zip(entries(dtype, arity), types, strict=True):
        operand, result = result_dtype(entry.name, (dtype,) * arity)
        assert operand == dtype, entry.name
        assert actual == numba.from_dtype(NUMPY[result]), entry.name
        assert entry.numpy(*[np.ones(2, NUMPY[dtype])] * arity).dtype == NUMPY[result], entry.name


@pytest.mark.parametrize(("dtype", "arity"), CASES)
def test_values_are_numpys(dtype: str, arity: int) -> None:
    few = SPECIAL[dtype] if arity < 3 else SPECIAL[dtype][:20:2]
    grid = list(product(few, repeat=arity))
    rows = [compiled(dtype, arity)(*map(NUMPY[dtype].type, point)) for point in grid]
    columns = np.array(grid, NUMPY[dtype]).T
    wrong = []
    for k, entry in enumerate(entries(dtype, arity)):
        with np.errstate(all="ignore"):
            mine, truth = np.array([row[k] for row in rows]), reference(entry, columns)
        wrong += [(entry.name, p, a, b) for p, a, b in zip(grid, mine, truth, strict=True) if not same(a, b, dtype)]
    assert not wrong, "\n".join(map(str, wrong))


def reference(entry: Primitive, columns: Any) -> Any:
    return entry.numpy(*columns)


def same(a: Any, b: Any, dtype: str) -> bool:
    """Equal, in relative terms for floats; signs of zeros count."""
    if dtype not in TOLERANCE or isinstance(b, np.bool_) or not np.isfinite(b):
        return bool(np.array_equal(a, b, equal_nan=np.isreal(b) and b != b))
    if a == 0 == b:
        return bool(np.signbit(a) == np.signbit(b))
    small = np.finfo(NUMPY[dtype]).tiny
    return bool(abs(float(a) - float(b)) <= TOLERANCE[dtype] * abs(float(b)) + 4 * float(small))
