"""Kernels as Python functions, without numba: machine code, from the cache if present."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np

from adcompiler.errors import Error
from adcompiler.lazy import Memo, cached_property
from adcompiler.loopir.nodes import Invoke, UnsupportedError
from adcompiler.loopir.walk import statements
from adcompiler.targets.llvm.blas import SYMBOLS
from adcompiler.targets.llvm.instructions import POLL
from adcompiler.targets.llvm.limits import HIGHEST_LEVEL, MOST_LIBRARIES
from adcompiler.targets.llvm.runtime.entry import Code, KernelSource, translated
from adcompiler.targets.llvm.runtime.gemm import gemm
from adcompiler.targets.llvm.runtime.inline_cache import fast_path
from adcompiler.targets.llvm.runtime.machine_code import host, objects
from adcompiler.targets.llvm.runtime.polls import polls
from adcompiler.targets.llvm.runtime.pool import pool as pool_code
from adcompiler.targets.llvm.values import BrokenModuleError
from adcompiler.targets.threads import get_num_threads, without_signals

METH_FASTCALL, METH_KEYWORDS = 0x80, 0x02
CONTIGUOUS = ("library_matmul",)  # routines for contiguous arrays only
_NAME = b"kernel"


class Native:
    """`run` of a kernel as a function that returns the list of its results.

    There is one machine code for contiguous arrays, and one for all others, compiled when first needed.
    `packed` is the address of the function that takes words (`entry.py`).
    """

    def __init__(self, source: KernelSource) -> None:
        self.source = source
        library = _library(source, True)
        self.contiguous = _callable(library, METH_FASTCALL)
        self.packed: int = library["packed"]

    @cached_property
    def strided(self) -> Callable[..., Any]:
        """The function for arrays of any strides; matrix products need copies."""
        nodes = (s for f in self.source.functions for s in statements(f.body))
        if any(isinstance(s, Invoke) and s.name.startswith(CONTIGUOUS) for s in nodes):
            return self.copied
        try:
            return _callable(_library(self.source, False), METH_FASTCALL)
        except BrokenModuleError as error:
            report("a kernel for strided arrays", error)
            return self.copied

    def copied(self, *args: Any) -> Any:
        """The kernel on contiguous copies of arrays."""
        first = self.source.written
        copies = [np.require(a, requirements=["C", "A"]) if isinstance(a, np.ndarray) else a for a in args]
        found = self.contiguous(*copies)
        for array, copy in zip(args[first:], copies[first:], strict=True):
            if array is not copy:
                array[...] = copy
        return found

    def __call__(self, *args: Any) -> Any:
        found = self.contiguous(*args)
        return found if found is not False else self.strided(*args)


def compiled(source: KernelSource) -> Native:
    """A kernel in machine code; raises UnsupportedError if numba is needed, and BrokenModuleError if LLVM
    rejects the code."""
    return Native(source)


def report(name: str, error: BrokenModuleError | UnsupportedError) -> None:
    """Warn that machine code is produced in another way: because of a bug here, or because only numba
    compiles something. With ADC_STRICT in the environment, as in our tests, this is an error."""
    fault = (str(error).strip().splitlines() or [repr(error)])[0]
    if isinstance(error, BrokenModuleError):
        if os.environ.get("ADC_STRICT"):
            raise error
        text = (
            f"a bug in adcompiler: LLVM refuses the code of {name}, which is made in another way or runs on"
            f" one thread; please report it: {fault}"
        )
    else:
        text = f"{name} needs numba, which takes longer to compile it, for one thread: {fault}"
        if os.environ.get("ADC_STRICT"):
            raise Error(text, remedy="unset ADC_STRICT to run it") from error
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def guarded(table: bytes, general: Callable[..., Any], *held: Any) -> Callable[..., Any]:
    """The fast path of a kernel (`inline_cache.py`), with its table, the general path, and objects to keep
    alive."""
    return _callable(_FIXED.fast_path, METH_FASTCALL | METH_KEYWORDS, table, general, *held)


def _library(source: KernelSource, contiguous: bool) -> Any:
    return linked(translated(source, contiguous))


def _callable(library: Any, flags: int, *held: Any) -> Callable[..., Any]:
    """The function `entry` of a machine code as a Python function; its `self` starts with `held`.

    `self` also keeps the function's code and its description (`_Method`) alive. If the function is in a
    garbage cycle, Python finalises and clears everything that its collector sees, in any order; what a
    function needs to its end must be invisible to it. The collector does not look into bytes or NumPy arrays.
    """
    method = bytes(_Method(_NAME, library["entry"], flags, None))
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.py_object, ctypes.c_void_p)
    make: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Callable[..., Any] = make(method, (*held, np.array([library], object), method), None)
    return function


class _Fixed:
    """The machine code that all kernels share."""

    def __init__(self) -> None:
        self.by_type: Memo[str, Any] = Memo()

    @cached_property
    def fast_path(self) -> Any:
        """That of all fast paths."""
        return _loaded(fast_path())

    @cached_property
    def pool(self) -> Any:
        """The thread pool, which is never freed: threads sleep in it until the process ends."""
        return keep_alive(linked(pool_code()))

    @cached_property
    def polls(self) -> Any:
        """Polls, initialised with the main thread."""
        library = keep_alive(_loaded(polls()))
        settle = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library["settle"])
        settle(threading.main_thread().ident)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: settle(threading.get_ident()))
        return library

    def tiles(self, kind: str) -> Any:
        """Tiles of matrix products of a type, for the widest vectors of this processor."""
        return self.by_type.made(kind, lambda: keep_alive(_loaded(gemm(kind, _vector_bits()))))


_FIXED = _Fixed()


def pool() -> Any:
    """The machine code of the thread pool. Raises UnsupportedError if the system has no such threads."""
    return _FIXED.pool


@cache
def get_ready() -> None:
    """Begin to compile what most kernels need, in a thread, while the first one is planned."""
    if get_num_threads() == 1:
        return
    with without_signals(), suppress(RuntimeError):  # no more threads
        threading.Thread(target=_get_ready).start()


def _get_ready() -> None:
    with suppress(Exception):  # whoever needs it finds the reason
        _FIXED.polls, _FIXED.pool  # noqa: B018


def _vector_bits() -> int:
    """The width of vectors for products, in bits."""
    from llvmlite import binding as llvm

    features: Mapping[str, bool] = {}
    with suppress(RuntimeError):  # not available on every system
        features = llvm.get_host_cpu_features()
    return 512 if features.get("avx512f") else 256 if features.get("avx2") else 128


def keep_alive(library: Any) -> Any:
    """Machine code that is never freed, not even at exit: other threads may be running it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # keeps its linker, too
    return library


