"""Merge sums: a sum of reductions over one domain is one reduction of a sum.

Where x[i] and x[j] both stand in a pairwise body, the gradient has two sums over pairs; merged they
share what they have in common, and one register.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from adcompiler.ir.nodes import Accumulate, Apply, Array, Element, Func, Read, Reduce
from adcompiler.ir.walk import Rewriter, arrays_of, arrays_read, elements_of
from adcompiler.ops.build import apply


def merge(func: Func) -> Func:
    """The program with reductions that are only added to each other in one."""
    return _Merge(func).func(func)


class _Merge(Rewriter):
    def __init__(self, func: Func) -> None:
        super().__init__()
        self.uses: Counter[Array] = Counter(func.results)
        for array in arrays_of(func.results):
            elements = elements_of(array.elements)
            arguments = Counter(a for e in elements for a in e.args) + Counter(array.elements)
            for element in elements:
                if isinstance(element, Read):
                    self.uses[element.array] += arguments[element]
        self.single: set[Array] = {a for a, count in self.uses.items() if count == 1}
        self.depth = cache(self._depth)

    def array(self, array: Array) -> Array:
        return array

    def element(self, element: Element) -> Element:
        match element:
            case Apply(op="add" | "subtract" as op, args=(Read(array=Reduce() as a), Read(array=Reduce() as b))):
                if self.mergeable(a, b) and element.args[0].args == element.args[1].args:
                    made = Reduce("sum", a.shape, a.reduced, apply(op, a.body, b.body))
                    self.single.add(made)
                    return Read(made, element.args[0].args)
        return element

    def mergeable(self, a: Reduce, b: Reduce) -> bool:
        """Whether two reductions are sums over one domain that nothing else reads, and ready at one time."""
        same = a.op == b.op == "sum" and a.shape == b.shape and a.reduced == b.reduced
        return same and a in self.single and b in self.single and self.depth(a) == self.depth(b)

    def _depth(self, array: Array) -> int:
        """How many reductions stand upon each other below an array."""
        below = max((self.depth(a) for a in arrays_read(array)), default=0)
        return below + isinstance(array, Reduce | Accumulate)
