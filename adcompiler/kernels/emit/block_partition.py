"""Block partition of nests. It depends on lengths only, so results do not depend on the number of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

from adcompiler.interpreter.reference import length
from adcompiler.ir.nodes import Apply, Const, Contraction, Element, Shape, Size
from adcompiler.ir.walk import is_computed
from adcompiler.kernels.emit.calls import is_product, piece
from adcompiler.kernels.emit.contraction import Tiles
from adcompiler.kernels.emit.kernel import Kernel
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.limits import (
    ADDING_ITERATIONS,
    BLOCK_POINTS,
    FEWEST_BLOCKS,
    LINE_NUMBERS,
    LONGEST_BLOCK,
    MOST_BLOCKS,
    MOST_WIDE_BLOCKS,
    PARALLEL_POINTS,
    SCAN_POINTS,
    TILES_POINTS,
)
from adcompiler.kernels.schedule.schedule_tree import Loop, Task, computed
from adcompiler.loopir.limits import LEAST_LANES, MOST_LANES
from adcompiler.loopir.nodes import (
    Assign,
    Binary,
    Call,
    Choice,
    Compare,
    Expr,
    Logical,
    Unary,
    Var,
    literal,
)

Lengths = Callable[[Sequence[int]], tuple[int, ...]]
Plan = Callable[[Sequence[int]], tuple[int, int, int, int]]


def lengths(shape: Sequence[Element]) -> Lengths:
    """Return a function from the values of the size symbols to lengths, which are at least 0."""
    if all(isinstance(n, Size) for n in shape):
        numbers = [n.number for n in shape if isinstance(n, Size)]
        return lambda sizes: tuple(sizes[k] for k in numbers)
    if all(isinstance(n, Const) for n in shape):
        fixed = tuple(max(int(n.value), 0) for n in shape if isinstance(n, Const))
        return lambda sizes: fixed
    each = [_length(n) for n in shape]
    return lambda sizes: tuple(max(of(sizes), 0) for of in each)


def _length(size: Element) -> Callable[[Sequence[int]], int]:
    """Return a function from the values of the size symbols to one length, with fast paths for plain sums."""
    match size:
        case Size(number=number):
            return lambda sizes: sizes[number]
        case Const(value=value):
            return lambda sizes: int(value)
        case Apply(op="add" | "subtract" as op, args=(x, y)):
            left, right, sign = _length(x), _length(y), 1 if op == "add" else -1
            return lambda sizes: left(sizes) + sign * right(sizes)
        case Apply(op="multiply", args=(x, Const(value=count))):
            whole = _length(x)
            return lambda sizes: whole(sizes) * int(count)
    return lambda sizes: length(size, sizes)


class Rounding(NamedTuple):
    """Blocks of `rows` iterations or more, or of nests of so many `iterations`, have at least `least`, and a
    multiple of `whole`."""

    rows: int
    iterations: int
    least: int
    whole: int


class Partition:
    """How a nest is cut into blocks.

    If iterations are `lanes`, blocks are whole vectors unless too few would be left for all threads. If lanes
    are `adding` to separate sums, a block is several vectors, since each block clears the sums and combines
    them. `tiled` iterations share cache lines, so a block covers whole lines. An outermost loop whose length
    the program computes is one block.
    """

    def __init__(self, kernel: Kernel, k: int, transformed: bool = False) -> None:
        """With `transformed`, the nest runs as the transforms of the loop IR made it."""
        self.loop = kernel.nests[k]
        self.block, self.most, self.least = _limits(kernel, k)
        self.often = _often(kernel, k)
        self.roundings: list[Rounding] = []
        if transformed:
            nest = kernel.transformed[f"nest{k}"]
            least = ADDING_ITERATIONS if nest.adding else 1
            self.roundings += [
                Rounding(LEAST_LANES, FEWEST_BLOCKS * MOST_LANES, least, MOST_LANES)
            ] * nest.lanes
            self.roundings += [
                Rounding(LONGEST_BLOCK, FEWEST_BLOCKS * LINE_NUMBERS, 1, LINE_NUMBERS)
            ] * nest.tiled
        self.plan = self._planned()

    @property
    def is_computed(self) -> bool:
        """Whether the program computes the number of iterations."""
        return is_computed(self.loop.size)

    @property
    def is_bounded(self) -> bool:
        """Whether the lengths of a call tell how many points a block has."""
        return not (self.is_computed or any(map(computed, _domains(self.loop))))

    def _planned(self) -> Plan:
        """The number of blocks, iterations per block, total points and points per iteration, by the lengths
        of a call."""
        if self.is_computed:
            return lambda sizes: (1, LONGEST_BLOCK, 1, 1)
        counts, often = _counts(self.loop), lengths(self.often)
        block, most, least, roundings = self.block, self.most, self.least, self.roundings

        def cut(sizes: Sequence[int]) -> tuple[int, int, int, int]:
            iterations, points = counts(sizes)
            rows = max(
                1,
                block // max(points, 1),
                -(-iterations // most),
                iterations * (iterations * points < least),
            )
            for rounding in roundings:
                if rows >= rounding.rows or iterations >= rounding.iterations:
                    rows = -(-max(rows, rounding.least) // rounding.whole) * rounding.whole
                    break
            return -(-iterations // rows), rows, iterations * points * prod(often(sizes)), points

        return cut

    def assign(self, writer: Writer, k: int) -> None:
        """Write the statements that compute the last parameters of a kernel."""
        rows = Var(f"rows{k}")
        writer.add(Assign(rows.name, self.rows(writer)))
        writer.add(Assign(f"blocks{k}", self.blocks(writer, rows)))

    def rows(self, writer: Writer) -> Expr:
        """The iterations of a block as an expression, for nests that are not in iterations."""
        if self.is_computed:
            return literal(LONGEST_BLOCK)
        products = dict.fromkeys(_product(writer, shape) for shape in _inside(self.loop))
        points = Binary("//", literal(self.block), Call("max", (*products, literal(1))))
        size = writer.written(self.loop.size)
        rows: Expr = Call("max", (literal(1), points, _quotient(size, literal(self.most))))
        rounded = rows
        for one in reversed(self.roundings):
            tests = (rows, one.rows), (size, one.iterations)
            applies = Logical("or", tuple(Compare(">=", x, literal(n)) for x, n in tests))
            count = _quotient(Call("max", (rows, literal(one.least))), literal(one.whole))
            rounded = Choice(applies, Binary("*", count, literal(one.whole)), rounded)
        return rounded

    def blocks(self, writer: Writer, rows: Expr) -> Expr:
        """The number of blocks as an expression."""
        return literal(1) if self.is_computed else _quotient(writer.written(self.loop.size), rows)


def is_long(loops: Sequence[Loop]) -> Callable[[Sequence[int]], bool]:
    """Whether any of these loops inside iterations has enough points for threads, and iterations to share."""
    each = [_counts(loop) for loop in loops]

    def is_one(sizes: Sequence[int]) -> bool:
        found = (counts(sizes) for counts in each)
        return any(iterations > 1 and iterations * points >= PARALLEL_POINTS for iterations, points in found)

    return is_one


def _counts(loop: Loop) -> Callable[[Sequence[int]], tuple[int, int]]:
    """The iterations of a nest, and the points of each. Lengths that the program computes count as one."""
    outer, inner = lengths((loop.size,)), [lengths(shape) for shape in _inside(loop)]
    return lambda sizes: (outer(sizes)[0], max(prod(shape(sizes)) for shape in inner))


def _product(writer: Writer, lengths: Shape) -> Expr:
    """The product of some lengths."""
    return reduce(lambda x, y: Binary("*", x, y), map(writer.written, lengths)) if lengths else literal(1)


def _quotient(x: Expr, y: Expr) -> Expr:
    """A quotient rounded up."""
    return Unary("-", Binary("//", Unary("-", x), y))


def _inside(loop: Loop) -> list[Shape]:
    """For each task, the lengths of the loops inside a nest that are not computed."""
    return [tuple(n for n in domain if not computed((n,))) for domain in _domains(loop)]


def _domains(loop: Loop) -> list[Shape]:
    """For each task, the lengths of the loops inside a nest."""
    return [tuple(_domain(t)) for t in loop.tasks]


def _domain(task: Task) -> Sequence[Element]:
    """The lengths of the loops of a task inside a nest."""
    if isinstance(task.array, Contraction):
        return Tiles(task.array).points
    return piece(task.array) if is_product(task.array) else [task.array.domain[k] for k in task.order[1:]]


def _often(kernel: Kernel, k: int) -> Shape:
    """The iterations of the program loop that a nest runs, if any."""
    length = kernel.scans[k].loop.length if k in kernel.scans else None
    return () if length is None or computed((length,)) else (length,)


def _limits(kernel: Kernel, k: int) -> tuple[int, int, int]:
    """The points per block, the maximum number of blocks, and the points up to which there is one block."""
    if k in kernel.scans:
        return SCAN_POINTS, MOST_BLOCKS, 0
    wide = any(b.nest == k and b.shape for b in kernel.plan.buffers)
    tiles = any(isinstance(t.array, Contraction) for t in kernel.nests[k].tasks)
    return (
        TILES_POINTS if tiles else BLOCK_POINTS,
        MOST_WIDE_BLOCKS if wide else MOST_BLOCKS,
        PARALLEL_POINTS if k in kernel.in_iterations else 0,
    )
