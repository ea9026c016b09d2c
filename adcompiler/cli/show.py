"""`adc show`: the program at each stage of its compilation."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from adcompiler.cli.arguments import Arguments, Wrt, collect, wrt_of
from adcompiler.cli.errors import UsageError
from adcompiler.cli.output import AsJson, Text
from adcompiler.cli.source import Source, function_of
from adcompiler.cli.types import Types, typed
from adcompiler.lazy_dataclass import dataclass

EXAMPLES = """\b
Examples:
  adc show "a * sin(b)" --stage propagate
  adc show model.adc:loss --stage kernel --arg @data.csv --arg b1=250 --arg b2=5e-4
  adc show "sum(exp(-x**2) * y)" --types "f64[n], f64" --stage kernel
  adc show model.adc:loss --stage forward --wrt b1 | less
  adc show model.adc:loss --html loss.html --arg @data.csv --arg b1=250 --arg b2=5e-4
"""


class Stage(StrEnum):
    """A stage of the compilation."""

    source = "source"
    ast = "ast"
    ir = "ir"
    forward = "forward"
    propagate = "propagate"
    kernel = "kernel"
    loopir = "loopir"
    llvm = "llvm"
    ptx = "ptx"


UNTYPED = (Stage.source, Stage.ast)  # what they show is the same for all types


def show_source(
    source: Source,
    stage: Annotated[Stage, typer.Option(help="Which text to show.")] = Stage.ir,
    arg: Arguments = None,
    wrt: Wrt = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", show_default=False,
            help="Write instead a page with all stages side by side, in which an expression lights up what "
            "it becomes. With --arg, it has the roofline of each loop nest, for which kernels are timed.",
        ),
    ] = None,
    types: Types = None,
    as_json: AsJson = False,
) -> Listing | Text:  # fmt: skip
    """Print SOURCE at a stage of compilation.

    Types come from the arguments or --types; without either, from annotations. Other parameters are scalars.
    """
    f = typed(function_of(source), None if stage in UNTYPED else types)
    names = wrt_of(f, wrt)
    args = collect(f, arg) if arg else {}
    if html is not None:
        _write(html, f.show("html", *args.values(), wrt=names))
        return Text(f"wrote {html}", {"function": f.__name__, "html": str(html)})
    text = f.show(stage, *args.values(), wrt=names).rstrip("\n")
    return Listing(f.__name__, stage, text)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        cause = f"--html {path}: {error.strerror}"
        raise UsageError(cause, remedy="name a file in a folder that you can write to") from error


@dataclass(frozen=True, slots=True)
class Listing:
    """The text of a program at a stage; in colour on a terminal."""

    function: str
    stage: str
    text: str

    def print(self) -> None:
        """Print the stage, with colours on a terminal."""
        if sys.stdout.isatty():
            _print_coloured(self.text)
        else:
            print(self.text)

    def fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self)


def _print_coloured(text: str) -> None:
    from rich.console import Console
    from rich.syntax import Syntax

    code = Syntax("", "python", theme="ansi_dark", background_color="default")
    Console().print(code.highlight(text), soft_wrap=True, end="")
