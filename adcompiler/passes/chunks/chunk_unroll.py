"""SPMD partitioning, loops before the cut: what needs a total in each iteration is written out.

An iteration that needs a sum over chunks, such as a step of gradient descent, cannot run in a block. So its
loop becomes as many passes over the data as it has iterations, each a pass of the same program: what is
carried is stored between them, the number of the iteration too. Loops of more than `MOST` iterations are
refused.

A loop over blocks may also carry what does not depend on blocks; that becomes a loop of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adcompiler.errors import LimitError
from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Array,
    Element,
    Func,
    Index,
    Input,
    Map,
    Read,
    Size,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, is_computed, substitute
from adcompiler.ops.build import apply
from adcompiler.passes.arrays.prune import alone
from adcompiler.passes.chunks.chunked_axes import OUTSIDE, Chunked

MOST = 100  # iterations of a loop, and a fifth of those of all nested loops


def written_out(
    func: Func, sizes: frozenset[Size], value: Callable[[Element], int]
) -> tuple[Func, set[Array]]:
    """The program with loops of `sizes` that decompose, and the arrays that are to be stored.

    `value` is that of a length: it says how many iterations there are.
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
    apart = _Apart(Chunked(func, sizes))
    func = apart.func(func)
    return func, {apart.arrays[a] for a in kept if a in apart.arrays}


class _Bodies(Rewriter):
    """A rewriter of a program whose loops' bodies stay as they are."""

    def __init__(self, chunked: Chunked) -> None:
        super().__init__()
        self.chunked = chunked

    def inner(self, loop: Loop | Ruled) -> None:
        """Bodies are closed."""


class _Apart(_Bodies):
    """Gives what a loop over blocks carries for all of them alike a loop of its own."""

    def array(self, array: Array) -> Array:
        if not isinstance(array, Item) or not self.chunked.grid(array):
            return array
        if self.chunked.axes(array.shape) or self.chunked.is_total(array) or self.chunked.scanned(array):
            return array
        small = alone(array)
        return array if any(map(self.chunked.grid, arrays_of((small,)))) else small


class _Unrolled(_Bodies):
    """Writes out the outermost loops that need totals in each iteration; `count` are those so far."""

    def __init__(self, chunked: Chunked, value: Callable[[Element], int], count: int) -> None:
        super().__init__(chunked)
        self.value, self.count = value, count
        self.items: dict[Loop, Sequence[Array]] = {}
        self.rows: dict[Array, list[Array]] = {}  # of the stacks that are written out
        self.kept: set[Array] = set()

    def _item(self, item: Item) -> Array:  # type: ignore[override]
        if item.loop not in self.items:
            loop = self.loops[item.loop] = self._loop(item.loop)
            needs = self.needs_totals(loop)
            self.items[item.loop] = self.iterations(loop) if needs else loop.items
        return self.items[item.loop][item.k]

    def needs_totals(self, loop: Loop) -> bool:
        """Whether a loop is none that runs in a block, and none of blocks."""
        if loop.length is None or is_computed(loop.length) or loop.length in self.chunked.chunked:
            return False
        try:
            self.chunked.partials(loop)
        except LimitError:
            return True
        return False

    def iterations(self, loop: Loop) -> Sequence[Array]:
        """What a loop gives, its iterations one after the other."""
        assert loop.length is not None
        count = max(self.value(loop.length), 0)
        self.count += count
        if count > MOST or self.count > 5 * MOST:
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
        """What one iteration computes."""
        rows = [self.row(a, loop, step, k) for a in loop.scanned]
        given = (step, *carried, *rows, *loop.consts)
        return Replace(dict(zip(loop.slots, given, strict=True))).run(loop.roots)

    def row(self, array: Array, loop: Loop, step: Array, k: int) -> Array:
        """A row of a scanned array: zeros beyond its end."""
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
        """What a loop collects, of the rows of its iterations."""
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
