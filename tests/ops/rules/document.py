"""docs/rules.md, written from the rule table and the table of edges: run this file to write it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ops.rules.edges import EDGES
from ops.rules.plots import SECTIONS_SHOWN, file_of, write

from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import ALIASES, SECTIONS

PATH = Path(__file__).parents[3] / "docs" / "rules.md"

INTRODUCTION = """\
# The rule table

This page is the reference of elementwise functions: what each computes, its derivative, and its value at
kinks and at the edges of its domain.

A derivative is an expression in the language. It may use the parameters and the result `r`, and higher
orders differentiate it with the same rules. A `where` at the top of a derivative is evaluated before any
multiplication, so 0 is never multiplied by infinity. Tests compare each derivative with SymPy's and with
finite differences, to second order, and each kernel with NumPy.

The plots show functions (blue) and their derivatives (orange, dashed), other parameters being as written.
"""

EDGE_INTRODUCTION = """\
## Kinks, ties and edges

At a kink (`abs`, `relu`, `hypot`) the derivative is 0. At a tie it is split evenly. At the edge of a domain
it is the limit, which may be infinite. Step functions have derivative 0 everywhere, also at the jump.
Smooth functions of a kink, such as `abs(x)**2`, have
[their own derivatives](sharp-bits.md#kinks-and-ties-have-a-convention).
"""

LONGEST = 130


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def derivatives(entry: Primitive) -> str:
    shown = ["a longer expression" if len(t) > LONGEST else f"`{t}`" for t in entry.partials]
    if len(shown) < 2:
        return "".join(shown)
    return "<br>".join(f"{p}: {t}" for p, t in zip(entry.params, shown, strict=True))


def row(entry: Primitive) -> tuple[str, str, str]:
    return f"`{entry.name}({', '.join(entry.params)})`", entry.doc, derivatives(entry) or "none"


def rules() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, entries in SECTIONS.items():
        plots = f"\n![{title}, with derivatives]({file_of(title)})\n" if title in SECTIONS_SHOWN else ""
        parts.append(
            f"## {title}\n\n" + table(("function", "meaning", "derivative"), map(row, entries)) + plots
        )
    aliases = [(f"`{alias}`", f"`{name}`") for alias, name in ALIASES.items()]
    parts.append("## Other names\n\n" + table(("alias", "function"), aliases))
    edges = [
        (f"`{name}({', '.join(map(repr, point))})`", by.replace(" ", ", "), f"{value:.6g}", why)
        for name, point, by, value, why in EDGES
    ]
    parts.append(EDGE_INTRODUCTION + "\n" + table(("at", "derivative in", "value", "reason"), edges))
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(rules())
    write()
