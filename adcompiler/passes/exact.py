"""What is compared for equality keeps its rounding.

The derivative of max(f(i) for i in range(n)) goes to those i where f(i) equals the maximum, and f(i) is
computed again for that. It is equal to the last bit only if both have the same form: a pass that writes
a / y as a (1 / y) in one place, where others divide by y too, would have nobody equal to the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Apply, Array, Element, Read, Reduce
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, rewrite

EQUALITIES = frozenset(("equal", "not_equal"))


def exact(roots: Iterable[Array]) -> set[Element]:
    """What extrema are taken of, and what is compared for equality, with all that it is made of."""
    found: list[Element] = []
    for array in arrays_of(roots):
        if isinstance(array, Reduce) and array.op in ("min", "max"):
            found.append(array.body)
        for e in elements_of(array.elements):
            if isinstance(e, Apply) and e.op in EQUALITIES:
                found += [a for a in e.args if is_float(a.dtype)]
    return set(elements_of(found))


class ExactRewriter(Rewriter):
    """A rewriter of elements that changes by rounding what nobody compares for equality."""

    def __init__(self, roots: Iterable[Array]) -> None:
        super().__init__()
        self.exact = exact(roots)

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        return type(self)(loop.roots)

    def _change(self, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        kept = tuple(e for e in elements_of(elements) if e in self.exact)
        rewrite(kept, self._moved, self.elements)
        return super()._change(elements)

    def _moved(self, element: Element) -> Element:
        return Read(self.arrays[element.array], element.args) if isinstance(element, Read) else element
