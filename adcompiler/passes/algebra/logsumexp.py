"""Recognise a logsumexp that is written out.

That is a + log(sum exp(b - a)), where a is the largest b.

The shift a only scales the exponentials, so the derivative with respect to it is 0, but this is not visible
in the program. Differentiated term by term, a has the cotangent 1 - sum exp(b - a) / sum exp(b - a), a
rounding error shared by all elements equal to a. As `logsumexp` it is one array, whose derivative is exp(b -
logsumexp b).

The value keeps its bits. Where `logsumexp` is infinite, the written form and its derivatives are NaN; a
factor that is 1 elsewhere preserves this. The logsumexp of nothing is -inf in both forms.
"""

from __future__ import annotations

import math
from functools import reduce as fold_left

from adcompiler.ir.nodes import Apply, Element, Func, Read, Reduce, const, identity, select
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import SingleReaders, is_computed
from adcompiler.ops.build import apply


def stabilised(func: Func) -> Func:
    """The program with `logsumexp` where it is written out and its sum has no other reader."""
    return _Shifted(func.roots).func(func)


class _Shifted(SingleReaders):
    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="add", args=(Read() as a, Apply(op="log", args=(Read() as total,)))):
                return self.logarithm(a, total) or element
            case Apply(op="add", args=(Apply(op="log", args=(Read() as total,)), Read() as a)):
                return self.logarithm(a, total) or element
        return element

    def logarithm(self, a: Read, total: Read) -> Element | None:
        """a + log(total) as a `logsumexp`; None if it is not one."""
        match a.array:
            case Reduce(op="max", shape=shape, reduced=reduced, body=body) if is_float(body.dtype):
                shift = Read(a.array, identity(shape))
                exponentials = apply("exp", apply("subtract", body, shift))
                fits = total.array is Reduce("sum", shape, reduced, exponentials) and total.args == a.args
            case _:
                return None
        if not fits or total.array not in self.single or any(map(is_computed, reduced)):
            return None
        whole = Read(Reduce("logsumexp", shape, reduced, body), a.args)
        empty = [apply("equal", n, const(0, "i64")) for n in reduced]
        is_number = fold_left(lambda x, y: apply("logical_or", x, y), empty, apply("isfinite", whole))
        factor = select(is_number, const(1, whole.dtype), const(math.nan, whole.dtype))
        return apply("multiply", whole, factor)
