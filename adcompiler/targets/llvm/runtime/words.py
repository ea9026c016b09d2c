"""Calls of a kernel with Python's objects, as words: see `entry.py`.

Fast paths (`inline_cache.py`) do without: this is for the first calls, for blocks that threads share, and for
arrays that are not contiguous or whose lengths a kernel computes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct
from typing import Any

import numpy as np

from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.targets.llvm.runtime.entry import KernelSource

FORMATS: dict[Dtype, str] = {"f64": "d", "f32": "f4x", "i64": "q", "bool": "?7x"}  # of numbers in words
NUMBERS: dict[Dtype, Callable[[Any], Any]] = {
    "f64": float,
    "f32": lambda x: ctypes.c_float(x).value,  # out of range: infinite
    "i64": int,
    "bool": bool,
}


class Words:
    """Calls the kernel of a library. `call` is the function of machine code that enters it (`polls.py`).

    Python's collector must not see the library, which it would free before others of a garbage cycle that
    still call it: it does not look into NumPy arrays.
    """

    def __init__(self, source: KernelSource, library: Any, contiguous: bool, call: Any) -> None:
        self.ranks = [p.rank if p.rank else -1 for p in source.params]
        self.converted = [NUMBERS[p.dtype] for p in source.params]
        self.contiguous, self.call = contiguous, call
        self.kernel: int = library["packed"]
        self.held = np.array([library], object)
        each = 1 if contiguous else 2  # lengths, and strides
        given = (FORMATS[p.dtype] if not p.rank else f"{1 + each * p.rank}q" for p in source.params)
        self.given = Struct("<" + "".join(given))
        ranks = source.ranks or [0] * len(source.results)
        self.results = [*zip(source.results, ranks, strict=True)]
        found = (FORMATS[d] if not rank else f"{1 + rank}q" for d, rank in self.results)
        self.found = Struct("<" + "".join(found))
        self.releases = any(p.rank for p in source.params)  # whether other threads of Python may run
        self.shared = bool(source.shared)

    def __call__(self, *args: Any) -> Any:
        """The list of results: numbers, and the bytes and lengths of arrays that the kernel allocates; False
        if an array is not contiguous."""
        count = len(self.ranks)
        launch, threads = args[count:] if self.shared else (0, 1)
        flat: list[Any] = []
        for value, rank, converted in zip(args, self.ranks, self.converted, strict=False):
            if rank < 0:
                flat.append(converted(value))
                continue
            flags = value.flags
            if self.contiguous and not (flags.c_contiguous and flags.aligned):
                return False
            flat.append(value.__array_interface__["data"][0])
            flat += value.shape if self.contiguous else value.shape + value.strides
        words = bytearray(self.given.size + self.found.size)
        self.given.pack_into(words, 0, *flat)
        place = ctypes.addressof(ctypes.c_char.from_buffer(words))
        if self.call(self.kernel, place, launch, threads, self.releases):
            raise MemoryError  # an exception of a signal handler is raised by ctypes
        return self._read(self.found.unpack_from(words, self.given.size))

    def _read(self, found: tuple[Any, ...]) -> list[Any]:
        """Results from their words."""
        if not any(rank for _, rank in self.results):
            return [*found]
        read, at = [], 0
        for dtype, rank in self.results:
            if not rank:
                read.append(found[at])
            else:
                read.append(_array(found[at], found[at + 1 : at + 1 + rank], dtype))
            at += 1 + rank
        return read


def _array(address: int, lengths: tuple[int, ...], dtype: Dtype) -> tuple[Any, ...]:
    """The bytes of an array and its lengths; its memory is freed."""
    size = NUMPY[dtype].itemsize * int(np.prod(lengths, dtype=np.int64))
    contents = bytearray(ctypes.string_at(address, size))
    _free(address)
    return contents, *lengths


def _free(address: int) -> None:
    ctypes.pythonapi.PyMem_RawFree(ctypes.c_void_p(address))
