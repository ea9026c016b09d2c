"""Who is blamed for what happens inside of a function of the prelude: the call, by its place and name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import overload

from adcompiler.errors import Source, Span


class Blame:
    """The outermost call of a function of the prelude that is being lowered; none in the user's own code.

    Errors, checks and nodes made inside have the place of that call, and messages begin with its function.
    """

    def __init__(self) -> None:
        self.name = ""
        self.span: Span | None = None
        self.source: Source | None = None  # of the definition that is being lowered, if not the program's own

    @property
    def elsewhere(self) -> bool:
        """Whether the code being lowered is not the user's."""
        return self.span is not None

    @contextmanager
    def on(self, name: str, span: Span) -> Iterator[None]:
        """Code lowered inside belongs to this call, unless it already belongs to another one."""
        before = self.name, self.span
        if self.span is None:
            self.name, self.span = name, span
        try:
            yield
        finally:
            self.name, self.span = before

    @overload
    def place(self, span: Span) -> Span: ...
    @overload
    def place(self, span: Span | None) -> Span | None: ...
    def place(self, span: Span | None) -> Span | None:
        """The place to report for code at `span`."""
        found = span if self.span is None else self.span
        if self.source is None or found is None or found.source is not None:
            return found
        return replace(found, source=self.source)

    def cause(self, text: str) -> str:
        """A message about code that is being lowered."""
        return text if self.span is None or text.startswith(self.name) else f"{self.name}: {text}"
