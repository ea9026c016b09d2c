"""SPMD partitioning of loops: what a loop adds up over chunks, as reverse mode does for parameters.

In the body of a loop a sum over chunks is *partial*: a block has its own part. What is linear in partial
arrays is partial, also what is carried from such to such: the sum over all blocks of what the loops of the
blocks give is what the whole loop gives. So these results are totals. Anything else that reads a partial
array needs the sum in each iteration.
"""

from __future__ import annotations

from collections.abc import Callable

from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Accumulate, Apply, Array, Element, Map, Read, Reduce, Select, is_const
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of


class Partials:
    """The partial arrays of a loop's body.

    slots  those of its carried ones, by number
    items  the numbers of the loop's results that are totals
    wrong  an array that reads a partial one in another way than linearly, if there is one
    """

    def __init__(self, loop: Loop, is_total: Callable[[Array], bool]) -> None:
        self.loop, self.is_total = loop, is_total
        self.order = arrays_of(loop.roots)
        self.slots: dict[int, Array] = {}  # by the number of what is carried
        while new := [k for k, r in enumerate(loop.results) if k not in self.slots and r in self.reached()]:
            self.slots |= {k: loop.slots[1 + k] for k in new}
        self.wrong: Array | None = None
        found = self.spread()
        given = (*loop.results, *loop.outs)
        self.items = frozenset(k for k, root in enumerate(given) if root in found)
        if loop.test in found:
            self.wrong = loop.test

    def reached(self) -> set[Array]:
        """What depends on sums over chunks in any way, given what is carried of it."""
        found = set(self.slots.values())
        for array in self.order:
            if self.is_total(array) or found.intersection(arrays_read(array)):
                found.add(array)
        return found

    def spread(self) -> set[Array]:
        """The partial arrays, given the partial slots."""
        found = set(self.slots.values())
        for array in self.order:
            reads = found.intersection(arrays_read(array))
            total = self.is_total(array)
            if total or reads:
                found.add(array)
                kept = not reads and _adds_up(array) if total else _passes_on(array, found)
                self.wrong = self.wrong if kept else array
        return found


def _adds_up(array: Array) -> bool:
    return isinstance(array, Accumulate | Item) or (isinstance(array, Reduce) and array.op == "sum")


def _passes_on(array: Array, partial: set[Array]) -> bool:
    """Whether an array is linear in what it reads of partial ones, and zero where these are."""
    kinds: dict[Element, bool | None] = {}  # True: linear; False: free of partial arrays; None: neither
    for e in elements_of(array.elements):
        kinds[e] = _kind(e, [kinds[a] for a in e.args], partial)
    return isinstance(array, Map) and kinds[array.body] is True


def _kind(e: Element, args: list[bool | None], partial: set[Array]) -> bool | None:
    if isinstance(e, Read) and e.array in partial:
        return None if any(a is not False for a in args) else True
    if None in args or not any(args):
        return None if None in args else False
    if isinstance(e, Select):
        then = (kind is True or is_const(a, 0) for kind, a in zip(args[1:], e.args[1:], strict=True))
        return True if args[0] is False and all(then) else None
    op = e.op if isinstance(e, Apply) else ""
    linear = (
        (op in ("add", "subtract") and all(args))
        or op == "negative"
        or (op == "multiply" and not all(args))
        or (op == "divide" and args[1] is False)
    )
    return True if linear else None
