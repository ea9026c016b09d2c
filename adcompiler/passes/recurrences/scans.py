"""Reductions over prefixes and suffixes of an axis are scans.

The products of x[:k] for all k read each element once for each prefix that has it. But each of them is the
one before it times another element: a loop over the elements that collects its running total. The same holds
for sums and logsumexp, for suffixes, where the loop runs backwards, and for slices such as x[i:j], with a
total for each i. The derivative is a loop that runs the other way.

Extrema are left: elements that attain one share its derivative equally, those of a running extremum do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from adcompiler.ad.guards import both, conjunction
from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import Range, always_holds, facts_of, lowest, never_negative, up_to
from adcompiler.analysis.loop_order import is_short
from adcompiler.analysis.predicates import guarded
from adcompiler.ir.bodies import Body, Carried, build, fresh, fresh_number
from adcompiler.ir.nodes import (
    Array,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    closed,
    const,
    identity,
    is_const,
    neutral,
    select,
)
from adcompiler.ir.walk import Rewriter, rewrite, substitute
from adcompiler.ops.build import apply
from adcompiler.passes.algebra.decide import Decide

STEPS = {"sum": "add", "prod": "multiply", "logsumexp": "logaddexp"}
ZERO, ONE = const(0, "i64"), linear_constant(1)


def scans(func: Func) -> Func:
    """The program with reductions over prefixes and suffixes as loops that collect running totals."""
    return _Scans().func(func)


class _Scans(Rewriter):
    def array(self, array: Array) -> Array:
        if not (isinstance(array, Reduce) and array.op in STEPS and len(array.reduced) == 1):
            return array
        if is_short(array.reduced[0]) or array.dtype == "bool":
            return array
        found = next(_parts(array), None)
        return array if found is None else _scanned(array, found)


class _Part(NamedTuple):
    """What a reduction combines, with a place instead of its axis: `value` under `conditions`, at the places
    from `edge` on or up to it, and below `length`. The edge is another for each point of one axis, which
    `value` and `conditions` do not depend on. Where not all conditions `points` hold, it combines nothing."""

    value: Element
    conditions: Sequence[Element]
    points: Sequence[Element]
    length: Element
    edge: Linear
    is_suffix: bool


def _parts(array: Reduce) -> Iterator[_Part]:
    """The ways in which a reduction is one over prefixes or suffixes."""
    place = Index(array.rank)
    (body,) = Decide().decided(array, array.elements)
    conditions, value = guarded(body, neutral(array.op, array.dtype).value)
    for along, length in enumerate(array.shape):
        own = Index(along)
        moved = (apply("subtract", place, own), apply("subtract", own, place))
        for at in () if is_short(length) else moved if along in value.axes else (place,):
            found = _part(array, along, at, conditions, value)
            if found is not None:
                yield found


def _part(
    array: Reduce, along: int, at: Element, conditions: Sequence[Element], value: Element
) -> _Part | None:
    """A reduction whose axis has what was at `at` at its places, if its prefixes or suffixes are then those
    of the same array at each point of the axis `along`."""
    place, reduced = Index(array.rank), array.reduced[0]
    points = [c for c in conditions if place.axis not in c.axes]
    rest = [c for c in conditions if place.axis in c.axes]
    value, *rest = _plain([substitute(e, {place.axis: at}) for e in (value, *rest)])
    rest = [_bound(c, place) if along in c.axes else c for c in rest]
    conditions = [c for c in rest if along not in c.axes]
    bounds = [facts_of(c) for c in rest if along in c.axes]
    if along in value.axes or not all(bounds):
        return None
    ranges = _ranges(array)
    edges = [form for forms in bounds for form in forms]
    known = _facts((*points, *conditions))
    (known if at is place else edges).extend((linear(at), linear(reduced) - ONE - linear(at)))
    for edge in list(edges):
        if never_negative(edge, ranges, [*known, *(e for e in edges if e is not edge)]):
            edges.remove(edge)
    if len(edges) != 1 or abs(sign := edges[0].terms.get(place, 0)) != 1:
        return None
    known += edges
    lengths = [reduced, array.shape[along], *_stops(conditions, place)]
    for length in lengths if never_negative(linear(place), ranges, known) else ():
        if never_negative(linear(length) - ONE - linear(place), ranges, known):
            here = {**ranges, place: Range(linear(length) - ONE)}
            conditions = [c for c in conditions if not always_holds(c, here)]
            edge = (edges[0] - Linear({place: sign})) * -sign
            return _Part(value, conditions, points, length, edge, sign > 0)
    return None


def _ranges(array: Array) -> dict[Element, Range]:
    return {Index(k): up_to(n) for k, n in enumerate(array.shape)}


def _facts(conditions: Iterable[Element]) -> list[Linear]:
    """The forms that are not negative where conditions hold."""
    return [form for c in conditions for form in facts_of(c)]


def _stops(conditions: Iterable[Element], place: Index) -> Iterator[Element]:
    """The lengths below which conditions hold a place."""
    for form in _facts(conditions):
        if form.terms.get(place) == -1 and form.axes == {place.axis}:
            yield (form + linear(place) + ONE).element()


def _bound(condition: Element, place: Index) -> Element:
    """A comparison of integers as a bound of a place, if it is one."""
    forms = facts_of(condition)
    if len(forms) != 1 or abs(factor := forms[0].terms.get(place, 0)) != 1:
        return condition
    rest = forms[0] - Linear({place: factor})
    if factor > 0:
        return apply("greater_equal", place, (rest * -1).element())
    return apply("less", place, (rest + ONE).element())


def _plain(elements: Sequence[Element]) -> tuple[Element, ...]:
    """Elements with sums of integers in one form, so that terms that cancel are gone."""

    def visit(element: Element) -> Element:
        return linear(element).element() if element.dtype == "i64" and element.axes else element

    return rewrite(tuple(elements), visit)


def _scanned(array: Reduce, part: _Part) -> Array:
    """A reduction as a scan. It has no places that none of the prefixes or suffixes has: a factor there may
    be infinite, and its derivative would be NaN."""
    place, ranges, facts = Index(array.rank), _ranges(array), _facts(part.points)
    none, edge = neutral(array.op, array.dtype), part.edge
    least = never_negative(edge, ranges, facts)
    most = never_negative(linear(part.length) - ONE - edge, ranges, facts)
    start, stop = linear_constant(0), part.length
    if part.is_suffix:
        first = lowest(edge, ranges)
        if first is not None and not never_negative(first * -1, ranges, ()):
            start = first if least else linear(apply("maximum", first.element(), ZERO))
    elif (last := lowest(edge * -1, ranges)) is not None:
        end = ONE - last
        if not never_negative(end - linear(stop), ranges, ()):
            stop = end.element() if most else apply("minimum", end.element(), stop)
    length = (linear(stop) - start).element()
    length = length if length is part.length else apply("maximum", length, ZERO)
    body = select(conjunction(part.conditions), part.value, none) if part.conditions else part.value
    body = substitute(body, {place.axis: (linear(place) + start).element()})
    cases = sorted(body.axes - {place.axis})
    places: dict[int, Element] = {k: Index(p) for p, k in enumerate((place.axis, *cases))}
    rows = closed((length, *(array.shape[k] for k in cases)), substitute(body, places))
    total = _total(STEPS[array.op], none, rows, part.is_suffix)
    at, holds = (edge - start).element(), conjunction(part.points)
    if part.is_suffix:
        at = at if least else apply("maximum", at, ZERO)
        exists = apply("less", at, length)
    else:
        at = at if most else apply("minimum", at, (linear(length) - ONE).element())
        exists = apply("greater_equal", at, ZERO)
    holds = holds if least and most else both(holds, exists)
    found = Read(total, (at, *map(Index, cases)))
    return Map(array.shape, found if is_const(holds, True) else select(holds, found, none))


def _total(op: str, none: Element, rows: Array, backward: bool) -> Array:
    """The running totals of the rows of an array."""
    shape = rows.shape[1:]
    at = identity(shape)
    total, row = fresh(rows.dtype, shape), fresh(rows.dtype, shape)
    result = Map(shape, apply(op, Read(total, at), Read(row, at)))
    carried = Carried(Map(shape, none), total, result)
    given = ((rows, row),)
    return build(Body(rows.shape[0], fresh_number(), (carried,), given, (result,), None, backward)).outs[0]
