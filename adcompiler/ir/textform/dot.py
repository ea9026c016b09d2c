"""A program as a graph for Graphviz: a node for each array, an edge to each array that reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from adcompiler.ir.limits import LABEL_LINES, LABEL_WIDTH
from adcompiler.ir.nodes import Func
from adcompiler.ir.textform.printer import show

STATEMENT = re.compile(
    r"^  (%\S+(?:, %\S+)*) = ", re.MULTILINE
)  # of the program itself, not of a loop's body
NAME = re.compile(r"%\w+")
OPERAND = re.compile(r"= (?:\w+ )?(%\w+)")  # of a loop


def dot(func: Func) -> str:
    """The graph of a program. Inputs are ellipses, results have two borders."""
    head, _, body = show(func).partition("{\n")
    given, _, results = head.partition("->")
    inputs = re.findall(r"(%\w+): ([^,)%]*(?:\[[^]]*\])?)", given)
    wanted = set(NAME.findall(results))
    name = re.sub(r"\W+", "_", func.name).strip("_")
    lines = [f"digraph {name} {{", "  node [shape=box, fontname=monospace];"]
    lines += [
        f'  "{n}" [label="{_quoted(f"{n[1:]}: {kind.strip()}")}", shape=ellipse];' for n, kind in inputs
    ]
    node = {n: n for n, _ in inputs}
    edges: list[str] = []
    for names, text in _statements(body):
        peripheries = ", peripheries=2" * any(n in wanted for n in names)
        lines.append(f'  "{names[0]}" [label="{_label(text)}"{peripheries}];')
        edges += [f'  "{node[n]}" -> "{names[0]}";' for n in _read(text) if n in node]
        node |= dict.fromkeys(names, names[0])
    return "\n".join([*lines, *dict.fromkeys(edges), "}", ""])


def _read(text: str) -> list[str]:
    """The arrays that a statement reads. The body of a loop has names of its own."""
    made = text.partition(" = ")[2]
    return OPERAND.findall(made.splitlines()[0]) if made.startswith("loop ") else NAME.findall(made)


def _statements(body: str) -> Iterator[tuple[list[str], str]]:
    """The names that each statement defines, and its text."""
    starts = [m.start() for m in STATEMENT.finditer(body)]
    for start, stop in zip(starts, [*starts[1:], len(body)], strict=True):
        text = body[start:stop].split("\n  check ")[0].rstrip().removesuffix("\n}")
        names = NAME.findall(text.partition(" = ")[0])
        yield names, "\n".join(line.removeprefix("  ") for line in text.splitlines())


def _label(text: str) -> str:
    """A statement, shortened, with lines aligned to the left."""
    lines = [
        line if len(line) <= LABEL_WIDTH else f"{line[: LABEL_WIDTH - 3]}..." for line in text.splitlines()
    ]
    if len(lines) > LABEL_LINES:
        lines = [*lines[: LABEL_LINES - 1], "..."]
    return "".join(f"{_quoted(line)}\\l" for line in lines)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
