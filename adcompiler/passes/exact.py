"""What is compared for equality keeps its rounding.

The derivative of max(f(i) for i in range(n)) goes to those i where f(i) equals the maximum, and f(i) is
computed again for that. It is equal to the last bit only if both have the same form: a pass that writes
a / y as a (1 / y) in one place, where others divide by y too, would have nobody equal to the maximum.
Nor may LLVM make one instruction of a product and a sum in one loop, and two in another (*contraction*):
functions of a kernel that compute such sums are `exact`.

All this holds for the maps that such an f(i) reads, too: one loop may have the array, another one what is
read there in its place. A sum is computed once, by whomever it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Apply, Array, Element, Map, Read, Reduce
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, elements_of, rewrite
from adcompiler.ops.table import TABLE

EQUALITIES = frozenset(("equal", "not_equal"))


def compared(array: Array, elements: Sequence[Element] = ()) -> Iterator[Element]:
    """Of what an array takes an extremum, and what it compares for equality; its `elements` may be given in
    other terms."""
    elements = elements or array.elements
    if isinstance(array, Reduce) and array.op in ("min", "max") and is_float(array.dtype):
        yield elements[0]
    for e in elements_of(elements):
        if isinstance(e, Apply) and e.op in EQUALITIES:
            yield from (a for a in e.args if is_float(a.dtype))


def deciding(arrays: Iterable[Array]) -> set[Array]:
    """The maps that what some arrays compare is read from, or made of in other maps."""
    found: set[Array] = set()
    work = [e for array in arrays for e in compared(array)]
    while work:
        read = {e.array for e in elements_of(work) if isinstance(e, Read)} - found
        read = {array for array in read if isinstance(array, Map)}
        found |= read
        work = [e for array in read for e in array.elements]
    return found


def is_rounded(array: Array, maps: Collection[Array] = ()) -> bool:
    """Whether an array has sums of which an extremum is taken, or that are compared for equality: itself, or
    as one of the `maps` that decide."""
    decides = array.elements if array in maps else compared(array)
    made = (e for e in elements_of(decides) if isinstance(e, Apply) and is_float(e.dtype))
    return any(_adds(e.op) for e in made)


@cache
def _adds(op: str) -> bool:
    """Whether an operation's kernel adds, or subtracts."""
    return op in TABLE and any(sign in TABLE[op].kernel for sign in (" + ", " - "))


def exact(roots: Iterable[Array]) -> set[Element]:
    """What extrema are taken of, and what is compared for equality, with all that it is made of."""
    arrays = arrays_of(roots)
    maps = (e for array in deciding(arrays) for e in array.elements)
    return set(elements_of((*(e for array in arrays for e in compared(array)), *maps)))


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
