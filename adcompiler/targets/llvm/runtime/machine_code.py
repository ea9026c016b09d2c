"""Machine code of modules of LLVM IR for this processor: what LLVM's passes and code generation make of it.

Functions that threads share the iterations of are compiled by several threads. llvmlite lets only one thread
at a time into LLVM. Passes and code generation, which take most of the time, run outside of its lock: each
thread has its own module, context, target machine and pass builder.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, NamedTuple

from adcompiler import store
from adcompiler.errors import Error
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.limits import HIGHEST_LEVEL
from adcompiler.targets.llvm.module_text import divided
from adcompiler.targets.llvm.passes import (
    OPTIONS,
    closed_by_errors,
    emitted,
    own_options,
    parsed,
    run,
    wait_at_fork,
)
from adcompiler.targets.llvm.runtime.entry import PYTHON, Code
from adcompiler.targets.llvm.vectormath.second_pass import inlined, version
from adcompiler.targets.threads import together


def optimisation() -> int:
    """LLVM's optimisation level: the environment variable ADC_OPT, from 0 (fast compilation) to 3 (fast code,
    the default). Raises Error for other values."""
    given = os.environ.get("ADC_OPT") or str(HIGHEST_LEVEL)
    if given not in map(str, range(HIGHEST_LEVEL + 1)):
        raise Error(f"ADC_OPT={given} is not an optimisation level", remedy=f"use 0 to {HIGHEST_LEVEL}")
    return int(given)


def objects(code: Code, others: Sequence[Callable[[], Any]] = ()) -> list[bytes]:
    """The object files of a module, from the cache if present. Threads share the work of those to be made,
    and of `others`, which come first."""
    level = optimisation()
    head = f"{host().name} O{level}{' plain' * code.plain}\n"
    compiled = _plain if code.plain else partial(_compiled, level=level)
    parts = divided(code.text, code.apart)
    tasks: list[Callable[[], Any]] = [*others]
    tasks += (partial(store.kept, head + part, ".o", partial(compiled, part)) for part in parts)
    return together(tasks)[len(others) :]


def object_code(code: Code, native: bool) -> bytes:
    """Machine code to link into a library: `native` is for this processor, else for any of its
    architecture."""
    return _compiled(code.text, optimisation(), native)


def _compiled(text: str, level: int, native: bool = True) -> bytes:
    """The machine code of a module of LLVM IR."""
    with optimised(text, native, level, native) as module, _tools(level, native) as (machine, _):
        return emitted(machine, module)


def _plain(text: str) -> bytes:
    """The machine code of a module with values instead of variables, and nothing computed twice: a fifth of
    the time of all of LLVM's passes."""
    from llvmlite import binding as llvm

    with parsed(text) as module, _tools(HIGHEST_LEVEL) as (machine, builder):
        passes = llvm.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        run(passes, [f for f in module.functions if not f.is_declaration], builder)
        return emitted(machine, module)


def assembled(text: str) -> str:
    """The assembly of a module of LLVM IR."""
    level = optimisation()
    with optimised(text, level=level) as module, _tools(level) as (machine, _):
        found: str = machine.emit_assembly(module)
    return found


_FREE: dict[tuple[int, bool], list[tuple[Any, Any]]] = {}


@contextmanager
def _tools(level: int, native: bool = True) -> Iterator[tuple[Any, Any]]:
    """A target machine and a pass builder that no other thread uses, kept for the next module, because
    llvmlite leaks some of their memory."""
    from llvmlite import binding as llvm

    here, free = host(), _FREE.setdefault((level, native), [])
    try:
        tools = free.pop()
    except IndexError:
        machine = here.machine(level) if native else _any_processor(level)
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.slp_vectorization = False  # as in numba
        tools = machine, llvm.create_pass_builder(machine, options)
    yield tools
    free.append(tools)


def _any_processor(level: int) -> Any:
    """The target machine for all processors of this architecture."""
    from llvmlite import binding as llvm

    target = llvm.Target.from_default_triple()
    return target.create_target_machine(opt=level, reloc="pic", codemodel="default")


def optimised(text: str, second: bool = True, level: int = HIGHEST_LEVEL, native: bool = True) -> Any:
    """A module of LLVM IR after LLVM's passes for this machine: both, or only the first."""
    module = parsed(text)
    with closed_by_errors(module), _tools(level, native) as (_, builder):
        with own_options():
            run(builder.getModulePassManager(), [module], builder)
        return inlined(module, builder) if second else module


class Host(NamedTuple):
    """The maker of target machines for this processor by optimisation level, whether code and its constants
    are close together, the addresses of Python's functions, and the name of processor and compilers."""

    machine: Callable[[int], Any]
    near: bool
    python: dict[str, int]
    name: str


@cache
def host() -> Host:
    """This machine, with LLVM set up for it."""
    import llvmlite
    from llvmlite import binding as llvm

    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UnsupportedError("addresses do not have 64 bits")
    wait_at_fork()
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

    versions = f"llvmlite {llvmlite.__version__} {triple} {cpu} {features} {model} {version()} {OPTIONS}"
    return Host(machine, near, python, versions)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
