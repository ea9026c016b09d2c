"""Programs of the IR as lines whose parts are marked with the places that they come from."""

from __future__ import annotations

from functools import partial

from adcompiler.explain.page.places import Line, Places
from adcompiler.explain.page.signs import Signs, without
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Apply, Array, Element, Func, Input, Node, Read, Select
from adcompiler.ir.textform.printer import Printer


def listing(func: Func, places: Places) -> list[Line]:
    """The text of a program, marked."""
    signs = Signs[Node]()
    text = _SigningPrinter(func, signs).text()
    find = partial(places.found, places.inputs_of(func))
    return [signs.line(line, find) for line in text.split("\n")]


def is_parameter(node: Node) -> bool:
    """Whether a node reads an input. Other reads are no operations."""
    return isinstance(node, Read) and isinstance(node.array, Input)


class _SigningPrinter(Printer):
    """Prints a program with signs around elements, and around the heads of arrays."""

    def __init__(self, func: Func, signs: Signs[Node]) -> None:
        super().__init__(func)
        self.signs = signs

    def inner(self, func: Func) -> Printer:
        return _SigningPrinter(func, self.signs)

    def width(self, text: str) -> int:
        return len(without(text))

    def _element(self, element: Element, axes: list[str], args: list[tuple[str, int]]) -> tuple[str, int]:
        text, level = super()._element(element, axes, args)
        if isinstance(element, Apply | Select) or is_parameter(element):
            text = self.signs.around(text, element)
        return text, level

    def _statement(self, array: Array) -> str:
        return self._signed_head(super()._statement(array), array)

    def _loop(self, loop: Loop) -> str:
        return self._signed_head(super()._loop(loop), loop)

    def _signed_head(self, text: str, node: Node) -> str:
        """A statement with signs around what stands before its braces."""
        head, brace, rest = text.partition(" {")
        return f"{self.signs.around(head, node)}{brace}{rest}"
