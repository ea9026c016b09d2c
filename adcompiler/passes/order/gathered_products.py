"""Products of rows that a program gathers or adds up at computed places, with one row for each different one.

Where many points share a row, as the edges of a graph share its nodes, a product is the same at all of them:

    sum_k x[p[e], k] W[k, j]                     =  (x @ W)[p[e], j]
    y[p[e], j] += sum_k h[e, k] V[k, j]          →  s[p[e], k] += h[e, k],  y = s @ V
    sum_e x[p[e], i] g[e, j]                     =  sum_n x[n, i] s[n, j]   where s[p[e], j] += g[e, j]

Each is a product over rows, not over points. The second is what the first becomes in a gradient, and the
third is its gradient by W. That one applies only to sums s that the program has, perhaps in a loop whose
collected rows it reads. A row that no point adds to stays 0, whatever it would be multiplied by.

Lengths decide (`pays`): an array of few places may be gathered from many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from adcompiler.ad.guards import mask
from adcompiler.analysis.predicates import guarded
from adcompiler.ir.bodies import Body, Replace, build, opened, roots_of
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    Shape,
    const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import SingleReaders, arrays_of, elements_of, is_computed, rewrite, substitute
from adcompiler.ops.build import apply, product
from adcompiler.passes.limits import FEWEST_PLACES_A_ROW, PLACED_OPERATIONS
from adcompiler.passes.order.factors import factors_of

Axes = tuple[int, ...]


class Site(NamedTuple):
    """A choice between a product over places and one over rows, by lengths: their factors, and those of the
    columns, the terms, and what is gathered or added at each place before and after."""

    rows: Shape
    places: Shape
    columns: Shape
    terms: Shape = ()
    before: Shape | None = None
    after: Shape | None = None

    def pays(self, lengths: Callable[[Shape], Sequence[int]]) -> bool:
        """Whether the product over rows takes less time; `lengths` gives the values of some lengths."""

        def count(shape: Shape | None) -> int:
            return 0 if shape is None else prod(lengths(shape))

        rows, places, each = count(self.rows), count(self.places), count(self.columns) * count(self.terms)
        moved = PLACED_OPERATIONS * places * (count(self.after) - count(self.before))
        return FEWEST_PLACES_A_ROW * rows <= places and rows * each + moved <= places * each


Pays = Callable[[Site], bool]


def gathered_products(func: Func, pays: Pays) -> Func:
    """The program with products over rows, at the sites that pay."""
    return _with_sums(_Gathered(func.roots, pays).func(func), pays)


class _Gathered(SingleReaders):
    """Moves gathers behind products, and scatters before them."""

    def __init__(self, roots: Sequence[Array], pays: Pays) -> None:
        super().__init__(roots)
        self.pays = pays

    def inner(self, loop: Loop | Ruled) -> _Gathered | None:
        return _Gathered(loop.roots, self.pays) if isinstance(loop, Loop) else None

    def array(self, array: Array) -> Array:
        if not is_float(array.dtype) or any(map(is_computed, (*array.shape, *array.domain))):
            return array
        if isinstance(array, Reduce) and array.op == "sum":
            return self.gathered(array)
        return self.scattered(array) if isinstance(array, Accumulate) else array

    def gathered(self, array: Reduce) -> Array:
        """A product of gathered rows as a gathered product; anything else as it is."""
        kept = frozenset(range(array.rank))
        for place, size in _places(array.body, kept):
            axes, row = tuple(sorted(place.axes)), len(array.domain)
            factors = factors_of(array.body) or (array.body,)
            moved = dict(zip(factors, (_at_row(f, place, row) for f in factors), strict=True))
            outer = [f for f in factors if moved[f].axes & place.axes]
            inner = [moved[f] for f in factors if f not in outer]
            if not inner or any(not f.axes <= kept for f in outer) or not any(row in f.axes for f in inner):
                continue
            others = [k for k in range(array.rank) if k not in axes]
            order = sorted((*others, axes[0]))
            columns = tuple(array.domain[k] for k in others)
            site = Site((size,), _lengths(array, axes), columns, array.reduced, after=columns)
            if not self.pays(site):
                continue
            new: dict[int, Element] = {k: Index(p) for p, k in enumerate(order) if k != axes[0]}
            new[row] = Index(order.index(axes[0]))
            new |= {k: Index(len(order) + k - array.rank) for k in range(array.rank, row)}
            shape = tuple(size if k == axes[0] else array.domain[k] for k in order)
            made = Reduce("sum", shape, array.reduced, substitute(product(inner), new))
            at = Read(made, tuple(place if k == axes[0] else Index(k) for k in order))
            return Map(array.shape, product((*outer, at)))
        return array

    def scattered(self, array: Accumulate) -> Array:
        """A scatter of products as the product of a scatter; anything else as it is."""
        computed = [k for k, i in enumerate(array.indices) if is_computed(i)]
        if len(computed) != 1:
            return array
        (at,) = computed
        place, size = array.indices[at], array.shape[at]
        axes, count = tuple(sorted(place.axes)), len(array.domain)
        others = {i.axis: k for k, i in enumerate(array.indices) if isinstance(i, Index)}
        if len(others) != array.rank - 1 or sorted((*axes, *others)) != list(range(count)):
            return array
        if any(array.shape[k] is not array.domain[axis] for axis, k in others.items()):
            return array
        conditions, value = guarded(array.body)
        factors = factors_of(value) or (value,)
        read = next((f for f in factors if self.is_own_product(f)), None)
        rest = [f for f in (*factors, *conditions) if f is not read]
        if not isinstance(read, Read) or any(not f.axes <= place.axes for f in rest):
            return array
        inner = read.array
        assert isinstance(inner, Reduce)
        terms = dict(enumerate(map(Index, range(count, count + len(inner.reduced))), inner.rank))
        parts = factors_of(substitute(inner.body, dict(enumerate(read.args)) | terms))
        own = [f for f in parts if f.axes & place.axes]
        matrix = [f for f in parts if f not in own]
        if not own or not matrix or any(f.axes & others.keys() for f in own):
            return array
        lengths, columns = _lengths(array, axes), _lengths(array, others)
        if not self.pays(Site((size,), lengths, columns, inner.reduced, columns, inner.reduced)):
            return array
        new: dict[int, Element] = {k: Index(p) for p, k in enumerate(axes)}
        new |= {count + k: Index(len(axes) + k) for k in range(len(inner.reduced))}
        body = product((*(f for f in factors if f is not read and f in rest), *own))
        for condition in conditions:
            body = mask(body, condition)
        to = substitute(place, new)
        shape, domain = (size, *inner.reduced), lengths + inner.reduced
        along = tuple(Index(k) for k in range(len(axes), len(domain)))
        sums = Accumulate(shape, domain, (to, *along), substitute(body, new))
        there: dict[int, Element] = {axis: Index(k) for axis, k in others.items()}
        there |= {count + k: Index(array.rank + k) for k in range(len(inner.reduced))}
        row = Read(sums, (Index(at), *(there[count + k] for k in range(len(inner.reduced)))))
        each = product((row, *(substitute(f, there) for f in matrix)))
        made = Reduce("sum", array.shape, inner.reduced, each)
        guard = _is_added_to(size, lengths, to, [substitute(c, new) for c in conditions], Index(at))
        return Map(array.shape, mask(Read(made, tuple(map(Index, range(array.rank)))), guard))

    def is_own_product(self, factor: Element) -> bool:
        """Whether a factor is an element of a sum of products that nothing else reads."""
        if not isinstance(factor, Read) or factor.array not in self.single:
            return False
        array = factor.array
        if not isinstance(array, Reduce) or array.op != "sum" or any(map(is_computed, array.domain)):
            return False
        axes = {i.axis for i in factor.args if isinstance(i, Index)}
        return len(axes) == len(factor.args)


def _places(body: Element, axes: frozenset[int]) -> Iterator[tuple[Element, Element]]:
    """The computed places along some axes at which a body reads rows, and the number of rows. No condition of
    the body may depend on a place: rows outside of an array are read as zero."""
    found = dict[Element, Element]()
    elements = elements_of((body,))
    for e in elements:
        if isinstance(e, Read):
            pairs = zip(e.args, e.array.shape, strict=True)
            found |= {i: n for i, n in pairs if i.axes and i.axes <= axes and is_computed(i)}
    for place, size in found.items():
        below = {*elements_of((place,))}
        rest = [e for e in elements if e not in below]
        if any(isinstance(e, Select) and e.guard.axes & place.axes for e in rest) or is_computed(size):
            continue
        if all(_is_read_of(e, place, size) for e in rest if place in e.args):
            yield place, size


def _is_read_of(element: Element, place: Element, size: Element) -> bool:
    """Whether an element reads rows of an array that has as many at a place."""
    if not isinstance(element, Read):
        return False
    return all(n is size for i, n in zip(element.args, element.array.shape, strict=True) if i is place)


def _at_row(element: Element, place: Element, row: int) -> Element:
    """An element that reads the row along a new axis instead of that of a place."""
    return rewrite((element,), lambda e: e, {place: Index(row)})[0]


def _lengths(array: Array, axes: Iterable[int]) -> Shape:
    """The lengths of axes of a domain."""
    return tuple(array.domain[k] for k in axes)


def _is_added_to(
    size: Element, lengths: Shape, place: Element, conditions: Iterable[Element], row: Element
) -> Element:
    """The condition that any point adds to a row."""
    one: Element = const(1, "i64")
    for condition in conditions:
        one = mask(one, condition)
    return apply("less", const(0, "i64"), Read(Accumulate((size,), lengths, (place,), one), (row,)))


# -- sums of rows by what is added to them ---------------------------------------------------------------


class _Sum(NamedTuple):
    """A sum over places as one over rows: `scatter` is what points add to these, for each of `outer` axes,
    and `over_rows` makes the sum of the array that has it."""

    site: Site
    scatter: Accumulate
    outer: int
    over_rows: Callable[[Array], Reduce]


def _with_sums(func: Func, pays: Pays) -> Func:
    """The program with sums over rows where it has what points add to these, in a loop or outside."""
    while True:
        change = _change(func.roots, pays)
        if change is None:
            return func
        func = Replace(change).func(func)


def _change(roots: Sequence[Array], pays: Pays) -> dict[Array, Array] | None:
    """What becomes of arrays of a program when one sum is over rows; None if none is."""
    arrays = arrays_of(roots)
    known, bodies = set(arrays), dict[Loop, tuple[Body, set[Array]]]()
    for array in arrays:
        for found in _sums(array):
            if not found.outer:
                if found.scatter in known and pays(found.site):
                    return {array: found.over_rows(found.scatter)}
                continue
            loop = _loop_of(found.scatter)
            if loop is None:
                continue
            if loop not in bodies:
                body = opened(loop)
                bodies[loop] = body, set(arrays_of(roots_of(body)))
            body, inside = bodies[loop]
            own = _in_iteration(found.scatter, loop, body)
            if own in inside and pays(found.site):
                built = build(replace(body, outs=(*body.outs, own)))
                new = (*built.finals, *built.outs[:-1], *(() if built.count is None else (built.count,)))
                change: dict[Array, Array] = dict(zip(loop.items, new, strict=True))
                (made,) = Replace(dict(change)).run((found.over_rows(built.outs[-1]),))
                return {**change, array: made}
    return None


def _sums(array: Array) -> Iterator[_Sum]:
    """A sum of products of rows, at places and what points have there, as sums over rows."""
    if not isinstance(array, Reduce) or array.op != "sum" or not is_float(array.dtype):
        return
    reduced = range(array.rank, len(array.domain))
    factors = factors_of(array.body)
    for place, size in _places(array.body, frozenset(reduced)):
        axes, row = tuple(sorted(place.axes)), len(array.domain)
        moved = {f: _at_row(f, place, row) for f in factors}
        rows = [moved[f] for f in factors if row in moved[f].axes and not moved[f].axes & place.axes]
        points = [f for f in factors if f.axes & place.axes and moved[f].axes & place.axes]
        rest = [f for f in factors if not f.axes & place.axes]
        if not rows or not points or any(map(is_computed, (array.domain[k] for k in axes))):
            continue
        outer = [k for k in reduced if k not in axes]
        kept = [k for k in range(array.rank) if any(k in f.axes for f in points)]
        yield _sum(array, place, size, (outer, list(axes), kept), product(points), [*rest, *rows])


def _sum(
    array: Reduce,
    place: Element,
    size: Element,
    axes: tuple[list[int], list[int], list[int]],
    points: Element,
    rows: Sequence[Element],
) -> _Sum:
    outer, along, kept = axes
    row = len(array.domain)
    order = (*outer, *along, *kept)
    new: dict[int, Element] = {k: Index(p) for p, k in enumerate(order)}
    domain = tuple(array.domain[k] for k in order)
    shape = (*domain[: len(outer)], size, *domain[len(outer) + len(along) :])
    own = (*(new[k] for k in outer), substitute(place, new), *(new[k] for k in kept))
    scatter = Accumulate(shape, domain, own, substitute(points, new))
    alone: dict[int, Element] = {k: Index(p) for p, k in enumerate(along)}
    lengths = _lengths(array, along)

    def over_rows(sums: Array) -> Reduce:
        to: dict[int, Element] = {k: Index(array.rank + p) for p, k in enumerate((*outer, row))}
        guard = _is_added_to(size, lengths, substitute(place, alone), (), to[row])
        read = Read(sums, (*(to[k] for k in outer), to[row], *map(Index, kept)))
        others = mask(substitute(product(rows), to), guard)
        reduced = (*(array.domain[k] for k in outer), size)
        return Reduce("sum", array.shape, reduced, apply("multiply", read, others))

    return _Sum(Site((size,), lengths, array.shape), scatter, len(outer), over_rows)


def _loop_of(scatter: Accumulate) -> Loop | None:
    """The loop whose rows a scatter adds up, each at its place."""
    loops = {
        e.array.loop for e in elements_of(scatter.elements)
        if isinstance(e, Read) and e.args and 0 in e.args[0].axes and isinstance(e.array, Item)
    }  # fmt: skip
    (loop,) = loops if len(loops) == 1 else (None,)
    if loop is None or scatter.shape[0] is not loop.length:
        return None
    first = len(loop.results)
    for e in elements_of(scatter.elements):
        if 0 in e.axes and isinstance(e, Read):
            array = e.array
            is_row = isinstance(array, Item) and array.loop is loop and array.k >= first
            if not is_row or e.args[0] is not Index(0) or any(0 in i.axes for i in e.args[1:]):
                return None
    counted = [e for e in elements_of((*scatter.indices[1:], scatter.body)) if Index(0) in e.args]
    return loop if all(isinstance(e, Read) for e in counted) else None


def _in_iteration(scatter: Accumulate, loop: Loop, body: Body) -> Array:
    """What an iteration adds up, of what it computes itself."""
    first = len(loop.results)
    outs: dict[Array, Array] = {Item(loop, first + k): out for k, out in enumerate(body.outs)}
    new: dict[Element, Element] = {}
    for e in elements_of((*scatter.indices[1:], scatter.body)):
        if isinstance(e, Index):
            new[e] = Index(e.axis - 1) if e.axis else e
        elif isinstance(e, Read) and e.array in outs:
            out, at = outs[e.array], tuple(new[i] for i in e.args[1:])
            new[e] = substitute(out.body, dict(enumerate(at))) if isinstance(out, Map) else Read(out, at)
        else:
            new[e] = rewrite((e,), lambda e: e, new)[0]
    indices = tuple(new[i] for i in scatter.indices[1:])
    return Accumulate(scatter.shape[1:], scatter.domain[1:], indices, new[scatter.body])
