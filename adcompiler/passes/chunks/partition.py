"""SPMD partitioning: from a program over chunked arrays to programs for single blocks.

The program may be anything: a function, its gradient, a Hessian product. It is split where arrays are
*stored*:

- totals, which are reduced over chunks: the partial results of blocks are combined afterwards;
- replicated arrays that sharded ones read: they depend on no block and are computed once;
- results, and values that `chunked_axes.py` must keep for a decision (see `_decided`).

Everything else is recomputed by its readers, as in fusion. A stored array is computed at a *time*: replicated
ones at even times, sharded ones at odd times, each as early as possible. So time 1 is the first pass over the
blocks, time 3 the second: the gradient of a nonlinear function of sums takes two, that of a sum one. Arrays
with the same time and the same grid are one `Stage`, which is one program; so is each scan.

All lengths are inputs of a stage: first those of the whole program, then for each grid axis the length of the
block and the position of its first element. A chunked length in a shape is that of the block; in a value it
is the total length, and an index in a value has the block's position added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from adcompiler.errors import LimitError
from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import (
    Array,
    Element,
    Func,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Size,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, arrays_read, is_computed, postorder, read_by, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply
from adcompiler.ops.decisions import decision_operands, is_repeatable
from adcompiler.passes.algebra.fold import fold
from adcompiler.passes.algebra.strict import strict
from adcompiler.passes.arrays.inline_rules import inline_rules
from adcompiler.passes.arrays.prune import alone, prune
from adcompiler.passes.chunks.blocks import Blocks, Leaf
from adcompiler.passes.chunks.chunked_axes import OUTSIDE, Chunked, Spec
from adcompiler.passes.limits import MOST_ITERATIONS
from adcompiler.passes.recurrences.accumulators import accumulators

READY = (inline_rules, accumulators, strict, fold, prune)


@dataclass(frozen=True)
class Output:
    """An output of a stage: for each block, a block of the array `stored`, or a partial result.

    spec for each axis of the array the grid axis of its block, or None reduced the grid axes over which parts
    are combined, by `op` chosen the grid axes along which one block has the array, and whether that is the
    last one
    """

    stored: Array
    spec: Spec
    reduced: tuple[int, ...] = ()
    op: str | None = None
    chosen: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class Stage:
    """A program for each point of a grid; `grid` lists its chunked lengths (none: it runs once).

    Its inputs are the lengths described above, as int64, then the `leaves`; its results are the `outputs`.
    For a `scan`, the blocks along that grid axis run in order, or in reverse order.
    """

    time: int
    grid: tuple[Size, ...]
    func: Func
    leaves: tuple[Leaf, ...]
    outputs: tuple[Output, ...]
    scan: tuple[int, bool] | None = None


@dataclass(frozen=True)
class Partition:
    """The stages of a program in order; `results` and `checks` are inputs or stored arrays."""

    stages: tuple[Stage, ...]
    inputs: tuple[Input, ...]
    results: tuple[Array, ...]
    checks: tuple[Array, ...]


def partition(func: Func, chunked: Iterable[int], value: Callable[[Element], int]) -> Partition:
    """The stages of a program with some chunked lengths, given by number.

    `value` gives the value of a length in this call, from which loops are unrolled. Raises LimitError, with a
    remedy, if the program does not decompose into blocks.
    """
    for step in READY:
        func = step(func)
    sizes = frozenset(map(Size, chunked))
    func, kept = unrolled(func, sizes, value)
    plan = _Plan(func, Chunked(func, sizes), kept)
    groups: dict[_Group, list[Array]] = defaultdict(list)
    for array in plan.order:
        if array in plan.stored:
            groups[plan.time[array], plan.chunked.grid(array), plan.chunked.scanned(array)].append(array)
    stages = (plan.stage(*key, groups[key]) for key in sorted(groups, key=_order))
    return Partition(tuple(stages), func.inputs, func.results, tuple(c.holds for c in func.checks))


_Group = tuple[int, tuple[Size, ...], Loop | None]


def _order(key: _Group) -> tuple[int, list[int]]:
    return key[0], [n.number for n in key[1]]


class _Plan:
    """Which arrays are stored, and when they are computed.

    Other arrays read `read` from storage; they recompute sharded results of the program.
    """

    def __init__(self, func: Func, chunked: Chunked, kept: set[Array]) -> None:
        self.func, self.chunked = func, chunked
        scans = dict.fromkeys(scan for a in arrays_of(func.roots) if (scan := chunked.scanned(a)) is not None)
        self.finals = [Item(loop, k) for loop in scans for k in range(len(loop.inits))]
        self.order = arrays_of((*func.roots, *self.finals))
        self.read = self._read() | kept.intersection(self.order)
        self._schedule()
        grids = {grid for a in self.order if (grid := chunked.grid(a))}
        if max(self.time.values(), default=0) > 1 or len(grids) > 1:
            self.read |= self._decided()
            self._schedule()

    def _read(self) -> set[Array]:
        found = {a for a in self.order if self.chunked.is_total(a) or self.chunked.scanned(a)}
        found.update(a.loop.inits[a.k] for a in self.finals)
        varies: set[Array] = {a for a in self.order if isinstance(a, Input)}
        for array in self.order:
            if varies.intersection(arrays_read(array)):
                varies.add(array)
            if self.chunked.grid(array):
                found |= {a for a in arrays_read(array) if a in varies and not self.chunked.grid(a)}
        return found - set(self.func.inputs)

    def _schedule(self) -> None:
        """Compute each stored array at the first time at which its operands are available, even for
        replicated and odd for sharded ones."""
        self.stored = self.read | {r for r in self.func.roots if not isinstance(r, Input)}
        self.time: dict[Array, int] = {}
        ready: dict[Array, int] = {}  # the even time from which an array can be read or recomputed
        for array in self.order:
            first = max((ready[a] for a in arrays_read(array)), default=0)
            sharded = bool(self.chunked.grid(array))
            if array in self.stored:
                self.time[array] = first + sharded
            ready[array] = first + 2 * sharded if array in self.read else first

    def _decided(self) -> set[Array]:
        """Sums and results of loops and routines that decisions depend on. If several stages computed them,
        their last bits would differ, and a maximum would equal none of its operands."""
        found: set[Array] = set()
        for array in self.order:
            for group in decision_operands(array):
                below = postorder(read_by(group), lambda a: arrays_read(a) if is_repeatable(a) else ())
                found |= {a for a in below if not (is_repeatable(a) or isinstance(a, Input))}
        return found

    def stage(self, time: int, grid: tuple[Size, ...], scan: Loop | None, arrays: Sequence[Array]) -> Stage:
        """The program that computes `arrays` for one point of a grid."""
        func = self.func
        early = {a for a in self.read if self.time[a] < time}.union(func.inputs)
        count = len(func.size_names)
        bounds = [(Size(count + 2 * g), Size(count + 2 * g + 1)) for g in range(len(grid))]
        numbers = count + 2 * len(grid)
        blocks = Blocks(self.chunked, early, bounds, numbers)
        results = blocks.run([(a, self.chunked.grid_spec(a)) for a in arrays])
        leaves = tuple(blocks.leaves)
        own = [f"{word}_{g}" for g in range(len(grid)) for word in ("length", "start")]
        names = distinct([*(n or "size" for n in func.size_names), *own])
        inputs = [Input(k, "i64", ()) for k in range(numbers)]
        inputs += blocks.leaves.values()
        input_names = distinct([f"n_{n}" for n in names] + [f"block_{k}" for k in range(len(leaves))])
        made = Func(
            name=f"{func.name}.{f'pass_{time // 2 + 1}' if grid else f'outer_{time // 2}'}",
            inputs=tuple(inputs),
            input_names=tuple(input_names),
            results=tuple(results),
            result_names=tuple(f"result_{k}" for k in range(len(results))),
            size_names=tuple(names),
            counts=tuple((k, k) for k in range(numbers)),
        )
        along = None if scan is None else (grid.index(scan.length), scan.backward)
        return Stage(time, grid, made, leaves, tuple(map(self.output, arrays)), along)

    def output(self, array: Array) -> Output:
        """How the blocks of a stored array leave its stage."""
        domain = self.chunked.grid_spec(array)
        spec = self.chunked.shape_spec(array, domain)
        others = tuple(p for p in domain if p is not None and p not in spec)
        if self.chunked.is_total(array):
            return Output(array, spec, others, array.op if isinstance(array, Reduce) else "sum")
        scan = self.chunked.scanned(array)
        return Output(array, spec, chosen=tuple((g, scan is not None and not scan.backward) for g in others))


# -- chunk unroll ------------------------------------------------------------------------------------
# SPMD partitioning, preparation of loops: loops that need a total in each iteration are unrolled.
#
# An iteration that needs a sum over chunks, such as a step of gradient descent, cannot run in a block.
# So its loop becomes one pass over the data per iteration, all with the same program: carried values
# and the iteration's number are stored between passes. Loops of more than `MOST_ITERATIONS` iterations
# are refused.
#
# Values carried by a loop over blocks that do not depend on blocks become a separate loop.


def unrolled(func: Func, sizes: frozenset[Size], value: Callable[[Element], int]) -> tuple[Func, set[Array]]:
    """The program with loops that decompose over `sizes`, and the arrays to store.

    `value` gives the value of a length, from which iterations are counted.
    """
    kept: set[Array] = set()
    count = 0
    while True:
        unrolled = _Unrolled(Chunked(func, sizes), value, count)
        func = unrolled.func(func)
        kept = {unrolled.arrays[a] for a in kept if a in unrolled.arrays} | unrolled.kept
        if unrolled.count == count:
            break
        count = unrolled.count
    split = _Split(Chunked(func, sizes))
    func = split.func(func)
    return func, {split.arrays[a] for a in kept if a in split.arrays}


class _Bodies(Rewriter):
    """A rewriter that leaves loop bodies unchanged."""

    def __init__(self, chunked: Chunked) -> None:
        super().__init__()
        self.chunked = chunked

    def inner(self, loop: Loop | Ruled) -> None:
        """Loop bodies are unchanged."""


class _Split(_Bodies):
    """Moves carried values that do not depend on blocks into a separate loop."""

    def array(self, array: Array) -> Array:
        if not isinstance(array, Item) or not self.chunked.grid(array):
            return array
        if self.chunked.axes(array.shape) or self.chunked.is_total(array) or self.chunked.scanned(array):
            return array
        small = alone(array)
        return array if any(map(self.chunked.grid, arrays_of((small,)))) else small


class _Unrolled(_Bodies):
    """Unrolls the outermost loops that need totals in each iteration; `count` is the number of iterations so
    far."""

    def __init__(self, chunked: Chunked, value: Callable[[Element], int], count: int) -> None:
        super().__init__(chunked)
        self.value, self.count = value, count
        self.items: dict[Loop, Sequence[Array]] = {}
        self.rows: dict[Array, list[Array]] = {}  # the rows of each unrolled stack
        self.kept: set[Array] = set()

    def _item(self, item: Item) -> Array:  # type: ignore[override]
        if item.loop not in self.items:
            loop = self.loops[item.loop] = self._loop(item.loop)
            needs = self.needs_totals(loop)
            self.items[item.loop] = self.iterations(loop) if needs else loop.items
        return self.items[item.loop][item.k]

    def needs_totals(self, loop: Loop) -> bool:
        """Whether a loop cannot run within blocks, and is not along a chunked axis."""
        if loop.length is None or is_computed(loop.length) or loop.length in self.chunked.chunked:
            return False
        try:
            self.chunked.partials(loop)
        except LimitError:
            return True
        return False

    def iterations(self, loop: Loop) -> Sequence[Array]:
        """The results of a loop, iteration by iteration."""
        assert loop.length is not None
        count = max(self.value(loop.length), 0)
        self.count += count
        if count > MOST_ITERATIONS or self.count > 5 * MOST_ITERATIONS:
            cause = f"{count} iterations with sums over chunks would be {self.count} passes over the data"
            raise self.chunked.refused(loop.items[0], cause, OUTSIDE.removeprefix("or "))
        carried = loop.inits
        stacks: list[list[Array]] = [[] for _ in loop.outs]
        step: Array = Map((), const(count - 1 if loop.backward else 0, "i64"))
        for k in range(count):
            self.kept.update(a for a in (step, *carried) if not isinstance(a, Input))
            roots = self.iteration(loop, step, count - 1 - k if loop.backward else k, carried)
            carried = roots[: len(carried)]
            for stack, row in zip(stacks, roots[len(carried) :], strict=True):
                stack.append(row)
            step = Map((), apply("add", Read(step, ()), const(-1 if loop.backward else 1, "i64")))
        self.kept.update(a for a in carried if not isinstance(a, Input))
        return [*carried, *map(self.stacked, loop.items[len(carried) :], stacks, [loop] * len(stacks))]

    def iteration(self, loop: Loop, step: Array, k: int, carried: Sequence[Array]) -> tuple[Array, ...]:
        """The values that one iteration computes."""
        rows = [self.row(a, loop, step, k) for a in loop.scanned]
        given = (step, *carried, *rows, *loop.consts)
        return Replace(dict(zip(loop.slots, given, strict=True))).run(loop.roots)

    def row(self, array: Array, loop: Loop, step: Array, k: int) -> Array:
        """A row of a scanned array; zeros beyond its end."""
        shape = array.shape[1:]
        if array in self.rows and k < len(self.rows[array]):
            return self.rows[array][k]
        number = Read(step, ())
        at = const(0, "i64") if is_const(array.shape[0], 1) else number
        element: Element = Read(array, (at, *identity(shape)))
        if array.shape[0] is not loop.length:
            element = select(apply("less", number, array.shape[0]), element, const(0, array.dtype))
        return Map(shape, element)

    def stacked(self, item: Item, rows: list[Array], loop: Loop) -> Array:
        """A collected array as a function of the rows of its iterations."""
        if loop.backward:
            rows.reverse()
        at = Index(0) if not is_const(item.shape[0], 1) else const(0, "i64")
        behind: dict[int, Element] = {k: Index(k + 1) for k in range(item.rank - 1)}
        body: Element = const(0, item.dtype)
        for k, row in enumerate(rows):
            read = Read(row, tuple(substitute(i, behind) for i in identity(row.shape)))
            body = read if k == 0 else select(apply("equal", at, const(k, "i64")), read, body)
        found = Map(item.shape, body)
        self.rows[found] = rows
        return found
