"""SOURCE: an expression, a file, standard input, or one definition of these (`file.adc:name`)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from adcompiler.api.compile import compile, loaded
from adcompiler.api.function import Function, SourceFunction
from adcompiler.cli.completion import names_in
from adcompiler.cli.inputs import STDIN, Input, existing
from adcompiler.cli.python import functions_in
from adcompiler.errors import Error
from adcompiler.frontend.lowering.program import main_of
from adcompiler.runtime.programs.options import options

PIPED = "<stdin>"  # standard input, where a word that begins with - would be an option
FILE = re.compile(rf"(?P<path>-|{PIPED}|.*\.(?:adc|py))(?::(?P<name>\w*))?", re.DOTALL)

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        show_default=False,
        autocompletion=names_in,
        help="An expression, a file (.adc, or .py with compiled functions; its main definition), file:name, "
        "or - for a program from standard input (-:name).",
    ),
]


class Backend(StrEnum):
    """The backend that runs the program."""

    cpu = "cpu"
    numba = "numba"
    cuda = "cuda"
    numpy = "numpy"


Backends = Annotated[
    Backend | None,
    typer.Option(
        "--backend", show_default=False,
        help="Compile for the CPU (unless a Python file says otherwise), by numba, or for a CUDA device; or "
        "interpret.",
    ),
]  # fmt: skip


class Verb(TyperCommand):
    """The command line of a verb, where SOURCE may be `-:name`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left after options, as Click asks for them."""
        return super().parse_args(ctx, list(self.words(args)))

    def words(self, args: Iterable[str]) -> Iterator[str]:
        """The words of a command line, as Typer reads them."""
        return (re.sub(rf"^{STDIN}(?=:\w*$)", PIPED, word) for word in args)


def function_of(source: str, backend: str | None = None) -> Function:
    """The function that SOURCE means; if there are several, a note on stderr names it."""
    found = FILE.fullmatch(source)
    if found is None:
        return compile(source, backend=backend or "cpu")
    given = existing(STDIN if found["path"] == PIPED else found["path"])
    read: Callable[[Input, str | None], Mapping[str, Function]]
    read = functions_in if given.suffix == ".py" else _definitions
    functions = read(given, backend)
    name = found["name"] or (_main(given, functions) if functions else "")
    if name not in functions:
        raise Error(f"{given} defines no function {name}".rstrip(), remedy=_choices(given, functions))
    return functions[name]


def _definitions(given: Input, backend: str | None) -> dict[str, Function]:
    """The definitions of a program."""
    with given.open() as file:
        text = file.read()
    stem = "f" if given.written == STDIN else Path(given.name).stem
    found = loaded(text, given.name, stem, options("numpy", backend or "cpu"))
    return {name: f for name, f in found.items() if isinstance(f, Function)}


def _main(given: Input, functions: Mapping[str, Function]) -> str:
    """The last of some functions that no other one calls, except for derivatives; the last one if some are no
    definitions."""
    own = {name: f._closure for name, f in functions.items() if isinstance(f, SourceFunction)}
    main = list(own or functions)[-1]
    definitions = [closure.definition for name, closure in own.items() if closure.definition.name == name]
    if own and len(definitions) == len(own):
        main = main_of(definitions, own[main].source).name
    others = [name for name in functions if name != main]
    if others:
        print(
            f"note: using {given.written}:{main}, which no other one calls; others: {', '.join(others)}",
            file=sys.stderr,
        )
    return main


def _choices(given: Input, functions: Mapping[str, Function]) -> str:
    if not functions:
        return "decorate one with @adc.function" if given.suffix == ".py" else "write a def"
    return f"write one of {', '.join(f'{given.written}:{name}' for name in functions)}"
