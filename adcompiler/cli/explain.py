"""`adc explain`: why gradients are what they are, and what they cost."""

from __future__ import annotations

from typing import Annotated

import typer

from adcompiler.cli.arguments import Arguments, collect, names_of
from adcompiler.cli.source import Source, function_of

EXAMPLES = """\b
Examples:
  adc explain "where(x > 0, sqrt(x) * y, 0)"
  adc explain model.adc:loss --arg @data.csv --arg b1=250 --arg b2=5e-4 --wrt b1
"""


def explain_source(
    source: Source,
    arg: Arguments = None,
    wrt: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", show_default=False,
            help="Differentiate with respect to these parameters, as in b1,b2; otherwise to every float one.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Print which gradients of SOURCE there are, why the others are None, and what forward saves for them.

    This is for arguments like those given; without any, as annotated, for scalars.
    """
    f = function_of(source)
    names = names_of(f, wrt, "--wrt") if wrt else None
    args = collect(f, arg) if arg else {}
    print(f.explain(names, *args.values()))
