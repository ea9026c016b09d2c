"""The syntax tree that each operation comes from, recorded while explaining a program (`ir/origins.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Const, Element
from adcompiler.ir.origins import Origin, tracked
from adcompiler.pytree.containers import Container


def located(context: Context, node: tree.Tree, value: AnyValue) -> None:
    """Record `node` as the origin of the elements of `value` that do not come from a node inside it."""
    table = tracked()
    if table is None or context.source is None:
        return
    origin = Origin(context.source, context.blame.place(node.span), context.within)
    table.cover(_elements(value), origin)
    if context.blame.elsewhere:  # the node is not in the user's source
        return
    table.trees[id(context.source), node.span] = node
    if isinstance(value, Value):
        table.lowered.setdefault(origin, []).append((value.element, value.rank))
    element = value.element if isinstance(value, Value) else value
    number = element.value if isinstance(element, Const) else element
    if isinstance(number, float) and not isfinite(number):
        computed = isinstance(node, tree.Binary | tree.Call | tree.Augmented)
        table.constants.setdefault(repr(number), (origin, computed))


def _elements(value: Any) -> Iterator[Element]:
    if isinstance(value, Value):
        yield value.element
    elif isinstance(value, tuple | Container):
        for part in value.parts if isinstance(value, Container) else value:
            yield from _elements(part)
