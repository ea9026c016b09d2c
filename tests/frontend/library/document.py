"""docs/functions.md, written from the prelude: run this file to write it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from frontend.library.plotted import columns, file_of, pictures
from ops.rules.plots import picture

from adcompiler.frontend.library.distributions import DISTRIBUTIONS, METHODS
from adcompiler.frontend.library.prelude import PRELUDE, Composite, sections

PATH = Path(__file__).parents[3] / "docs" / "functions.md"

INTRODUCTION = """\
# Functions of arrays and distributions

This page is the reference of the functions of arrays that are formulas, and of distributions. They have the
names and arguments of NumPy and SciPy, and are written in the language itself, in
`adcompiler/frontend/library/prelude.adc`.
[The language](language.md) lists the other functions, and [the rule table](rules.md) those of elements.

The plots show the call above them (blue) and its derivative by x (orange, dashed). Functions that only move
elements have no plot.
"""

OF_DISTRIBUTIONS = """\
## Distributions

The methods of SciPy's distributions, with derivatives by all arguments: `stats.chi2.logpdf(x, df)`. Each
takes `loc=0` and, unless the distribution is discrete, `scale=1`. Outside of the support, and for invalid
parameters, values are those of SciPy. The prefix `scipy.stats.` can be `stats.` or be omitted: `norm.cdf(x)`.
"""


PLOTS = """\
Densities (blue) and their derivatives by x (orange, dashed):

![Densities of the continuous distributions, with derivatives](distributions.svg)
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(function: Composite) -> tuple[str, str]:
    return f"`{function.signature}`", " ".join(function.doc.split())


def functions() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, names in sections("prelude.adc"):
        rows = [row(PRELUDE[name]) for name in names if name in PRELUDE]
        title = title[0].upper() + title[1:]
        plots = f"\n![{title}, with derivatives]({file_of(title)})\n" if file_of(title) in pictures() else ""
        parts.append(f"## {title}\n\n" + table(("function", "meaning"), rows) + plots)
    rows = []
    for name, found in DISTRIBUTIONS.items():
        shapes = ", ".join(("x", *(p for p, *_ in found.parameters[1:])))
        methods = " ".join(m.partition(".")[2] for m in METHODS if m.startswith(f"{name}."))
        rows.append((f"`{name}`", found.text.split('"""')[1], f"`{shapes}`", f"`{methods}`"))
    parts.append(OF_DISTRIBUTIONS + "\n" + table(("name", "distribution", "arguments", "methods"), rows))
    parts.append(PLOTS)
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(functions())
    for name, plots in pictures().items():
        PATH.with_name(name).write_text(picture(plots, columns(name)), "utf-8")
