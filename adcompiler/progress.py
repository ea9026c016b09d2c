"""A line on the terminal while something compiles, or is checked, for more than a second.

What is written is removed again. Nothing is written where the error stream is no terminal, or with
ADC_PROGRESS=0 in the environment.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TextIO

PATIENCE = 1.0  # seconds before there is a line, and until it is written again
GAP = 0.5  # seconds between parts of what is one compile to a user
CLEAR = "\r\x1b[K"


class Reporter:
    """What is compiled now, by all threads together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.names: list[str] = []
        self.began = self.ended = -GAP
        self.done = threading.Event()
        self.thread: threading.Thread | None = None

    def enter(self, name: str, stream: TextIO) -> None:
        """Something is being compiled; if nothing was, a thread begins to watch the clock."""
        with self.lock:
            self.names.append(name)
            if len(self.names) > 1:
                return
            now = perf_counter()
            self.began = now if now - self.ended > GAP else now - (self.ended - self.began)
            self.done = threading.Event()
            self.thread = threading.Thread(target=self.report, args=(self.done, stream), daemon=True)
            self.thread.start()

    def leave(self, name: str) -> None:
        """It is compiled; if it was the last, the line has been removed when this returns."""
        with self.lock:
            if name in self.names:  # not so in a child of the process where it began
                self.names.remove(name)
            thread = None if self.names else self.thread
            if thread is not None:
                self.ended = perf_counter()
                self.done.set()
        if thread is not None:
            thread.join()

    def report(self, done: threading.Event, stream: TextIO) -> None:
        """Write the line, again and again, until all is compiled."""
        shown = False
        with suppress(OSError, ValueError):  # of a terminal that is closed meanwhile
            while not done.wait(PATIENCE if shown else max(0.0, PATIENCE - (perf_counter() - self.began))):
                seconds = perf_counter() - self.began
                stream.write(f"{CLEAR}adc: {next(iter(self.names), '')}, {seconds:.0f} s")
                stream.flush()
                shown = True
            if shown:
                stream.write(CLEAR)
                stream.flush()

    def renew(self) -> None:
        """What a child of `fork` has: none of the threads that compiled."""
        self.lock, self.names = threading.Lock(), []


_reporter = Reporter()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reporter.renew)


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """While this is entered, `name` is being compiled."""
    with showing(f"compiling {name}"):
        yield


@contextmanager
def showing(what: str) -> Iterator[None]:
    """While this is entered, a line says `what` is being done."""
    stream, reporter = _terminal(), _reporter
    if stream is None:
        yield
        return
    reporter.enter(what, stream)
    try:
        yield
    finally:
        reporter.leave(what)


def _terminal() -> TextIO | None:
    """Where the line is written, if anywhere."""
    if os.environ.get("ADC_PROGRESS") == "0":
        return None
    try:
        return sys.stderr if sys.stderr.isatty() else None
    except (AttributeError, ValueError):  # there is none, or it is closed
        return None


def _renew() -> None:
    """Forget what the parent of a fork compiles."""
    global _reporter
    _reporter = Reporter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
