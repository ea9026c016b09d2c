"""Reads of elements that a loop has stored for the last time, or not yet.

A loop that fills a table, such as one of dynamic programming or the factor of a matrix, reads elements that
no later iteration stores. The reverse iteration reads them from the table's final value, so that nothing is
saved for them. Likewise, elements that no earlier iteration has stored are those of the initial value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import Ranges, facts_of, never_negative, up_to
from adcompiler.analysis.predicates import ALWAYS, Conditions, facts, join, needed_under, stated
from adcompiler.ir.bodies import (
    Body,
    Carried,
    Number,
    build,
    dependents,
    like,
    opened,
    reached,
    roots_of,
    varying,
    with_roots,
)
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Array,
    Element,
    Index,
    Input,
    Map,
    Read,
    Select,
    identity,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import (
    LoopRewriter,
    arrays_of,
    elements_of,
    read_by,
    rewrite,
    substitute,
    with_args,
    with_elements,
)

Store = list[Linear]  # forms of the indices of an array that are not negative at the places of a store


class _Source(NamedTuple):
    """An array that has the elements which none of the stores reaches."""

    array: Array
    stores: list[Store]


def final_reads(
    body: Body,
    ends: Sequence[Array],
    length: Element | None,
    roots: Sequence[Array],
    is_saved: Callable[[Item], bool],
) -> tuple[Sequence[Array], dict[Array, Array]]:
    """The roots of a reverse iteration, which read initial and final values of the loop where these have the
    elements of the iteration; and the placeholders of these values.

    `body` is the iteration, `ends` are the final values of what it carries. The arrays of the iteration stay
    as they are, since those that are costly are saved, and so do the loops in it that need not run again, as
    all that they collect `is_saved`.
    """
    sources: dict[Array, list[_Source]] = {}
    places: dict[Array, Array] = {}
    number, changing = Read(body.step, ()), varying(body)
    for c, end in zip(body.carried, ends, strict=True):
        if not c.slot.rank or (changes := _changes(c, number, changing)) is None:
            continue
        steps, stores = changes
        final, first = like(c.slot), like(c.slot)
        way = -1 if body.backward else 1
        late = _Source(final, [_moving(s, number, way, 0) for s in stores])
        later = _Source(final, [_moving(s, number, way, way) for s in stores])
        early = _Source(first, [_moving(s, number, -way, 0) for s in stores])
        earlier = _Source(first, [_moving(s, number, -way, -way) for s in stores])
        found = {a: [late, early] for a in steps}
        found |= {c.slot: [late, earlier], c.result: [later, early]}
        fixed = (late, later) if _is_of_a_slot(c.init) else (late, later, early, earlier)
        sources |= {a: [s for s in each if s in fixed and all(s.stores)] for a, each in found.items()}
        places |= {final: end, first: c.init}
    sources = {a: each for a, each in sources.items() if each}
    if not sources:
        return roots, {}
    ranges: Ranges = {} if length is None else {Read(body.step, ()): up_to(_plain(length))}
    rewriter = _Reads(sources, ranges, {}, is_saved)
    rewriter.arrays |= {a: a for a in arrays_of(roots_of(body))}
    made = rewriter.run(roots)
    return made, {p: whole for p, whole in places.items() if p in rewriter.read}


def _is_of_a_slot(array: Array) -> bool:
    """Whether an array depends on a placeholder, such as a value that an outer loop carries."""
    return any(isinstance(a, Input) and a.position < 0 for a in arrays_of((array,)))


def _moving(store: Store, number: Element, way: int, shift: int) -> Store:
    """The bounds that hold in all iterations in a direction; the first of them is `shift` from this one."""
    return [
        side + linear_constant(factor * shift)
        for side in (*store, *_together(store, number))
        if (factor := side.terms.get(number, 0)) * way <= 0
    ]


def _plain(element: Element) -> Element:
    """An integer with the scalars that it reads in place."""

    def visit(e: Element) -> Element:
        match e:
            case Read(array=Map(body=value, shape=())) if e.dtype == "i64":
                return _plain(value)
        return e

    return rewrite((element,), visit)[0]


# -- stores --------------------------------------------------------------------------------------------


def _changes(
    carried: Carried, number: Element, changing: Set[Array]
) -> tuple[set[Array], list[Store]] | None:
    """What a carried array is before, within and after an iteration, and the stores between, with bounds by
    the iteration's number and what does not change from iteration to iteration; None if some have no bounds.
    """
    slot, result = carried.slot, carried.result
    dependent = dependents(slot, result)
    found: list[Store] = []
    work, seen = [result], {slot}
    while work:
        array = work.pop()
        if array in seen:
            continue
        seen.add(array)
        if isinstance(array, Item) and array.k < len(array.loop.results):
            inner = _inner_stores(array)
            if inner is None:
                return None
            found += inner
            work.append(array.loop.inits[array.k])
        elif isinstance(array, Map) and array in dependent:
            for leaf, where in leaves(array.body):
                if isinstance(leaf, Read) and leaf.array in dependent and leaf.args == identity(array.shape):
                    work.append(leaf.array)
                else:
                    found.append(_sides(where))
        else:
            return None
    found = [[side for side in store if _is_fixed(side, number, changing)] for store in found]
    return (seen, found) if all(found) else None


def leaves(body: Element) -> Iterator[tuple[Element, Conditions]]:
    """The values between which an element selects, with the conditions of each."""
    work = [(body, ALWAYS)]
    while work:
        element, where = work.pop()
        if isinstance(element, Select):
            work.append((element.then, join(where, facts(element.guard, True))))
            work.append((element.otherwise, join(where, facts(element.guard, False))))
        else:
            yield element, where


def _sides(where: Conditions) -> Store:
    """The bounds of the places at which conditions hold."""
    forms = [(f, [a for a in f.atoms if a.axes]) for f in _forms(where)]
    return [f for f, axes in forms if axes and all(isinstance(a, Index) for a in axes)]


def _forms(where: Conditions) -> list[Linear]:
    """The affine forms that are not negative under conditions."""
    return [f for condition in stated(where) for f in facts_of(_plain(condition))]


def _is_fixed(side: Linear, number: Element, changing: Set[Array]) -> bool:
    """Whether a bound follows from the iteration's number and from what no iteration changes."""
    rest = [a for a in side.atoms if a is not number and not isinstance(a, Index)]
    return not any(a.axes for a in rest) and changing.isdisjoint(read_by(rest))


