"""Kernels as Python functions, without numba: machine code, from the cache if it is there."""

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
from typing import Any, NamedTuple

import numpy as np

from adcompiler import store
from adcompiler.errors import Error
from adcompiler.lazy import cached_property
from adcompiler.loopir.nodes import Invoke
from adcompiler.loopir.walk import statements
from adcompiler.targets.llvm.blocks import POLL
from adcompiler.targets.llvm.runtime.entry import PYTHON, Code, KernelSource, translated
from adcompiler.targets.llvm.runtime.inline_cache import door
from adcompiler.targets.llvm.runtime.polls import polls
from adcompiler.targets.llvm.runtime.pool import pool as pool_code
from adcompiler.targets.llvm.values import BrokenModuleError, UnsupportedError
from adcompiler.targets.llvm.vectormath.second_pass import closed_by_errors, inlined, parsed, run, version

METH_FASTCALL, METH_KEYWORDS = 0x80, 0x02
HIGHEST = 3  # optimisation level
MOST_LIBRARIES = 16  # that one linker links
CONTIGUOUS = ("library_matmul",)  # routines for contiguous arrays alone
_NAME = b"kernel"


class Native:
    """`run` of a kernel as a function that returns the list of its results.

    There is one machine code for contiguous arrays, and one for all others, made when first needed. At the
    address `packed` is the function that takes words (`entry.py`).
    """

    def __init__(self, source: KernelSource) -> None:
        self.source = source
        library = _library(source, True)
        self.contiguous = _callable(library, METH_FASTCALL)
        self.packed: int = library["packed"]

    @cached_property
    def strided(self) -> Callable[..., Any]:
        """The function for any arrays; BLAS needs copies."""
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
    """A kernel in machine code; raises UnsupportedError where numba is needed, and BrokenModuleError where
    LLVM refuses what stands for it."""
    return Native(source)


def report(name: str, error: BrokenModuleError) -> None:
    """Say that machine code is made in another way, for a fault of ours; with ADC_STRICT in the environment
    it is raised, as all our tests have it."""
    if os.environ.get("ADC_STRICT"):
        raise error
    fault = str(error).strip().splitlines()
    warnings.warn(
        f"a bug in adcompiler: LLVM refuses the code of {name}, which is made in another way or runs on one"
        f" thread; please report it: {fault[0] if fault else error!r}",
        RuntimeWarning,
        stacklevel=2,
    )


def guarded(table: bytes, general: Callable[..., Any], *held: Any) -> Callable[..., Any]:
    """The door of a kernel (`inline_cache.py`): its table, what else it calls, and what it holds."""
    return _callable(_doors(), METH_FASTCALL | METH_KEYWORDS, table, general, *held)


@cache
def _doors() -> Any:
    """The machine code of all doors."""
    return _loaded(door())


def _library(source: KernelSource, contiguous: bool) -> Any:
    return linked(translated(source, contiguous))


def _callable(library: Any, flags: int, *held: Any) -> Callable[..., Any]:
    """The function `entry` of a machine code for Python; its `self` has what is held, first.

    It also keeps the function's code and its description (`_Method`) alive. If the function is in a cycle
    that is garbage, Python finalises and clears all that its collector can see, in any order: what a function
    needs until it is gone itself must not be among that. The collector does not look into bytes, nor into
    arrays of NumPy.
    """
    method = bytes(_Method(_NAME, library["entry"], flags, None))
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.py_object, ctypes.c_void_p)
    make: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Callable[..., Any] = make(method, (*held, np.array([library], object), method), None)
    return function


@cache
def pool() -> Any:
    """The machine code of the thread pool, which is never given back: threads sleep in it until the process
    ends. Raises UnsupportedError where the system has no such threads."""
    return for_ever(linked(pool_code()))


@cache
def _polls() -> Any:
    """The machine code of polls, which knows the main thread."""
    library = for_ever(_loaded(polls()))
    settle = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library["settle"])
    settle(threading.main_thread().ident)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: settle(threading.get_ident()))
    return library


