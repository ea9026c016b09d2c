"""The content of a drawing: operations and leaves, values, gradients, and cuts with their causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import Edge, Entry, Variable, is_variable, reachable
from adcompiler.eager.graph.provenance import Origin, Taken, taken
from adcompiler.explain.why.cut_search import blocked
from adcompiler.lazy_dataclass import dataclass
from adcompiler.runtime.reports.cut_words import words


@dataclass(eq=False)
class Box:
    """An operation with its results, or a leaf."""

    title: str  # the operation, or the leaf's name
    lines: list[str] = field(default_factory=list)  # shapes and values
    gradient: str = ""  # what it holds in .grad
    place: str = ""  # the line that made it
    cuts: list[str] = field(default_factory=list)  # what was cut here, and why
    kind: str = "operation"  # "output", "leaf" (requires a gradient) or "constant"


@dataclass(eq=False)
class Arrow:
    """From an operand to the operation that reads it; `cut` if no derivative passes back."""

    tail: Box
    head: Box
    cut: str = ""


@dataclass(eq=False)
class Picture:
    """The boxes, the output first, and the arrows between them; `left_out` operations are not shown."""

    boxes: list[Box]
    arrows: list[Arrow]
    left_out: int = 0


def picture(outputs: Sequence[Variable], limit: int) -> Picture:
    """The graph behind some Variables, of the latest `limit` operations."""
    entries = reachable(outputs)
    shown = entries[-limit:] if limit else []
    return _Builder(outputs, shown[::-1], len(entries) - len(shown)).made


class _Builder:
    def __init__(self, outputs: Sequence[Variable], entries: Sequence[Entry], left_out: int) -> None:
        self.taken = taken()
        self.variables = {v.serial: v for v in outputs}
        for entry in entries:
            held = (o.ref() for o in entry.outputs)
            self.variables |= {
                v.serial: v for v in (*entry.inputs, *held) if v is not None and is_variable(v)
            }
        ends = {v.serial for v in outputs}
        self.makers: dict[int, Box] = {}
        self.made = Picture([], [], left_out)
        for entry in entries:
            box = self.of_entry(entry)
            box.kind = "output" if any(o.serial in ends for o in entry.outputs) else box.kind
            self.made.boxes.append(box)
            self.makers |= {o.serial: box for o in entry.outputs}
        for v in outputs:
            if v.serial not in self.makers:
                self.leaf(Edge(v.serial, None, v.requires_grad, v.origin))
        for entry in entries:
            self.arrows(entry)

    def of_entry(self, entry: Entry) -> Box:
        box = Box(entry.line(), place="" if entry.place is None else str(entry.place))
        for output in entry.outputs[:2]:
            v = self.variables.get(output.serial)
            data = output.data if v is None else v.data
            if data is not None:
                box.lines.append(f"{output.name}: {described(data)}")
            if v is not None and v._grad is not None:
                box.gradient = f"grad: {described(v._grad.data)}"
        for given in entry.given:
            found = next((t for t in self.taken if t.was(given)), None)
            if found is not None:
                box.cuts.append(_taken(found))
        return box

    def arrows(self, entry: Entry) -> None:
        seen: set[int] = set()
        for k, edge in enumerate(entry.edges):
            if edge.serial in seen:
                continue
            seen.add(edge.serial)
            tail = self.makers.get(edge.serial)
            if tail is None:
                if edge.entry is not None:
                    continue  # an operation beyond the limit
                tail = self.leaf(edge)
            why = blocked(entry, k)
            self.made.arrows.append(Arrow(tail, self.makers[entry.outputs[0].serial], why or ""))

    def leaf(self, edge: Edge) -> Box:
        v, origin = self.variables.get(edge.serial), edge.origin
        if v is None and origin is not None:  # of a freed graph
            made = origin.made()
            v = made if made is not None and made.serial == edge.serial else None
        name = v.name if v is not None else origin.name if origin is not None else "a Variable"
        box = Box(str(name), kind="leaf" if edge.requires_grad else "constant")
        if v is not None:
            box.lines.append(described(v.data))
            box.gradient = f"grad: {described(v._grad.data)}" if v._grad is not None else ""
        if origin is not None:
            box.place = "" if origin.place is None else str(origin.place)
            box.cuts += self.cut(origin)
        self.makers[edge.serial] = box
        self.made.boxes.append(box)
        return box

    def cut(self, origin: Origin) -> list[str]:
        """What a leaf was made of, if that was computed."""
        if origin.sources:
            return [f"cut: {words(origin.how).what}"]
        return [_taken(t) for t in self.taken if t.was(origin.given)][:1]


def _taken(t: Taken) -> str:
    v = t.source()
    name = "" if v is None else f" of {v.name}"
    place = "" if t.place is None else f", {t.place.short}"
    return f"cut: {words(t.how).headline}{name}{place}"


def described(data: Any) -> str:
    """Shape, type where it is not float64, and the first values."""
    array = np.asarray(data)
    kind = "" if array.dtype == np.float64 else f" {array.dtype}"
    if not array.ndim:
        return f"{array.item():.6g}{kind}" if array.dtype.kind == "f" else f"{array.item()}{kind}"
    first = ", ".join(f"{x:.4g}" for x in array.reshape(-1)[:4].tolist())
    return f"{array.shape}{kind} [{first}{', ...' if array.size > 4 else ''}]"


# -- a text ------------------------------------------------------------------------------------


def as_text(found: Picture) -> str:
    """A tree, from the outputs to the leaves; what stands in it already is not repeated."""
    below: dict[Box, list[Arrow]] = {box: [] for box in found.boxes}
    for arrow in found.arrows:
        below[arrow.head].append(arrow)
    tails = {arrow.tail for arrow in found.arrows}
    rows: list[str] = []
    seen: set[Box] = set()
    work: list[tuple[Box, str, str, str]] = [
        (box, "", "", "") for box in reversed(found.boxes) if box not in tails
    ]
    while work:
        box, first, rest, cut = work.pop()
        again = box in seen and below[box]
        note = f"   [cut: {words(cut).what}]" if cut else ""
        rows.append(f"{first}{box.title}{'   (above)' if again else ''}{note}")
        if again:
            continue
        arrows = [] if box in seen else below[box]
        seen.add(box)
        bar = "|  " if arrows else "   "
        details = [*box.lines, *([box.gradient] if box.gradient else []), *([box.place] if box.place else [])]
        rows += [f"{rest}{bar}{line}" for line in (*details, *box.cuts)]
        for k, arrow in reversed(list(enumerate(arrows))):
            last = k == len(arrows) - 1
            work.append(
                (
                    arrow.tail,
                    f"{rest}{'`- ' if last else '|- '}",
                    rest + ("   " if last else "|  "),
                    arrow.cut,
                )
            )
    if found.left_out:
        rows.append(f"... {found.left_out:,} earlier operations are not shown: pass limit=")
    return "\n".join(rows)


def as_dot(found: Picture) -> str:
    """The picture in the language of Graphviz."""
    names = {box: f"n{k}" for k, box in enumerate(found.boxes)}
    colors = {"operation": "white", "output": "#dbe9ff", "leaf": "#dff3e0", "constant": "#eeeeee"}
    rows = ["digraph tape {", '  node [shape=box style="rounded,filled" fontname="sans-serif" fontsize=10]']
    for box, name in names.items():
        text = "\\n".join(map(_quoted, _lines(box)))
        color = ' color="#c0392b" fontcolor="#c0392b"' if box.cuts else ""
        rows.append(f'  {name} [label="{text}" fillcolor="{colors[box.kind]}"{color}]')
    for arrow in found.arrows:
        style = f' [style=dashed color="#c0392b" label="{words(arrow.cut).headline}"]' if arrow.cut else ""
        rows.append(f"  {names[arrow.tail]} -> {names[arrow.head]}{style}")
    return "\n".join([*rows, "}", ""])


def _lines(box: Box) -> list[str]:
    return [line for line in (box.title, *box.lines, box.gradient, box.place, *box.cuts) if line]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
