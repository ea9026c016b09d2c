"""The workers that share the blocks of kernels (`llvm/runtime/pool.py`)."""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from typing import Any

from adcompiler.targets.limits import MOST_THREADS
from adcompiler.targets.threads import get_num_threads, without_signals


def region(wanted: int | None = None) -> tuple[int, int]:
    """The arguments of a kernel that runs in parallel: the address of the pool's `launch`, and the number of
    threads; 0 and 1 if it must run alone."""
    count = wanted or get_num_threads()
    if count > 1 + _STATE.workers:
        _STATE.grow(count - 1)
    return (_STATE.launch, count) if _STATE.launch and count > 1 else (0, 1)


class _State:
    """The state of the pool in this process."""

    def __init__(self) -> None:
        self.workers = 0  # requested; fewer run if the system has no more
        self.launch = 0
        self.lock = threading.Lock()

    def grow(self, workers: int) -> None:
        """Start workers up to the given number."""
        with self.lock:
            made = _functions()
            if made is None:
                self.workers = MOST_THREADS  # not supported here: kernels run on one thread
                return
            with without_signals():
                while self.workers < workers:
                    made.start()
                    self.workers += 1
            self.launch = made.address

    def renew(self) -> None:
        """Reset the state in a forked child, which has no workers."""
        self.lock = threading.Lock()
        if self.launch:
            made = _functions()
            assert made is not None
            self.workers = self.launch = 0
            made.renew()


class _Functions:
    """The pool's functions in this process, never freed: workers sleep in their machine code."""

    def __init__(self, library: Any) -> None:
        self.address: int = library["launch"]
        self.start = ctypes.CFUNCTYPE(ctypes.c_int)(library["start"])
        self.renew = ctypes.CFUNCTYPE(None)(library["renew"])
        self.renew()


@cache
def _functions() -> _Functions | None:
    from adcompiler.loopir.nodes import UnsupportedError
    from adcompiler.targets.llvm.runtime.jit import pool, report
    from adcompiler.targets.llvm.values import BrokenModuleError

    try:
        return _Functions(pool())
    except UnsupportedError:
        return None
    except BrokenModuleError as error:
        report("the thread pool", error)
        return None


_STATE = _State()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_STATE.renew)