def for_ever(library: Any) -> Any:
    """Machine code that is not given back, not even when Python ends: other threads may run it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # which keeps its linker
    return library


def linked(code: Code, own: Mapping[str, int] = MappingProxyType({})) -> Any:
    """The machine code, as `_loaded`; UnsupportedError where that cannot be."""
    try:
        return _loaded(code, own)
    except (ImportError, RuntimeError, KeyError, AttributeError) as error:
        raise UnsupportedError from error  # llvmlite without what is used here


class _Method(ctypes.Structure):
    """Python's description of a function written in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _loaded(code: Code, own: Mapping[str, int] = MappingProxyType({})) -> Any:
    """A library with the machine code, which gives the addresses of its functions; the code comes from the
    cache if it is there. `own` are the addresses of functions of ours that it calls."""
    from llvmlite import binding as llvm

    host, number = _host(), next(_numbers)
    linker = _linker(number // MOST_LIBRARIES)  # with one LLVM finds what the process has
    outside = code.externals - {POLL}
    symbols = {name: llvm.address_of_symbol(name) for name in outside}
    symbols |= {POLL: _polls()[POLL]} if POLL in code.externals else {}
    if not all(symbols.values()):
        raise UnsupportedError
    level = optimisation()
    content = store.kept(f"{host.name} O{level}\n{code.text}", ".o", lambda: _compiled(code.text, level))
    builder = llvm.JITLibraryBuilder().add_object_img(content).add_current_process()
    for name, address in (symbols | host.python | dict(own)).items():
        builder.import_symbol(name, address)
    for name in code.functions:
        builder.export_symbol(name)
    try:
        return builder.link(linker, f"kernel {number}")
    except RuntimeError as error:  # such as a name that nobody has
        raise BrokenModuleError(str(error)) from error


_numbers = count()


@lru_cache(maxsize=1)
def _linker(generation: int) -> Any:
    """What links machine code into this process.

    It keeps 10 KB of every library that it ever linked, so each links a few only. LLVM keeps it as long as
    one of these is there.
    """
    from llvmlite import binding as llvm

    host = _host()
    return llvm.create_lljit_compiler(host.machine(HIGHEST), use_jit_link=host.near, suppress_errors=True)


def optimisation() -> int:
    """LLVM's optimisation level: the environment variable ADC_OPT, from 0, which compiles fast, to 3, which
    runs fast and is the default. Raises Error for other values."""
    given = os.environ.get("ADC_OPT") or str(HIGHEST)
    if given not in map(str, range(HIGHEST + 1)):
        raise Error(f"ADC_OPT={given} is not an optimisation level", remedy=f"use 0 to {HIGHEST}")
    return int(given)


def _compiled(text: str, level: int) -> bytes:
    """The machine code of a module in LLVM's language."""
    with optimised(text, level=level) as module:
        compiled: bytes = _builder(level)[0].emit_object(module)
    return compiled


@cache
def _builder(level: int) -> tuple[Any, Any]:
    """What emits machine code, and what makes LLVM's passes: one for all kernels, for llvmlite never gives
    all of it back. A thread at a time is in each call of theirs."""
    from llvmlite import binding as llvm

    machine = _host().machine(level)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.slp_vectorization = False  # as numba has it
    return machine, llvm.create_pass_builder(machine, options)


def optimised(text: str, second: bool = True, level: int = HIGHEST) -> Any:
    """A module in LLVM's language after LLVM's passes for this machine: both, or the first."""
    module, (_, builder) = parsed(text), _builder(level)
    with closed_by_errors(module):
        run(builder.getModulePassManager(), [module], builder)
        return inlined(module, builder) if second else module


class Host(NamedTuple):
    """What makes a target machine for this processor at an optimisation level, whether code and its constants
    lie beside each other, the addresses of Python's functions, and the name of the processor and of the
    compilers."""

    machine: Callable[[int], Any]
    near: bool
    python: dict[str, int]
    name: str


@cache
def _host() -> Host:
    import llvmlite
    from llvmlite import binding as llvm

    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UnsupportedError
    _wait_at_fork()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    python = {name: _address(getattr(ctypes.pythonapi, name)) for name in PYTHON}
    triple, cpu, features = llvm.get_process_triple(), llvm.get_host_cpu_name(), ""
    with suppress(RuntimeError):  # LLVM cannot tell them on every system; then the name of the cpu does
        features = llvm.get_host_cpu_features().flatten()
    # JITLink puts code and its constants beside each other, so that code reads constants without computing
    # where they are. LLVM has none for Windows.
    near = "windows" not in triple
    target = llvm.Target.from_triple(triple)
    far = "static" if target.name.startswith("x86") else "default"
    model = {"reloc": "pic", "codemodel": "small"} if near else {"reloc": far, "codemodel": "jitdefault"}

    def machine(level: int) -> Any:
        return target.create_target_machine(cpu=cpu, features=features, opt=level, jit=True, **model)

    versions = f"llvmlite {llvmlite.__version__} {triple} {cpu} {features} {model} {version()}"
    return Host(machine, near, python, versions)


def _wait_at_fork() -> None:
    """A fork waits until no thread is inside LLVM: in the child its own locks would be held for ever."""
    if hasattr(os, "register_at_fork"):
        from llvmlite.binding import ffi

        lock = ffi.lib._lock
        leave = partial(lock.__exit__, None, None, None)
        os.register_at_fork(before=lock.__enter__, after_in_parent=leave, after_in_child=leave)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