def linked(code: Code, own: Mapping[str, int] = MappingProxyType({})) -> Any:
    """The machine code, as `_loaded`; UnsupportedError if that fails."""
    try:
        return _loaded(code, own)
    except (ImportError, RuntimeError, KeyError, AttributeError) as error:
        raise UnsupportedError(f"llvmlite lacks a feature ({error})") from error


class _Method(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _loaded(code: Code, own: Mapping[str, int] = MappingProxyType({})) -> Any:
    """A library with the machine code, from the cache if present, which provides the addresses of its
    functions. `own` are the addresses of our functions that it calls."""
    from llvmlite import binding as llvm

    number = next(_numbers)
    linker = _linker(number // MOST_LIBRARIES)  # a linker lets LLVM resolve symbols of the process
    outside = code.externals - {POLL} - SYMBOLS.keys()
    symbols = {name: llvm.address_of_symbol(name) for name in outside}
    if missing := sorted(name for name, address in symbols.items() if not address):
        raise UnsupportedError(f"the C library has no {', '.join(missing)}")
    tiled = code.externals & SYMBOLS.keys()
    contents = objects(code, [partial(_FIXED.tiles, kind) for kind in {SYMBOLS[name] for name in tiled}])
    symbols |= {name: _FIXED.tiles(SYMBOLS[name])[name] for name in tiled}
    symbols |= {POLL: _FIXED.polls[POLL]} if POLL in code.externals else {}
    builder = llvm.JITLibraryBuilder().add_current_process()
    for content in contents:
        builder.add_object_img(content)
    for name, address in (symbols | host().python | dict(own)).items():
        builder.import_symbol(name, address)
    for name in code.functions:
        builder.export_symbol(name)
    try:
        return builder.link(linker, f"kernel {number}")
    except RuntimeError as error:  # such as an unresolved symbol
        raise BrokenModuleError(str(error)) from error


_numbers = count()


@lru_cache(maxsize=1)
def _linker(generation: int) -> Any:
    """Links machine code into this process.

    A linker retains 10 KB per library that it ever linked, so each links only a few. LLVM keeps it as long as
    one of these libraries exists.
    """
    from llvmlite import binding as llvm

    here = host()
    return llvm.create_lljit_compiler(
        here.machine(HIGHEST_LEVEL), use_jit_link=here.near, suppress_errors=True
    )
