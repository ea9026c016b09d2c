"""Continued accumulators: a carried sum of a loop starts from another sum that it is added to.

If the sums of two loops are added, the second loop starts from the result of the first, and an inner loop
from the value that the outer loop carries: x + (0 + g(0) + g(1) + ...) becomes x + g(0) + g(1) + ... A nest
then needs no zero and no addition for each run of its inner loops, and a loop that is split adds in the order
of the whole loop (`checkpoint.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce as fold_left

from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import Array, Element, Func, Map, closed, is_const, read_whole
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, operands, uses
from adcompiler.ops.build import apply


def accumulators(func: Func) -> Func:
    """The program with carried sums of loops that start from other sums."""
    return _Continued(func.roots).func(func)


class _Continued(Rewriter):
    """Rewrites sums. `starts` has the new initial values of loops, `left` the remaining terms of sums, and
    `zeros` the slots that hold zeros."""

    def __init__(self, roots: Iterable[Array], zeros: Collection[Array] = ()) -> None:
        super().__init__()
        self.zeros = zeros
        self.starts: dict[Loop, dict[int, Array]] = {}
        self.left: dict[Array, list[Element]] = {}
        roots = tuple(roots)
        order = arrays_of(roots)
        self.first = {a.loop: k for k, a in reversed(list(enumerate(order))) if isinstance(a, Item)}
        count = uses(roots) if self.first else {}
        for array in order if self.first else ():
            terms = {t: a for t in _terms(array) if (a := read_whole(array.shape, t)) is not None}
            # A sum used as a start may itself start from a third sum.
            for item in [a for a in terms.values() if isinstance(a, Item) and count[a] == 1]:
                before = [t for t, a in terms.items() if self.stands_before(a, item.loop)]
                if before and self.accumulates(item):
                    self.starts.setdefault(item.loop, {})[item.k] = terms.pop(before[-1])
                    self.left.setdefault(array, list(_terms(array))).remove(before[-1])

    def stands_before(self, array: Array, loop: Loop) -> bool:
        """Whether an array is carried by an enclosing loop, or is the sum of a loop that runs before this
        one."""
        if isinstance(array, Item):
            return self.first[array.loop] < self.first[loop] and self.accumulates(array)
        return isinstance(array, Slot)

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        if not isinstance(loop, Loop):
            return None
        captured = zip(loop.const_slots, loop.consts, strict=True)
        return type(self)(loop.roots, {slot for slot, const in captured if self.is_zero(const)})

    def is_zero(self, array: Array) -> bool:
        return array in self.zeros or (isinstance(array, Map) and is_const(array.body, 0))

    def accumulates(self, item: Item) -> bool:
        """Whether a loop only adds to a carried value, from 0 on."""
        loop, k = item.loop, item.k
        if k >= len(loop.results) or not self.is_zero(loop.inits[k]):
            return False
        slot, result = loop.slots[1 + k], loop.results[k]
        return slot in [read_whole(result.shape, t) for t in _terms(result)] and uses(loop.roots)[slot] == 1

    def _rebuilt(self, array: Array) -> Array:
        if array not in self.left:
            return super()._rebuilt(array)
        (body,) = self._change((fold_left(lambda a, b: apply("add", a, b), self.left[array]),))
        return closed(self._resize(array.shape), body)

    def _loop(self, loop: Loop) -> Loop:
        made = super()._loop(loop)
        starts = {k: self.run((start,))[0] for k, start in self.starts.get(loop, {}).items()}
        inits = tuple(starts.get(k, init) for k, init in enumerate(made.inits))
        rest = made.scanned, made.consts, made.results, made.outs, made.test, made.backward
        return Loop(made.length, inits, *rest)


def _terms(array: Array) -> list[Element]:
    """The terms of a map that is a sum; none if it is not a sum of floats."""
    if not (isinstance(array, Map) and is_float(array.dtype)):
        return []
    found = operands(array.body, "add")
    return found if len(found) > 1 and len(set(found)) == len(found) else []
