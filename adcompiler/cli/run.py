"""`adc run`: a value, and its gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from adcompiler.cli.arguments import Arguments, collect, names_of
from adcompiler.cli.errors import UsageError
from adcompiler.cli.results import Results
from adcompiler.cli.source import Source, function_of
from adcompiler.errors import DtypeError
from adcompiler.runtime.function import Function
from adcompiler.runtime.transforms import value_and_grad

NAMES = re.compile(r"\w+(\s*,\s*\w+)*")
EXAMPLES = """\b
Examples:
  adc run "a * sin(b)" --arg a=2 --arg b=0.5 --grad
  adc run "sum(x**2)" --arg "x=[1, 2, 3]" --grad x --json
  adc run model.adc:loss --arg b1=250 --arg b2=5e-4 --arg @data.csv --grad b1,b2
  adc run model.adc:loss --arg @start.npz --arg y=@data.csv:volume -o result.npz
  adc run --arg x=3 -- "-x**2"
"""


class Backend(StrEnum):
    """What runs the program."""

    cpu = "cpu"
    cuda = "cuda"
    numpy = "numpy"


class Run(TyperCommand):
    """The command line of `run`, where `--grad` may stand without names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_names(args)))


def _with_names(args: Sequence[str]) -> Iterator[str]:
    """`--grad` that no list of names follows is given an empty one."""
    for word, following in pairwise([*args, ""]):
        yield word
        if word == "--grad" and not NAMES.fullmatch(following):
            yield ""


def run_source(
    source: Source,
    arg: Arguments = None,
    grad: Annotated[
        str | None,
        typer.Option(
            metavar="[NAMES]", show_default=False,
            help="Print the gradient too: of every float parameter, or of those named, as in b1,b2. "
            "The result must be a scalar.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help='Print JSON; infinities and NaN are "inf", "-inf" and "nan".')
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.npz", show_default=False,
            help="Write the arrays value (value_0, ... of several results) and grad_NAME as well.",
        ),
    ] = None,
    backend: Annotated[
        Backend, typer.Option(help="Compile for the CPU or a CUDA device, or interpret.")
    ] = Backend.cpu,
) -> None:  # fmt: skip
    """Run SOURCE: print its value, and its gradient with --grad."""
    if output is not None and output.suffix != ".npz":
        raise UsageError(f"-o {output} does not end in .npz", remedy=f"-o {output.with_suffix('.npz')}")
    f = function_of(source, backend)
    wrt = None if grad is None else names_of(f, grad, "--grad")
    results = _results(f, collect(f, arg), wrt)
    text = results.json() if as_json else None
    if output is not None:
        results.write(output)
    if text is not None:
        print(text)
    else:
        results.print()


def _results(f: Function, args: dict[str, Any], wrt: tuple[str, ...] | None) -> Results:
    """The value; with the gradient of the parameters `wrt` unless that is None, of all if it is empty."""
    if wrt is None:
        return Results(f(**args), None)
    types, _, _ = f.describe((), args)
    names = tuple(f.parameters[k].name for k in f.positions(wrt or None, types))
    if not names:
        raise DtypeError(f"{f.__name__} has no float argument to differentiate", remedy="leave --grad out")
    value, grads = value_and_grad(f, names)(**args)
    return Results(value, dict(zip(names, grads, strict=True)))
