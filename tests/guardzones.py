"""Arrays whose neighbours nobody may touch: a kernel that reads or writes outside of one ends the process at
once. What kernels are given for temporaries, and what they allocate themselves, is of that sort too, and full of
NaN until it is written: so reading what was not written shows as well.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
import pytest
from llvmlite import binding as llvm

from adcompiler.codegen.buffers import POOL
from adcompiler.codegen.llvm import machine

_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_numbers = count()
_mapped: dict[int, tuple[int, int]] = {}  # by address: the pages


def _made(size: int) -> int:
    """The address of memory that ends where a page begins that may not be touched, or begins where one ends,
    by turns."""
    pages = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    whole = pages + 2 * mmap.PAGESIZE
    base = _libc.mmap(None, whole, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    first = base + mmap.PAGESIZE
    _libc.mprotect(first, pages, mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.memset(first, 255, pages)
    address = first if next(_numbers) % 3 == 0 else first + pages - size
    _mapped[address] = base, whole
    return int(address)


def _freed(address: int | None) -> None:
    if address:
        _libc.munmap(*_mapped.pop(address))


_malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(_made)
_free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_freed)


def empty(shape: Any, dtype: Any) -> np.ndarray:
    """An array between guards."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    address = _made(size)
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, _freed, address)
    return np.frombuffer(memory, dtype).reshape(shape)


def guarded(value: Any) -> Any:
    """An array with a copy of another's elements, between guards; other values are themselves."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    array = empty(value.shape, value.dtype)
    array[...] = value
    return array


@contextmanager
def guard_zones() -> Iterator[None]:
    """Kernels that are compiled, and called, inside have guards around all memory that they know of."""
    own = {name: llvm.address_of_symbol(name) for name in ("PyMem_RawMalloc", "PyMem_RawFree")}
    machine._host()  # which names them first
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(POOL, "empty", empty)
        patch.setattr(POOL, "maker", lambda shape, dtype: lambda: empty(shape, dtype))
        for name, function in (("PyMem_RawMalloc", _malloc), ("PyMem_RawFree", _free)):
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
        yield
        for name, address in own.items():
            llvm.add_symbol(name, address)
