"""`adc run`: a value, and its gradient."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from adcompiler.api.function import Function
from adcompiler.api.transforms import value_and_grad
from adcompiler.cli.arguments import Arguments, collect, names_of
from adcompiler.cli.completion import parameters_in
from adcompiler.cli.errors import UsageError
from adcompiler.cli.output import AsJson
from adcompiler.cli.results import Results
from adcompiler.cli.source import Backends, Source, Verb, function_of
from adcompiler.errors import DtypeError

NAMES = re.compile(r"\w+(\s*,\s*\w+)*")
EXAMPLES = """\b
Examples:
  adc run "a * sin(b)" --arg a=2 --arg b=0.5 --grad
  adc run "sum(x**2)" --arg "x=[1, 2, 3]" --grad x --json
  adc run model.adc:loss --arg b1=250 --arg b2=5e-4 --arg @data.csv --grad b1,b2
  adc run model.adc:loss --arg @start.npz --arg y=@data.csv:volume -o result.npz
  adc run --arg x=3 -- "-x**2"
"""


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
    """Run SOURCE: print its value, and its gradient with --grad."""
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
    types, _, _ = f.describe((), args)
    names = tuple(f.parameters[k].name for k in f.positions(wrt or None, types))
    if not names:
        raise DtypeError(f"{f.__name__} has no float argument to differentiate", remedy="leave --grad out")
    value, grads = value_and_grad(f, names)(**args)
    return Results(value, dict(zip(names, grads, strict=True)))
