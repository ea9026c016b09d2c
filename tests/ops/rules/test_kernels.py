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
from ops.rules.evaluate import Kernels, in_orders

from adcompiler.ir.types import NUMPY
from adcompiler.ops.build import result_dtype
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import TABLE
from adcompiler.targets.numba.intrinsics import fma, rsqrt
from adcompiler.targets.numba.special import bessel, incomplete, series

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


def entries(dtype: str, arity: int) -> list[Primitive]:
    known = in_orders(TABLE.values(), (0, 3))
    of_kind = [e for e in known if e.kind in KINDS[dtype] and len(e.params) == arity]
    return [e for e in of_kind if (e.name, dtype) != ("power", "i64")]  # raises: see below


@cache
def compiled(dtype: str, arity: int) -> Any:
    """One jitted function of `arity` scalars that returns the results of all entries."""
    names = "abc"[:arity]
    algebra = Kernels(NUMPY[dtype].name)
    values = [algebra.apply(e, list(names)) for e in entries(dtype, arity)]
    results = " + ".join(f"({', '.join(values[k : k + 20])},)" for k in range(0, len(values), 20))
    source = "\n    ".join((f"def kernel({', '.join(names)}):", *algebra.statements, f"return {results}"))
    scope: dict[str, Any] = {"np": np, "math": math, "fma": fma, "rsqrt": rsqrt}
    scope |= {"series": series, "bessel": bessel, "incomplete": incomplete}
    exec(source, scope)
    kernel = numba.njit(error_model="numpy")(scope["kernel"])
    kernel.compile((numba.from_dtype(NUMPY[dtype]),) * arity)
    return kernel


CASES = [(d, n) for d in KINDS for n in (1, 2, 3) if entries(d, n)]


# Among equal operands C and NumPy choose as they please; numba's np.sign gives back a zero.
ANY_ZERO = {"sign", "minimum", "maximum", "fmin", "fmax", "relu", "clip", "erfinv",
            "jn-3", "i1", "iv-3", "i1e", "ive-3"}  # fmt: skip
# Their references, or the functions themselves near a root, are exact to an absolute error only.
ABSOLUTE = {"gelu_tanh", "digamma", "polygamma-0", "mish", "sinc", "logit", "log_ndtr", "lbeta",
            "betainc_derivative-3", "betainc_density-3"}  # fmt: skip
# Their references lose digits; test_accuracy.py judges them by mpmath.
INEXACT = {"beta", "lbeta", "j0", "j1", "jn-0", "jn-3", "ierfcx-3"}
BESSEL = {"j0", "j1", "jn-0", "jn-3", "i0", "i1", "iv-0", "iv-3", "i0e", "i1e", "ive-0", "ive-3"}
GAMMAS = {"digamma", "trigamma", "polygamma-0", "polygamma-3"}


def skipped(entry: Primitive, point: tuple[Any, ...]) -> bool:
    """Where NumPy and SciPy are not the judges."""
    x = point[0]
    if entry.name in ("gamma_log_quantile", "beta_log_odds"):
        return bool(x + point[1] != 1)  # not a probability and its complement
    if entry.name == "floor_divide" and point == (-(2**63), -1):  # overflows
        return True
    if entry.name in GAMMAS:  # a pole, where SciPy has NaN or inf
        return bool(x <= 0 and (math.isinf(x) or x == round(x)))
    if entry.name in BESSEL | {"sinc", "sinc_derivative-0", "sinc_derivative-3"}:
        return abs(x) > 1e20 or 0 < abs(x) < 1e-300  # SciPy gives NaN, or its phase is lost
    if entry.name in ("beta", "lbeta"):  # SciPy's conventions outside of the domain differ
        return not all(1e-300 < v < 1e200 for v in point)
    return entry.name == "lgamma" and (x == -math.inf or 0 < abs(x) < 1e-300)


@pytest.mark.slow_when(lambda dtype, arity: dtype in ("f32", "f64") and arity < 3)
@pytest.mark.parametrize(("dtype", "arity"), CASES)
def test_values_are_numpys_and_types_are_kept(dtype: Any, arity: int) -> None:
    types = compiled(dtype, arity).nopython_signatures[0].return_type
    few = SPECIAL[dtype] if arity < 3 else SPECIAL[dtype][:20:2]
    grid = list(product(few, repeat=arity))
    rows = [compiled(dtype, arity)(*map(NUMPY[dtype].type, point)) for point in grid]
    wrong = []
    for k, entry in enumerate(entries(dtype, arity)):
        with np.errstate(all="ignore"):
            truths = entry.numpy(*np.array(grid, NUMPY[dtype]).T)
        operand, result = result_dtype(entry.name.partition("-")[0], (dtype,) * arity)
        assert operand == dtype, entry.name
        assert types[k] == numba.from_dtype(NUMPY[result]), entry.name
        assert truths.dtype == NUMPY[result], entry.name
        for point, row, truth in zip(grid, rows, truths, strict=True):
            if not skipped(entry, point) and not same(entry, row[k], truth):
                wrong.append(f"{entry.name}{point} is {row[k]}, not {truth}")
    assert not wrong, "\n".join(wrong)


def same(entry: Primitive, a: Any, b: Any) -> bool:
    """Equal, floats to a few units in the last place; signs of zeros count."""
    if not isinstance(b, np.floating):
        return bool(a == b)
    if not np.isfinite(b):
        return bool(np.array_equal(a, b, equal_nan=True))
    if a == 0 == b and entry.name not in ANY_ZERO:
        return bool(np.signbit(a) == np.signbit(b))
    info, scale = np.finfo(b.dtype), max(abs(float(b)), entry.name in ABSOLUTE)
    few = 16 * float(info.eps) if entry.name not in INEXACT else 16 * float(info.eps) + 1e-10
    return bool(abs(float(a) - float(b)) <= few * scale + 4 * float(info.tiny))


def test_powers_of_integers_wrap() -> None:
    """Programs check that exponents are not negative (`frontend/values/operations.py`)."""
    power = numba.njit(lambda x, y: x**y, error_model="numpy")
    for x, y in product((0, 1, -1, 2, -3, 10, 2**62), (0, 1, 2, 3, 50, 63)):
        with np.errstate(all="ignore"):
            assert power(x, y) == TABLE["power"].numpy(np.int64(x), np.int64(y))
