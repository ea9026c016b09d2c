"""Other lengths in the place of size symbols, all through a program."""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Element, Size
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter


class Resized(Rewriter):
    """Other lengths in the place of size symbols."""

    def __init__(self, mapping: Mapping[Size, Element]) -> None:
        super().__init__()
        self.mapping = mapping

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        return Resized(self.mapping)

    def element(self, element: Element) -> Element:
        return self.mapping.get(element, element) if isinstance(element, Size) else element
