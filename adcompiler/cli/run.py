"""`adc run`: a value, and its gradient."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from adcompiler.api.function import Function
from adcompiler.api.transforms import value_and_grad
from adcompiler.cli.arguments import Arguments, collect, names_of
from adcompiler.cli.completion import parameters_in
from adcompiler.cli.errors import UsageError
from adcompiler.cli.output import AsJson
from adcompiler.cli.source import Backends, Source, Verb, function_of
from adcompiler.errors import DtypeError, Error
from adcompiler.lazy_dataclass import dataclass

NAMES = re.compile(r"\w+(\s*,\s*\w+)*")
EXAMPLES = """\b
Examples:
  adc run "a * sin(b)" --arg a=2 --arg b=0.5 --grad
  adc run "sum(x**2)" --arg "x=[1, 2, 3]" --grad x --json
  adc run model.adc:loss --arg b1=250 --arg b2=5e-4 --arg @data.csv --grad b1,b2
  adc run model.adc:loss --arg @start.npz --arg y=@data.csv:volume -o result.npz
  adc run --arg x=3 -- "-x**2"
"""
TYPE = {"float64": "f64", "float32": "f32", "int64": "i64", "bool": "bool"}
NUMBERS_SHOWN = 24  # numbers of an array; the rest is in --json and -o


class Run(Verb):
    """The command line of `run`, where `--grad` may stand without names: it is given an empty list."""

    def words(self, args: Iterable[str]) -> Iterator[str]:
        for word, following in pairwise([*super().words(args), ""]):
            yield word
            if word == "--grad" and not NAMES.fullmatch(following):
                yield ""


def run_source(
    source: Source,
    arg: Arguments = None,
    grad: Annotated[
        str | None,
        typer.Option(
            metavar="[NAMES]", show_default=False, autocompletion=parameters_in,
            help="Print the gradient too: of every float parameter, or of those named, as in b1,b2. "
            "The result must be a scalar.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.npz", show_default=False,
            help="Write the arrays value (value_0, ... of several results) and grad_NAME as well.",
        ),
    ] = None,
    backend: Backends = None,
    as_json: AsJson = False,
) -> Results:  # fmt: skip
    """Print the value of SOURCE, and its gradient."""
    if output is not None and output.suffix != ".npz":
        raise UsageError(f"-o {output} does not end in .npz", remedy=f"-o {output.with_suffix('.npz')}")
    f = function_of(source, backend)
    wrt = None if grad is None else names_of(f, grad, "--grad")
    results = _results(f, collect(f, arg), wrt)
    if output is not None:
        results.write(output)
    return results


def _results(f: Function, args: dict[str, Any], wrt: tuple[str, ...] | None) -> Results:
    """The value; with the gradient of the parameters `wrt` unless that is None, of all if it is empty."""
    if wrt is None:
        return Results(f(**args), None)
    types = f._describe((), args).types
    names = tuple(f._parameters[k].name for k in f._positions(wrt or None, types))
    if not names:
        raise DtypeError(f"{f.__name__} has no float argument to differentiate", remedy="omit --grad")
    value, grads = value_and_grad(f, names)(**args)
    return Results(value, dict(zip(names, grads, strict=True)))


@dataclass(frozen=True, slots=True)
class Results:
    """A value, or nested tuples of them, and the gradients asked for, by parameter."""

    value: Any
    grad: dict[str, Any] | None

    def named(self) -> dict[str, np.ndarray]:
        """Every array by its name: `value`, or `value_0`, `value_1`, ...; `grad_b1`, ..."""
        grads = {f"grad_{name}": np.asarray(value) for name, value in (self.grad or {}).items()}
        return dict(_flat("value", self.value)) | grads

    def fields(self) -> dict[str, Any]:
        """The value, and the gradients by parameter."""
        return {"value": self.value} | ({} if self.grad is None else {"grad": self.grad})

    def print(self) -> None:
        """A table on a terminal, else a line `name = value` each."""
        if sys.stdout.isatty():
            self._print_table()
        else:
            print("\n".join(_line(name, value) for name, value in self.named().items()))

    def _print_table(self) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        named = {(name, _type(value)): value for name, value in self.named().items()}
        width = console.width - sum(max(map(len, column)) + 2 for column in zip(*named, strict=True))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("name", style="bold cyan", no_wrap=True)
        table.add_column("type", style="green", no_wrap=True)
        table.add_column("value", overflow="fold")
        for (name, kind), value in named.items():
            table.add_row(name, Text(kind), Text(_text(value, width)))
        console.print(table)

    def write(self, path: Path) -> None:
        """Write an .npz file: all of it, or nothing."""
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with open(part, "xb") as file:
                np.savez(file, **self.named())  # type: ignore[arg-type]
            os.replace(part, path)
        except OSError as error:
            remedy = "choose a file in a folder that exists and can be written"
            raise Error(f"cannot write {path}: {error.strerror}", remedy=remedy) from error
        finally:
            part.unlink(missing_ok=True)


def _flat(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if not isinstance(value, tuple):
        yield name, np.asarray(value)
        return
    for k, part in enumerate(value):
        yield from _flat(f"{name}_{k}", part)


def _type(value: np.ndarray) -> str:
    kind = TYPE.get(value.dtype.name, value.dtype.name)
    return f"{kind}[{', '.join(map(str, value.shape))}]" if value.ndim else kind


def _text(value: np.ndarray, width: int = 75) -> str:
    if not value.ndim:
        return repr(value.item())
    return np.array2string(value, max_line_width=width, threshold=NUMBERS_SHOWN, edgeitems=3)


def _line(name: str, value: np.ndarray) -> str:
    """One line; the type of an array that is not shown whole follows it."""
    text = re.sub(r"\s*\n\s*", " ", _text(value))
    return f"{name} = {text}" + (f"  # {_type(value)}" if value.size > NUMBERS_SHOWN else "")
