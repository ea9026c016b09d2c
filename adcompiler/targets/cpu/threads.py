"""The number of threads that share the blocks of a kernel, and the pool's workers
(`llvm/runtime/pool.py`)."""

from __future__ import annotations

import ctypes
import operator
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from adcompiler.errors import Error
from adcompiler.frames import public
from adcompiler.targets.limits import MOST_THREADS

_REMEDY = f"pass an integer from 1 to {MOST_THREADS}"


@public
def set_num_threads(count: int) -> None:
    """Set the number of threads that share long loops, including the calling thread.

    Results have the same bits for any number. The default is the environment variable ADC_NUM_THREADS, else
    the number of processors that the process may use. `adc.compile(..., threads=n)` sets it for one function.
    Raises Error if `count` is not an integer from 1 to 1024.
    """
    _STATE.chosen = checked(count)


@public
def get_num_threads() -> int:
    """The number of threads that share long loops, unless a function has its own number.

    Raises Error if the environment variable ADC_NUM_THREADS is not an integer from 1 to 1024.
    """
    if _STATE.chosen is None:
        _STATE.chosen = _from_environment()
    return _STATE.chosen


def checked(count: Any, what: str = "") -> int:
    """A number of threads; Error if it is invalid."""
    try:
        number = 0 if isinstance(count, bool) else operator.index(count)
    except TypeError:
        number = 0
    if not 1 <= number <= MOST_THREADS:
        raise Error(f"{what}{count!r} is not a number of threads", remedy=_REMEDY)
    return number


def region(wanted: int | None = None) -> tuple[int, int]:
    """The arguments of a kernel that runs in parallel: the address of the pool's `launch`, and the number of
    threads; 0 and 1 if it must run alone."""
    count = wanted or get_num_threads()
    if count > 1 + _STATE.workers:
        _STATE.grow(count - 1)
    return (_STATE.launch, count) if _STATE.launch and count > 1 else (0, 1)


def _from_environment() -> int:
    if given := os.environ.get("ADC_NUM_THREADS"):
        return checked(int(given) if given.strip().isdecimal() else given, "ADC_NUM_THREADS=")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(allowed or 1, MOST_THREADS)


class _State:
    """The state of the pool in this process."""

    def __init__(self) -> None:
        self.chosen: int | None = None
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
            with _without_signals():
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


@contextmanager
def _without_signals() -> Iterator[None]:
    """Threads started inside leave signals to Python's threads."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_STATE = _State()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_STATE.renew)
