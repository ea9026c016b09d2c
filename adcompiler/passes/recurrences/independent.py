"""Loops that carry nothing and collect numbers are arrays over their iterations.

What a reverse pass reads of an inner loop is collected by running it again. If nothing that the loop carries
is needed for that, an iteration depends on nothing but its rows. Arrays are nests, which are vectorised. A
loop that collects arrays stays: what an iteration computes them of would be stored for all iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.ir.batch import batch
from adcompiler.ir.bodies import opened, varying
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Func, Index, Map, Reduce, is_const
from adcompiler.ir.walk import LoopRewriter
from adcompiler.ops.costs import costly


def independent(func: Func) -> Func:
    """The program with such loops as arrays."""
    return _Independent().func(func)


class _Independent(LoopRewriter):
    def results(self, loop: Loop) -> Sequence[Array]:
        """The arrays that a loop collects."""
        if loop.inits or loop.length is None or is_const(loop.length, 1):
            return loop.items
        body = opened(loop)
        given = {body.step, *(row for _, row in body.rows)}
        made = varying(body) - given
        if not all(map(_is_number, body.outs)) or not all(map(_is_small, made)):
            return loop.items
        every: dict[Array, Array] = {row: whole for whole, row in body.rows}
        every[body.step] = Map((loop.length,), Index(0))
        return batch(body.outs, every, (loop.length,))


def _is_number(array: Array) -> bool:
    """Whether an array is computed, and has rank 0."""
    return isinstance(array, Map | Reduce) and not array.rank


def _is_small(array: Array) -> bool:
    """Whether an array of an iteration is a number, or is inlined where it is read."""
    return _is_number(array) or (isinstance(array, Map) and not costly(array.body, {}))
