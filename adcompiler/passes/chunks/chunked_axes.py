"""SPMD partitioning, the analysis: which axes of an array are chunked, and which blocks a block reads.

A size symbol is *chunked* if it is the length of an axis of a chunked array. An array is *sharded* if an axis
of its domain is chunked, otherwise it is *replicated*. A block of a sharded array is identified by a
partition *spec*: for each axis the grid axis that selects the block, or None for an axis that is complete. So
`x[i] - x[j]` reads two blocks of one array, at the specs (0,) and (1,). In a loop each chunked length has one
grid axis, and these lengths are its domain.

A block may need only one block of another array: a chunked axis is read at a plain index of a chunked axis of
the same length. Everything else is a gather across chunks, and is refused. A loop along a chunked axis is a
*scan*: its blocks run in order, each starting from the carried values of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from adcompiler.errors import LimitError
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Element,
    Func,
    Index,
    Map,
    Node,
    Read,
    Reduce,
    Select,
    Shape,
    Size,
    is_const,
)
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of

Spec = tuple[int | None, ...]
Key = tuple[Array, Spec]  # a block of an array
Grid = Mapping[Element, int | None]  # the grid axis of a chunked length; None if it has several
RECHUNK = "rechunk to one chunk along this axis: x.rechunk({axis: -1})"
SEPARATE = "or pass the elements read there, such as x[1:] or x[idx], as another argument"
OUTSIDE = "or run this loop in Python, and compile one iteration"


class Chunked:
    """The chunked size symbols of a program, and their consequences for its arrays."""

    def __init__(self, func: Func, chunked: frozenset[Size]) -> None:
        self.func, self.chunked = func, chunked
        self.sizes: dict[Loop, tuple[Size, ...]] = {}
        self.partial: dict[Loop, Partials] = {}

    def axes(self, domain: Shape) -> tuple[int, ...]:
        """The chunked axes of a domain."""
        return tuple(k for k, n in enumerate(domain) if n in self.chunked)

    def domain(self, array: Array) -> Shape:
        """The lengths over which an array is computed; for a loop, the chunked ones."""
        return self.sizes_of(array.loop) if isinstance(array, Item) else array.domain

    def grid(self, array: Array) -> tuple[Size, ...]:
        """The chunked lengths of an array's domain, in order: the grid in which it is computed."""
        return tuple(n for n in self.domain(array) if isinstance(n, Size) and n in self.chunked)

    def is_total(self, array: Array) -> bool:
        """Whether an array is reduced over chunks, so that each block computes a partial result."""
        if isinstance(array, Item):
            return bool(self.grid(array)) and array.k in self.partials(array.loop).items
        if not isinstance(array, Reduce | Accumulate):
            return False
        kept = range(array.rank) if isinstance(array, Reduce) else self.tied(array).values()
        return any(k not in kept for k in self.axes(array.domain))

    def tied(self, array: Accumulate) -> dict[int, int]:
        """For each chunked axis of a scatter, the axis of its domain that indexes it."""
        pairs = ((m, array.indices[m]) for m in self.axes(array.shape))
        return {m: self.axis_of(array, array, array.domain, m, index) for m, index in pairs}

    def axis_of(self, reader: Array, array: Array, domain: Shape, m: int, index: Element) -> int:
        """The axis of a domain that indexes a chunked axis; LimitError if there is none."""
        if isinstance(index, Index) and domain[index.axis] is array.shape[m]:
            return index.axis
        what = self.name(array)
        raise self.refused(
            reader,
            f"a gather across chunks: axis {m} of {what} is chunked, and is not read elementwise",
            f"{RECHUNK}; {SEPARATE}",
        )

    def scanned(self, array: Array) -> Loop | None:
        """The loop along a chunked axis that computes an array, if there is one."""
        return array.loop if isinstance(array, Item) and array.loop.length in self.chunked else None

    # -- specs -------------------------------------------------------------------------------

    def grid_spec(self, array: Array) -> Spec:
        """The spec of a domain whose chunked axes are those of a grid, in order."""
        numbers = iter(range(len(self.domain(array))))
        return tuple(next(numbers) if n in self.chunked else None for n in self.domain(array))

    def shape_spec(self, array: Array, domain: Spec) -> Spec:
        """The spec of an array's axes, from that of its domain."""
        if isinstance(array, Item):
            grid = dict(zip(self.domain(array), domain, strict=True))
            return tuple(grid.get(n) for n in array.shape)
        if isinstance(array, Accumulate):
            tied = self.tied(array)
            return tuple(domain[tied[m]] if m in tied else None for m in range(array.rank))
        return domain[: array.rank]

    def domain_spec(self, array: Array, spec: Spec, grid: Grid) -> Spec:
        """The spec of an array's domain, from that of its axes; in a loop also from the `grid` of its
        reader."""
        if isinstance(array, Item):
            return self._in_loop(array, {**grid, **self.grid_at(array.shape, spec)})
        if isinstance(array, Accumulate):
            tied = {k: spec[m] for m, k in self.tied(array).items()}
            return tuple(tied.get(k) for k in range(len(array.domain)))
        return spec + (None,) * (len(array.domain) - array.rank)

    def grid_at(self, domain: Shape, spec: Spec) -> Grid:
        """The grid axis of each chunked length of a domain."""
        found: dict[Element, int | None] = {}
        for n, axis in zip(domain, spec, strict=True):
            if n in self.chunked:
                found[n] = axis if found.get(n, axis) == axis else None
        return found

    def _in_loop(self, item: Item, grid: Grid) -> Spec:
        found = tuple(grid.get(n) for n in self.domain(item))
        if None in found:
            raise self.refused(item, "a loop needs all of a chunked array", f"{RECHUNK}; {OUTSIDE}")
        return found

    # -- what a block reads ----------------------------------------------------------------------

    def reads(self, array: Array, domain: Spec) -> Iterator[tuple[Array, Spec, Grid]]:
        """The blocks that a block of an array reads, with the specs of their axes and the grid of the
        reader."""
        grid = self.grid_at(self.domain(array), domain)
        for operand, spec in self.operands(array, domain):
            yield operand, spec, grid
        for element in elements_of((*array.shape, *self.domain(array), *array.elements)):
            if isinstance(element, Read):
                yield element.array, self.spec(array, domain, element), grid

    def spec(self, reader: Array, domain: Spec, read: Read) -> Spec:
        """The block that an element reads."""
        found: list[int | None] = [None] * read.array.rank
        for m in self.axes(read.array.shape):
            found[m] = domain[self.axis_of(reader, read.array, self.domain(reader), m, read.args[m])]
        return tuple(found)

    def operands(self, array: Array, domain: Spec) -> list[Key]:
        """The blocks of the operands of a loop or a routine, with the specs of their axes."""
        if isinstance(array, Item):
            grid = self.grid_at(self.domain(array), domain)
            self.partials(array.loop)
            return [(a, tuple(grid.get(n) for n in a.shape)) for a in array.loop.operands]
        return self._of_call(array, domain) if isinstance(array, Call) else []

    def _of_call(self, call: Call, spec: Spec) -> list[Key]:
        cores = chain.from_iterable(array.shape[-2:] for array in (call, *call.operands))
        if self.chunked.intersection(cores):
            raise self.refused(call, f"{call.op} of a chunked matrix", RECHUNK)
        cases = self.grid_at(call.shape[:-2], spec[:-2])
        return [(a, tuple(cases.get(n) for n in a.shape)) for a in call.operands]

    # -- loops -----------------------------------------------------------------------------------

    def sizes_of(self, loop: Loop) -> tuple[Size, ...]:
        """The chunked lengths in a loop, in the order of their numbers."""
        if loop not in self.sizes:
            found: set[Element] = set()
            for a in chain(loop.operands, arrays_of(loop.roots)):
                found.update((*a.shape, *self.domain(a)))
            found.update(() if loop.length is None else (loop.length,))
            sizes = self.chunked.intersection(n for n in found if isinstance(n, Size))
            self.sizes[loop] = tuple(sorted(sizes, key=lambda n: n.number))
        return self.sizes[loop]

    def partials(self, loop: Loop) -> Partials:
        """The partial sums of a loop; LimitError for a loop that does not decompose."""
        if loop not in self.partial:
            scan = next(filter(self.scanned, arrays_of(loop.roots)), None)
            if scan is not None:
                raise self.refused(
                    scan, "a loop whose iterations each go along chunks", f"{RECHUNK}; {OUTSIDE}"
                )
            self.partial[loop] = found = Partials(loop, self.is_total)
            if loop.length in self.chunked and (found.items or self._leaves_rows(loop)):
                cause = "an iteration along a chunked axis reads more than its own row"
                raise self.refused(loop.items[0], cause, RECHUNK)
            if found.wrong is not None:
                cause = "a loop whose iterations branch on a sum over chunks"
                raise self.refused(found.wrong, cause, f"{RECHUNK}; {OUTSIDE}")
        return self.partial[loop]

    def _leaves_rows(self, loop: Loop) -> bool:
        """Whether a scan uses its axis other than row by row."""
        shapes = [a.shape for a in (*loop.inits, *loop.consts)]
        shapes += [a.shape[1:] for a in loop.scanned]
        shapes += [(*a.shape, *self.domain(a)) for a in arrays_of(loop.roots)]
        return any(n is loop.length for n in chain(*shapes)) or any(
            a.shape[0] is not loop.length for a in loop.scanned
        )

    # -- words -----------------------------------------------------------------------------------

    def name(self, array: Array) -> str:
        """A name of an array for messages."""
        inputs: dict[Array, str] = dict(zip(self.func.inputs, self.func.input_names, strict=True))
        return inputs.get(array) or self.func.names.get(array) or "an array"

    def refused(self, node: Node, cause: str, remedy: str) -> LimitError:
        """The error for a node that does not decompose."""
        span = self.func.spans.get(node)
        return LimitError(cause, remedy=remedy, source=self.func.source, span=span)


