"""Intrinsics of the loop IR that are not mathematical functions: one row per processor operation.

Functions such as `exp` have their table in `targets/function_table.py`.
"""

from __future__ import annotations

from math import inf
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
REDUCTIONS = {name: i.identity for name, i in INTRINSICS.items() if i.identity is not None}
CHEAP = frozenset(("abs", "max", "min", "uint64", *(name for name, i in INTRINSICS.items() if i.cheap)))
