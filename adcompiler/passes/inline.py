"""Put the bodies of arrays where they are read, so that one loop computes what needs no storage.

An array stays apart if reading it again would repeat costly work: its body holds a costly primitive
and it is read by a domain with more points than its own. An array over pairs is inlined all the same
where it is read along plain axes: `hoist` takes apart again what the loops would repeat.
"""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Const, Element, Func, Index, Map, Read, is_const
from adcompiler.ir.walk import Rewriter, is_number, postorder, substitute, with_args, with_elements
from adcompiler.ops.costs import costly


def inline(func: Func) -> Func:
    """The program with every map inlined for which that repeats no costly work."""
    return _Inline().func(func)


class _Inline(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.cost: dict[Map, bool] = {}
        self.inlined: dict[Element, Map] = {}
        self.known: dict[Element, bool] = {}
        self.rewritten: dict[int, dict[Element, Element]] = {}  # by the points of `body`

    def func(self, func: Func) -> Func:
        """Rewrite a whole program; the body of an array that had a name bears it where it is inlined."""
        made = super().func(func)
        names = {
            self.arrays[a]: name for a, name in func.names.items() if isinstance(a, Map) and a in self.arrays
        }
        bodies = {body: names[a] for body, a in self.inlined.items() if a in names}
        return made.with_(names={**bodies, **made.names})

    def array(self, array: Array) -> Array:
        points = sum(not is_const(n, 1) for n in array.domain)
        array = with_elements(array, lambda elements: tuple(self.body(e, points) for e in elements))
        if isinstance(array, Map):
            self.cost[array] = array.rank > 0 and costly(array.body, self.known)
        return array

    def body(self, element: Element, points: int) -> Element:
        """`element` with reads of maps replaced by their bodies, innermost first."""
        new = self.rewritten.setdefault(points, {})
        for e in postorder((element,), lambda e: () if e in new else e.args):
            if e in new:
                continue
            made = with_args(e, tuple(new[a] for a in e.args))
            if isinstance(made, Read) and isinstance(made.array, Map) and self.inlines(made, points):
                array = made.array
                made = substitute(array.body, dict(enumerate(made.args)))
                self.inlined[made] = array
            new[e] = made
        return new[element]

    def inlines(self, read: Read, points: int) -> bool:
        """Whether this read repeats no costly work."""
        assert isinstance(read.array, Map)
        own = sum(not is_const(n, 1) for n in read.array.shape)
        plain = all(
            isinstance(i, Index) or is_const(n, 1) for i, n in zip(read.args, read.array.shape, strict=True)
        )
        pairs = sum(not isinstance(n, Const) for n in read.array.shape) > 1
        cheap = not self.cost.get(read.array, True)
        return (cheap or (plain and (own >= points or pairs))) and not is_number(read.array)
