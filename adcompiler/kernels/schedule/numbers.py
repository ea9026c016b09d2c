"""The numbers of the iterations around a place: their ranges, and which placeholders stand for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import count

from adcompiler.analysis.intervals import Range, up_to
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import Array, Element, Index, Map, Read
from adcompiler.ir.walk import rewrite
from adcompiler.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Numbers:
    """The program loops around a place; `fresh` numbers more loops."""

    fresh: Iterator[int]
    ranges: Mapping[Element, Range] = field(default_factory=dict)  # of the iterations' numbers
    stands: Mapping[Array, Array] = field(default_factory=dict)  # what placeholders in bodies stand for

    def inside(self, loop: Loop, number: int, consts: Sequence[Array]) -> Numbers:
        """The same inside of a loop whose body reads these placeholders."""
        ranges = dict(self.ranges)
        if loop.length is not None:
            ranges[Index(number)] = replace(up_to(self.stood(loop.length)), depth=len(ranges))
        return replace(
            self, ranges=ranges, stands={**self.stands, **dict(zip(consts, loop.consts, strict=True))}
        )

    def stood(self, element: Element) -> Element:
        """An element in terms of the iterations' numbers, as far as it follows from them."""
        return stood(element, self.stands)


UNKNOWN = Numbers(count())


def stood(element: Element, stands: Mapping[Array, Array]) -> Element:
    """An element with the numbers that it reads, if these follow from the loops around."""

    def known(element: Element) -> Element:
        array: Array | None = element.array if isinstance(element, Read) else None
        while array is not None and array in stands:
            array = stands[array]
        scalar = isinstance(array, Map) and not array.rank and array.dtype == "i64"
        return stood(array.body, stands) if isinstance(array, Map) and scalar else element

    return rewrite((element,), known)[0]
