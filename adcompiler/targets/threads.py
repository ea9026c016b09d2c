"""The number of threads that share long loops and compile kernels, and tasks that threads share."""

from __future__ import annotations

import operator
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from adcompiler.errors import Error
from adcompiler.frames import public
from adcompiler.targets.limits import MOST_THREADS

T = TypeVar("T")

_REMEDY = f"pass an integer from 1 to {MOST_THREADS}"


@public
def set_num_threads(count: int) -> None:
    """Set the number of threads that share long loops, including the calling thread.

    Results have the same bits for any number. The default is the environment variable ADC_NUM_THREADS, else
    the number of processors that the process may use. `adc.compile(..., threads=n)` sets it for one function.
    Raises Error if `count` is not an integer from 1 to 1024.
    """
    _COUNT.chosen = checked(count)


@public
def get_num_threads() -> int:
    """The number of threads that share long loops, unless a function has its own number.

    Raises Error if the environment variable ADC_NUM_THREADS is not an integer from 1 to 1024.
    """
    if _COUNT.chosen is None:
        _COUNT.chosen = _from_environment()
    return _COUNT.chosen


def checked(count: Any, what: str = "") -> int:
    """A number of threads; Error if it is invalid."""
    try:
        number = 0 if isinstance(count, bool) else operator.index(count)
    except TypeError:
        number = 0
    if not 1 <= number <= MOST_THREADS:
        raise Error(f"{what}{count!r} is not a number of threads", remedy=_REMEDY)
    return number


def _from_environment() -> int:
    if given := os.environ.get("ADC_NUM_THREADS"):
        return checked(int(given) if given.strip().isdecimal() else given, "ADC_NUM_THREADS=")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(allowed or 1, MOST_THREADS)


@contextmanager
def without_signals() -> Iterator[None]:
    """Threads started inside leave signals to Python's threads."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """The results of tasks, which as many threads share as share loops, the calling one among them: each
    takes the next task that none has taken. Raises the first error among those of the tasks."""
    found: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    numbers = iter(range(len(tasks)))  # next() of it is atomic

    def run() -> None:
        for k in numbers:
            try:
                found[k] = tasks[k]()
            except Exception as error:
                errors[k] = error

    threads = [threading.Thread(target=run) for _ in range(min(len(tasks), get_num_threads()) - 1)]
    with without_signals():
        begun = [thread for thread in threads if _begins(thread)]
    try:
        run()
    finally:  # after Ctrl-C no thread takes another task
        for _ in numbers:
            pass
        for thread in begun:
            thread.join()
    if errors:
        raise errors[min(errors)]
    return [found[k] for k in range(len(tasks))]


def _begins(thread: threading.Thread) -> bool:
    """Start a thread, unless the system has no more."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


class _Count:
    """The number of threads of this process, once it is known."""

    chosen: int | None = None


_COUNT = _Count()
