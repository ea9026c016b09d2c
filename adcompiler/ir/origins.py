"""The origin of nodes: a side table of source spans that follows nodes through every rewriting.

It is kept only while a program is made to be explained (`tracking`), so compiling does not pay for it:
without a table each hook is one test. `Func.spans` has the statements of a program. This table has every
operation, including those of derivatives, with the operation they are the derivative of.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from adcompiler.errors import Source, Span
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Array, Call, Const, Element, Index, Input, Map, Node, Read, Size
from adcompiler.ir.ruled import Ruled
from adcompiler.lazy_dataclass import dataclass

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
    beside    the origins of the other terms of a sum of contributions to the derivative by a parameter
    """

    source: Source | None
    span: Span
    within: tuple[Within, ...] = ()
    of: Node | None = None
    argument: int | None = None
    order: int = 0
    beside: tuple[Origin, ...] = ()

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
    # Whether only the last program matters: when its inputs get other positions, nodes of the program before,
    # whose origins are in `before` meanwhile, are forgotten (`renumbering`).
    forgets: bool = False
    before: dict[Node, Origin] | None = None

    def fork(self) -> Origins:
        """A table that goes on separately, for one program that is made of this table's."""
        return replace(self, nodes=dict(self.nodes), emitted={}, forgets=True)

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
            else:  # an array of elements is where they are computed; an adjoint belongs to what reads it
                is_value = isinstance(node, Map) and not origin.order
                self.nodes[node] = (self.origin(node) if is_value else None) or origin
            work += _parts(node)

    def inherit(self, read: Read) -> None:
        """Give an array that has no origin that of its body."""
        known = self.origin(read.array)
        if known is not None:
            self.nodes.setdefault(read.array, known)

    def origin(self, node: Node) -> Origin | None:
        """The origin of a node; of an array that has none of its own, that of its body; of a loop, that of a
        result that is used."""
        if isinstance(node, Loop):
            return next(filter(None, map(self.nodes.get, node.items)), None)
        found = self.nodes.get(node)
        if found is None and isinstance(node, Array) and node.elements:
            return self.nodes.get(node.elements[-1])
        return found

    def derived(self, roots: Iterable[Node], *of: Node, argument: int | None = None) -> None:
        """What `roots` are made of is part of the derivative of the first of `of` that has an origin."""
        for node in of:
            if (known := self.origin(node)) is not None:
                made = replace(known, of=node, argument=argument, order=known.order + 1)
                self.cover(roots, made)
                return

    def gathered(self, total: Iterable[Node], terms: Sequence[Node], of: Node) -> None:
        """Contributions to the adjoint of a node are added: the sum is part of its derivative. A sum for a
        parameter, which has no origin, and a single contribution come from where the terms come from."""
        if len(terms) > 1 and self.origin(of) is not None:
            self.derived(total, of)
            return
        found = (self.nodes.get(t.array if isinstance(t, Read) else t) for t in terms)
        known = list(dict.fromkeys(origin for origin in found if origin is not None))
        if known:
            self.cover(total, replace(known[0], beside=(*known[0].beside, *known[1:])))

    def follow(self, *became: Mapping[Any, Any]) -> None:
        """What nodes became has their origin, and so has what that is made of, as far as it has none of its
        own: first each has its own, for what is made of a node is not where it comes from."""
        known = self.nodes if self.before is None else self.before
        pairs = [(old, new) for each in became for old, new in each.items()]
        pairs = [(old, new) for old, new in pairs if old in known and not isinstance(new, Read)]
        if known is self.nodes:
            pairs = [(old, new) for old, new in pairs if old is not new]
        for old, new in pairs:
            if not isinstance(new, UNNAMED):
                self.nodes.setdefault(new, known[old])
        for old, new in pairs:
            self.cover(_parts(new), known[old])

    def keep(self, roots: Iterable[Node]) -> None:
        """Parts of a program, such as the bodies of its loops, are not rewritten while it is renumbered."""
        work, seen = list(roots), set[Node]()
        while work and self.before is not None:
            node = work.pop()
            if node not in seen:
                seen.add(node)
                if (known := self.before.get(node)) is not None:
                    self.nodes.setdefault(node, known)
                work += [*_parts(node), *(node.loop.roots if isinstance(node, Item) else ())]


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


def gathered(total: Iterable[Node], terms: Sequence[Node], of: Node) -> None:
    """Where a table is kept, `total` is a sum of contributions to the adjoint of a node."""
    if _state.table is not None:
        _state.table.gathered(total, terms, of)


def follow(*became: Mapping[Any, Any]) -> None:
    """Where a table is kept, what nodes became has their origins."""
    if _state.table is not None:
        _state.table.follow(*became)


def keep(roots: Iterable[Node]) -> None:
    """Where a table is kept and a program is renumbered, these parts of it stay as they are."""
    if _state.table is not None:
        _state.table.keep(roots)


def emitted(made: Any, node: Node) -> None:
    """Where a table is kept, `made` is what a node is in a kernel."""
    if _state.table is not None:
        _state.table.emitted.setdefault(id(made), (made, node))


def emitted_in(parts: Iterable[Any]) -> list[Node]:
    """The nodes that parts of a kernel were written for; none where no table is kept."""
    if _state.table is None:
        return []
    found = ((part, _state.table.emitted.get(id(part), (None, None))) for part in parts)
    return [node for part, (known, node) in found if known is part and node is not None]


@contextmanager
def tracking(table: Origins | None = None) -> Iterator[Origins]:
    """Keep a table, a new one if none is given, for what this thread makes."""
    before, _state.table = _state.table, Origins() if table is None else table
    try:
        yield _state.table
    finally:
        _state.table = before


@contextmanager
def renumbering() -> Iterator[None]:
    """Meanwhile a program is rewritten to one whose inputs have other positions. A table for this program has
    only its nodes from then on: those of the program before may be equal to other ones of this program."""
    table = _state.table
    if table is None or not table.forgets:
        yield
        return
    table.before, table.nodes = table.nodes, {}
    try:
        yield
    finally:
        table.before = None
