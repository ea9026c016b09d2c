"""Calls of a kernel with Python's objects, as words: see `entry.py`.

Fast paths (`inline_cache.py`) do without: this is for the first calls, for blocks that threads share, and for
arrays that are not contiguous or whose lengths a kernel computes.
"""

from __future__ import annotations

import ctypes
from array import array
from itertools import accumulate
from struct import Struct
from typing import Any

import numpy as np

from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.targets.llvm.runtime.entry import KernelSource

CONTIGUOUS = 0x101  # NumPy's flags for contiguous and aligned arrays
APART = 2  # what `enter` returns for an array that is neither
FORMATS: dict[Dtype, str] = {"f64": "d", "f32": "f4x", "i64": "q", "bool": "?7x"}  # of numbers in words


class Words:
    """Calls the kernel of a library. `call` is the function of machine code that enters it (`polls.py`).

    Python's collector must not see the library, which it would free before others of a garbage cycle that
    still call it: it does not look into NumPy arrays.
    """

    def __init__(self, source: KernelSource, library: Any, contiguous: bool, call: Any) -> None:
        self.count = len(source.params)
        self.at = [k for k, p in enumerate(source.params) if p.rank][::-1]  # arrays, the last one first
        self.single = [k for k, p in enumerate(source.params) if not p.rank and p.dtype == "f32"]
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
        first = accumulate((1 + each * p.rank for p in source.params), initial=0)
        places = [n for n, p in zip(first, source.params, strict=False) if p.rank]
        self.places, self.arrays = array("q", places).tobytes(), len(places)
        self.releases = bool(places)  # whether other threads of Python may run
        self.needed = CONTIGUOUS if contiguous else 0
        self.shared = bool(source.shared)

    def __call__(self, *args: Any) -> Any:
        """The list of results: numbers, and the bytes and lengths of arrays that the kernel allocates; False
        if an array is not contiguous."""
        launch, threads = args[self.count :] if self.shared else (0, 1)
        flat = [*args[: self.count]]
        for k in self.single:
            flat[k] = ctypes.c_float(flat[k]).value  # out of range: infinite
        for k in self.at:
            value = flat[k]
            flat[k : k + 1] = (id(value), *value.shape, *(() if self.contiguous else value.strides))
        words = bytearray(self.given.size + self.found.size)
        self.given.pack_into(words, 0, *flat)
        place = ctypes.addressof(ctypes.c_char.from_buffer(words))
        found = self.call(
            self.kernel, place, self.places, self.arrays, launch, threads, self.releases, self.needed
        )
        if found == APART:
            return False
        if found:
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
