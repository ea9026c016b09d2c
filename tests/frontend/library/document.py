"""docs/functions.md, written from the prelude: run this file to write it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ops.rules.plots import picture

from adcompiler.frontend.library.distributions import DISTRIBUTIONS, METHODS
from adcompiler.frontend.library.prelude import PRELUDE, Composite, sections

PATH = Path(__file__).parents[3] / "docs" / "functions.md"

INTRODUCTION = """\
# Functions of arrays and distributions

These functions of NumPy and SciPy are written in the language itself, in
`adcompiler/frontend/library/prelude.adc`. This page is generated from them by
`PYTHONPATH=tests python tests/frontend/library/document.py`. A test checks that it is up to date.
[The language](language.md) lists the other functions, and [the rule table](rules.md) those of elements.
"""

OF_DISTRIBUTIONS = """\
## Distributions

The methods of SciPy's distributions, with derivatives by all arguments: `stats.chi2.logpdf(x, df)`. Each
takes `loc=0` and, unless the distribution is discrete, `scale=1`. Outside of the support, and for invalid
parameters, values are those of SciPy. The prefix `scipy.stats.` can be `stats.` or be omitted: `norm.cdf(x)`.
"""

PLOTS = "![Densities of the continuous distributions, with derivatives](distributions.svg)\n"
PLOTTED = {  # the other parameters of the densities that the picture shows, and where
    "norm": ("", -4, 4),
    "t": ("3", -4, 4),
    "chi2": ("4", 0, 12),
    "beta": ("2, 3", 0, 1),
    "gamma": ("2", 0, 8),
    "invgamma": ("3", 0, 2),
    "f": ("5, 8", 0, 4),
    "expon": ("", 0, 4),
    "lognorm": ("0.5", 0, 4),
    "halfnorm": ("", 0, 4),
    "laplace": ("", -4, 4),
    "logistic": ("", -6, 6),
    "cauchy": ("", -5, 5),
    "gumbel_r": ("", -3, 6),
    "weibull_min": ("1.8", 0, 3),
    "rayleigh": ("", 0, 4),
    "pareto": ("2", 0, 4),
    "uniform": ("", -1, 2),
}


def densities() -> list[tuple[str, tuple[float, float]]]:
    """The calls that the picture of distributions shows, and between which numbers."""
    return [
        (f"{name}.pdf(x, {more})" if more else f"{name}.pdf(x)", (start, stop))
        for name, (more, start, stop) in PLOTTED.items()
    ]


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
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n" + table(("function", "meaning"), rows))
    rows = []
    for name, found in DISTRIBUTIONS.items():
        shapes = ", ".join(("x", *(p for p, *_ in found.parameters[1:])))
        methods = " ".join(m.partition(".")[2] for m in METHODS if m.startswith(f"{name}."))
        rows.append((f"`{name}`", found.text.split('"""')[1], f"`{shapes}`", f"`{methods}`"))
    parts.append(OF_DISTRIBUTIONS + "\n" + table(("name", "distribution", "arguments", "methods"), rows))
    parts.append("Densities (blue) and their derivatives by x (orange, dashed):\n\n" + PLOTS)
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(functions())
    PATH.with_name("distributions.svg").write_text(picture(densities()), "utf-8")
