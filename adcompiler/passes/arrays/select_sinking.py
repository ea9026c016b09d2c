"""Turn the sides of a scalar condition into arrays, so that only the side taken is computed.

Between loops, and in iterations of loops, a select of scalars would compute both sides. As an array that is
read only under the condition, a side is computed under an `if` (`kernels/schedule/branches.py`).
"""

from __future__ import annotations

from adcompiler.analysis.predicates import decides
from adcompiler.ir.nodes import Accumulate, Array, Element, Func, Map, Read, Reduce, Select, identity, neutral
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, with_elements
from adcompiler.ops.costs import costly


def branch(func: Func) -> Func:
    """The program with costly sides of scalar selects turned into arrays."""
    return _Branch().func(func)


class _Branch(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.costs: dict[Element, bool] = {}

    def element(self, element: Element) -> Element:
        if not isinstance(element, Select) or element.axes or not is_float(element.dtype):
            return element
        if not decides(element.guard):
            return element
        return Select((element.guard, self.side(element.then), self.side(element.otherwise)))

    def array(self, array: Array) -> Array:
        """A sum under one condition becomes a conditional sum."""
        if not isinstance(array, Reduce | Accumulate):
            return array
        nothing = neutral(array.op if isinstance(array, Reduce) else "sum", array.dtype)
        body = array.elements[-1]
        if not isinstance(body, Select) or not decides(body.guard) or body.otherwise is not nothing:
            return array
        whole = with_elements(array, lambda elements: tuple(body.then if e is body else e for e in elements))
        return Map(array.shape, Select((body.guard, Read(whole, identity(array.shape)), nothing)))

    def side(self, element: Element) -> Element:
        """A side of a select, read from its own array if it is costly."""
        if isinstance(element, Read) or not costly(element, self.costs):
            return element
        return Read(Map((), element), ())
