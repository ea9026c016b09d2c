"""Loops within a memory budget: a long loop becomes a loop over segments of iterations.

When it is differentiated, the outer loop saves the values carried into each segment, and a segment runs again
when its reverse iterations need it: n iterations in segments of s need n / s + s stack entries instead of n.
The length of a segment is chosen at the call: the square root of n minimises them. The remaining iterations
come after the segments; so do all iterations if their stacks fit the budget. Iterations are the same in
either place, and sums continue from one loop to the next (`accumulators.py`), so carried values, and sums
computed iteration by iteration, are bitwise equal. Sums that an unsplit loop computes at once (`sums.py`), as
one sum or matrix product, and sums that then share a nest with other arrays, may differ in the last bits.
(Griewank 1992, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation", for more levels than two.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from adcompiler.ir.bodies import Body, Carried, Replace, build, fresh, like, opened, roots_of
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Const, Element, Func, Index, Map, Read, Shape, const, identity, select
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.ir.walk import LoopRewriter, is_computed
from adcompiler.ops.build import apply, cast
from adcompiler.passes.limits import SHORTEST_SPLIT

ZERO, ONE = const(0, "i64"), const(1, "i64")


def checkpointed(budget: int, func: Func) -> Func:
    """The program with loops split into segments whose stacks fit `budget` bytes."""
    return _Checkpoint(budget).func(func)


def checkpoint(budget: int) -> Callable[[Func], Func]:
    """The pass for a given budget."""
    return partial(checkpointed, budget)


class _Checkpoint(LoopRewriter):
    """Splits outermost loops only: a stack of an inner loop lives for one iteration."""

    def __init__(self, budget: int) -> None:
        super().__init__()
        self.budget = budget

    def inner(self, loop: Loop | Ruled) -> None:
        """Loop bodies are unchanged."""

    def results(self, loop: Loop) -> Sequence[Array]:
        return _cut(loop, self.budget) if _is_long(loop) else loop.items


def _is_long(loop: Loop) -> bool:
    """Whether a loop has a length known at the call, many iterations, and carries floats."""
    length = loop.length
    if length is None or is_computed(length):
        return False
    short = isinstance(length, Const) and length.value <= SHORTEST_SPLIT
    return not short and any(is_float(a.dtype) for a in loop.inits)


def _cut(loop: Loop, budget: int) -> list[Array]:
    """The results of a loop run in whole segments, followed by the remaining iterations."""
    assert loop.length is not None
    iterations, segments = _segment(loop, budget)
    done = apply("multiply", segments, iterations)
    rest = apply("subtract", loop.length, done)
    if loop.backward:
        late, after = _rest(loop, loop.inits, done, rest)
        finals, early = _segments(loop, late, iterations, segments)
    else:
        late, early = _segments(loop, loop.inits, iterations, segments)
        finals, after = _rest(loop, late, done, rest)
    pairs = zip(early, after, strict=True)
    return [*finals, *(_joined(o, end, loop.length, iterations, done) for o, end in pairs)]


Given = tuple[tuple[Array, ...], tuple[Array, ...]]  # final carried values, and outs


def _segments(loop: Loop, inits: Sequence[Array], iterations: Element, segments: Element) -> Given:
    """The loop over segments: each continues from the previous one."""
    inner = opened(loop)
    outer_step, local = fresh("i64", ()), fresh("i64", ())
    number = apply("add", apply("multiply", Read(outer_step, ()), iterations), Read(local, ()))
    roots = Replace({inner.step: Map((), number)}).run(roots_of(inner))
    count = len(inner.carried)
    carried = tuple(Carried(like(c.init), c.slot, r) for c, r in zip(inner.carried, roots, strict=False))
    blocks = [(_blocks(whole, segments, iterations), row) for whole, row in inner.rows]
    rows = [(fresh(w.dtype, w.shape[1:]), row) for w, row in blocks]
    built = build(Body(iterations, local, carried, tuple(rows), tuple(roots[count:]), None, loop.backward))
    around = tuple(
        Carried(init, one.init, final) for init, one, final in zip(inits, carried, built.finals, strict=True)
    )
    whole = tuple((block, part) for (block, _), (part, _) in zip(blocks, rows, strict=True))
    found = build(Body(segments, outer_step, around, whole, built.outs, None, loop.backward))
    return found.finals, found.outs


def _rest(loop: Loop, inits: Sequence[Array], done: Element, rest: Element) -> Given:
    """The loop over the iterations after the first `done`."""
    inner = opened(loop)
    local = fresh("i64", ())
    number = apply("add", done, Read(local, ()))
    roots = Replace({inner.step: Map((), number)}).run(roots_of(inner))
    count = len(inner.carried)
    carried = tuple(Carried(init, c.slot, r) for init, c, r in zip(inits, inner.carried, roots, strict=False))
    rows = tuple((_remaining_rows(whole, done, rest), row) for whole, row in inner.rows)
    found = build(Body(rest, local, carried, rows, tuple(roots[count:]), None, loop.backward))
    return found.finals, found.outs


def _segment(loop: Loop, budget: int) -> tuple[Element, Element]:
    """The iterations per segment, and the number of segments: none if all stacks fit the budget."""
    assert loop.length is not None
    length = loop.length
    size: Element = ZERO
    for array in loop.inits:
        bytes_: Element = const(NUMPY[array.dtype].itemsize, "i64")
        for n in array.shape:
            bytes_ = apply("multiply", bytes_, n)
        size = apply("add", size, bytes_)
    fits = apply("less_equal", apply("multiply", size, length), const(budget, "i64"))
    root = cast(apply("ceil", apply("sqrt", cast(length, "f64"))), "i64")
    iterations = apply("maximum", root, ONE)
    return iterations, select(fits, ZERO, apply("floor_divide", length, iterations))


def _blocks(whole: Array, segments: Element, iterations: Element) -> Array:
    """The rows of a scanned array, segment by segment; zeros beyond its end."""
    row = apply("add", apply("multiply", Index(0), iterations), Index(1))
    return _rows_at(whole, (segments, iterations), row)


def _remaining_rows(whole: Array, done: Element, rest: Element) -> Array:
    """The rows of a scanned array after the first `done`; zeros beyond its end."""
    return _rows_at(whole, (rest,), apply("add", done, Index(0)))


def _rows_at(whole: Array, lengths: Shape, row: Element) -> Array:
    """The rows of an array with these numbers, over axes of these lengths."""
    more = len(lengths) - 1
    own = tuple(Index(i.axis + more) if isinstance(i, Index) else i for i in identity(whole.shape)[1:])
    inside = apply("less", row, whole.shape[0])
    read = Read(whole, (row, *own))
    return Map((*lengths, *whole.shape[1:]), select(inside, read, const(0, whole.dtype)))


def _joined(stack: Array, after: Array, length: Element, iterations: Element, done: Element) -> Array:
    """Join the outs of the segments and the rest into one row per iteration."""
    shape: Shape = (length, *after.shape[1:])
    own = identity(shape)
    segment = apply("floor_divide", Index(0), iterations), apply("remainder", Index(0), iterations)
    early = Read(stack, (*segment, *own[1:]))
    late = Read(after, (apply("subtract", Index(0), done), *own[1:]))
    return Map(shape, select(apply("less", Index(0), done), early, late))
