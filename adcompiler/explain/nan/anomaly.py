"""`adc.tape.anomaly`: the recorded operation, forward or backward, that makes the first NaN raises an error.

Like `torch.autograd.set_detect_anomaly`, with an explanation: the operation's element, its operands, which
partial derivative was infinite, and what to write instead. A call of a compiled function is explained from
inside, by the interpreter (`explain_nan.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from adcompiler.eager.graph.graph import Entry, setting
from adcompiler.eager.graph.user_lines import here
from adcompiler.errors import GraphError
from adcompiler.explain.nan.nan_eager import Called, EagerFinder, has
from adcompiler.explain.nan.nan_report import NanExplanation


class NanError(GraphError, ArithmeticError):
    """A recorded operation made NaN; `explanation` has the fields of `adc.explain_nan`'s answer."""

    explanation: NanExplanation


@contextmanager
def anomaly(infinite: bool = False) -> Iterator[None]:
    """Raise NanError at the operation of this thread, forward or backward, whose result has the first NaN.

    infinite  raise for infinities too

    The forward pass must run inside for its operations to be explained. Every result is checked, which takes
    about as long as copying it.
    """
    with setting(anomaly=Anomaly(infinite)):
        yield


class Anomaly:
    """What is looked at and remembered while anomalies are errors."""

    def __init__(self, infinite: bool) -> None:
        self.bad: Callable[[Any], Any] = (lambda v: ~np.isfinite(v)) if infinite else np.isnan
        self.walked: Entry | None = None  # whose propagate runs: its operations are none of the user's
        self.calls: WeakKeyDictionary[Entry, Called] = WeakKeyDictionary()
        self.parents: WeakKeyDictionary[Entry, Entry] = WeakKeyDictionary()

    def called(
        self, entry: Entry, program: Any, values: Sequence[Any], function: Any = None, types: Any = None
    ) -> None:
        """Remember what a call of a compiled function was given."""
        if program is not None and program.origin is not None:
            split, types, _ = program.origin
            self.calls[entry] = Called(split.f, types, program.parts.wanted, values)
        elif function is not None:
            self.calls[entry] = Called(function, types, (), values)

    def made(self, entry: Entry, results: Sequence[Any]) -> None:
        """Raise if the results of an operation are the first that are NaN."""
        if self.walked is not None:
            self.parents[entry] = self.walked
        elif any(has(self.bad, r) for r in results):
            with setting(anomaly=None, recording=False, tracing=False):
                raise _error(
                    EagerFinder(self.bad, entry, entry.place or here(), self.calls.get(entry)).forward(
                        results
                    )
                )

    def propagate(self, entry: Entry) -> Callable[[Sequence[Any], Sequence[bool]], list[Any]]:
        """The propagate of an entry, which raises if it makes the first NaN."""

        def pull(given: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
            before, self.walked = self.walked, entry
            try:
                found = entry.propagate(list(given), wanted)
            finally:
                self.walked = before
            if any(g is not None and has(self.bad, g) for g in found):
                with setting(anomaly=None, recording=False, tracing=False):
                    root = entry
                    while root in self.parents:
                        root = self.parents[root]
                    raise _error(
                        EagerFinder(
                            self.bad,
                            entry,
                            root.place,
                            self.calls.get(entry),
                            None if root is entry else root,
                        ).backward(given, found)
                    )
            return found

        return pull


def _error(found: NanExplanation) -> NanError:
    error = NanError(str(found))
    error.line, error.column, error.explanation = found.line, found.column, found
    return error
