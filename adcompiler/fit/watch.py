"""The line that shows how far a solver is, with `progress=True`."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType

import numpy as np

from adcompiler.fit.limits import PROGRESS_SECONDS
from adcompiler.progress import Line, line_on, terminal


class Watch:
    """Counts the points at which a function is computed, and shows the last value."""

    def __init__(self, what: str, shown: bool) -> None:
        self.what, self.count = what, 0
        self.stream = terminal() if shown else None
        self.line: Line | None = None
        self.began = self.last = perf_counter()

    def __enter__(self) -> Watch:
        return self

    def seen(self, values: np.ndarray) -> None:
        """A function was computed; residuals are shown as the sum of their squares."""
        self.count += 1
        if self._is_due():
            value = float(values[0] if len(values) == 1 else values @ values)
            self._show(f"{self.count} points, {value:.6g}")

    def ended(self, count: int, fits: int) -> None:
        """So many fits of a batch have ended."""
        if self._is_due():
            self._show(f"{count:,} of {fits:,} fits")

    def _is_due(self) -> bool:
        return self.stream is not None and perf_counter() - self.last >= PROGRESS_SECONDS

    def _show(self, text: str) -> None:
        assert self.stream is not None
        self.last = perf_counter()
        self.line = self.line or line_on(self.stream)
        self.line.show(f"adc: {self.what}, {text}, {self.last - self.began:.0f} s")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.line is not None:
            self.line.remove()
