"""Memory of a device: results are new arrays, what a program needs besides is kept from call to call."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numba import cuda


class Memory:
    """Buffers by name; one that is too small is made anew."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """A buffer of a shape, with anything in it."""
        length = prod(shape)
        found = self.kept.get((name, dtype.char))
        if found is None or found.shape[0] < length:
            found = cuda.device_array(max(length, 1), dtype)
            self.kept[name, dtype.char] = found
        return shaped(found[:length] if found.shape[0] != length else found, shape)

    def rows(self) -> Callable[[int, np.dtype], Any]:
        """A giver of buffers in one row: the same ones, in the same order, for every giver."""
        count = 0

        def new(length: int, dtype: np.dtype) -> Any:
            nonlocal count
            count += 1
            return self.get(f"row {count}", (length,), dtype)

        return new


def empty(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A new array on the device."""
    return cuda.device_array(shape, dtype)


def shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """The same memory in another shape."""
    return array if array.shape == shape else array.reshape(shape)


def copied(array: Any) -> Any:
    """A new array of the same values."""
    found = empty(array.shape, array.dtype)
    found.copy_to_device(array)
    return found
