"""Arguments from files: .npy, .npz, and the columns of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, is_zipfile

import numpy as np

from adcompiler.cli.inputs import Input, existing
from adcompiler.cli.tables import Table
from adcompiler.errors import Error

ARRAYS = (".npy", ".npz")


def one_column(place: str, name: str, whole: bool) -> np.ndarray:
    """The array at `file` or `file:column`, for the parameter `name`; `whole` if it holds integers."""
    given, column = _split(place)
    if _is_archive(given):
        return next(iter(_archive(given, lambda names: [_member(given, names, column, name)]).values()))
    if given.suffix in ARRAYS:
        with _no_pickles(given), given.open() as file:
            return np.asarray(np.load(file, allow_pickle=False))
    table = Table.read(given)
    return table.only(name, whole) if column is None else table.column(table.find(column), whole)


def all_columns(place: str, whole: Mapping[str, bool]) -> dict[str, np.ndarray]:
    """Every column of a file that is named like a parameter, whose names are the keys of `whole`."""
    given = existing(place)
    if _is_archive(given):
        return _archive(given, lambda names: _common(given, names, whole))
    if given.suffix in ARRAYS:
        remedy = f"name its parameter: --arg x=@{given.written}"
        raise Error(f"{given} holds one array, without a name", remedy=remedy)
    table = Table.read(given)
    return {name: table.column(table.find(name), whole[name]) for name in _common(given, table.names, whole)}


def _is_archive(given: Input) -> bool:
    """Whether it holds several arrays."""
    if given.suffix not in ARRAYS:
        return False
    with given.open() as file:
        return is_zipfile(file)


def _split(place: str) -> tuple[Input, str | None]:
    """`file:column`, where the file's own name may hold colons."""
    before, colon, column = place.rpartition(":")
    if not colon or Path(place).exists() or {"/", "\\"} & set(column):
        return existing(place), None
    return existing(before), column


def _common(given: Input, names: Sequence[str], whole: Mapping[str, bool]) -> list[str]:
    """The columns that are parameters: one at least."""
    found = [name for name in dict.fromkeys(names) if name in whole]
    if not found:
        has = f"it has {', '.join(names)}" if names else "its first line names none"
        cause = f"no column of {given} is named like a parameter: {has}"
        raise Error(cause, remedy=f"the parameters are {', '.join(whole)}")
    return found


def _member(given: Input, names: Sequence[str], column: str | None, name: str) -> str:
    """The array meant by `@file.npz:column`, or by `name=@file.npz`: its only one, or that of this name."""
    wanted = column or (names[0] if len(names) == 1 else name)
    if wanted not in names:
        raise Error(f"{given} has no array {wanted}", remedy=f"it has {', '.join(names) or 'none'}")
    return wanted


def _archive(given: Input, choose: Callable[[Sequence[str]], Sequence[str]]) -> dict[str, np.ndarray]:
    """The arrays that `choose` takes of those in an .npz file."""
    with _no_pickles(given), given.open() as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in choose(archive.files)}


@contextmanager
def _no_pickles(given: Input) -> Iterator[None]:
    """NumPy refuses what is no array of numbers; say so."""
    try:
        yield
    except (ValueError, EOFError, BadZipFile, OSError) as error:
        cause = f"{given} holds no array of numbers: {error}"
        raise Error(cause, remedy="write it with numpy.save or numpy.savez") from error
