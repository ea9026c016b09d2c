"""Unroll short axes: the coordinates of a point become terms, and their sums stay in registers.

A reduction over an axis of constant length becomes an expression: sum(| k < 3) f(k) is f(0) + f(1) + f(2). A
sum for each element of such an axis becomes several sums. An addition at one place of such an axis becomes a
map with zeros at the others. Of an array that is read at constant places of such an axis only, each place
becomes an array. An array whose costly parts others compute place by place selects between places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce as fold_left
from itertools import product

from adcompiler.analysis.loop_order import long_axes
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Const,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    const,
    select,
)
from adcompiler.ir.walk import Rewriter, arrays_of, arrays_read, elements_of, substitute
from adcompiler.ops.build import apply
from adcompiler.ops.costs import is_function
from adcompiler.passes.limits import (
    MOST_COORDINATES,
    MOST_MADE_ELEMENTS,
    MOST_STATES,
    MOST_WRITTEN_ELEMENTS,
)

STEP = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def unroll(func: Func) -> Func:
    """The program without reductions over short axes."""
    return _Unroll().func(func)


def write_out(func: Func) -> Func:
    """The program without reductions over axes of few elements, as states of a system, however many elements
    that creates: for entries of derivatives, of which most terms are zero."""
    return _WriteOut().func(func)


def lanes(func: Func) -> Func:
    """The program with a separate array for each place of a short axis."""
    return _Spots().func(_Lanes().func(func))


def _short(array: Array, longest: int = MOST_COORDINATES, most: int = MOST_MADE_ELEMENTS) -> list[int]:
    """The axes of the domain to unroll: of at most `longest` elements, which create at most `most`."""
    axes = [k for k, n in enumerate(array.domain) if isinstance(n, Const) and 0 < n.value <= longest]
    count = len(elements_of(array.elements))
    short: list[int] = []
    for k in axes:
        count *= int(_length(array, k))
        if count <= most:
            short.append(k)
    return short


def _length(array: Array, axis: int) -> int:
    size = array.domain[axis]
    assert isinstance(size, Const)
    return int(size.value)


class _Unroll(Rewriter):
    longest, most = MOST_COORDINATES, MOST_MADE_ELEMENTS

    def array(self, array: Array) -> Array:
        if isinstance(array, Accumulate):
            return _one_hot(array)
        if not isinstance(array, Reduce) or array.op not in STEP:
            return array
        short = [k for k in _short(array, self.longest, self.most) if k >= array.rank]
        if not short:
            return array
        kept = [k for k in range(len(array.domain)) if k not in short]
        places: dict[int, Element] = {k: Index(p) for p, k in enumerate(kept)}
        terms = [
            substitute(array.body, places | {k: const(i, "i64") for k, i in zip(short, point, strict=True)})
            for point in product(*(range(_length(array, k)) for k in short))
        ]
        step = STEP[array.op]
        body = fold_left(lambda a, b: apply(step, a, b), terms)
        reduced = tuple(array.domain[k] for k in kept if k >= array.rank)
        return Reduce(array.op, array.shape, reduced, body) if reduced else Map(array.shape, body)


class _WriteOut(_Unroll):
    longest, most = MOST_STATES, MOST_WRITTEN_ELEMENTS


def _one_hot(array: Accumulate) -> Array:
    """A scatter along plain axes at one place of short axes, as a map that is zero elsewhere."""
    places: dict[int, Element] = {}
    guard: Element = const(True, "bool")
    for k, (index, size) in enumerate(zip(array.indices, array.shape, strict=True)):
        if isinstance(index, Index) and array.domain[index.axis] is size and index.axis not in places:
            places[index.axis] = Index(k)
        elif isinstance(index, Const) and isinstance(size, Const) and size.value <= MOST_COORDINATES:
            guard = apply("logical_and", guard, apply("equal", Index(k), index))
        else:
            return array
    if len(places) < len(array.domain):
        return array
    return Map(array.shape, select(guard, substitute(array.body, places), const(0, array.dtype)))


class _Lanes(Rewriter):
    """Makes a sum for each place of a short axis, and selects between places in maps whose functions other
    arrays call at each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: dict[Array, int] = {}

    def run(self, results: Iterable[Array]) -> tuple[Array, ...]:
        results = tuple(results)
        self.shared = _shared(arrays_of(results))
        return super().run(results)

    def _rebuilt(self, array: Array) -> Array:
        new, axis = super()._rebuilt(array), self.shared.get(array)
        if axis is None:
            return new
        bodies = [substitute(new.elements[0], {axis: place}) for place in _places(new, axis)]
        return Map(new.shape, _chosen(bodies, axis))

    def array(self, array: Array) -> Array:
        if not isinstance(array, Reduce):
            return array
        short = [k for k in _short(array) if k < array.rank and _length(array, k) > 1]
        if not short:
            return array
        axis = short[-1]
        shape = tuple(n for k, n in enumerate(array.shape) if k != axis)
        spot = tuple(Index(k) for k in range(array.rank) if k != axis)
        sums = [
            Read(self.array(Reduce(array.op, shape, array.reduced, body)), spot)
            for body in _lanes(array.body, array, axis)
        ]
        return Map(array.shape, _chosen(sums, axis))


