"""SOURCE: an expression, a file, or `file.adc:name`."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from adcompiler.errors import Error
from adcompiler.runtime.capture import compile, load
from adcompiler.runtime.function import Function

FILE = re.compile(r"(?P<path>.*\.adc)(?::(?P<name>\w*))?", re.DOTALL)

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        show_default=False,
        help="An expression, a file.adc (its last definition), or file.adc:name.",
    ),
]


def function_of(source: str, backend: str = "cpu") -> Function:
    """The function that SOURCE stands for; where a file defines several, a note on stderr says which."""
    found = FILE.fullmatch(source)
    if found is None:
        return compile(source, backend=backend)
    path = existing(found["path"])
    functions = {name: f for name, f in vars(load(path, backend=backend)).items() if isinstance(f, Function)}
    name = found["name"] or (_last(path, functions) if functions else "")
    if name not in functions:
        raise Error(f"{path} defines no function {name}".rstrip(), remedy=_choices(path, functions))
    return functions[name]


def _last(path: Path, functions: dict[str, Function]) -> str:
    *others, last = functions
    if others:
        print(f"note: {path}:{last}, the last definition; before it: {', '.join(others)}", file=sys.stderr)
    return last


def _choices(path: Path, functions: dict[str, Function]) -> str:
    if not functions:
        return "write a def"
    return f"write one of {', '.join(f'{path}:{name}' for name in functions)}"


def existing(name: str) -> Path:
    """The path of a file that exists; otherwise the error names one like it."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise Error(f"{name} is a folder", remedy="name a file")
    if path.exists():  # a pipe as well: @/dev/stdin
        return path
    files = [p.name for p in path.parent.glob("*") if p.is_file()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, files, 1)
    remedy = f"did you mean {path.with_name(near[0])}?" if near else f"the folder here is {Path.cwd()}"
    raise Error(f"there is no file {name}", remedy=remedy)
