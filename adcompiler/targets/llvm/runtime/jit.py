"""Kernels as Python functions, without numba: machine code, from the cache if present."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache, partial
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from adcompiler import store
from adcompiler.errors import Error
from adcompiler.lazy import cached_property
from adcompiler.loopir.nodes import Invoke, UnsupportedError
from adcompiler.loopir.walk import statements
from adcompiler.targets.llvm.blas import SYMBOLS
from adcompiler.targets.llvm.instructions import POLL
from adcompiler.targets.llvm.limits import HIGHEST_LEVEL, MOST_LIBRARIES
from adcompiler.targets.llvm.runtime.entry import PYTHON, Code, KernelSource, translated
from adcompiler.targets.llvm.runtime.gemm import gemm
from adcompiler.targets.llvm.runtime.inline_cache import fast_path
from adcompiler.targets.llvm.runtime.polls import polls
from adcompiler.targets.llvm.runtime.pool import pool as pool_code
from adcompiler.targets.llvm.values import BrokenModuleError
from adcompiler.targets.llvm.vectormath.second_pass import closed_by_errors, inlined, parsed, run, version

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
    return _callable(_doors(), METH_FASTCALL | METH_KEYWORDS, table, general, *held)


@cache
def _doors() -> Any:
    """The machine code shared by all fast_paths."""
    return _loaded(fast_path())


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


@cache
def pool() -> Any:
    """The machine code of the thread pool, which is never freed: threads sleep in it until the process ends.
    Raises UnsupportedError if the system has no such threads."""
    return keep_alive(linked(pool_code()))


@cache
def _polls() -> Any:
    """The machine code of polls, initialised with the main thread."""
    library = keep_alive(_loaded(polls()))
    settle = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library["settle"])
    settle(threading.main_thread().ident)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: settle(threading.get_ident()))
    return library


@cache
def _tiles(kind: str) -> Any:
    """The machine code of tiles of matrix products of a type, for the widest vectors of this processor."""
    return keep_alive(_loaded(gemm(kind, _vector_bits())))


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

    host, number = _host(), next(_numbers)
    linker = _linker(number // MOST_LIBRARIES)  # a linker lets LLVM resolve symbols of the process
    outside = code.externals - {POLL} - SYMBOLS.keys()
    symbols = {name: llvm.address_of_symbol(name) for name in outside}
    symbols |= {POLL: _polls()[POLL]} if POLL in code.externals else {}
    symbols |= {name: _tiles(SYMBOLS[name])[name] for name in code.externals & SYMBOLS.keys()}
    if missing := sorted(name for name, address in symbols.items() if not address):
        raise UnsupportedError(f"the C library has no {', '.join(missing)}")
    level = optimisation()
    how = f"O{level}{' plain' * code.plain}"
    content = store.kept(f"{host.name} {how}\n{code.text}", ".o", lambda: _compiled(code, level))
    builder = llvm.JITLibraryBuilder().add_object_img(content).add_current_process()
    for name, address in (symbols | host.python | dict(own)).items():
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

    host = _host()
    return llvm.create_lljit_compiler(
        host.machine(HIGHEST_LEVEL), use_jit_link=host.near, suppress_errors=True
    )


def optimisation() -> int:
    """LLVM's optimisation level: the environment variable ADC_OPT, from 0 (fast compilation) to 3 (fast code,
    the default). Raises Error for other values."""
    given = os.environ.get("ADC_OPT") or str(HIGHEST_LEVEL)
    if given not in map(str, range(HIGHEST_LEVEL + 1)):
        raise Error(f"ADC_OPT={given} is not an optimisation level", remedy=f"use 0 to {HIGHEST_LEVEL}")
    return int(given)


def _compiled(code: Code, level: int, native: bool = True) -> bytes:
    """The machine code of a module of LLVM IR."""
    made = _plain(code.text) if code.plain else optimised(code.text, native, level, native)
    with made as module:
        compiled: bytes = _builder(level, native)[0].emit_object(module)
    return compiled


def _plain(text: str) -> Any:
    """A module of LLVM IR with values instead of variables, and nothing computed twice: a fifth of the time
    of all of LLVM's passes."""
    from llvmlite import binding as llvm

    module, (_, builder) = parsed(text), _builder(HIGHEST_LEVEL)
    with closed_by_errors(module):
        passes = llvm.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        run(passes, [f for f in module.functions if not f.is_declaration], builder)
    return module


