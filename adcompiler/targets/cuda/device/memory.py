"""Device memory of a program, in addition to its arguments.

Temporaries are kept between calls. Results are new arrays; when one is no longer referenced, its memory is
used for the next result of its size: a driver allocation costs more than most kernels.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from math import prod
from threading import RLock
from typing import Any

import numpy as np
from numba import cuda

from adcompiler.lazy import Memo
from adcompiler.targets.cuda.device.device import SIMULATED
from adcompiler.targets.limits import GRAIN_BYTES, LARGEST_BYTES, SPARE_SHARE


class Memory:
    """Buffers by name; one that is too small is reallocated."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}
        self.views: Memo[tuple[str, str, tuple[int, ...]], Any] = Memo()

    def get(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """An uninitialised buffer of a shape."""
        key = name, dtype.char, shape
        return self.views.made(key, lambda: self._made(name, shape, dtype))

    def _made(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        length = prod(shape)
        refuse(length * dtype.itemsize)
        found = self.kept.get((name, dtype.char))
        if found is None or found.shape[0] < length:
            found = cuda.device_array(max(length, 1), dtype)
            self.kept[name, dtype.char] = found
            for key in [k for k in self.views if k[:2] == (name, dtype.char)]:
                del self.views[key]
        return shaped(found[:length] if found.shape[0] != length else found, shape)

    def rows(self) -> Callable[[int, np.dtype], Any]:
        """An allocator of one-dimensional buffers: every allocator returns the same ones, in the same
        order."""
        count = 0

        def new(length: int, dtype: np.dtype) -> Any:
            nonlocal count
            count += 1
            return self.get(f"row {count}", (length,), dtype)

        return new


Key = tuple[int, int, int]  # device, stream, and size


class Spare:
    """Memory that is no longer referenced, up to a limit in bytes. Finalizers return it, in any thread."""

    def __init__(self) -> None:
        self.rows: dict[Key, deque[Any]] = defaultdict(deque)
        self.size, self.most = 0, 0
        self.used: dict[int, Any] = {}  # memory held by arrays and their views, by address
        self.lock = RLock()

    def take(self, key: Key) -> Any:
        """Memory for this key, or None."""
        with self.lock:
            row = self.rows.get(key)
            if not row:
                return None
            self.size -= key[-1]
            return row.pop()

    def give(self, key: Key, address: int, owned: Any) -> None:
        """Keep memory; anything beyond the limit returns to the driver once it is unreferenced."""
        with self.lock:
            self.used.pop(address, None)
            if self.size + key[-1] <= self.most:
                self.size += key[-1]
                self.rows[key].append(owned)

    def clear(self) -> bool:
        """Drop all memory; returns whether there was any."""
        with self.lock:
            found = self.size > 0
            self.rows.clear()
            self.size = 0
            return found


SPARE = Spare()


def refuse(size: int) -> None:
    """Raise MemoryError for impossible sizes, which neither NumPy nor the driver reports."""
    if size > LARGEST_BYTES:
        raise MemoryError


def empty(shape: tuple[int, ...], dtype: np.dtype, stream: int = 0) -> Any:
    """A new array on the device, for kernels on a stream."""
    size = prod(shape) * dtype.itemsize
    refuse(size)
    if SIMULATED or not size:
        return cuda.device_array(shape, dtype)
    return pooled_array(cuda.current_context(), shape, dtype, stream)


def pooled_array(context: Any, shape: tuple[int, ...], dtype: np.dtype, stream: int) -> Any:
    """An array whose memory becomes spare when neither it nor a view of it is referenced."""
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.cudadrv.driver import AutoFreePointer

    whole = -(-prod(shape) * dtype.itemsize // GRAIN_BYTES) * GRAIN_BYTES
    key = context.device.id, stream, whole
    owned = SPARE.take(key)
    if owned is None:
        owned = _allocated(context, whole)
    address = int(owned.device_pointer)
    back = partial(SPARE.give, key, address, owned)
    pointer = AutoFreePointer(context, owned.device_pointer, whole, finalizer=back)
    SPARE.used[address] = pointer
    return DeviceNDArray(shape, _strides(shape, dtype), dtype, gpu_data=pointer.own())


def _allocated(context: Any, size: int) -> Any:
    """Memory from the driver; spare memory is returned to it if there is no other."""
    SPARE.most = SPARE.most or context.get_memory_info().total // SPARE_SHARE
    try:
        return context.memalloc(size)
    except Exception:  # a driver error, whose class depends on numba-cuda's bindings
        if not SPARE.clear():
            raise
        context.memory_manager.deallocations.clear()
        return context.memalloc(size)


def _strides(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """The strides of a contiguous array."""
    found: list[int] = []
    step = dtype.itemsize
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """The same memory in another shape."""
    return array if array.shape == shape else array.reshape(shape)
