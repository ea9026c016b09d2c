"""LLVM's passes and code generation on modules that llvmlite holds.

llvmlite lets only one thread at a time into LLVM. What takes long runs outside of its lock here: each module
has a context of its own, and each thread its own target machine and pass builder.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from adcompiler.targets.llvm.values import BrokenModuleError

# Names of LLVM's options, with our values and the defaults.
OPTIONS: tuple[tuple[str, object, object], ...] = (
    # Else x[i + 1], which the next iteration reads as x[i], stays in a register, and a stencil that calls
    # functions is not vectorised.
    ("enable-load-in-loop-pre", "false", "true"),
)


def parsed(text: str) -> Any:
    """A module that keeps LLVM's rules; raises BrokenModuleError."""
    from llvmlite import binding as llvm

    try:  # in a context of its own: the global one keeps every constant and name
        module = llvm.parse_assembly(text, llvm.create_context())
        with closed_by_errors(module):
            module.verify()
    except RuntimeError as error:
        raise BrokenModuleError(str(error)) from error
    return module


@contextmanager
def closed_by_errors(module: Any) -> Iterator[None]:
    """An error that passes here closes the module: the frames that it holds may be in a cycle, which Python's
    collector would close in any order, and LLVM wants a module closed before its context."""
    try:
        yield
    except BaseException:
        module.close()
        raise


def run(passes: Any, units: Sequence[Any], builder: Any) -> None:
    """Run a pass manager on modules or functions, and free it: llvmlite (0.50) itself never does."""
    from llvmlite.binding.newpassmanagers import ModulePassManager, NewPassManager

    kind = "Module" if isinstance(passes, ModulePassManager) else "Function"
    for unit in units:
        with _INSIDE:
            _unlocked(f"LLVMPY_RunNew{kind}PassManager")(passes, unit, builder)
    NewPassManager._dispose(passes)
    passes.detach()


@contextmanager
def own_options() -> Iterator[None]:
    """LLVM with our options. Other users of LLVM keep theirs."""
    with _INSIDE:
        _OPTIONS.change(1)
        try:
            yield
        finally:
            _OPTIONS.change(-1)


def emitted(machine: Any, module: Any) -> bytes:
    """The object file of a module."""
    from llvmlite.binding import ffi

    with ffi.OutputString() as error:
        with _INSIDE:
            buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@cache
def _unlocked(name: str) -> Any:
    """A function of llvmlite's library, without its lock if it can be had."""
    from llvmlite.binding import ffi

    function = getattr(ffi.lib, name)
    return getattr(function, "_cfn", function)


class _Inside:
    """Threads that are inside of LLVM. A fork waits for the others: else locks of LLVM would stay held in the
    child."""

    def __init__(self) -> None:
        self.changed, self.threads = threading.Condition(), list[int]()

    def __enter__(self) -> None:
        with self.changed:
            self.threads.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.threads.remove(threading.get_ident())
            self.changed.notify_all()

    def close(self) -> None:
        """Wait until no other thread is inside, and let none in."""
        self.changed.acquire()
        self.changed.wait_for(lambda: set(self.threads) <= {threading.get_ident()})

    def open(self) -> None:
        self.changed.release()


class _Options:
    """How many threads want our options."""

    def __init__(self) -> None:
        self.lock, self.threads = threading.Lock(), 0

    def change(self, by: int) -> None:
        from llvmlite import binding as llvm

        with self.lock:
            self.threads += by
            if self.threads == max(by, 0):  # the first, or none any more
                for name, ours, default in OPTIONS:
                    llvm.set_option("adcompiler", f"-{name}={ours if by > 0 else default}")


_INSIDE, _OPTIONS = _Inside(), _Options()


@cache
def wait_at_fork() -> None:
    """Make a fork wait until no thread is inside of LLVM."""
    if hasattr(os, "register_at_fork"):
        from llvmlite.binding import ffi

        lock = ffi.lib._lock

        def close() -> None:
            _INSIDE.close()
            lock.__enter__()

        def leave() -> None:
            lock.__exit__(None, None, None)
            _INSIDE.open()

        os.register_at_fork(before=close, after_in_parent=leave, after_in_child=leave)
