"""A field of all items of a list as one Variable, for calls with Variables in structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import Cotangents, Entry, Node, is_variable, perform, state


class Stacked(Entry):
    """One array of many; its cotangent is the cotangents of these, item by item."""

    __slots__ = ("places",)
    holds = False

    def __init__(self, column: Sequence[Any]) -> None:
        self.places = tuple(k for k, v in enumerate(column) if is_variable(v))
        super().__init__(column[k] for k in self.places)

    def right(self) -> str:
        return f"stack({', '.join(v.name for v in self.inputs)})"

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        (c,) = cotangents
        if c is None:
            return [None] * len(self.places)
        if state.recording:
            return [c[k] for k in self.places]
        return [Node.kind.made(np.array(c.data[k]), None) for k in self.places]


def column_of(column: Sequence[Any], value: Any) -> Any:
    """The array `value` that a program reads, as a Variable if there are Variables among its items."""
    if not any(map(is_variable, column)):
        return value
    return perform(Stacked(column), [value])[0]
