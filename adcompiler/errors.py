"""The errors of this package: place (line, column, caret), cause and remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from adcompiler.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text; lines and columns count from 1, the end column is exclusive. In a program it
    has its `source` if that is not the program's own, but of a function that it calls."""

    line: int
    column: int
    end_line: int
    end_column: int
    source: Source | None = field(default=None, compare=False, repr=False)

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.line, self.column, other.end_line, other.end_column)


@dataclass(frozen=True, slots=True)
class Source:
    """A source text and its place: `first_line` and `indent` are those of a function cut from a file."""

    text: str
    name: str = "<expression>"
    first_line: int = 1
    indent: int = 0

    def of(self, span: Span | None) -> Source:
        """The source in which a span of a program stands, which this is the source of."""
        return self if span is None or span.source is None else span.source

    def at(self, span: Span) -> tuple[int, int]:
        """The line of the file, and the column in it, at which a span begins."""
        if self.of(span) is not self:
            return self.of(span).at(span)
        return span.line + self.first_line - 1, span.column + self.indent

    def text_of(self, span: Span) -> str:
        """What stands at a span, in one line."""
        if self.of(span) is not self:
            return self.of(span).text_of(span)
        lines = self.text.split("\n")[span.line - 1 : span.end_line]
        if lines:
            lines[-1] = lines[-1][: span.end_column - 1]
            lines[0] = lines[0][span.column - 1 :]
        return " ".join(" ".join(lines).split())

    def excerpt(self, span: Span) -> str:
        """The line of `span` with a caret under it; long lines are cut around the caret."""
        if self.of(span) is not self:
            return self.of(span).excerpt(span)
        lines = self.text.split("\n")
        if not 0 < span.line <= len(lines):
            return ""  # the place is the end of the text
        line = "".join(c if c.isprintable() else " " for c in lines[span.line - 1])
        width = span.end_column - span.column if span.end_line == span.line else 1
        start = max(0, span.column - 1 - 60)
        shown = line[start : start + 120]
        offset = span.column - 1 - start
        caret = "^" * max(1, min(width, len(shown) - offset))
        return f"    {shown}\n    {' ' * offset}{caret}"


class Error(Exception):
    """The base of all errors of adcompiler.

    `line` and `column` (from 1) are the place in the user's `file`, or None without a source; `cause` is the
    message without the place, `remedy` says what to write instead.
    """

    def __init__(
        self,
        cause: str,
        *,
        remedy: str | None = None,
        source: Source | None = None,
        span: Span | None = None,
    ) -> None:
        self.cause, self.remedy = cause, remedy
        self.file: str | None = None
        self.line: int | None = None
        self.column: int | None = None
        text, where = cause, ""
        if source is not None and span is not None:
            source = source.of(span)
            self.file = source.name
            self.line, self.column = source.at(span)
            where = f"{self.file}:{self.line}:{self.column}: "
            text = f"{where}{cause}\n{source.excerpt(span)}".rstrip()
        if remedy:
            text = f"{text}\n  help: {remedy}"
        self.rendered = text
        super().__init__(text)

    @property
    def errors(self) -> tuple[Error, ...]:
        """This error, or all those that it reports together."""
        found: tuple[Error, ...] = self.__dict__.get("reported", (self,))
        return found

    @staticmethod
    def together(errors: Iterable[Error]) -> Error:
        """One error for several: of the class and the place of the first, with the texts of all. Those of one
        file are in the order of their lines."""
        each = {(e.file, e.line, e.column, e.cause): e for error in errors for e in error.errors}
        files = {file: number for number, file in enumerate(dict.fromkeys(e.file for e in each.values()))}
        each = dict(sorted(each.items(), key=lambda one: (files[one[1].file], one[1].line or 0)))
        first, *others = each.values()
        if not others:
            return first
        text = "\n".join((*map(str, each.values()), f"{len(each)} errors"))
        found = _restore(type(first), first.cause, first.remedy)
        found.__dict__ |= first.__dict__ | {"reported": tuple(each.values()), "rendered": text}
        return found

    def __str__(self) -> str:
        return self.rendered

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.cause, self.remedy), self.__dict__  # with its place, and notes


def _restore(kind: type[Error], cause: str, remedy: str | None) -> Error:
    """Unpickle an error, before it gets its attributes."""
    return kind(cause, remedy=remedy)


class ParseError(Error, SyntaxError):
    """The source is outside the language."""


class ShapeError(Error, ValueError):
    """Shapes do not fit together; the message names the operands."""


class DtypeError(Error, TypeError):
    """A value or argument has a type that the operation does not take."""


class OutOfRangeError(Error, IndexError):
    """An index, axis or position is outside its range."""


class MissingError(Error, AttributeError):
    """A name of the package needs a library that is not installed."""


class GraphError(Error, RuntimeError):
    """The tape does not have the requested graph, value or gradient."""


class GradientError(Error, ArithmeticError):
    """A derivative does not agree with finite differences."""


class FileError(Error, OSError):
    """A file of programs cannot be read."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file."""


class LimitError(Error):
    """The source is larger or deeper than the compiler accepts."""