def _inner_stores(item: Item) -> list[Store] | None:
    """The stores of all iterations of an inner loop."""
    body = opened(item.loop)
    number = Read(body.step, ())
    changes = _changes(body.carried[item.k], number, varying(body))
    if changes is None:
        return None
    last = None if body.length is None else up_to(_plain(body.length)).last
    return [_over(store, number, last) for store in changes[1]]


def _over(store: Store, number: Element, last: Linear | None) -> Store:
    """The bounds that hold in all iterations of an inner loop: those of its first or last iteration."""
    found = _together(store, number)
    for side in store:
        factor = side.terms.get(number, 0)
        rest = side - Linear({number: factor})
        if factor <= 0:
            found.append(rest)
        elif last is not None:
            found.append(rest + last * factor)
    return [side for side in found if side.axes]


def _together(store: Store, number: Element) -> Store:
    """The bounds of indices that move on together, such as those of a diagonal."""
    moving = [(side, factor) for side in store if (factor := side.terms.get(number, 0))]
    pairs = [x + y for (x, factor), (y, other) in combinations(moving, 2) if factor + other == 0]
    return [side for side in pairs if side.axes]


# -- reads ---------------------------------------------------------------------------------------------


class _Reads(LoopRewriter):
    """Replaces reads by reads of sources, where no store reaches the place. `rows` are slices along the
    iterations of a loop: pairs of an array and the iteration's number."""

    def __init__(
        self,
        sources: Mapping[Array, list[_Source]],
        ranges: Ranges,
        rows: Mapping[Array, tuple[Array, Element]],
        is_saved: Callable[[Item], bool],
    ) -> None:
        super().__init__()
        self.sources, self.ranges, self.rows, self.is_saved = sources, ranges, rows, is_saved
        self.depth = len(ranges)
        self.read: set[Array] = set()

    def inner(self, loop: Loop | Ruled) -> None:
        """Bodies of loops are opened instead."""

    def array(self, array: Array) -> Array:
        if isinstance(array, Input | Item) or not any(map(self.is_known, read_by(array.elements))):
            return super().array(array)
        return with_elements(array, lambda elements: self.replaced(array, elements), lambda shape: shape)

    def replaced(self, array: Array, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        """Elements at the points of an array's domain."""
        ranges = dict(self.ranges)
        for k, n in enumerate(array.domain):
            ranges[Index(k)] = replace(up_to(_plain(n)), depth=self.depth + k)
        around = [r.last for r in ranges.values()]
        under = needed_under(elements)
        found: dict[Element, Element] = {}
        for e in elements_of(elements):
            made = with_args(e, tuple(found[a] for a in e.args)) if e.args else e
            if isinstance(e, Read) and isinstance(made, Read):
                made = self.source(made, ranges, [*around, *_forms(under[e])])
            found[e] = made
        return tuple(found[e] for e in elements)

    def source(self, read: Read, ranges: Ranges, known: Sequence[Linear]) -> Read:
        """A read of a source that has the same element, or the same read."""
        array, args = read.array, read.args
        while array not in self.sources:
            if array in self.rows:
                array, number = self.rows[array]
                args = (number, *args)
            elif isinstance(array, Map) and isinstance(array.body, Read):
                whole, places = array.body, dict(enumerate(args))
                array, args = whole.array, tuple(substitute(i, places) for i in whole.args)
            else:
                return read
        for source in self.sources.get(array, ()):
            at = [linear(_plain(i)) for i in args]
            if all(any(_is_beyond(side, at, ranges, known) for side in s) for s in source.stores):
                self.read.add(source.array)
                return Read(source.array, args)
        return read

    def is_known(self, array: Array) -> bool:
        """Whether an array, or one of which it is a slice, has sources."""
        while array not in self.sources and isinstance(array, Map) and isinstance(array.body, Read):
            array = array.body.array
        return array in self.rows or array in self.sources

    def results(self, loop: Loop) -> Sequence[Array]:
        if not any(map(self.is_known, (*loop.consts, *loop.scanned, *loop.inits))):
            return loop.items
        body = opened(loop)
        number = Read(body.step, ())
        ranges = dict(self.ranges)
        if body.length is not None:
            ranges[number] = replace(up_to(_plain(body.length)), depth=self.depth)
        rows = {row: (whole, number) for whole, row in body.rows if self.is_known(whole)}
        carried: dict[Array, list[_Source]] = {}
        runs = not all(map(self.is_saved, loop.items[len(body.carried) :]))
        for c, item in zip(body.carried, loop.items, strict=False) if runs else ():
            more = _inner_stores(item) if c.init in self.sources else None
            if more is not None and all(more):
                carried[c.slot] = [s._replace(stores=[*s.stores, *more]) for s in self.sources[c.init]]
        inside = _Reads({**self.sources, **carried}, ranges, {**self.rows, **rows}, lambda item: False)
        changing = varying(body)
        roots = roots_of(body)
        placed = {body.step, *(c.slot for c in body.carried), *(row for _, row in body.rows)}
        inside.arrays |= {a: a for a in arrays_of(roots) if a in placed or a not in changing}
        made = inside.run(roots)
        self.read |= inside.read
        if made == roots:
            return loop.items
        body = with_roots(body, made, body.carried)
        slots = {c.slot for c in body.carried}
        if carried and body.test is None and slots.isdisjoint(reached(body.outs, slots)):
            return [*loop.items[: len(slots)], *build(replace(body, carried=())).outs]
        built = build(body)
        return [*built.finals, *built.outs, *(() if built.count is None else (built.count,))]


def _is_beyond(side: Linear, places: Sequence[Linear], ranges: Ranges, known: Iterable[Linear]) -> bool:
    """Whether a place is outside of a bound. Numbers of iterations around the loop are not negative."""
    there = Linear({a: f for a, f in side.terms.items() if not isinstance(a, Index)})
    for axis, place in enumerate(places):
        there += place * side.terms.get(Index(axis), 0)
    distance = there * -1 - linear_constant(1)
    outer = [linear(a) for a in distance.atoms if isinstance(a, Read) and isinstance(a.array, Number)]
    return never_negative(distance, ranges, [*known, *outer])
