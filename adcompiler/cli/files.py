"""Arguments from files: .npy, .npz, and text (CSV, or columns between blanks)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from zipfile import BadZipFile

import numpy as np

from adcompiler.cli.source import existing
from adcompiler.errors import Error, Source, Span

WRITE = "write it with numpy.save or numpy.savez"


def number(text: str, whole: bool) -> bool | int | float:
    """A number as written: `true` and `false`, an integer if `whole` and it is one, else a float."""
    try:
        return int(text) if whole else float(text)
    except ValueError:
        if text.strip().lower() in ("true", "false"):
            return text.strip().lower() == "true"
        if whole:
            return number(text, False)
        raise ValueError(f"{text!r} is no number") from None


def one_column(place: str, name: str, whole: bool) -> Any:
    """The array at `file` or `file:column`, for the parameter `name`."""
    column: str | None = None
    before, colon, after = place.rpartition(":")
    if colon and not Path(place).is_file() and not {"/", "\\"} & set(after):
        place, column = before, after
    path = existing(place)
    if path.suffix == ".npy" and column is None:
        return _loaded(path)
    if path.suffix == ".npz":
        archive = _loaded(path)
        return _member(path, archive, column or (archive.files[0] if len(archive.files) == 1 else name))
    table = Table.read(path)
    return table.only(name, whole) if column is None else table.column(table.find(column), whole)


def all_columns(place: str, whole: Mapping[str, bool]) -> dict[str, Any]:
    """Every column of a file that is named like a parameter."""
    path = existing(place)
    if path.suffix == ".npy":
        raise Error(f"{path} holds one array, without a name", remedy=f"name its parameter: --arg x=@{path}")
    source = _loaded(path) if path.suffix == ".npz" else Table.read(path)
    names = source.names if isinstance(source, Table) else source.files
    found = [name for name in dict.fromkeys(names) if name in whole]
    if not found:
        has = f"it has {', '.join(names)}" if names else "its first line names none"
        cause = f"no column of {path} is named like a parameter: {has}"
        raise Error(cause, remedy=f"the parameters are {', '.join(whole)}")
    if isinstance(source, Table):
        return {name: source.column(source.find(name), whole[name]) for name in found}
    return {name: _member(path, source, name) for name in found}


def _loaded(path: Path) -> Any:
    """An .npy or .npz file; pickled objects are refused."""
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile, OSError) as error:
        raise Error(f"{path} is no array of numbers: {error}", remedy=WRITE) from error


def _member(path: Path, archive: Any, name: str) -> Any:
    if name not in archive.files:
        raise Error(f"{path} has no array {name}", remedy=f"it has {', '.join(archive.files) or 'none'}")
    try:
        return archive[name]
    except (ValueError, BadZipFile, OSError) as error:
        raise Error(f"{name} in {path} is no array of numbers: {error}", remedy=WRITE) from error


@dataclass(frozen=True, slots=True)
class Table:
    """Text in rows of equal length; `names` is the first one if it holds a word that is no number."""

    source: Source
    names: list[str]
    rows: list[tuple[int, list[str]]]  # the line of each, from 1

    @classmethod
    def read(cls, path: Path) -> Table:
        """The rows of a file, without blank lines and those that start with #."""
        try:
            source = Source(path.read_text("utf-8-sig"), str(path))
        except UnicodeDecodeError as error:
            remedy = "save it as UTF-8; files of arrays end in .npy or .npz"
            raise Error(f"{path} is no text in UTF-8", remedy=remedy) from error
        lines = [(n, line.strip()) for n, line in enumerate(source.text.splitlines(), 1)]
        lines = [(n, line) for n, line in lines if line and not line.startswith("#")]
        delimiter = next((d for d in "\t;," if lines and d in lines[0][1]), " ")
        reader = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=True)
        rows = [(lines[reader.line_num - 1][0], [cell.strip() for cell in row]) for row in reader]
        names = rows.pop(0)[1] if rows and not all(map(_is_number, rows[0][1])) else []
        table = cls(source, names, rows)
        table.check()
        return table

    def check(self) -> None:
        """Raise an error at the first row that is longer or shorter than the first."""
        width = len(self.names or (self.rows[0][1] if self.rows else ()))
        for line, row in self.rows:
            if len(row) != width:
                cause = f"{width} columns are in the first row, {len(row)} in this one"
                self.fail(cause, line, "make all rows equally long")

    def find(self, name: str) -> int:
        """Where the column `name` stands."""
        if not self.names:
            self.fail(f"there is no column {name}: the first line names none", 1, "put the names there")
        if self.names.count(name) != 1:
            what = "two columns are named" if name in self.names else "no column is named"
            self.fail(f"{what} {name}", self._header(), f"they are {', '.join(self.names)}")
        return self.names.index(name)

    def _header(self) -> int:
        lines = self.source.text.splitlines()
        return next(n for n, line in enumerate(lines, 1) if line.strip() and not line.startswith("#"))

    def only(self, name: str, whole: bool) -> np.ndarray:
        """The one column there is; several without names are a matrix."""
        if len(self.names) > 1:
            cause = f"{name} could be any of {len(self.names)} columns"
            self.fail(cause, self._header(), f"name one: --arg {name}=@{self.source.name}:{self.names[0]}")
        columns = [self.column(k, whole) for k in range(len(self.rows[0][1]) if self.rows else 1)]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def column(self, k: int, whole: bool) -> np.ndarray:
        """The numbers of column `k`."""
        values: list[bool | int | float] = []
        for line, row in self.rows:
            try:
                values.append(number(row[k], whole))
            except ValueError:
                said = f"{row[k]!r} is no number" if row[k] else "a number is missing here"
                self.fail(said, line, "write nan where there is no value", (row, k))
        return np.array(values) if values else np.empty(0)

    def fail(
        self, cause: str, line: int, remedy: str, cell: tuple[Sequence[str], int] | None = None
    ) -> NoReturn:
        """Raise an error at a line, or at one of its cells."""
        text = self.source.text.splitlines()[line - 1] if self.source.text.strip() else ""
        start, end = 0, len(text)
        if cell is not None:
            start, end = _extent(text, *cell)
        raise Error(cause, remedy=remedy, source=self.source, span=Span(line, start + 1, line, end + 1))


def _is_number(text: str) -> bool:
    try:
        number(text, False)
    except ValueError:
        return text == ""
    return True


def _extent(text: str, row: Sequence[str], k: int) -> tuple[int, int]:
    """Where cell `k` stands in its line: found one cell after the other."""
    start = 0
    for cell in row[:k]:
        start = text.find(cell, start) + len(cell) + 1
    start = max(start if not row[k] else text.find(row[k], start), 0)
    return start, start + len(row[k])
