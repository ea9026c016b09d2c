"""docs/rules.md, written from the rule table and the table of edges: run this file to write it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ops.rules.edges import EDGES

from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import ALIASES, SECTIONS

PATH = Path(__file__).parents[3] / "docs" / "rules.md"

INTRODUCTION = """\
# The rule table

Every primitive is one entry in `adcompiler/ops`. This page is generated from those entries and from
`tests/ops/rules/edges.py`; a test keeps it up to date (`PYTHONPATH=tests python tests/ops/rules/document.py`
writes it anew).

A derivative is a text in the language itself: it names the parameters and the result `r`, and it is
differentiated by the same rules again for higher orders. `where` on top of a text decides before
anything is multiplied, so that 0 never meets infinity. Tests prove each text against SymPy's
derivative and against finite differences, to the second order, and each kernel against NumPy.
"""

EDGE_INTRODUCTION = """\
## Kinks, ties and edges

At a kink the derivative is 0 (`abs`, `relu`, `hypot`), at a tie it is split evenly, at the edge of a
domain it is the limit, which may be infinite; steps have derivative 0 everywhere, also at the jump.
"""

LONGEST = 130


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def derivatives(entry: Primitive) -> str:
    shown = ["an asymptotic series" if len(t) > LONGEST else f"`{t}`" for t in entry.partials]
    if len(shown) < 2:
        return "".join(shown)
    return "<br>".join(f"{p}: {t}" for p, t in zip(entry.params, shown, strict=True))


def row(entry: Primitive) -> tuple[str, str, str]:
    return f"`{entry.name}({', '.join(entry.params)})`", entry.doc, derivatives(entry) or "none"


def rules() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, entries in SECTIONS.items():
        parts.append(f"## {title}\n\n" + table(("function", "meaning", "derivative"), map(row, entries)))
    aliases = [(f"`{alias}`", f"`{name}`") for alias, name in ALIASES.items()]
    parts.append("## Other names\n\n" + table(("name", "is"), aliases))
    edges = [
        (f"`{name}({', '.join(map(repr, point))})`", by.replace(" ", ", "), f"{value:.6g}", why)
        for name, point, by, value, why in EDGES
    ]
    parts.append(EDGE_INTRODUCTION + "\n" + table(("at", "derivative by", "is", "because"), edges))
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(rules())