def _places(array: Array, axis: int) -> list[Element]:
    """The places of a short axis."""
    return [const(k, "i64") for k in range(_length(array, axis))]


def _lanes(element: Element, array: Array, axis: int) -> list[Element]:
    """An element of an array at each place of a short axis, without this axis."""
    kept = [k for k in range(len(array.domain)) if k != axis]
    rest: dict[int, Element] = {k: Index(p) for p, k in enumerate(kept)}
    return [substitute(element, rest | {axis: place}) for place in _places(array, axis)]


def _chosen(lanes: Sequence[Element], axis: int) -> Element:
    """The element of the current place of a short axis."""
    chosen = lanes[-1]
    for lane in reversed(range(len(lanes) - 1)):
        chosen = select(apply("equal", Index(axis), const(lane, "i64")), lanes[lane], chosen)
    return chosen


def _shared(arrays: Sequence[Array]) -> dict[Array, int]:
    """A short axis of each map that calls functions, if other arrays call them at all places along it."""
    maps = [(a, k) for a in arrays if isinstance(a, Map) for k in _separable(a)]
    known = {e for a in arrays for e in elements_of(a.elements) if is_function(e)} if maps else set()
    return {
        array: axis
        for array, axis in maps
        if any(
            is_function(e) and axis in e.axes and known.issuperset(_lanes(e, array, axis))
            for e in elements_of(array.elements)
        )
    }


def _separable(array: Array) -> list[int]:
    """The last short axis of an array, if few elements depend on it."""
    short = [
        k for k, n in enumerate(array.domain) if isinstance(n, Const) and 1 < n.value <= MOST_COORDINATES
    ]
    own = sum(short[-1] in e.axes for e in elements_of(array.elements)) if short else 0
    return short[-1:] if own <= MOST_MADE_ELEMENTS else []


class _Spots(Rewriter):
    """Makes an array for each place of a short axis of a map that is read at constant places only."""

    def __init__(self) -> None:
        super().__init__()
        self.axes: dict[Array, int] = {}

    def run(self, results: Iterable[Array]) -> tuple[Array, ...]:
        results = tuple(results)
        self.axes = _read_at_places(results)
        return super().run(results)

    def _visit(self, element: Element) -> Element:
        axis = self.axes.get(element.array) if isinstance(element, Read) else None
        made = super()._visit(element)
        if axis is None or not isinstance(made, Read) or not isinstance(made.array, Map):
            return made
        array, place = made.array, made.args[axis]
        kept = [k for k in range(array.rank) if k != axis]
        rest: dict[int, Element] = {k: Index(p) for p, k in enumerate(kept)}
        body = substitute(array.body, rest | {axis: place})
        return Read(Map(tuple(array.shape[k] for k in kept), body), tuple(made.args[k] for k in kept))


def _read_at_places(results: Sequence[Array]) -> dict[Array, int]:
    """A short axis of each map over long ones too, if the map is read at constant places along it only."""
    arrays = arrays_of(results)
    found: dict[Array, int] = {
        a: k for a in arrays if isinstance(a, Map) and long_axes(a) for k in _separable(a)
    }
    whole = set(results)
    for array in arrays if found else ():
        reads = [e for e in elements_of((*array.domain, *array.elements)) if isinstance(e, Read)]
        whole.update(set(arrays_read(array)) - {e.array for e in reads})
        for read in reads:
            axis = found.get(read.array)
            if axis is not None and read.args[axis] not in _places(read.array, axis):
                whole.add(read.array)
    return {a: k for a, k in found.items() if a not in whole}
