"""Memory of a device: what a program needs besides its arguments.

Temporaries are kept from call to call. Results are new arrays; when nobody holds one any more, its memory is
for the next result of its size: asking the driver costs more than most kernels.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numba import cuda

from adcompiler.codegen.cuda.device import SIMULATED

GRAIN = 512  # bytes


class Memory:
    """Buffers by name; one that is too small is made anew."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}
        self.views: dict[tuple[str, str, tuple[int, ...]], Any] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """A buffer of a shape, with anything in it."""
        key = name, dtype.char, shape
        if key not in self.views:
            self.views[key] = self._made(name, shape, dtype)
        return self.views[key]

    def _made(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        length = prod(shape)
        found = self.kept.get((name, dtype.char))
        if found is None or found.shape[0] < length:
            found = cuda.device_array(max(length, 1), dtype)
            self.kept[name, dtype.char] = found
            self.views = {k: v for k, v in self.views.items() if k[:2] != (name, dtype.char)}
        return shaped(found[:length] if found.shape[0] != length else found, shape)

    def rows(self) -> Callable[[int, np.dtype], Any]:
        """A giver of buffers in one row: the same ones, in the same order, for every giver."""
        count = 0

        def new(length: int, dtype: np.dtype) -> Any:
            nonlocal count
            count += 1
            return self.get(f"row {count}", (length,), dtype)

        return new


_free: dict[tuple[int, int, int], deque[Any]] = defaultdict(deque)  # by device, stream and size


def empty(shape: tuple[int, ...], dtype: np.dtype, stream: int = 0) -> Any:
    """A new array on the device, of kernels on a stream, which is known by its address."""
    size = prod(shape) * dtype.itemsize
    if SIMULATED or not size:
        return cuda.device_array(shape, dtype)
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.cudadrv.driver import MemoryPointer

    context = cuda.current_context()
    whole = -(-size // GRAIN) * GRAIN
    spare = _free[context.device.id, stream, whole]
    try:
        owned = spare.pop()
    except IndexError:
        owned = _allocated(context, whole)
    pointer = MemoryPointer(context, owned.device_pointer, whole, finalizer=partial(spare.append, owned))
    strides = _strides(shape, dtype)
    return DeviceNDArray(shape, strides, dtype, gpu_data=pointer)


def _allocated(context: Any, size: int) -> Any:
    """Memory of the driver; what is spare is given back to it if there is no other."""
    try:
        return context.memalloc(size)
    except Exception:  # the driver's own error, whose class depends on how numba-cuda talks to it
        if not any(_free.values()):
            raise
        for spare in _free.values():
            spare.clear()
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