def object_code(code: Code, native: bool) -> bytes:
    """Machine code to link into a library: `native` is for this processor, else for any of its
    architecture."""
    _host()
    return _compiled(code, optimisation(), native)


def assembled(text: str) -> str:
    """The assembly of a module of LLVM IR."""
    level = optimisation()
    with optimised(text, level=level) as module:
        found: str = _builder(level)[0].emit_assembly(module)
    return found


@cache
def _builder(level: int, native: bool = True) -> tuple[Any, Any]:
    """The target machine and the pass builder, shared by all kernels because llvmlite leaks some of their
    memory. Only one thread at a time calls each."""
    from llvmlite import binding as llvm

    machine = _host().machine(level) if native else _any_processor(level)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.slp_vectorization = False  # as in numba
    return machine, llvm.create_pass_builder(machine, options)


def _any_processor(level: int) -> Any:
    """The target machine for all processors of this architecture."""
    from llvmlite import binding as llvm

    target = llvm.Target.from_default_triple()
    return target.create_target_machine(opt=level, reloc="pic", codemodel="default")


def optimised(text: str, second: bool = True, level: int = HIGHEST_LEVEL, native: bool = True) -> Any:
    """A module of LLVM IR after LLVM's passes for this machine: both, or only the first."""
    module, (_, builder) = parsed(text), _builder(level, native)
    with closed_by_errors(module):
        with _each_load_by_itself():
            run(builder.getModulePassManager(), [module], builder)
        return inlined(module, builder) if second else module


@contextmanager
def _each_load_by_itself() -> Iterator[None]:
    """LLVM without one of its optimisations: else x[i + 1], which the next iteration reads as x[i], stays in
    a register, and a stencil that calls functions is not vectorised. Other users of LLVM keep it."""
    from llvmlite import binding as llvm

    llvm.set_option("adcompiler", "-enable-load-in-loop-pre=false")
    try:
        yield
    finally:
        llvm.set_option("adcompiler", "-enable-load-in-loop-pre=true")


class Host(NamedTuple):
    """The maker of target machines for this processor by optimisation level, whether code and its constants
    are close together, the addresses of Python's functions, and the name of processor and compilers."""

    machine: Callable[[int], Any]
    near: bool
    python: dict[str, int]
    name: str


@cache
def _host() -> Host:
    import llvmlite
    from llvmlite import binding as llvm

    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UnsupportedError("addresses do not have 64 bits")
    _wait_at_fork()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    python = {name: _address(getattr(ctypes.pythonapi, name)) for name in PYTHON}
    triple, cpu, features = llvm.get_process_triple(), llvm.get_host_cpu_name(), ""
    with suppress(RuntimeError):  # not available on every system; then the CPU's name is enough
        features = llvm.get_host_cpu_features().flatten()
    # JITLink places code and its constants close together, so constants are read by relative addresses. LLVM
    # has none for Windows.
    near = "windows" not in triple
    target = llvm.Target.from_triple(triple)
    far = "static" if target.name.startswith("x86") else "default"
    model = {"reloc": "pic", "codemodel": "small"} if near else {"reloc": far, "codemodel": "jitdefault"}

    def machine(level: int) -> Any:
        return target.create_target_machine(cpu=cpu, features=features, opt=level, jit=True, **model)

    versions = f"llvmlite {llvmlite.__version__} {triple} {cpu} {features} {model} {version()}"
    return Host(machine, near, python, versions)


def _wait_at_fork() -> None:
    """Make a fork wait until no thread is inside LLVM: otherwise LLVM's locks would stay held in the
    child."""
    if hasattr(os, "register_at_fork"):
        from llvmlite.binding import ffi

        lock = ffi.lib._lock
        leave = partial(lock.__exit__, None, None, None)
        os.register_at_fork(before=lock.__enter__, after_in_parent=leave, after_in_child=leave)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
