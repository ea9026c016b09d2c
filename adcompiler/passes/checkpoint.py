"""Loops within a memory budget: a long loop becomes a loop over segments of turns.

Differentiated, the outer loop keeps what is carried into each segment, and a segment runs again when its
reverse turns need it: with n turns in segments of s, n / s + s stacks of what is carried in place of n. The
length of a segment is chosen at the call: all turns if their stacks fit the budget, else the square root of
their number, which needs least. An iteration does the same in either case; but what all of them add to is
added segment by segment, while a loop that is kept whole may add it up in one sum (`sums.py`), or in one
product of matrices: last bits of such gradients may differ. (Griewank 1992, "Achieving logarithmic growth of
temporal and spatial complexity in reverse automatic differentiation", for more levels than two.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adcompiler.ir.bodies import Body, Carried, Replace, build, fresh, like, opened, roots_of
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Array,
    Const,
    Element,
    Func,
    Index,
    Map,
    Read,
    Shape,
    const,
    identity,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.ir.walk import Rewriter, arrays_of, is_computed
from adcompiler.ops.build import apply, cast

ZERO, ONE = const(0, "i64"), const(1, "i64")
SHORT = 16  # turns up to which a loop of constant length is kept whole


def checkpointed(budget: int, func: Func) -> Func:
    """The program with its loops in segments whose stacks fit `budget` bytes."""
    if not any(isinstance(a, Item) for a in arrays_of(func.roots)):
        return func
    return _Checkpoint(budget).func(func)


def checkpoint(budget: int) -> Callable[[Func], Func]:
    """The pass for a budget."""
    return partial(checkpointed, budget)


class _Checkpoint(Rewriter):
    """Only the outermost loops are cut: a stack of an inner one lives for one turn."""

    def __init__(self, budget: int) -> None:
        super().__init__()
        self.budget = budget
        self.made: dict[Loop, list[Array]] = {}

    def inner(self, loop: Loop | Ruled) -> None:
        """Bodies stay as they are."""

    def array(self, array: Array) -> Array:
        if not isinstance(array, Item) or not _is_long(array.loop):
            return array
        if array.loop not in self.made:
            self.made[array.loop] = _cut(array.loop, self.budget)
        return self.made[array.loop][array.k]


def _is_long(loop: Loop) -> bool:
    """Whether a loop has a length that the call knows, many turns, and carries floats."""
    length = loop.length
    if length is None or is_computed(length):
        return False
    short = isinstance(length, Const) and length.value <= SHORT
    return not short and any(is_float(a.dtype) for a in loop.inits)


def _cut(loop: Loop, budget: int) -> list[Array]:
    """What a loop gives, run in segments."""
    assert loop.length is not None
    length = loop.length
    turns = _segment(loop, budget)
    segments = apply("floor_divide", apply("add", length, apply("subtract", turns, ONE)), turns)
    inner = opened(loop)
    outer_step, local = fresh("i64", ()), fresh("i64", ())
    number = apply("add", apply("multiply", Read(outer_step, ()), turns), Read(local, ()))
    active = apply("less", number, length)
    moved = Replace({inner.step: Map((), number)})
    roots = moved.run(roots_of(inner))
    count = len(inner.carried)
    carried = tuple(
        Carried(like(c.init), c.slot, _chosen(active, r, c.slot))
        for c, r in zip(inner.carried, roots, strict=False)
    )
    outs = tuple(_chosen(active, o, None) for o in roots[count:])
    blocks = [(_blocks(whole, segments, turns), row) for whole, row in inner.rows]
    rows = [(fresh(w.dtype, w.shape[1:]), row) for w, row in blocks]
    built = build(Body(turns, local, carried, tuple(rows), outs, None, loop.backward))
    around = tuple(
        Carried(c.init, one.init, final)
        for c, one, final in zip(inner.carried, carried, built.finals, strict=True)
    )
    whole = tuple((block, part) for (block, _), (part, _) in zip(blocks, rows, strict=True))
    found = build(Body(segments, outer_step, around, whole, built.outs, None, loop.backward))
    return [*found.finals, *(_joined(o, length, turns) for o in found.outs)]


def _segment(loop: Loop, budget: int) -> Element:
    """The number of turns of a segment."""
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
    return apply("maximum", select(fits, length, root), ONE)


def _chosen(active: Element, result: Array, slot: Array | None) -> Array:
    """What a turn gives where it is one; else what was carried, or zeros."""
    at = identity(result.shape)
    other = const(0, result.dtype) if slot is None else Read(slot, at)
    return Map(result.shape, select(active, Read(result, at), other))


def _blocks(whole: Array, segments: Element, turns: Element) -> Array:
    """The rows of a scanned array, segment by segment; zeros beyond its end."""
    shape: Shape = (segments, turns, *whole.shape[1:])
    rest = tuple(Index(i.axis + 1) if isinstance(i, Index) else i for i in identity(whole.shape)[1:])
    row = apply("add", apply("multiply", Index(0), turns), Index(1))
    inside = apply("less", row, whole.shape[0])
    return Map(shape, select(inside, Read(whole, (row, *rest)), const(0, whole.dtype)))


def _joined(stack: Array, length: Element, turns: Element) -> Array:
    """Outs, segment by segment, as one row a turn."""
    shape: Shape = (length, *stack.shape[2:])
    own = identity(shape)
    at = (apply("floor_divide", Index(0), turns), apply("remainder", Index(0), turns), *own[1:])
    return Map(shape, Read(stack, at))
