"""Arguments from files: .npy, .npz, and the columns of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, is_zipfile

import numpy as np

from adcompiler.cli.source import existing
from adcompiler.cli.tables import Table
from adcompiler.errors import Error

ARRAYS = (".npy", ".npz")


def one_column(place: str, name: str, whole: bool) -> np.ndarray:
    """The array at `file` or `file:column`, for the parameter `name`; `whole` if it holds integers."""
    path, column = _split(place)
    if path.suffix in ARRAYS and is_zipfile(path):
        return next(iter(_archive(path, lambda names: [_member(path, names, column, name)]).values()))
    if path.suffix in ARRAYS:
        with _no_pickles(path), open(path, "rb") as file:
            return np.asarray(np.load(file, allow_pickle=False))
    table = Table.read(path)
    return table.only(name, whole) if column is None else table.column(table.find(column), whole)


def all_columns(place: str, whole: Mapping[str, bool]) -> dict[str, np.ndarray]:
    """Every column of a file that is named like a parameter, whose names are the keys of `whole`."""
    path = existing(place)
    if path.suffix in ARRAYS and is_zipfile(path):
        return _archive(path, lambda names: _common(path, names, whole))
    if path.suffix in ARRAYS:
        raise Error(f"{path} holds one array, without a name", remedy=f"name its parameter: --arg x=@{path}")
    table = Table.read(path)
    return {name: table.column(table.find(name), whole[name]) for name in _common(path, table.names, whole)}


def _split(place: str) -> tuple[Path, str | None]:
    """`file:column`, where the file's own name may hold colons."""
    before, colon, column = place.rpartition(":")
    if not colon or Path(place).exists() or {"/", "\\"} & set(column):
        return existing(place), None
    return existing(before), column


def _common(path: Path, names: Sequence[str], whole: Mapping[str, bool]) -> list[str]:
    """The columns that are parameters: one at least."""
    found = [name for name in dict.fromkeys(names) if name in whole]
    if not found:
        has = f"it has {', '.join(names)}" if names else "its first line names none"
        cause = f"no column of {path} is named like a parameter: {has}"
        raise Error(cause, remedy=f"the parameters are {', '.join(whole)}")
    return found


def _member(path: Path, names: Sequence[str], column: str | None, name: str) -> str:
    """The array meant by `@file.npz:column`, or by `name=@file.npz`: its only one, or that of this name."""
    wanted = column or (names[0] if len(names) == 1 else name)
    if wanted not in names:
        raise Error(f"{path} has no array {wanted}", remedy=f"it has {', '.join(names) or 'none'}")
    return wanted


def _archive(path: Path, choose: Callable[[Sequence[str]], Sequence[str]]) -> dict[str, np.ndarray]:
    """The arrays that `choose` takes of those in an .npz file."""
    with _no_pickles(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in choose(archive.files)}


@contextmanager
def _no_pickles(path: Path) -> Iterator[None]:
    """NumPy refuses what is no array of numbers; say so."""
    try:
        yield
    except (ValueError, EOFError, BadZipFile, OSError) as error:
        cause = f"{path} holds no array of numbers: {error}"
        raise Error(cause, remedy="write it with numpy.save or numpy.savez") from error
