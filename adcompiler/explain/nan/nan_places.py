"""The place of an operation in the user's terms: element, iterations, calls.

Programs are rewritten before they are interpreted: axes are moved, loops become sums, and loop invariants
move out of loops. An operation is therefore compared with the original lowering of its expression: if that
has an axis, or an iteration number, the operation has its index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adcompiler.errors import Source, Span
from adcompiler.interpreter.nonfinite import Cause, Event
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import Apply, Element, Index, Read, Reduce
from adcompiler.ir.origins import Origin, Origins, Within
from adcompiler.ir.walk import elements_of
from adcompiler.lazy_dataclass import dataclass

Values = Mapping[Element, Any]


@dataclass(frozen=True)
class Standing:
    """An element at a point, with the values of all that it is made of."""

    element: Element
    point: tuple[int, ...]
    values: Values


@dataclass(frozen=True)
class Iteration:
    """The number of an iteration, and of which loop; None where it is none of the program's text."""

    number: int
    place: tuple[Source | None, Span] | None


class NanPlace:
    """Where the operation of a cause happened. `standing` is the program's own operation there, if it is
    known, and `origin` where that comes from."""

    def __init__(
        self, table: Origins, cause: Cause, origin: Origin | None, standing: Standing | None
    ) -> None:
        self.table, self.cause, self.event, self.standing = table, cause, cause.event, standing
        self.within: Sequence[Within] = () if origin is None else origin.within
        self.rank, self.wanted, self.known = self._aligned(origin)

    def _aligned(self, origin: Origin | None) -> tuple[int, Element | None, dict[Element, Element]]:
        """What the operation's expression was lowered to, with its rank, and what stands in its places."""
        if origin is not None and self.standing is not None:
            for wanted, rank in self.table.lowered.get(origin.own, ()):
                found = aligned(wanted, self.standing.element, self.standing.values)
                if found is not None:
                    return rank, wanted, found
        return 0, None, {}

    # -- iterations ------------------------------------------------------------------------------------

    @property
    def iterations(self) -> list[Iteration]:
        """The loops around the operation, the outermost first."""
        loops = [w for w in self.within if w.kind == "loop"]
        found = [Iteration(self._number(w), w.place) for w in loops]
        places = [w.place for w in loops]
        for loop, iteration in self.event.frame.iterations:  # a routine of the library, such as cumsum
            own = self._places(loop)
            if not any(p in places for p in own):
                found.append(Iteration(iteration, own[0] if own else None))
        return found

    def _number(self, loop: Within) -> int:
        """The iteration of a loop that an operation stands in; the first, if it is the same in all."""
        if loop.number is not None:
            return loop.number
        if loop.step in self.known and self.standing is not None:
            return int(self.standing.values[self.known[loop.step]])
        return next(self._candidates(loop), 0)

    def _candidates(self, within: Within) -> Iterator[int]:
        """The iterations of a loop that the walk to the operation was in, or that the operation reads of."""
        for loop, iteration in (*self.event.frame.iterations[::-1], *self.cause.passed):
            if within.place in self._places(loop):
                yield iteration
        for sum_ in (*self.cause.sums[::-1], self.event):
            axis = self._summed(sum_, within)
            if axis is not None:
                yield sum_.point[axis]
        for read in self.event.values:
            if isinstance(read, Read) and isinstance(read.array, Item) and read.args:
                loop = read.array.loop
                if read.array.k >= len(loop.results) and within.place in self._places(loop):
                    yield int(self.event.values[read.args[0]])

    def _places(self, loop: Loop) -> list[tuple[Source | None, Span]]:
        """Where a loop stands in the source."""
        origins = (self.table.nodes.get(item) for item in loop.items)
        return [(o.source, o.span) for o in origins if o is not None]

    def _summed(self, sum_: Event, loop: Within) -> int | None:
        """The axis of a sum that stands for the iterations of a loop that only adds up."""
        origin = self.table.nodes.get(sum_.array)
        if origin is None or (origin.source, origin.span) != loop.place:
            return None
        return sum_.array.rank if isinstance(sum_.array, Reduce) else 0

    # -- the element -----------------------------------------------------------------------------------

    @property
    def element(self) -> tuple[int, ...]:
        """The element: mapped axes, items of lists, axes of comprehensions, and those of the expression."""
        items = [w.number for w in self.within if w.kind == "item" and w.number is not None]
        axes, point, values = self._here()
        taken = {index.axis for index in self.known.values() if isinstance(index, Index)}
        free = [point[k] for k in sorted(axes - taken) if 0 <= k < len(point)]
        if self.wanted is None:
            return (*items, *free)
        opened = sorted((k for k in self.wanted.axes if k < 0), reverse=True)
        own = (Index(k) for k in (*opened, *range(self.rank)))
        return (*free, *items, *(int(values[self.known[i]]) if i in self.known else 0 for i in own))

    def _here(self) -> tuple[frozenset[int], tuple[int, ...], Values]:
        """The axes that the operation depends on, without those of loops, its point, and the values."""
        event, own = self.event, self.standing
        if own is not None and own.point is not event.point:
            return own.element.axes, own.point, own.values
        loops = [w for w in self.within if w.kind == "loop"]
        sums = [s for s in (*self.cause.sums, event) if s.array is event.array]
        iterations = {self._summed(s, w) for s in sums for w in loops}
        element = event.element if own is None else own.element
        axes = frozenset(range(len(event.point))) if element is None else element.axes
        return axes - iterations, event.point, event.values

    @property
    def calls(self) -> list[tuple[Source | None, Span]]:
        """The calls of definitions around the operation, the innermost first."""
        return [w.place for w in self.within[::-1] if w.kind == "call"]


def aligned(wanted: Element, element: Element, values: Values) -> dict[Element, Element] | None:
    """What stands in an operation where axes, and numbers of iterations, stand in what it was lowered to;
    None where they are not alike."""
    found: dict[Element, Element] = {}
    work = [(wanted, element)]
    while work:
        one, other = work.pop()
        if isinstance(one, Index) or _is_step(one):
            known = found.setdefault(one, other)
            if values.get(known) != values.get(other):
                return None
        elif isinstance(one, Read) and isinstance(other, Read):
            work += _indices(one, other)
        elif _alike(one, other):
            work += zip(one.args, other.args, strict=True)
        elif one is wanted:
            return None
    return found if all(Index(k) in found for k in wanted.axes) else None


def _is_step(element: Element) -> bool:
    return isinstance(element, Read) and not element.args and element.dtype == "i64"


def _indices(one: Read, other: Read) -> Iterator[tuple[Element, Element]]:
    """The indices of two reads that belong together: a row is read without the number of the iteration that
    it is of, and mapped axes are the first ones."""
    args, found = one.args, other.args
    if len(args) != len(found):
        args = tuple(a for a in args if not any(map(_is_step, elements_of((a,)))))
        mapped = len(found) - len(args)
        found = tuple(a for a in found if not (isinstance(a, Index) and a.axis < mapped))
    return zip(args, found, strict=True) if len(args) == len(found) else iter(())


def _alike(one: Element, other: Element) -> bool:
    same = not isinstance(one, Apply) or (isinstance(other, Apply) and one.op == other.op)
    return type(one) is type(other) and same and len(one.args) == len(other.args)
