"""While a program is explained: which syntax tree each operation comes from (`ir/origins.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adcompiler.errors import Source
from adcompiler.ir.nodes import Element
from adcompiler.ir.origins import Origin, tracked
from adcompiler.syntax import tree
from adcompiler.syntax.containers import Container
from adcompiler.syntax.values import AnyValue, Value


def located(source: Source | None, node: tree.Tree, value: AnyValue) -> None:
    """What `value` is made of comes from `node`, as far as it comes from nothing inside `node`."""
    table = tracked()
    if table is not None and source is not None:
        table.trees[id(source), node.span] = node
        table.cover(_elements(value), Origin(source, node.span))


def _elements(value: Any) -> Iterator[Element]:
    if isinstance(value, Value):
        yield value.element
    elif isinstance(value, tuple | Container):
        for part in value.parts if isinstance(value, Container) else value:
            yield from _elements(part)
