"""Intrinsics of the loop IR that are not mathematical functions: one row per processor operation.

Functions such as `exp` have their table in `targets/function_table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal as OneOf
from typing import NamedTuple


class Intrinsic(NamedTuple):
    """One operation; a *reduction* combines a total and a value, in any order.

    cheap whether it takes an instruction or two identity the initial value of a reduction horizontal LLVM's
    reduction of the lanes of a vector
    """

    cheap: bool = True
    identity: float | None = None
    horizontal: str = ""


INTRINSICS = {
    "fma": Intrinsic(),
    "mul_rn": Intrinsic(),
    "reduce_add": Intrinsic(identity=0.0, horizontal="fadd"),
    "reduce_max": Intrinsic(identity=-inf, horizontal="fmaximum"),
    "reduce_min": Intrinsic(identity=inf, horizontal="fminimum"),
    "rsqrt": Intrinsic(cheap=False),
    "select": Intrinsic(),
    "ticks": Intrinsic(cheap=False),
}
# The types of results: one type, the common type of two arguments, or that of one number, which is an integer
# for booleans. All other functions have the common type of their arguments as floats.
RESULTS: Mapping[str, OneOf["bool", "u64", "i64", "f32", "f64", "common", "number", "float"]] = {
    "bool": "bool", "np.bool": "bool", "np.signbit": "bool", "math.isinf": "bool", "math.isfinite": "bool",
    "uint64": "u64", "np.int64": "i64", "int": "i64", "ticks": "i64",
    "np.float32": "f32", "np.float64": "f64",
    **dict.fromkeys(("reduce_add", "reduce_max", "reduce_min", "max", "min", "mul_rn", "select"), "common"),
    **dict.fromkeys(("abs", "np.sign", "np.floor", "np.ceil", "np.trunc", "np.rint"), "number"),
}  # fmt: skip
REDUCTIONS = {name: i.identity for name, i in INTRINSICS.items() if i.identity is not None}
CHEAP = frozenset(("abs", "max", "min", "uint64", *(name for name, i in INTRINSICS.items() if i.cheap)))
