"""`adc check`: derivatives against finite differences and complex steps."""

from __future__ import annotations

from typing import Annotated

import typer

from adcompiler.api.check_grad import check_report
from adcompiler.cli.arguments import Arguments, Wrt, collect, wrt_of
from adcompiler.cli.output import AsJson, Text
from adcompiler.cli.samples import Sizes, lengths, sampler
from adcompiler.cli.source import Source, function_of

EXAMPLES = """\b
Examples:
  adc check "exp(-x**2) * sin(y)" --arg x=0.5 --arg y=1
  adc check model.adc:loss --arg b1=250 --arg b2=5e-4 --arg @data.csv --wrt b1,b2
  adc check "def f(x: f64[n], w: f64[n]): return sum(w * x**2)" --size 5
"""


def check_source(
    source: Source,
    arg: Arguments = None,
    wrt: Wrt = None,
    order: Annotated[
        int, typer.Option(min=1, max=2, help="Check first derivatives (1), or second ones as well (2).")
    ] = 2,
    size: Sizes = None,
    as_json: AsJson = False,
) -> Text:  # fmt: skip
    """Test derivatives at the given arguments, or with --size at random ones.

    Compares them with finite differences and complex steps. Prints the worst relative error of each, and
    the parts of the program without a complex form. If an error is too large, the worst entry is printed
    with both numbers, and the exit code is 1.
    """
    f = function_of(source)
    names = wrt_of(f, wrt)
    sample = sampler(f, lengths(size)) if size else None
    report = check_report(f, *collect(f, arg, sample).values(), order=order, wrt=names)
    found = {"function": report.name, "order": report.order, "worst": report.worst}
    return Text(str(report), {**found, "comparisons": report.comparisons, "notes": report.notes})
