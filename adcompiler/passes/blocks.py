"""SPMD partitioning, the rewriting: an array of the whole program as a program for one block of it.

An array may stand in one stage several times, each for another block: `x[i] - x[j]` has two of x. So what is
rewritten is a pair of an array and the places of its domain's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce

from adcompiler.ir.call import Call
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Element,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Shape,
    Size,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.walk import postorder, rewrite
from adcompiler.ops.build import apply
from adcompiler.passes.chunks import Chunked, Grid, Key, Places

Bounds = tuple[Size, Size]  # of a block along a grid axis: its length, and where it begins


class Blocks:
    """Rewrites arrays for one block. `early` are the arrays that are given, which become the inputs `leaves`,
    behind the first `first` ones; `bounds` has the lengths of each grid axis."""

    def __init__(
        self, chunked: Chunked, early: Collection[Array], bounds: Sequence[Bounds], first: int
    ) -> None:
        self.chunked, self.early, self.bounds, self.first = chunked, early, bounds, first
        self.leaves: dict[Key, Input] = {}
        self.made: dict[Key, Array] = {}

    def run(self, keys: Iterable[Key]) -> list[Array]:
        """The programs for blocks, by the places of their domains."""
        keys = list(keys)
        for key in postorder(keys, self.reads):
            if key not in self.made:
                self.made[key] = self.rebuilt(*key)
        return [self.made[key] for key in keys]

    def key(self, array: Array, places: Places, grid: Grid) -> Key:
        """The key of a block by the places of its array's axes: of its domain, unless it is given."""
        return array, places if array in self.early else self.chunked.domain_places(array, places, grid)

    def reads(self, key: Key) -> list[Key]:
        """The blocks that a block is made of."""
        array, domain = key
        if array in self.early:
            return []
        return [self.key(*read) for read in self.chunked.reads(array, domain)]

    def rebuilt(self, array: Array, domain: Places) -> Array:
        """A block of an array, of blocks that have been made."""
        if array in self.early:
            return self.leaf(array, domain)
        if isinstance(array, Item):
            return self.item(array, domain)
        shape = self.shape(array.shape, self.chunked.shape_places(array, domain), array)
        if isinstance(array, Call):
            return Call(array.op, self.operands(array, domain), array.dtype, shape)
        elements = rewrite(array.elements, self.visitor(array, domain), {})
        match array:
            case Map():
                return Map(shape, *elements)
            case Reduce():
                reduced = self.shape(array.reduced, domain[array.rank :], array)
                return Reduce(array.op, shape, reduced, *elements)
            case Accumulate():
                *indices, body = elements
                return Accumulate(shape, self.shape(array.domain, domain, array), tuple(indices), body)
        raise AssertionError(f"unknown array {type(array).__name__}")

    def operands(self, array: Array, domain: Places) -> tuple[Array, ...]:
        """The blocks of the operands of a loop or of a routine."""
        grid = self.chunked.grid_at(self.chunked.domain(array), domain)
        return tuple(self.made[self.key(*key, grid)] for key in self.chunked.operands(array, domain))

    def leaf(self, array: Array, places: Places) -> Input:
        """The input that a given block is."""
        return self.leaves.setdefault(
            (array, places),
            Input(self.first + len(self.leaves), array.dtype, self.shape(array.shape, places, array)),
        )

    def shape(self, shape: Shape, places: Places, array: Array) -> Shape:
        """The lengths of a block."""
        read = self.visitor(array, ())
        pairs = zip(shape, places, strict=True)
        return tuple(rewrite((n,), read, {})[0] if g is None else self.bounds[g][0] for n, g in pairs)

    def visitor(self, array: Array, domain: Places) -> Callable[[Element], Element]:
        """What becomes of elements: reads are of blocks, and an index counts from the start of the whole axis
        but where it is that of a chunked axis."""
        local: dict[Element, Element] = {}
        grid = self.chunked.grid_at(self.chunked.domain(array), domain) if domain else {}

        def visit(element: Element) -> Element:
            if isinstance(element, Index) and (g := domain[element.axis]) is not None:
                moved = apply("add", element, self.bounds[g][1])
                local[moved] = element
                return moved
            if not isinstance(element, Read):
                return element
            chunked = self.chunked.axes(element.array.shape)
            args = tuple(local.get(e, e) if m in chunked else e for m, e in enumerate(element.args))
            places = self.chunked.places(array, domain, Read(element.array, args))
            return Read(self.made[self.key(element.array, places, grid)], args)

        return visit

    # -- loops -----------------------------------------------------------------------------------

    def item(self, item: Item, domain: Places) -> Array:
        """A result of a loop over blocks."""
        loop = item.loop
        operands = list(self.operands(item, domain))
        for k in self.chunked.partials(loop).slots:
            operands[k] = self.once(operands[k], domain)
        roots = Body(
            self.chunked, self.bounds, self.chunked.grid_at(self.chunked.domain(item), domain)
        ).blocks(loop.roots)
        inits, scanned = len(loop.inits), len(loop.inits) + len(loop.scanned)
        results, outs = len(loop.results), len(loop.results) + len(loop.outs)
        length = None if loop.length is None else self.shape((loop.length,), (None,), item)[0]
        test = None if loop.test is None else roots[-1]
        parts = tuple(operands[:inits]), tuple(operands[inits:scanned]), tuple(operands[scanned:])
        made = Loop(length, *parts, tuple(roots[:results]), tuple(roots[results:outs]), test, loop.backward)
        return Item(made, item.k)

    def once(self, init: Array, domain: Places) -> Array:
        """What a partial sum begins with: zero in all blocks but the first one."""
        if isinstance(init, Map) and is_const(init.body, 0):
            return init
        starts = [apply("equal", self.bounds[g][1], const(0, "i64")) for g in domain if g is not None]
        first = reduce(lambda a, b: apply("logical_and", a, b), starts)
        body = select(first, Read(init, identity(init.shape)), const(0, init.dtype))
        return Map(init.shape, body)


class Body(Blocks):
    """Rewrites the body of a loop, where each chunked length has one grid axis; slots stay slots."""

    def __init__(self, chunked: Chunked, bounds: Sequence[Bounds], grid: Grid) -> None:
        super().__init__(chunked, (), bounds, 0)
        self.grid = grid

    def blocks(self, roots: Sequence[Array]) -> list[Array]:
        """What becomes of the roots of a body."""
        return self.run(self.key(a, (), {}) for a in roots)

    def key(self, array: Array, places: Places, grid: Grid) -> Key:
        return array, tuple(self.grid.get(n) for n in self.chunked.domain(array))

    def rebuilt(self, array: Array, domain: Places) -> Array:
        if isinstance(array, Slot):
            return Slot(array.position, array.dtype, self.shape(array.shape, domain, array))
        return super().rebuilt(array, domain)
