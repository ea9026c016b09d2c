"""Inline the bodies of arrays where they are read, so that one loop computes them without storage.

An array is kept if inlining would repeat costly work: its body contains a costly primitive, and its reader's
domain has more points than its own, or its readers need it at several places beside a point. An array over
pairs is inlined anyway if it is read along plain axes: `hoist` later separates the parts that loops would
repeat. An array that reads several others is kept where a window over it, as in a convolution, would read all
of them at each of its points. An array that is stored because some reader needs several places of it is read
by all its readers, and a result, which is stored in any case, sooner than others. Scalars that are lengths of
arrays read by a loop are kept where such lengths read them: the loop's body reads them as consts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from adcompiler.analysis.affine import linear, shifted
from adcompiler.analysis.loop_order import long_axes
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Contraction,
    Element,
    Func,
    Index,
    Map,
    Read,
    is_const,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    Rewriter,
    arrays_of,
    elements_of,
    is_number,
    lengths_read,
    postorder,
    read_by,
    substitute,
    with_args,
    with_elements,
)
from adcompiler.ops.costs import costly, is_costly
from adcompiler.passes.limits import (
    LEAST_CONDITIONS,
    LEAST_REPEATED,
    MOST_REPEATED_BESIDE,
    MOST_REPEATED_RESULT,
)

Places = dict[Array, set[tuple[Element, ...]]]


def inline(func: Func) -> Func:
    """The program with every map inlined, unless that repeats costly work."""
    return _Inline().func(func)


def inline_all(func: Func) -> Func:
    """The program with every map inlined, also where that repeats work."""
    return _InlineAll().func(func)


class _Inline(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.cost: dict[Array, bool] = {}
        self.inlined: dict[Element, Map] = {}
        self.known: dict[Element, bool] = {}
        self.rewritten: dict[float, dict[Element, Element]] = {}  # by the points of `body`
        self.lengths: set[Array] = set()  # read by lengths of loop operands
        self.stored: set[Array] = set()  # costly, and read at other places than the reader's point
        self.kept: set[Array] = set()  # what became of them

    def func(self, func: Func) -> Func:
        """Rewrite a whole program; the inlined body of a named array keeps its name."""
        made = super().func(func)
        names = {
            self.arrays[a]: name for a, name in func.names.items() if isinstance(a, Map) and a in self.arrays
        }
        bodies = {body: names[a] for body, a in self.inlined.items() if a in names}
        return made.with_(names={**bodies, **made.names})

    def run(self, results: Iterable[Array]) -> tuple[Array, ...]:
        """Rewrite the arrays `results` and all their operands."""
        results = tuple(results)
        loops = dict.fromkeys(a.loop for a in arrays_of(results) if isinstance(a, Item))
        self.lengths.update(a for loop in loops for o in loop.operands for a in lengths_read(o))
        self.stored.update(self._stored(results))
        return super().run(results)

    def _stored(self, results: Sequence[Array]) -> Iterator[Array]:
        """The costly maps that are read at several places beside a point, and simple ones that are read at
        many."""
        found = _Repeated(set(results))
        beside: dict[Array, set[tuple[int, ...]]] = defaultdict(set)
        for array in arrays_of(results):
            points, elements = _points(array), elements_of(array.elements)
            reads = [e for e in elements if isinstance(e, Read)]
            dear = [e for e in reads if self.cost.get(e.array)]
            yield from (e.array for e in dear if e.array in found.results and _points(e.array) < points)
            for read in dear:
                moves = [shifted(i) for i in read.args]
                if all(isinstance(i, Index) for i, _ in moves):
                    beside[read.array].add(tuple(by for _, by in moves))
                    if len(beside[read.array]) == 2:
                        yield read.array
            if isinstance(array, Map):
                own = any(map(is_costly, elements)) or any(self.inlines(e, points) for e in dear)
                self.cost[array] = array.rank > 0 and own
            inlined = [e for e in reads if isinstance(e.array, Map) and self.inlines(e, points)]
            yield from found.by(array, elements, inlined)

    @property
    def became(self) -> tuple[dict[Any, Any], ...]:
        return (*super().became, *self.rewritten.values())

    def array(self, array: Array) -> Array:
        kept = {self.arrays[a] for a in self.lengths if a in self.arrays}
        self.kept.update(self.arrays[a] for a in self.stored if a in self.arrays)
        points = _points(array)

        def size(length: Element) -> Element:
            return length if kept.intersection(read_by((length,))) else self.body(length, points)

        array = with_elements(
            array,
            lambda elements: tuple(self.body(e, points) for e in elements),
            lambda lengths: tuple(map(size, lengths)),
        )
        if isinstance(array, Map):
            self.cost[array] = array.rank > 0 and costly(array.body, self.known)
        return array

    def body(self, element: Element, points: float) -> Element:
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

    def inlines(self, read: Read, points: float) -> bool:
        """Whether inlining this read repeats no costly work."""
        assert isinstance(read.array, Map)
        if read.array in self.kept:
            return False
        if not read.axes and long_axes(read.array):
            return True  # one element of many
        own = _points(read.array)
        indices = (i for i, n in zip(read.args, read.array.shape, strict=True) if not is_const(n, 1))
        plain = all(isinstance(shifted(i)[0], Index) for i in indices)
        pairs = points < inf and len(long_axes(read.array)) > 1
        cheap = not self.cost.get(read.array, True) and (plain or own >= points or _reads_one(read.array))
        return (cheap or (plain and (own >= points or pairs))) and not is_number(read.array)


class _Repeated:
    """Finds the arrays whose simple operations readers would repeat at many places, as those of a stencil at
    each of its neighbours; also through other arrays that are inlined."""

    def __init__(self, results: set[Array]) -> None:
        self.results = results  # which are stored in any case
        self.work: dict[Array, int] = {}  # simple operations of an element
        self.places: dict[Array, Places] = {}  # those at which an element needs other arrays
        self.found: set[Array] = set()

    def by(self, array: Array, elements: Sequence[Element], inlined: Sequence[Read]) -> Iterator[Array]:
        """The arrays that one reader repeats, of which it would inline some reads."""
        inlined = [e for e in inlined if e.array not in self.found]
        places: Places = defaultdict(set)
        for read in inlined:
            there = dict(enumerate(read.args))
            if self.work.get(read.array, 0) >= (1 if read.array in self.results else LEAST_REPEATED):
                places[read.array].add(_place(read.args, {}))
            for other, each in self.places.get(read.array, {}).items():
                places[other].update(_place(place, there) for place in each)
        for other, each in places.items():
            most = MOST_REPEATED_RESULT if other in self.results else MOST_REPEATED_BESIDE
            if (len(each) - 1) * self.work[other] > most and other not in self.found:
                self.found.add(other)
                yield other
        if _is_element(array):
            own = sum(isinstance(e, Apply) and is_float(e.dtype) for e in elements)
            if not is_float(array.dtype) and len(elements) > LEAST_CONDITIONS:
                own += len(elements)
            self.work[array] = own + sum(self.work.get(a, 0) for a in {e.array for e in inlined} - self.found)
            self.places[array] = {a: each for a, each in places.items() if a not in self.found}


def _place(indices: Iterable[Element], at: Mapping[int, Element]) -> tuple[Element, ...]:
    """A place in one form, with axes at other places."""
    return tuple(linear(substitute(i, at)).element() for i in indices)


def _is_element(array: Array) -> bool:
    """Whether an array is computed element by element, at several points."""
    return isinstance(array, Map) and _points(array) > 0


def _points(array: Array) -> float:
    """The number of axes of a domain that are longer than one; a contraction visits its points many times."""
    return inf if isinstance(array, Contraction) else sum(not is_const(n, 1) for n in array.domain)


def _reads_one(array: Map) -> bool:
    """Whether a map reads no more than one element of other arrays."""
    return sum(isinstance(e, Read) and bool(e.args) for e in elements_of((array.body,))) < 2


class _InlineAll(_Inline):
    def inlines(self, read: Read, points: float) -> bool:
        """Whether this read is none of a length."""
        assert isinstance(read.array, Map)
        return not is_number(read.array)
