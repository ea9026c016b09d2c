"""Memory for results and temporaries, reused when it is no longer referenced.

New memory costs more than the arithmetic on it: each page is mapped and cleared when it is first written.
Large arrays written by kernels are therefore kept. An array is reused when no result, view, tensor or buffer
refers to its memory any more, according to CPython's reference counts.

Large arrays are aligned to cache lines. NumPy's start 16 bytes after a page, where each load and store of a
64-byte vector touches two lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any
from weakref import getweakrefcount

import numpy as np

from adcompiler.fork import Locked
from adcompiler.targets.limits import LARGEST_BYTES, LINE_BYTES, MOST_ARRAYS, MOST_BYTES, SMALLEST_BYTES

# For each result the array to store it in, or None; None for all.
Into = Sequence[np.ndarray | None] | None

# The pool's own references to an array: its list, its loop, and the arguments of the check. And to the
# array's memory, which views share: the array, and the argument of the check.
OWN, OWN_MEMORY = 4, 2


class Pool:
    """Arrays handed out, oldest first; at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.possible = _counts_references()
        self.limit = limit if self.possible else 0
        self.arrays: list[np.ndarray] = []
        self.bytes = 0
        self.looking = Locked()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array, as `np.empty` returns."""
        size = prod(shape) * dtype.itemsize
        if size > LARGEST_BYTES:
            raise MemoryError
        if size < SMALLEST_BYTES:
            return np.empty(shape, dtype)
        if size > self.limit:
            return aligned(shape, dtype)
        with self.looking.lock:
            array: np.ndarray
            for array in reversed(self.arrays):  # the newest is in cache
                if array.nbytes == size and _is_free(array, shape, dtype):
                    return array
            made = aligned(shape, dtype)
            self.keep(made)
        return made

    def maker(self, shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
        """`empty` for many arrays of the same shape and type."""
        small = prod(shape) * dtype.itemsize < SMALLEST_BYTES
        return partial(np.empty, shape, dtype) if small else partial(self.empty, shape, dtype)

    def keep(self, array: np.ndarray) -> None:
        """Add an array; the oldest ones are dropped if there are too many."""
        self.arrays.append(array)
        self.bytes += array.nbytes
        while self.bytes > self.limit or len(self.arrays) > MOST_ARRAYS:
            self.bytes -= self.arrays.pop(0).nbytes

    def resize(self, limit: int) -> None:
        """Keep at most `limit` bytes from now on; drop all arrays kept so far."""
        with self.looking.lock:
            self.limit, self.arrays, self.bytes = limit, [], 0


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array aligned to a cache line."""
    size = prod(shape) * dtype.itemsize
    memory: np.ndarray = np.empty(size + LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % LINE_BYTES
    return memory[first : first + size].view(dtype).reshape(shape)


def _is_free(array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether nothing else refers to an array, and it is unchanged."""
    return (
        sys.getrefcount(array) == OWN
        and sys.getrefcount(array.base) == OWN_MEMORY
        and array.shape == shape
        and array.dtype == dtype
        and array.flags.carray  # contiguous, aligned, writeable
        and not getweakrefcount(array)
        and not getweakrefcount(array.base)
    )


def _counts_references() -> bool:
    """Whether reference counts are exact: CPython with its global lock."""
    locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and locked()


def put(results: list[Any], into: Into) -> list[Any]:
    """The results; those with an array in `into` are copied there."""
    for k, target in enumerate(into or ()):
        if target is not None:
            np.copyto(target, results[k])
            results[k] = target
    return results


POOL = Pool(0 if os.environ.get("ADC_RECYCLE") == "0" else MOST_BYTES)
