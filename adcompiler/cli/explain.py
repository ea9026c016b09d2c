"""`adc explain`: gradients, saved values and costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from adcompiler.cli.arguments import Arguments, Wrt, collect, wrt_of
from adcompiler.cli.completion import parameters_in
from adcompiler.cli.errors import UsageError
from adcompiler.cli.output import AsJson, Text
from adcompiler.cli.samples import Sizes, lengths, sampler
from adcompiler.cli.source import Source, function_of
from adcompiler.cli.types import Types, typed
from adcompiler.explain.nan.explain_nan import explain_nan
from adcompiler.runtime.reports.cost import cost_of
from adcompiler.runtime.reports.explain import explanation

EXAMPLES = """\b
Examples:
  adc explain "where(x > 0, sqrt(x) * y, 0)"
  adc explain model.adc:loss --arg @data.csv --arg b1=250 --arg b2=5e-4 --wrt b1
  adc explain "floor(m) * x" --why-none m
  adc explain model.adc:loss --cost --size n=1e6 --size d=3
  adc explain "sum(x**2 * y)" --types "f64[n], f64[n]"
  adc explain "sqrt(x) * y" --nan --arg x=0 --arg y=0
"""


def explain_source(
    source: Source,
    arg: Arguments = None,
    wrt: Wrt = None,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", show_default=False,
            help="Print instead what each kernel moves and computes, how long it takes, and how long it "
            "would take at the rates of this machine. Parameters without an argument are random; --size says "
            "how long.",
        ),
    ] = False,
    nan: Annotated[
        bool,
        typer.Option(
            "--nan", show_default=False,
            help="Print instead the first operation, forward or backward, whose result is NaN or infinite "
            "for the arguments: its place, element, iteration and operands, and what to write instead.",
        ),
    ] = False,
    size: Sizes = None,
    types: Types = None,
    why_none: Annotated[
        str | None,
        typer.Option(
            "--why-none", metavar="NAME", show_default=False, autocompletion=parameters_in,
            help="Print instead why there is no derivative with respect to this parameter: where it ends in "
            "the source, and what to write instead.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> Text:  # fmt: skip
    """Print which gradients exist, and why others do not.

    Also prints what a separate forward pass saves. Types come from the arguments or --types; without
    either, from annotations. Other parameters are scalars.
    """
    f = typed(function_of(source), types)
    names = wrt_of(f, wrt)
    if nan:
        found = explain_nan(f, *collect(f, arg).values(), wrt=names)
        return Text(str(found), {"function": f.__name__, **asdict(found)})
    if cost:
        given = collect(f, arg, sampler(f, lengths(size)))
        costs = cost_of(f, names, list(given.values()))
        return Text(str(costs), costs.fields())
    if size:
        raise UsageError("--size applies only to --cost", remedy="add --cost")
    args = collect(f, arg) if arg else {}
    if why_none is not None:
        said = f.why_none(why_none, *args.values())
        return Text(said, {"function": f.__name__, "parameter": why_none, "message": said})
    explained = explanation(f, names, f._shown(tuple(args.values())))
    return Text(str(explained), asdict(explained))
