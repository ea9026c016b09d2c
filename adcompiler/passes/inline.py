"""Put the bodies of arrays where they are read, so that one loop computes what needs no storage.

An array stays apart if reading it again would repeat costly work: its body holds a costly primitive
and it is read by a domain with more points than its own. The reverse holds as well: a costly part
of a body that depends on fewer axes than its loop runs over becomes an array of its own, unless
the loops outside the innermost one already run over all its axes.
"""

from __future__ import annotations

from adcompiler.ir.nodes import Apply, Array, Element, Func, Index, Map, Read, is_const
from adcompiler.ir.walk import Rewriter, elements_of, substitute, with_args, with_elements
from adcompiler.ops.table import TABLE

CHEAP = frozenset(
    ("add", "subtract", "multiply", "negative", "minimum", "maximum", "abs", "square", "bool", "i64", "f32", "f64")
)


def inline(func: Func) -> Func:
    """The program with every map inlined for which that repeats no costly work."""
    return _Inline().func(func)


def costly(element: Element) -> bool:
    """Whether computing `element` again costs more than a few simple operations."""
    return any(
        isinstance(e, Apply) and e.op not in CHEAP and TABLE[e.op].kind in ("float", "arithmetic")
        for e in elements_of((element,))
    )


class _Inline(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.cost: dict[Map, bool] = {}

    def array(self, array: Array) -> Array:
        points = sum(not is_const(n, 1) for n in array.domain)
        array = with_elements(array, lambda elements: tuple(self.body(e, points) for e in elements))
        if isinstance(array, Map):
            self.cost[array] = array.rank > 0 and costly(array.body)
        return array

    def body(self, element: Element, points: int) -> Element:
        """`element` with reads of maps replaced by their bodies, innermost first."""
        new: dict[Element, Element] = {}
        for e in elements_of((element,)):
            made = with_args(e, tuple(new[a] for a in e.args))
            if isinstance(made, Read) and isinstance(made.array, Map) and self.inlines(made, points):
                made = substitute(made.array.body, dict(enumerate(made.args)))
            new[e] = made
        return new[element]

    def inlines(self, read: Read, points: int) -> bool:
        """Whether this read repeats no costly work."""
        assert isinstance(read.array, Map)
        own = sum(not is_const(n, 1) for n in read.array.shape)
        plain = all(isinstance(i, Index) or is_const(i, 0) for i in read.args)
        return not self.cost.get(read.array, True) or (plain and own >= points)
