"""Defensive copies: values that a backward pass reads must not change with arrays of the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adcompiler.runtime.arguments.device import is_on_device
from adcompiler.targets.buffers import POOL


def snapshot(value: Any) -> Any:
    """A value as it is now. Arrays are copied, read-only ones too: what they view may be writable elsewhere.

    Elements that share memory (`np.broadcast_to`, a sliding window) share it in the copy as well.
    """
    if isinstance(value, np.ndarray):
        found = _shared(value)
        if found is None:
            found = POOL.empty(value.shape, value.dtype)
            np.copyto(found, value)
        return found
    if not isinstance(value, np.generic | float | int) and is_on_device(value):
        from adcompiler.targets.cuda.device.arrays import copy_of

        return copy_of(value)
    return value


def _shared(array: np.ndarray) -> np.ndarray | None:
    """A copy of the memory below an array that is larger than it; None if there is no such."""
    item = array.itemsize
    if array.flags.c_contiguous or not array.size or any(s % item for s in array.strides):
        return None
    span = 1 + sum((n - 1) * abs(s) // item for n, s in zip(array.shape, array.strides, strict=True))
    if span >= array.size:
        return None
    forward = tuple(slice(None, None, -1 if s < 0 else 1) for s in array.strides)
    upright = array[forward]
    memory = as_strided(upright, (span,), (item,)).copy()
    found: np.ndarray = np.ndarray(array.shape, array.dtype, memory, strides=upright.strides)
    found.flags.writeable = False
    return found[forward]


def read_only(value: Any) -> Any:
    """A read-only view of an array."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view
