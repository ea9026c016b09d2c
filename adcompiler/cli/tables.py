"""Numbers in text: a value, and the columns of CSV or of words between blanks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from adcompiler.cli.inputs import Input
from adcompiler.errors import Error, Source, Span
from adcompiler.lazy_dataclass import dataclass


def number(text: str, whole: bool) -> bool | int | float:
    """A number as written: `true` and `false`, an integer if `whole` and it is one, else a float."""
    try:
        return int(text) if whole else float(text)
    except ValueError:
        if text.strip().lower() in ("true", "false"):
            return text.strip().lower() == "true"
        if whole:
            return number(text, False)
        raise ValueError(
            f"{text.strip()!r} is not a number" if text.strip() else "a number is missing"
        ) from None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal length; `names` is the first one if it holds a word that is not a number."""

    source: Source
    names: list[str]
    rows: list[tuple[int, list[str]]]  # the line of each, from 1
    first: int  # the line of the first row, which holds the names if there are any
    written: str  # what the command line calls it

    @classmethod
    def read(cls, given: Input) -> Table:
        """The rows of a text, without blank lines and those that start with #."""
        try:
            source = Source(given.text(), given.name)
        except UnicodeDecodeError as error:
            remedy = "save it as UTF-8; files of arrays end in .npy or .npz"
            raise Error(f"{given} is not UTF-8 text", remedy=remedy) from error
        rows = _rows(source)
        if not rows:
            raise Error(f"{given} is empty", remedy="write a line of names and rows of numbers")
        first, words = rows[0]
        names = [] if all(map(_is_number, words)) else [word.strip() for word in words]
        table = cls(source, names, rows[1:] if names else rows, first, given.written)
        table.check(len(words))
        return table

    def check(self, width: int) -> None:
        """Raise an error at the first row that is longer or shorter than the first."""
        for line, row in self.rows:
            if len(row) != width:
                cause = f"the first row has {width} columns, this one {len(row)}"
                self.fail(cause, line, "give all rows the same length")

    def find(self, name: str) -> int:
        """The position of the column `name`."""
        if not self.names:
            self.fail(
                f"there is no column {name}: the first line has no names", self.first, "put the names there"
            )
        if self.names.count(name) != 1:
            what = "two columns have the name" if name in self.names else "no column has the name"
            self.fail(f"{what} {name}", self.first, f"they are {', '.join(self.names)}")
        return self.names.index(name)

    def only(self, name: str, whole: bool) -> np.ndarray:
        """The one column there is; several without names are a matrix."""
        if len(self.names) > 1:
            cause = f"{name} could be any of {len(self.names)} columns"
            self.fail(cause, self.first, f"choose one: --arg {name}=@{self.written}:{self.names[0]}")
        columns = [self.column(k, whole) for k in range(1 if self.names else len(self.rows[0][1]))]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def column(self, k: int, whole: bool) -> np.ndarray:
        """The numbers of column `k`."""
        kind = int if whole else float
        try:
            return np.array([kind(row[k]) for _, row in self.rows], np.int64 if whole else np.float64)
        except (ValueError, OverflowError):
            return np.array([self._number(line, row, k, whole) for line, row in self.rows])

    def _number(self, line: int, row: Sequence[str], k: int, whole: bool) -> bool | int | float:
        try:
            return number(row[k], whole)
        except ValueError as error:
            start, end = _extent(self.source.text.splitlines()[line - 1], row, k)
            self.fail(str(error), line, "write nan for missing values", Span(line, start, line, end))

    def fail(self, cause: str, line: int, remedy: str, span: Span | None = None) -> NoReturn:
        """Raise an error at a line, or at a span of it."""
        whole = Span(line, 1, line, len(self.source.text.splitlines()[line - 1]) + 1)
        raise Error(cause, remedy=remedy, source=self.source, span=span or whole)


def _rows(source: Source) -> list[tuple[int, list[str]]]:
    """The cells of every row, and the line where each row ends."""
    lines = [(n, line.strip(" ")) for n, line in enumerate(source.text.splitlines(), 1)]
    lines = [(n, line) for n, line in lines if line and line[0] != "#"]
    delimiter = next((d for d in "\t;," if lines and d in lines[0][1]), " ")
    reader = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=True)
    try:
        return [(lines[reader.line_num - 1][0], row) for row in reader]
    except csv.Error as error:
        line = lines[reader.line_num - 1][0]
        raise Error(
            str(error), remedy="close every quote", source=source, span=Span(line, 1, line, 2)
        ) from error


def _is_number(text: str) -> bool:
    try:
        number(text, False)
    except ValueError:
        return not text.strip()
    return True


def _extent(text: str, row: Sequence[str], k: int) -> tuple[int, int]:
    """The columns, from 1, of cell `k` in its line: found one cell after the other."""
    start = 0
    for cell in row[:k]:
        start = text.find(cell, start) + len(cell) + 1
    start = max(text.find(row[k], start), 0) if row[k] else min(start, len(text))
    return start + 1, start + 1 + len(row[k])
