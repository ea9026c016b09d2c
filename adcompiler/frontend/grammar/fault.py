"""An error found while reading, before its source is known."""

from __future__ import annotations

from adcompiler.errors import Error, LimitError, ParseError, Source, Span


class Fault(Exception):  # noqa: N818 (it never leaves this package)
    """Raised inside the syntax package; `parse` turns it into an error that shows the source."""

    kind: type[Error] = ParseError

    def __init__(self, span: Span, cause: str, remedy: str | None = None) -> None:
        super().__init__(cause)
        self.span, self.cause, self.remedy = span, cause, remedy

    def error(self, source: Source) -> Error:
        """The error that shows the source."""
        return self.kind(self.cause, remedy=self.remedy, source=source, span=self.span)


class Excess(Fault):
    """A limit is exceeded."""

    kind = LimitError

    @staticmethod
    def check(what: str, count: int, limit: int, span: Span, remedy: str) -> None:
        """Raise one if there are more than `limit` of `what`."""
        if count > limit:
            raise Excess(span, f"{what}: {count:,} is more than the limit of {limit:,}", remedy)
