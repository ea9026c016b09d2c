"""Values of which only the last iteration counts: each iteration of a loop sets them anew, none reads them.

After `for i in range(n): s = x[i] * w` the number s is that of the last iteration, or what it was if there is
none. It is computed once, outside of the loop, and its derivative takes no loop either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adcompiler.analysis.affine import linear, linear_constant
from adcompiler.ir.bodies import Body, Carried, Replace, build, opened, reached, with_roots, without_unchanged
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
    Array,
    Const,
    Element,
    Func,
    Map,
    Read,
    closed,
    const,
    element_of,
    identity,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import LoopRewriter, Rewriter, read_by
from adcompiler.ops.build import apply

ZERO = const(0, "i64")


def last_iterations(func: Func) -> Func:
    """The program with such values computed outside of loops."""
    return _LastIterations().func(func)


class _LastIterations(LoopRewriter):
    """Rewrites loops; `around` are the lengths of the loops around, all of which iterate."""

    def __init__(self, around: frozenset[Element] = frozenset()) -> None:
        super().__init__()
        self.around = around

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        """The same for loops in the iterations of a loop. Slots of different bodies are equal, so that only
        lengths that read nothing are compared."""
        length = loop.length if isinstance(loop, Loop) else None
        known = length is not None and not read_by((length,))
        return _LastIterations(self.around | {length} if known and length is not None else self.around)

    def results(self, loop: Loop) -> Sequence[Array]:
        return loop.items if loop.length is None else _split(opened(loop), loop, loop.length in self.around)


def _split(body: Body, loop: Loop, iterates: bool) -> Sequence[Array]:
    """The results of a loop of known length, which surely has an iteration if it `iterates`."""
    given = body.carried
    kept: dict[Array, Array] = {}
    while any(c.result is c.slot for c in body.carried):
        body = without_unchanged(body, kept)
    slots = {c.slot for c in body.carried}
    found = [c for c in body.carried if slots.isdisjoint(reached((c.result,), slots))]
    rest = [c for c in body.carried if c not in found]
    needed = reached((*(c.result for c in rest), *body.outs), slots)
    found = [c for c in found if c.slot not in needed]
    if not found and not kept:
        return loop.items
    rest = [c for c in body.carried if c not in found]
    others = (*(c.result for c in rest), *body.outs)
    built = build(with_roots(replace(body, carried=tuple(rest)), others, rest))
    kept |= {c.slot: final for c, final in zip(rest, built.finals, strict=True)}
    kept |= {c.slot: value for c, value in zip(found, _last(body, found, iterates), strict=True)}
    return [*(kept[c.slot] for c in given), *built.outs]


def _last(body: Body, found: Sequence[Carried], iterates: bool) -> list[Array]:
    """What carried values are after the last iteration."""
    assert body.length is not None
    number = ZERO if body.backward else (linear(body.length) - linear_constant(1)).element()
    places: dict[Array, Array] = {body.step: Map((), number)}
    places |= {row: _row(whole, row, body.length, number) for whole, row in body.rows}
    values = Replace(places).run([c.result for c in found])
    if iterates or (isinstance(body.length, Const) and body.length.value > 0):
        return list(values)
    runs = apply("less", ZERO, body.length)
    return [
        closed(c.init.shape, select(runs, element_of(value), element_of(c.init)))
        for c, value in zip(found, values, strict=True)
    ]


def _row(whole: Array, row: Array, length: Element, number: Element) -> Array:
    """The row that an iteration reads: zeros beyond the array's end."""
    size = whole.shape[0]
    read: Element = Read(whole, (ZERO if is_const(size, 1) else number, *identity(row.shape)))
    if size is not length:
        read = select(apply("less", number, size), read, const(0, whole.dtype))
    return Map(row.shape, read)
