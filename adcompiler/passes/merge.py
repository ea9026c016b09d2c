"""Merge sums: a sum of reductions over one domain is one reduction of a sum.

Where x[i] and x[j] both stand in a pairwise body, the gradient has two sums over pairs; merged they
share what they have in common, and one register.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Accumulate, Apply, Array, Element, Func, Index, Read, Reduce
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_read, substitute, uses
from adcompiler.ops.build import apply
from adcompiler.passes.conditions import conditions


def merge(func: Func) -> Func:
    """The program with reductions that are only added to each other in one."""
    return _Merge(func.roots).func(func)


class _Merge(Rewriter):
    def __init__(self, roots: Sequence[Array]) -> None:
        super().__init__()
        self.single: set[Array] = {a for a, count in uses(roots).items() if count == 1}
        self.depth = cache(self._depth)

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        return _Merge(loop.roots)

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="add" | "subtract" as op, args=(Read(array=a) as x, Read(array=b) as y)):
                if x.args != y.args and b in self.single:
                    b, y = _turned(b, y, x.args)
                    self.single.add(b)
                if x.args == y.args and self.mergeable(a, b):
                    made = _with_body(a, apply(op, a.elements[-1], b.elements[-1]))
                    self.single.add(made)
                    return Read(made, x.args)
        return element

    def mergeable(self, a: Array, b: Array) -> bool:
        """Whether two sums over one domain add to the same places, nothing else reads them, and they are
        ready at one time."""
        match a, b:
            case Reduce(op="sum"), Reduce(op="sum"):
                # Under different conditions they are loops with bounds of their own.
                alike = conditions(a.op, a.body) == conditions(b.op, b.body)
                same = a.shape == b.shape and a.reduced == b.reduced and alike
            case Accumulate(), Accumulate():
                same = a.shape == b.shape and a.domain == b.domain and a.indices == b.indices
            case _:
                return False
        return same and a in self.single and b in self.single and self.depth(a) == self.depth(b)

    def _depth(self, array: Array) -> int:
        """How many reductions stand upon each other below an array."""
        below = max((self.depth(a) for a in arrays_read(array)), default=0)
        return below + isinstance(array, Reduce | Accumulate)


def _turned(array: Array, read: Read, places: tuple[Element, ...]) -> tuple[Array, Read]:
    """A sum read at plain axes as one whose axes are in the order of `places`: b[j, i] as another b[i, j]."""
    axes = [i.axis for i in read.args if isinstance(i, Index)]
    if not isinstance(array, Reduce) or len(axes) < array.rank or set(read.args) != set(places):
        return array, read
    order = [read.args.index(place) for place in places]
    body = substitute(array.body, {k: Index(p) for p, k in enumerate(order)})
    turned = Reduce(array.op, tuple(array.shape[k] for k in order), array.reduced, body)
    return turned, Read(turned, places)


def _with_body(array: Array, body: Element) -> Array:
    match array:
        case Reduce():
            return Reduce(array.op, array.shape, array.reduced, body)
        case Accumulate():
            return Accumulate(array.shape, array.domain, array.indices, body)
    raise AssertionError(f"{type(array).__name__} is no sum")
