"""SPMD partitioning, the rewriting: an array of the whole program as a program for one block of it.

An array may occur several times in one stage, for different blocks: `x[i] - x[j]` has two of x. So the unit
of rewriting is an array with the spec of its domain's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Call,
    Element,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Shape,
    Size,
    const,
    element_of,
    is_const,
    select,
)
from adcompiler.ir.walk import postorder, rewrite
from adcompiler.ops.build import apply
from adcompiler.passes.chunks.chunked_axes import Chunked, Grid, Key, Spec


class Leaf(NamedTuple):
    """A given block: of an input, or of an array stored by an earlier stage. If it is a value that a scan has
    `carried`, it is that of the previous block, if there is one."""

    array: Array
    spec: Spec
    carried: Item | None = None


Bounds = tuple[Size, Size]  # the length and the start of a block along a grid axis


class Blocks:
    """Rewrites arrays for one block. The given arrays `early` become the inputs `leaves`, numbered from
    `first`. `bounds` has the lengths of each grid axis."""

    def __init__(
        self, chunked: Chunked, early: Collection[Array], bounds: Sequence[Bounds], first: int
    ) -> None:
        self.chunked, self.early, self.bounds, self.first = chunked, early, bounds, first
        self.leaves: dict[Leaf, Input] = {}
        self.made: dict[Key, Array] = {}

    def run(self, keys: Iterable[Key]) -> list[Array]:
        """The programs for blocks, by the specs of their domains."""
        keys = list(keys)
        for key in postorder(keys, self.reads):
            if key not in self.made:
                self.made[key] = self.rebuilt(*key)
        return [self.made[key] for key in keys]

    def key(self, array: Array, spec: Spec, grid: Grid) -> Key:
        """The key of a block, given the spec of its array's axes. Given arrays keep this spec; others use
        that of their domain."""
        return array, spec if array in self.early else self.chunked.domain_spec(array, spec, grid)

    def reads(self, key: Key) -> list[Key]:
        """The blocks that a block depends on."""
        array, domain = key
        if array in self.early:
            return []
        found = [self.key(*read) for read in self.chunked.reads(array, domain)]
        scan = self.chunked.scanned(array)
        return found if scan is None else found[len(scan.inits) :]

    def rebuilt(self, array: Array, domain: Spec) -> Array:
        """A block of an array, from blocks rewritten already."""
        if array in self.early:
            return self.leaf(array, domain)
        if isinstance(array, Item):
            return self.item(array, domain)
        shape = self.shape(array.shape, self.chunked.shape_spec(array, domain), array)
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

    def operands(self, array: Array, domain: Spec) -> tuple[Array, ...]:
        """The blocks of the operands of a loop or of a routine."""
        grid = self.chunked.grid_at(self.chunked.domain(array), domain)
        keys = self.chunked.operands(array, domain)
        scan = self.chunked.scanned(array)
        count = 0 if scan is None else len(scan.inits)
        carried = (
            [] if scan is None else [self.leaf(*key, Item(scan, k)) for k, key in enumerate(keys[:count])]
        )
        return (*carried, *(self.made[self.key(*key, grid)] for key in keys[count:]))

    def leaf(self, array: Array, spec: Spec, carried: Item | None = None) -> Input:
        """The input for a given block."""
        return self.leaves.setdefault(
            Leaf(array, spec, carried),
            Input(self.first + len(self.leaves), array.dtype, self.shape(array.shape, spec, array)),
        )

    def shape(self, shape: Shape, spec: Spec, array: Array) -> Shape:
        """The lengths of a block."""
        read = self.visitor(array, ())
        pairs = zip(shape, spec, strict=True)
        return tuple(rewrite((n,), read, {})[0] if g is None else self.bounds[g][0] for n, g in pairs)

    def visitor(self, array: Array, domain: Spec) -> Callable[[Element], Element]:
        """The rewriter of elements. Reads become reads of blocks. An index is offset by the block's start,
        except as the index of a chunked axis."""
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
            spec = self.chunked.spec(array, domain, Read(element.array, args))
            return Read(self.made[self.key(element.array, spec, grid)], args)

        return visit

    # -- loops -----------------------------------------------------------------------------------

    def item(self, item: Item, domain: Spec) -> Array:
        """A result of a loop over blocks."""
        loop = item.loop
        operands = list(self.operands(item, domain))
        for k in self.chunked.partials(loop).slots:
            operands[k] = self.once(operands[k], domain)
        grid = self.chunked.grid_at(self.chunked.domain(item), domain)
        axis = None if loop.length is None else grid.get(loop.length)
        roots = Body(self.chunked, self.bounds, grid, axis).blocks(loop.roots)
        inits, scanned = len(loop.inits), len(loop.inits) + len(loop.scanned)
        results, outs = len(loop.results), len(loop.results) + len(loop.outs)
        length = None if loop.length is None else self.shape((loop.length,), (axis,), item)[0]
        test = None if loop.test is None else roots[-1]
        parts = tuple(operands[:inits]), tuple(operands[inits:scanned]), tuple(operands[scanned:])
        made = Loop(length, *parts, tuple(roots[:results]), tuple(roots[results:outs]), test, loop.backward)
        return Item(made, item.k)

    def once(self, init: Array, domain: Spec) -> Array:
        """The initial value of a partial sum: zero in all blocks except the first."""
        if isinstance(init, Map) and is_const(init.body, 0):
            return init
        starts = [apply("equal", self.bounds[g][1], const(0, "i64")) for g in domain if g is not None]
        first = reduce(lambda a, b: apply("logical_and", a, b), starts)
        body = select(first, element_of(init), const(0, init.dtype))
        return Map(init.shape, body)


class Body(Blocks):
    """Rewrites the body of a loop, where each chunked length has one grid axis, and `axis` is that of a scan.
    Slots stay slots, but a scan's iteration keeps its number in the whole loop."""

    def __init__(self, chunked: Chunked, bounds: Sequence[Bounds], grid: Grid, axis: int | None) -> None:
        super().__init__(chunked, (), bounds, 0)
        self.grid, self.axis = grid, axis

    def blocks(self, roots: Sequence[Array]) -> list[Array]:
        """The replacements of the roots of a body."""
        return self.run(self.key(a, (), {}) for a in roots)

    def key(self, array: Array, spec: Spec, grid: Grid) -> Key:
        return array, tuple(self.grid.get(n) for n in self.chunked.domain(array))

    def rebuilt(self, array: Array, domain: Spec) -> Array:
        if isinstance(array, Slot):
            slot = Slot(array.position, array.dtype, self.shape(array.shape, domain, array))
            if array.position or self.axis is None:
                return slot
            return Map((), apply("add", Read(slot, ()), self.bounds[self.axis][1]))
        return super().rebuilt(array, domain)
