"""Where nodes come from: a side table of source spans that follows nodes through every rewriting.

It is kept only while a program is made in order to be explained (`tracking`), so that compiling does not pay
for it: without a table each hook is one test. `Func.spans` names the statements of a program; this table
names every operation, also those that derivatives are made of, with what they are the derivative of.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from adcompiler.errors import Source, Span
from adcompiler.ir.call import Call
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Const, Element, Index, Input, Node, Read, Size
from adcompiler.ir.ruled import Ruled


@dataclass(frozen=True)
class Origin:
    """Where a node comes from.

    of        the node whose derivative it is part of; None for an operation of the program itself
    argument  by which of its operands that is differentiated, if by one alone
    order     how often differentiation was applied
    """

    source: Source | None
    span: Span
    of: Node | None = None
    argument: int | None = None
    order: int = 0


@dataclass
class Origins:
    """The table: origins of nodes, and the syntax trees that stand at places."""

    nodes: dict[Node, Origin] = field(default_factory=dict)
    trees: dict[tuple[int, Span], Any] = field(default_factory=dict)

    def cover(self, roots: Iterable[Node], origin: Origin) -> None:
        """Give an origin to all nodes below `roots` that have none, not looking behind those that have."""
        work, seen = list(roots), set[Node]()
        while work:
            node = work.pop()
            if node in self.nodes or node in seen or isinstance(node, Const | Index | Size | Input):
                continue
            if isinstance(node, Read):  # what is read has the origin: a read is the same wherever it stands
                seen.add(node)
            else:
                self.nodes[node] = origin
            work += _parts(node)

    def derived(self, roots: Iterable[Node], *of: Node, argument: int | None = None) -> None:
        """What `roots` are made of is part of the derivative of the first of `of` that has an origin."""
        for node in of:
            if (known := self.nodes.get(node)) is not None:
                self.cover(roots, Origin(known.source, known.span, node, argument, known.order + 1))
                return

    def follow(self, became: Mapping[Any, Any]) -> None:
        """What nodes became has their origin, as far as it has none of its own."""
        for old, new in became.items():
            if old is not new and old in self.nodes:
                self.cover((new,), self.nodes[old])


def _parts(node: Node) -> list[Node]:
    if isinstance(node, Element):
        return [*node.args, node.array] if isinstance(node, Read) else list(node.args)
    if isinstance(node, Item):
        return list(node.loop.operands)
    if isinstance(node, Call | Ruled):
        return list(node.operands)
    return list(node.elements) if isinstance(node, Array) else []


class _State(threading.local):
    table: Origins | None = None


_state = _State()


def tracked() -> Origins | None:
    """The table that is kept now; None if there is none, as always but while something is explained."""
    return _state.table


def derived(made: Iterable[Node], *of: Node, argument: int | None = None) -> None:
    """Where a table is kept, nodes are part of the derivative of the first of `of` that has an origin."""
    if _state.table is not None:
        _state.table.derived(made, *of, argument=argument)


def follow(became: Mapping[Any, Any]) -> None:
    """Where a table is kept, what nodes became has their origins."""
    if _state.table is not None:
        _state.table.follow(became)


@contextmanager
def tracking() -> Iterator[Origins]:
    """Keep a table for what this thread makes."""
    before, _state.table = _state.table, Origins()
    try:
        yield _state.table
    finally:
        _state.table = before
