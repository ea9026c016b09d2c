"""Arrays whose neighbours nobody may touch: a kernel that reads or writes outside of one ends the process at
once. What kernels are given for temporaries, and what they allocate themselves, is of that sort too, and full
of NaN until it is written: so reading what was not written shows as well.

    python tests/judges/guard_zones.py KIND COUNT SEED THREADS

calls random programs so, and their gradients of first and second order, and compares with the interpreter. It
prints each program before: where the process ends, the last one is the cause.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from judges.compared import leaves, totalled
from llvmlite import binding as llvm
from programs import Program, programs
from programs.loops import loop_programs
from programs.mixed import mixed_programs
from programs.written_loops import PROGRAMS

import adcompiler as adc
from adcompiler.kernels.emit import block_partition as cuts
from adcompiler.runtime.programs import call_lengths
from adcompiler.targets.buffers import POOL
from adcompiler.targets.cpu import compiled as cpu
from adcompiler.targets.llvm.runtime.machine_code import host

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
    host()  # which tells LLVM the functions of Python
    own = {name: llvm.address_of_symbol(name) for name in ("PyMem_RawMalloc", "PyMem_RawFree")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(POOL, "empty", empty)
        patch.setattr(POOL, "maker", lambda shape, dtype: lambda: empty(shape, dtype))
        for name, function in (("PyMem_RawMalloc", _malloc), ("PyMem_RawFree", _free)):
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
        yield
        for name, address in own.items():
            llvm.add_symbol(name, address)


@contextmanager
def in_parallel(all_nests: bool) -> Iterator[None]:
    """Kernels that are compiled inside run all their nests in parallel, if so."""
    with pytest.MonkeyPatch.context() as patch:
        if all_nests:
            patch.setattr(cuts, "PARALLEL_POINTS", 1)
            patch.setattr(cpu, "PARALLEL_POINTS", 1)
        yield


@contextmanager
def short_constants(beside_any: bool) -> Iterator[None]:
    """Short lengths are constants of kernels that are compiled inside, whatever the others are, if so."""
    with pytest.MonkeyPatch.context() as patch:
        if beside_any:
            patch.setattr(call_lengths, "LEAST_POINTS", 0)
        yield


RANDOM = {"expressions": programs, "loops": loop_programs, "mixed": mixed_programs}


def holds(program: Program, narrow: bool, second: bool) -> None:
    """A program, its gradient and its second derivatives, between guards and by the interpreter."""
    print(program.source, program.args, narrow, flush=True)
    source, args, slack = program.source, program.args, 1e-8
    if narrow:
        source, args, slack = source.replace("f64", "f32"), tuple(map(_narrowed, args)), 1e-2
    total = totalled(Program(source, args)).source
    compiled, expected = ([adc.compile(s, backend=b) for s in (source, total)] for b in ("cpu", "numpy"))
    inputs = tuple(map(guarded, args))
    results = expected[0](*args)
    into = [empty(np.shape(r), np.asarray(r).dtype) for r in leaves(results)]
    compiled[0].into(tuple(into) if isinstance(results, tuple) else into[0], *inputs)
    _agree(tuple(into), results, slack)
    wrt = tuple(k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f")
    ways = tuple(np.sin(1.0 + np.asarray(args[k])).astype(np.asarray(args[k]).dtype) for k in wrt)
    slopes = [adc.grad(f[1], wrt) for f in (compiled, expected)]
    for _ in range(2):  # in general, then by the fast path
        _agree(slopes[0](*inputs), slopes[1](*args), slack)
    if second:
        for found, true in zip(
            (adc.hvp(compiled[1], wrt)(inputs, ways), adc.vjp(slopes[0], *inputs, wrt=wrt)[1](ways)),
            (adc.hvp(expected[1], wrt)(args, ways), adc.vjp(slopes[1], *args, wrt=wrt)[1](ways)),
            strict=True,
        ):
            _agree(found, true, 10 * slack)


def _narrowed(value: Any) -> Any:
    single = isinstance(value, float) or getattr(value, "dtype", None) == np.float64
    return np.asarray(value, np.float32)[()] if single else value


def _agree(found: Any, expected: Any, slack: float) -> None:
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            size = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
            np.testing.assert_allclose(one, other, rtol=slack, atol=slack * size)


def run(kind: str, examples: int, first: int, threads: int) -> None:
    """Programs of a kind; with several threads all nests run in parallel."""
    call: Callable[[], None]
    if kind == "named":
        chosen = list(PROGRAMS.values())[first :: max(len(PROGRAMS) // examples, 1)]
        call = lambda: [holds(p, k % 3 == 2, k % 2 == 0) for k, p in enumerate(chosen)]  # noqa: E731
    else:
        iterations = count()

        @seed(first)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(RANDOM[kind]())
        def call(program: Program) -> None:
            k = next(iterations)
            holds(program, kind != "expressions" and k % 5 == 4, k % 3 == 0)

    with in_parallel(threads > 1), guard_zones(), np.errstate(all="ignore"):
        call()


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
