"""`--arg`: numbers, lists and the columns of files, each for a parameter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import typer

from adcompiler.api.function import Function
from adcompiler.cli.completion import parameters_in
from adcompiler.cli.errors import UsageError
from adcompiler.cli.inputs import Input, existing
from adcompiler.cli.source import PIPED
from adcompiler.cli.tables import Table, number
from adcompiler.errors import Error
from adcompiler.runtime.arguments.signature import REQUIRED

Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg", "-a", metavar="NAME=VALUE", show_default=False,
        help="An argument; give one for each parameter without a default. VALUE is a number (2.5, 1e-3, "
        "-inf), a list ([1, 2], [[1, 2], [3, 4]]), a column of a file (@data.csv:column, @data.npz:name), or "
        "a file of one (@x.npy, @x.txt). --arg @data.csv or @data.npz gives every column that is named like "
        "a parameter. The file - is standard input: @-, @-:column.",
    ),
]  # fmt: skip
Wrt = Annotated[
    str | None,
    typer.Option(
        "--wrt", metavar="NAMES", show_default=False, autocompletion=parameters_in,
        help="Differentiate with respect to these parameters, as in b1,b2; by default every float one.",
    ),
]  # fmt: skip
ARRAYS = (".npy", ".npz")


def collect(
    f: Function, given: Sequence[str] | None, sample: Callable[[int], Any] | None = None
) -> dict[str, Any]:
    """The arguments of `f`, by name. One that is named wins over a column of a whole file.

    `sample` makes one for the parameter of a number that is given none; statics are always given.
    """
    whole = {p.name: p.static or p.integer for p in f._parameters}
    named: dict[str, Any] = {}
    columns: dict[str, Any] = {}
    for text in given or ():
        _check_stdin(f, text)
        if text.startswith("@"):
            columns |= all_columns(text[1:], whole)
        else:
            name, value = _split(f, text, named)
            named[name] = _value(name, value, whole[name])
    defaults = {p.name: p.default for p in f._parameters if p.default is not REQUIRED}
    found = defaults | columns | named
    if sample is not None:
        free = [k for k, p in enumerate(f._parameters) if not p.static and p.name not in found]
        found |= {f._parameters[k].name: sample(k) for k in free}
    if missing := [name for name in whole if name not in found]:
        raise UsageError(f"{_call(f)} is missing {', '.join(missing)}", remedy=_how(missing[0]))
    return {p.name: _static(found[p.name]) if p.static else found[p.name] for p in f._parameters}


def names_of(f: Function, text: str, option: str) -> tuple[str, ...]:
    """The parameters that an option lists, as in `b1,b2`."""
    names = tuple(dict.fromkeys(text.replace(",", " ").split()))
    known = f._names
    if unknown := [name for name in names if name not in known]:
        cause = f"{option}: {_call(f)} has no parameter {unknown[0]}"
        raise UsageError(cause, remedy=_file_of(f) or f"name some of {', '.join(known)}")
    return names


def _file_of(f: Function) -> str | None:
    """A remedy where a program is one name, and there is a file of this name."""
    text = "" if f._closure is None else f._closure.source.text.strip()
    files = [f"{text}{suffix}" for suffix in (".adc", ".py")] if text.isidentifier() else ()
    return next((f"did you mean the file {file}?" for file in files if Path(file).is_file()), None)


def wrt_of(f: Function, wrt: str | None) -> tuple[str, ...] | None:
    """The parameters that `--wrt` lists; None for all."""
    return names_of(f, wrt, "--wrt") if wrt else None


def _check_stdin(f: Function, text: str) -> None:
    """Standard input holds the program or data, not both."""
    if f._closure is not None and f._closure.source.name == PIPED and re.match(r"(\w+\s*=\s*)?@-(:|$)", text):
        cause = f"--arg {text}: the program was read from standard input"
        raise UsageError(cause, remedy="put one of them in a file")


def _call(f: Function) -> str:
    return f"{f.__name__}({', '.join(f._names)})"


def _how(name: str) -> str:
    forms = (f"--arg {name}={value}" for value in ("2.5", "[1,2,3]", f"@data.csv:{name}"))
    return f"pass a number, a list, or a column of a file: {', '.join(forms)}"


def _split(f: Function, text: str, named: dict[str, Any]) -> tuple[str, str]:
    """`name=value` for a parameter that has no value yet."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise UsageError(f"--arg {text} has no value", remedy=_how(name or "x"))
    if names_of(f, name, f"--arg {text}") != (name,):
        raise UsageError(f"--arg {text} has no parameter name", remedy=_how("x"))
    if name in named:
        raise UsageError(f"--arg {text}: {name} is given twice", remedy="pass it once")
    return name, value


def _value(name: str, text: str, whole: bool) -> Any:
    """A column of a file, a list, or a number."""
    if text.startswith("@"):
        return one_column(text[1:], name, whole)
    try:
        return _list(text, whole) if text.startswith("[") else number(text, whole)
    except ValueError as error:
        raise UsageError(f"--arg {name}={text}: {error}", remedy=_how(name)) from None


def _list(text: str, whole: bool) -> np.ndarray:
    """A JSON list, nested for a matrix, whose numbers are written like any other (`1.`, `inf`)."""
    try:
        rows = json.loads(re.sub(r"[^\s,\[\]]+", lambda word: json.dumps(word[0]), text))
    except json.JSONDecodeError:
        raise ValueError("the brackets and commas do not form a list") from None
    values = _numbers(rows, whole)
    try:
        return np.array(values) if values else np.empty(0)
    except ValueError:
        raise ValueError("its rows have different lengths") from None


def _numbers(rows: Any, whole: bool) -> Any:
    return [_numbers(row, whole) for row in rows] if isinstance(rows, list) else number(rows, whole)


def _static(value: Any) -> Any:
    """A static argument is hashable: a list is a tuple."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(_static(v) for v in value) if isinstance(value, list) else value


def one_column(place: str, name: str, whole: bool) -> np.ndarray:
    """The array at `file` or `file:column`, for the parameter `name`; `whole` if it holds integers."""
    given, column = _file_and_column(place)
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
        remedy = f"give its parameter: --arg x=@{given.written}"
        raise Error(f"{given} contains one array without a name", remedy=remedy)
    table = Table.read(given)
    return {name: table.column(table.find(name), whole[name]) for name in _common(given, table.names, whole)}


def _is_archive(given: Input) -> bool:
    """Whether it holds several arrays."""
    if given.suffix not in ARRAYS:
        return False
    with given.open() as file:
        return is_zipfile(file)


def _file_and_column(place: str) -> tuple[Input, str | None]:
    """`file:column`, where the file's own name may hold colons."""
    before, colon, column = place.rpartition(":")
    if not colon or Path(place).exists() or {"/", "\\"} & set(column):
        return existing(place), None
    return existing(before), column


def _common(given: Input, names: Sequence[str], whole: Mapping[str, bool]) -> list[str]:
    """The columns that are parameters: one at least."""
    found = [name for name in dict.fromkeys(names) if name in whole]
    if not found:
        has = f"it has {', '.join(names)}" if names else "its first line has no names"
        cause = f"no column of {given} has the name of a parameter: {has}"
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
        cause = f"{given} contains no array of numbers: {error}"
        raise Error(cause, remedy="write it with numpy.save or numpy.savez") from error
