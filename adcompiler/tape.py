"""`adc.tape`: gradients of Variables, user-defined operations, and views of the recorded graph.

The tape is not a list: each Variable refers to the entry that computed it, so an entry lives as long
as a Variable needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from adcompiler.eager.graph.gradmode import enable_grad, no_grad
from adcompiler.eager.graph.graph import (
    Cotangents,
    Recorded,
    attach,
    forget,
    live,
    setting,
    settle,
    state,
)
from adcompiler.eager.variable.elementwise import apply, where
from adcompiler.eager.variable.gradients import grad, variables_of
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import GraphError
from adcompiler.explain.tape.draw import draw
from adcompiler.explain.tape.leaks import leaks
from adcompiler.explain.tape.tapecheck import check
from adcompiler.frames import public

__all__ = [
    "anomaly",
    "apply",
    "check",
    "draw",
    "grad",
    "leaks",
    "record",
    "recording",
    "reset",
    "show",
    "trace",
    "verbose",
    "where",
]


@public
def record(
    inputs: Sequence[Variable], outputs: Sequence[Variable], propagate: Callable[[Cotangents], Sequence[Any]]
) -> None:
    """Record a user-defined operation: `outputs` were computed from `inputs` outside the graph.

    propagate  takes a list with a cotangent for each output, None for zero (not all are None), and
               returns a list with one for each input, None for zero. If it computes with Variables it
               can be differentiated again. Declare temporaries that it reads as outputs; otherwise
               derivatives of higher order miss the path through them

    Call it before the outputs are used. Raises GraphError if an output is already part of a graph.
    """
    settle()
    inputs, outputs = variables_of("inputs", inputs), variables_of("outputs", outputs)
    for v in outputs:
        if v.entry is not None or v.used or any(v is i for i in inputs):
            raise GraphError(
                f"{v.name} is part of a graph already: it cannot become the output of another operation",
                remedy="compute outputs from plain arrays (.value) and record them before they are used",
            )
    if state.recording:
        attach(entry := Recorded(inputs, propagate), outputs)
        if state.anomaly is not None:
            state.anomaly.made(entry, outputs)


def recording(on: bool) -> AbstractContextManager[None]:
    """`adc.enable_grad()` or `adc.no_grad()`: whether operations of this thread are recorded."""
    mode: AbstractContextManager[None] = enable_grad() if on else no_grad()
    return mode


def anomaly(infinite: bool = False) -> AbstractContextManager[None]:
    """A context in which the operation, forward or backward, that makes the first NaN raises an error.

    infinite  infinities are errors too

    The forward pass must run inside for its operations to be explained. Every result is checked. The error, a
    GraphError, has the fields of `adc.explain_nan`'s answer in `explanation`.
    """
    from adcompiler.explain.nan.anomaly import anomaly

    return anomaly(infinite)


def reset() -> None:
    """Drop the recorded graph: computed Variables become constants, and names restart at v0."""
    forget()


@contextmanager
def trace() -> Iterator[None]:
    """Print each operation of this thread as a line: `v1 = v0 * b`."""
    with setting(tracing=True):
        yield


def verbose(on: bool = True) -> None:
    """Turn tracing on or off."""
    state.tracing = on


def show() -> None:
    """Print the recorded operations that a Variable still refers to, oldest first."""
    for entry in live():
        print(entry.line())
