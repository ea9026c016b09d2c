"""Give searches in one sorted row to one call.

The routine takes many numbers at once several times as fast as one after the other. A search of a number for
each case, as of loops whose iterations are independent, becomes one of a row of numbers.
"""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Call, Func, Map, Read, identity, is_const
from adcompiler.ir.walk import Rewriter
from adcompiler.ops.library import SEARCHES, call


def searches(func: Func) -> Func:
    """The program with the last axis of cases that search one row as the columns of one call."""
    return _Searches().func(func)


class _Searches(Rewriter):
    def array(self, array: Array) -> Array:
        if not (isinstance(array, Call) and array.op in SEARCHES):
            return array
        row, points = array.operands
        if row.rank > 2 or points.rank < 3 or not all(is_const(n, 1) for n in points.shape[-2:]):
            return array
        *cases, length, one, _ = points.shape
        shape = (*cases, one, length)
        *at, zero, last = identity(shape)
        made = call(array.op, row, Map(shape, Read(points, (*at, last, zero, zero))))
        *at, last, zero, _ = identity(points.shape)
        return Map(points.shape, Read(made, (*at, zero, last)))
