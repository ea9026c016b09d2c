"""Masked arrays are refused wherever values are taken: NumPy's conversions drop the mask without a word."""

from __future__ import annotations

import sys
from typing import Any

from adcompiler.errors import DtypeError


def refuse_masked(what: str, value: Any) -> None:
    """Raise DtypeError for an array with a mask, or a list that holds one."""
    if type(value) in (list, tuple):
        for part in value:
            refuse_masked(what, part)
    elif (ma := sys.modules.get("numpy.ma")) is not None and isinstance(value, ma.MaskedArray):
        raise masked(what)


def masked(what: str) -> DtypeError:
    """The error for a masked array."""
    return DtypeError(
        f"{what} is masked, and programs know of no masks",
        remedy="fill it, x.filled(0), and pass the mask as an array of its own: where(mask, 0.0, x)",
    )
