"""A progress line on the terminal or in a notebook while a compilation or check takes more than a second.

The line is removed when it is done. Nothing is written if the error stream is neither, or if ADC_PROGRESS=0
is set in the environment. In a notebook the line uses tqdm, if that is installed.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TextIO

PATIENCE = 1.0  # seconds before there is a line, and until it is written again
GAP = 0.5  # seconds between parts of what is one compile to a user
CLEAR = "\r\x1b[K"


class Line:
    """A line of text on a terminal, which is written again and again."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def show(self, text: str) -> None:
        """Write it in the place of what it was."""
        self.stream.write(f"{CLEAR}{text}")
        self.stream.flush()

    def remove(self) -> None:
        """Leave nothing."""
        self.show("")


class Bar(Line):
    """One in a notebook: tqdm's, which is a widget where these are installed."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of missing widgets
            from tqdm.auto import tqdm

            self.bar = tqdm(bar_format="{desc}", leave=False, file=stream)

    def show(self, text: str) -> None:
        self.bar.set_description_str(text)

    def remove(self) -> None:
        self.bar.close()


def line_on(stream: TextIO) -> Line:
    """A line to be written on a stream."""
    if is_notebook(stream):
        with suppress(ImportError):
            return Bar(stream)
    return Line(stream)


def is_notebook(stream: TextIO) -> bool:
    """Whether what is written on a stream is seen in a notebook."""
    return type(stream).__module__.startswith("ipykernel.")


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
        line: Line | None = None
        with suppress(OSError, ValueError):  # of a terminal that is closed meanwhile
            while not done.wait(PATIENCE if line else max(0.0, PATIENCE - (perf_counter() - self.began))):
                line = line or line_on(stream)
                seconds = perf_counter() - self.began
                line.show(f"adc: {next(iter(self.names), '')}, {seconds:.0f} s")
            if line:
                line.remove()

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
    stream, reporter = terminal(), _reporter
    if stream is None:
        yield
        return
    reporter.enter(what, stream)
    try:
        yield
    finally:
        reporter.leave(what)


def terminal() -> TextIO | None:
    """Where the line is written, if anywhere."""
    if os.environ.get("ADC_PROGRESS") == "0":
        return None
    try:
        stream = sys.stderr
        return stream if stream.isatty() or is_notebook(stream) else None
    except (AttributeError, ValueError):  # there is none, or it is closed
        return None


def _renew() -> None:
    """Forget what the parent of a fork compiles."""
    global _reporter
    _reporter = Reporter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
