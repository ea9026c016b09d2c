"""Programs of the IR as lines whose parts are marked with the places that they come from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from adcompiler.explain.page.places import Line, Mark, Places, nested
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Apply, Array, Element, Func, Node, Select
from adcompiler.ir.textform.printer import Printer

# A part of the text is printed as OPEN number MIDDLE part CLOSE. These characters of the private use area are
# nowhere else: names that are not identifiers are printed in ASCII.
OPEN, MIDDLE, CLOSE = "\ue000", "\ue001", "\ue002"
_SIGN = re.compile(f"{OPEN}(\\d+){MIDDLE}|{CLOSE}")


def listing(func: Func, places: Places) -> list[Line]:
    """The text of a program, marked."""
    nodes: list[Node] = []
    text = _MarkingPrinter(func, nodes).text()
    return list(_lines(text, nodes, places))


class _MarkingPrinter(Printer):
    """Prints a program with signs around operations and names of arrays; `nodes` are those of the signs."""

    def __init__(self, func: Func, nodes: list[Node]) -> None:
        super().__init__(func)
        self.nodes = nodes

    def inner(self, func: Func) -> Printer:
        return _MarkingPrinter(func, self.nodes)

    def width(self, text: str) -> int:
        return len(_SIGN.sub("", text))

    def signed(self, text: str, node: Node) -> str:
        """A text with signs around it."""
        self.nodes.append(node)
        return f"{OPEN}{len(self.nodes) - 1}{MIDDLE}{text}{CLOSE}"

    def _element(self, element: Element, axes: list[str], args: list[tuple[str, int]]) -> tuple[str, int]:
        text, level = super()._element(element, axes, args)
        return (self.signed(text, element), level) if isinstance(element, Apply | Select) else (text, level)

    def _statement(self, array: Array) -> str:
        return self._signed_head(super()._statement(array), array)

    def _loop(self, loop: Loop) -> str:
        return self._signed_head(super()._loop(loop), loop.items[0])

    def _signed_head(self, text: str, array: Array) -> str:
        """A statement with signs around what stands before its braces."""
        head, brace, rest = text.partition(" {")
        return f"{self.signed(head, array)}{brace}{rest}"


def _lines(text: str, nodes: list[Node], places: Places) -> Iterator[Line]:
    """The lines of a text with signs, which stand in pairs in each line or around several."""
    for line in text.split("\n"):
        plain, open_, marks, last = "", list[tuple[int, Node]](), list[Mark](), 0
        for sign in _SIGN.finditer(line):
            plain += line[last : sign.start()]
            last = sign.end()
            if sign[1] is not None:
                open_.append((len(plain), nodes[int(sign[1])]))
            elif open_:
                start, node = open_.pop()
                if start < len(plain) and (found := places.of(node)):
                    marks.append(Mark(start, len(plain), found))
        plain += line[last:]
        yield Line(plain, tuple(nested(marks)))
