"""What holds while a thread computes with Variables: whether it records, prints, defers, looks for NaN."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import ref

from adcompiler.eager.graph.user_lines import UserLine


class Pass(NamedTuple):
    """A backward pass that has left gradients in leaves."""

    number: int  # a serial number: what has a smaller one was there before
    output: ref[Any]


class State(threading.local):
    """What holds while this thread computes."""

    recording = True  # whether results remember how they were computed
    quiet: UserLine | None = None  # the user's line that turned recording off
    tracing = False  # whether operations print a line each
    anomaly: Any = None  # what looks for NaN, where somebody wants that (`anomaly.py`)
    inside: Any = None  # the recorded operation whose user-written propagate is running
    fusing: Any = None  # the pending operations of a fused function (`eager/aggregates/pending.py`)
    last: Pass | None = None  # the last backward(), for the message of a `.grad` that it did not fill


state = State()


@contextmanager
def setting(**values: Any) -> Iterator[None]:
    """Set some of the thread's state for a while."""
    before = {key: getattr(state, key) for key in values}
    try:
        for key, value in values.items():
            setattr(state, key, value)
        yield
    finally:
        for key, value in before.items():
            setattr(state, key, value)
