"""Variables as the values that kernels take, and what decides how a call with them is done."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import is_variable

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def leaf_key(a: Any) -> tuple[Any, ...] | None:
    """The part of a call's key that a Variable or an array has; None for integers, which may decide what is
    computed, and for arrays that kernels do not take as they are."""
    known = is_variable(a)
    if not known and not (type(a) is np.ndarray and a.ndim and a.flags.c_contiguous and a.flags.aligned):
        return None
    data: np.ndarray = a.data if known else a
    return (known, data.dtype, data.shape) if data.dtype in FLOATS else None


def kernel_array(v: Any) -> np.ndarray:
    """A Variable's values as kernels are compiled for them: contiguous and not read-only."""
    data: np.ndarray = v.data
    flags = data.flags
    return data if flags.c_contiguous and flags.writeable else np.array(data, order="C")


def kernel_value(a: Any) -> Any:
    """An argument as kernels take it: a number for rank 0."""
    if not is_variable(a):
        return a
    data: np.ndarray = a.data
    if data.ndim:
        return kernel_array(a)
    return data.item() if data.dtype == FLOATS[0] else data[()]
