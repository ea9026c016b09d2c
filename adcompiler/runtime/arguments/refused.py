"""Arrays that mean more than their numbers say are refused: a conversion would drop it without a word."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError

CONVERTED = {
    "M": 'pass numbers: (t - t[0]) / np.timedelta64(1, "s")',
    "m": 'pass numbers: t / np.timedelta64(1, "s")',
    "O": "convert it, x.astype(float); pass rows of different lengths as a list of arrays",
    "U": "convert it: x.astype(float)",
    "S": "convert it: x.astype(float)",
    "c": "pass bool, integer, float32 or float64 values: write a complex function as two real ones",
}


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
        f"{what} is masked, which is not supported",
        remedy="fill it, x.filled(0), and pass the mask as another array: where(mask, 0.0, x)",
    )


def refuse_others(what: str, value: Any) -> None:
    """Raise DtypeError for masked arrays, matrices, sparse ones, and those with their own arithmetic."""
    kind = type(value)
    if kind in (np.ndarray, float, int, bool, list):
        return
    refuse_masked(what, value)
    if isinstance(value, np.matrix):
        raise DtypeError(
            f"{what} is a np.matrix, whose * is a matrix product",
            remedy="pass np.asarray(x): here * is elementwise, and @ is the matrix product",
        )
    if hasattr(value, "tocsr") and hasattr(value, "toarray"):
        raise DtypeError(
            f"{what} is sparse, a {kind.__name__}",
            remedy="pass x.toarray(), or x.data and x.indices as separate arguments",
        )
    if hasattr(value, "compute") and hasattr(value, "chunks"):
        raise DtypeError(
            f"{what} is in chunks, a {kind.__module__.partition('.')[0]} array",
            remedy="compute chunk by chunk, adc.dask.value_and_grad(f), or pass x.compute()",
        )
    own = getattr(kind, "__array_ufunc__", None)
    if own not in (None, np.ndarray.__array_ufunc__) and not hasattr(value, "__adc_call__"):
        raise DtypeError(
            f"{what} is a {kind.__module__}.{kind.__name__}, which has its own arithmetic, such as units",
            remedy="pass its numbers: np.asarray(x)",
        )


def no_number(what: str, dtype: np.dtype[Any]) -> DtypeError:
    """The error for an array of a value that is not a real number."""
    plain = "pass bool, integer, float32 or float64 values"
    return DtypeError(
        f"{what} has dtype {dtype}, which is not supported", remedy=CONVERTED.get(dtype.kind, plain)
    )
