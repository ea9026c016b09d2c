"""SPMD partitioning: a program over arrays that come in blocks, as programs for one block each.

The program may be any: a function, its gradient, a Hessian's product. It is cut where arrays are *stored*:

- totals, which are reduced over chunks: each block gives a partial result, and these are combined afterwards;
- whole arrays that gridded ones read: what depends on no block is computed once;
- results, and what `chunks.py` has to hold still for a decision (see `_decided`).

All else is computed again by whoever reads it, as fusion does. A stored array is computed at a *time*: whole
ones at even times, gridded ones at odd times, each as early as it can be. So time 1 is the first pass over
the blocks, time 3 the second: the gradient of a nonlinear function of sums takes two, that of a sum one. What
has the same time and the same grid is one `Stage`, a program of its own.

All lengths are inputs of a stage: first those of the whole program, then for each grid axis the length of the
block and the position of its first element. So a chunked length in a shape is the block's, in a value it is
the whole one, and an index in a value has the block's position added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Func, Input, Reduce, Size
from adcompiler.ir.walk import arrays_of, arrays_read, postorder, read_by
from adcompiler.ops.decisions import decided, is_repeatable
from adcompiler.passes.accumulators import accumulators
from adcompiler.passes.blocks import Blocks
from adcompiler.passes.chunks import Chunked, Places
from adcompiler.passes.dissolve import dissolve
from adcompiler.passes.fold import fold
from adcompiler.passes.prune import prune
from adcompiler.passes.strict import strict

READY = (dissolve, accumulators, strict, fold, prune)


class Leaf(NamedTuple):
    """A block that a stage reads: of an input or of an array that an earlier stage stored."""

    array: Array
    places: Places


@dataclass(frozen=True)
class Output:
    """What a stage gives for each block: one of the array `stored`, or a part of it that is to be combined.

    places   for each axis of the array the grid axis of its block, or None
    reduced  the grid axes over which parts are combined, by `op`
    """

    stored: Array
    places: Places
    reduced: tuple[int, ...] = ()
    op: str | None = None


@dataclass(frozen=True)
class Stage:
    """A program for each point of a grid; `grid` are its chunked lengths (none: it runs once).

    Its inputs are int64 numbers, the lengths described above, then the `leaves`; its results the `outputs`.
    """

    time: int
    grid: tuple[Size, ...]
    func: Func
    leaves: tuple[Leaf, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Partition:
    """The stages of a program in order; `results` and `checks` are inputs or stored arrays."""

    stages: tuple[Stage, ...]
    inputs: tuple[Input, ...]
    results: tuple[Array, ...]
    checks: tuple[Array, ...]


def partition(func: Func, chunked: Iterable[int]) -> Partition:
    """The stages of a program some of whose lengths, by their numbers, are those of chunked axes.

    Raises LimitError, with a remedy, for what does not decompose into blocks.
    """
    for step in READY:
        func = step(func)
    plan = _Plan(func, Chunked(func, frozenset(map(Size, chunked))))
    groups: dict[tuple[int, tuple[Size, ...]], list[Array]] = defaultdict(list)
    for array in plan.order:
        if array in plan.stored:
            groups[plan.time[array], plan.chunked.grid(array)].append(array)
    stages = (plan.stage(*key, groups[key]) for key in sorted(groups, key=_order))
    return Partition(tuple(stages), func.inputs, func.results, tuple(c.holds for c in func.checks))


def _order(key: tuple[int, tuple[Size, ...]]) -> tuple[int, list[int]]:
    return key[0], [n.number for n in key[1]]


class _Plan:
    """What is stored, and when it is computed.

    `read` is what others read where it is stored; a gridded result of the program they compute again.
    """

    def __init__(self, func: Func, chunked: Chunked) -> None:
        self.func, self.chunked = func, chunked
        self.order = arrays_of(func.roots)
        self.read = self._read()
        self._schedule()
        if max(self.time.values(), default=0) > 1:
            self.read |= self._decided()
            self._schedule()

    def _read(self) -> set[Array]:
        found = {a for a in self.order if self.chunked.is_total(a)}
        varies: set[Array] = {a for a in self.order if isinstance(a, Input)}
        for array in self.order:
            if varies.intersection(arrays_read(array)):
                varies.add(array)
            if self.chunked.grid(array):
                found |= {a for a in arrays_read(array) if a in varies and not self.chunked.grid(a)}
        return found - set(self.func.inputs)

    def _schedule(self) -> None:
        """When each stored array is computed: at the first time, even for whole and odd for gridded ones, at
        which all is there that it is made of."""
        self.stored = self.read | {r for r in self.func.roots if not isinstance(r, Input)}
        self.time: dict[Array, int] = {}
        ready: dict[Array, int] = {}  # the even time from which on an array can be read, or computed again
        for array in self.order:
            first = max((ready[a] for a in arrays_read(array)), default=0)
            gridded = bool(self.chunked.grid(array))
            if array in self.stored:
                self.time[array] = first + gridded
            ready[array] = first + 2 * gridded if array in self.read else first

    def _decided(self) -> set[Array]:
        """Gridded sums, results of loops and of routines that a decision is about: several passes over the
        data would compute them with different last bits, and a maximum would equal none of its operands."""
        found: set[Array] = set()
        for array in self.order:
            for group in decided(array):
                below = postorder(read_by(group), lambda a: arrays_read(a) if is_repeatable(a) else ())
                found |= {a for a in below if not (is_repeatable(a) or isinstance(a, Input))}
        return {a for a in found if self.chunked.grid(a)}

    def stage(self, time: int, grid: tuple[Size, ...], arrays: Sequence[Array]) -> Stage:
        """The program that computes `arrays` for one point of a grid."""
        func = self.func
        early = {a for a in self.read if self.time[a] < time}.union(func.inputs)
        count = len(func.size_names)
        bounds = [(Size(count + 2 * g), Size(count + 2 * g + 1)) for g in range(len(grid))]
        numbers = count + 2 * len(grid)
        blocks = Blocks(self.chunked, early, bounds, numbers)
        results = blocks.run([(a, self.chunked.places_in_grid(a)) for a in arrays])
        leaves = tuple(Leaf(*key) for key in blocks.leaves)
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
        return Stage(time, grid, made, leaves, tuple(map(self.output, arrays)))

    def output(self, array: Array) -> Output:
        """How the blocks of a stored array come out of its stage."""
        domain = self.chunked.places_in_grid(array)
        places = self.chunked.shape_places(array, domain)
        reduced = tuple(p for p in domain if p is not None and p not in places)
        op = array.op if isinstance(array, Reduce) else "sum"
        return Output(array, places, reduced, op if reduced else None)