# -- chunk loops -------------------------------------------------------------------------------------
# SPMD partitioning of loops: sums over chunks that a loop carries, as reverse mode does for parameters.
#
# In the body of a loop a sum over chunks is *partial*: each block has its own part. Arrays linear in
# partial arrays are partial, including carried ones: the results of the blocks' loops add up to the
# result of the whole loop. So these results are totals. Any other reader of a partial array needs the
# sum in each iteration.


class Partials:
    """The partial arrays of a loop's body.

    slots the carried ones, by number items the numbers of the loop's results that are totals wrong an array
    that reads a partial one nonlinearly, if there is one
    """

    def __init__(self, loop: Loop, is_total: Callable[[Array], bool]) -> None:
        self.loop, self.is_total = loop, is_total
        self.order = arrays_of(loop.roots)
        self.slots: dict[int, Array] = {}  # by the number of the carried value
        while new := [k for k, r in enumerate(loop.results) if k not in self.slots and r in self.reached()]:
            self.slots |= {k: loop.slots[1 + k] for k in new}
        self.wrong: Array | None = None
        found = self.spread()
        given = (*loop.results, *loop.outs)
        self.items = frozenset(k for k, root in enumerate(given) if root in found)
        if loop.test in found:
            self.wrong = loop.test

    def reached(self) -> set[Array]:
        """The arrays that depend on sums over chunks in any way, given the partial slots found so far."""
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
    """Whether an array is linear in the partial arrays that it reads."""
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
