"""The origin of nodes: a side table of source spans that follows nodes through every rewriting.

It is kept only while a program is made to be explained (`tracking`), so compiling does not pay for it:
without a table each hook is one test. `Func.spans` has the statements of a program. This table has every
operation, including those of derivatives, with the operation they are the derivative of.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from adcompiler.errors import Source, Span
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Call, Const, Element, Index, Input, Node, Read, Size
from adcompiler.ir.ruled import Ruled

UNNAMED = Const | Index | Size | Input  # the same wherever they stand


@dataclass(frozen=True)
class Within:
    """The context in which an operation was lowered.

    kind    "loop", "item" of a comprehension that is written out, or "call" of a definition
    number  the iteration, or the item, of what is written out
    step    what reads the number of the iteration in the body of a loop
    """

    kind: str
    source: Source | None
    span: Span
    number: int | None = None
    step: Element | None = None

    @property
    def place(self) -> tuple[Source | None, Span]:
        """Its place."""
        return self.source, self.span


@dataclass(frozen=True)
class Origin:
    """The origin of a node.

    within    what it stood in, the outermost first
    of        the node whose derivative it is part of; None for an operation of the program itself
    argument  by which of its operands that is differentiated, if by one alone
    order     how often differentiation was applied
    """

    source: Source | None
    span: Span
    within: tuple[Within, ...] = ()
    of: Node | None = None
    argument: int | None = None
    order: int = 0

    @property
    def own(self) -> Origin:
        """That of the program's own operation, of which something is the derivative or not."""
        return Origin(self.source, self.span, self.within)


@dataclass
class Origins:
    """The table: origins of nodes, the syntax trees that stand at places, and what these were lowered to."""

    nodes: dict[Node, Origin] = field(default_factory=dict)
    trees: dict[tuple[int, Span], Any] = field(default_factory=dict)
    lowered: dict[Origin, list[tuple[Element, int]]] = field(default_factory=dict)  # with its rank
    # NaN and infinities that are known at compile time: where the first was, and whether it was computed.
    constants: dict[str, tuple[Origin, bool]] = field(default_factory=dict)
    # What became of nodes in kernels: expressions, by identity, each with its node.
    emitted: dict[int, tuple[Any, Node]] = field(default_factory=dict)

    @property
    def computed(self) -> frozenset[str]:
        """The constants that operations on finite ones gave."""
        return frozenset(text for text, (_, computed) in self.constants.items() if computed)

    def cover(self, roots: Iterable[Node], origin: Origin) -> None:
        """Give an origin to all nodes below `roots` that have none, not looking behind those that have."""
        work, seen = list(roots), set[Node]()
        while work:
            node = work.pop()
            if node in self.nodes or node in seen or isinstance(node, UNNAMED):
                continue
            if isinstance(node, Read):  # what is read has the origin: a read is the same wherever it stands
                seen.add(node)
            else:
                self.nodes[node] = origin
            work += _parts(node)

    def inherit(self, read: Read) -> None:
        """Give an array that has no origin that of its body."""
        array = read.array
        if array not in self.nodes and array.elements and (known := self.nodes.get(array.elements[-1])):
            self.nodes[array] = known

    def derived(self, roots: Iterable[Node], *of: Node, argument: int | None = None) -> None:
        """What `roots` are made of is part of the derivative of the first of `of` that has an origin."""
        for node in of:
            if (known := self.nodes.get(node)) is not None:
                made = replace(known, of=node, argument=argument, order=known.order + 1)
                self.cover(roots, made)
                return

    def follow(self, *became: Mapping[Any, Any]) -> None:
        """What nodes became has their origin, and so has what that is made of, as far as it has none of its
        own: first each has its own, for what is made of a node is not where it comes from."""
        pairs = [(old, new) for each in became for old, new in each.items() if old is not new]
        pairs = [(old, new) for old, new in pairs if not isinstance(new, Read)]
        for old, new in pairs:
            if old in self.nodes and not isinstance(new, UNNAMED):
                self.nodes.setdefault(new, self.nodes[old])
        for old, new in pairs:
            if old in self.nodes:
                self.cover(_parts(new), self.nodes[old])


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


def follow(*became: Mapping[Any, Any]) -> None:
    """Where a table is kept, what nodes became has their origins."""
    if _state.table is not None:
        _state.table.follow(*became)


def emitted(made: Any, node: Node) -> None:
    """Where a table is kept, `made` is what a node is in a kernel."""
    if _state.table is not None:
        _state.table.emitted.setdefault(id(made), (made, node))


@contextmanager
def tracking() -> Iterator[Origins]:
    """Keep a table for what this thread makes."""
    before, _state.table = _state.table, Origins()
    try:
        yield _state.table
    finally:
        _state.table = before
