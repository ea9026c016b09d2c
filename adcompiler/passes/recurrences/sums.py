"""Loops that only add: each iteration adds to a carried value something that depends on no carried value.

Such a value is not a recurrence: `s += x[i] * w[i]` is a sum over the iterations, and `out[idx[i]] += w[i]` a
scatter. Both are computed outside the loop, in the same fixed order as other sums, and in parallel. So is the
minimum of integers, which loops use for index checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from types import MappingProxyType

from adcompiler.ad.guards import both, negation
from adcompiler.ad.spots import Spot, spots
from adcompiler.analysis.affine import linear
from adcompiler.analysis.predicates import guarded, scalar_ties, ties
from adcompiler.ir.batch import batch, shifted
from adcompiler.ir.bodies import (
    Body,
    Carried,
    Replace,
    build,
    dependents,
    fresh,
    like,
    opened,
    reached,
    varying,
    with_roots,
)
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Select,
    Shape,
    closed,
    const,
    element_of,
    identity,
    is_const,
    select,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    LoopRewriter,
    arrays_of,
    lengths_read,
    operands,
    read_by,
    rewrite,
    substitute,
)
from adcompiler.ops.build import apply
from adcompiler.ops.costs import costly
from adcompiler.passes.algebra.fold import folded
from adcompiler.passes.arrays.prune import alone
from adcompiler.passes.limits import MOST_SELECTED_SUMS, MOST_SUMMED_STORES


def sums(func: Func) -> Func:
    """The program with values that loops only add up computed as sums."""
    return _Sums().func(func)


class _Sums(LoopRewriter):
    def results(self, loop: Loop) -> Sequence[Array]:
        """The results of a loop, with its sums moved out."""
        return _split(loop)


def _split(loop: Loop) -> list[Array]:
    """The results of a loop; those it only adds up are computed outside."""
    if loop.length is None:
        return list(loop.items)
    given = opened(loop)
    body, placed = _by_places(given)
    slots = {c.slot for c in body.carried}
    added = {c: a for c in body.carried if (a := addend(c.slot, c.result)) is not None}
    added = {c: _opened(c, a, slots) if c.slot.rank > 1 else a for c, a in added.items()}
    least = {c: a for c in body.carried if (a := _compared(c.slot, c.result)) is not None}
    inside = varying(body)
    added |= least
    while True:
        rest = [c for c in body.carried if c not in added]
        decided = {c: _decided(_terms(e, c.slot.rank), slots) for c, e in added.items()}
        parts = dict.fromkeys(a for found in decided.values() for a in found)
        outs = (*body.outs, *(a for a in parts if a not in body.outs))
        taken = reached((*(c.result for c in rest), *outs), slots)
        bad = [
            c for c, found in decided.items()
            if c.slot in taken or (found and not _collected(c, added[c], found, body))
            or _calls_by_length(added[c], inside)
        ]  # fmt: skip
        if not bad:
            break
        added = {c: a for c, a in added.items() if c not in bad}
    if not added or (placed and not any(c in added for parts in placed.values() for c, _ in parts)):
        return list(loop.items)
    others = (*(c.result for c in rest), *outs)
    built = build(with_roots(replace(body, carried=tuple(rest), outs=outs), others, rest))
    kept = dict(zip(rest, built.finals, strict=True))
    every: dict[Array, Array] = {row: whole for whole, row in body.rows}
    every |= {a: stack for a, stack in zip(outs, built.outs, strict=True) if a in parts}
    every[body.step] = Map((loop.length,), Index(0) if not is_const(loop.length, 1) else const(0, "i64"))
    added = {c: _at_places_of(_sliced(a, every), every) for c, a in added.items()}
    read = [a for a in read_by(e for c, a in added.items() for e in _terms(a, c.slot.rank)) if a not in every]
    iterations = batch(read, every, (loop.length,))
    every |= {old: new for old, new in zip(read, iterations, strict=True) if new is not old}
    totals = {
        c: _least(c.init, a, loop.length, every) if c in least else total(c.init, a, loop.length, every)
        for c, a in added.items()
    }
    finals = {c: totals[c] if c in totals else kept[c] for c in body.carried}
    finals |= {c: _at_places(c.init, [(finals[p], s) for p, s in parts]) for c, parts in placed.items()}
    return [*(finals[c] for c in given.carried), *built.outs[: len(body.outs)]]


def _by_places(body: Body) -> tuple[Body, dict[Carried, list[tuple[Carried, Spot]]]]:
    """A body that carries a separate sum for each fixed place at which it adds sums to a carried array, as in
    the gradient of `x @ W[0]`; and these sums."""
    slots, inside = {c.slot for c in body.carried}, varying(body)
    placed: dict[Carried, list[tuple[Carried, Spot]]] = {}
    carried: list[Carried] = []
    for c in body.carried:
        element = addend(c.slot, c.result) if c.slot.rank > 1 else None
        found = None if element is None else spots(_opened(c, element, slots))
        rest = (*(o.result for o in body.carried if o is not c), *body.outs)
        if found is None or not _are_fixed_sums(found, inside) or c.slot in reached(rest, slots):
            carried.append(c)
            continue
        placed[c] = [(_separate(c, spot), spot) for spot in found]
        carried += [part for part, _ in placed[c]]
    return (replace(body, carried=tuple(carried)), placed) if placed else (body, placed)


def _are_fixed_sums(found: Iterable[Spot], inside: Collection[Array]) -> bool:
    """Whether spots are at the same places in all iterations, and their values are sums."""
    return all(
        not any(a in inside for a in read_by((s.guard, *s.ties.values())))
        and isinstance(s.value, Read) and isinstance(s.value.array, Reduce) and s.value.array.rank
        for s in found
    )  # fmt: skip


def _separate(carried: Carried, spot: Spot) -> Carried:
    """The sum of a spot's values."""
    shape = tuple(carried.slot.shape[k] for k in spot.free(carried.slot.rank))
    slot = fresh(carried.slot.dtype, shape)
    added = apply("add", element_of(slot), spot.inside(carried.slot.rank))
    return Carried(Map(shape, const(0, slot.dtype)), slot, Map(shape, added))


def _at_places(init: Array, parts: Iterable[tuple[Array, Spot]]) -> Array:
    """An array, with sums added at their places."""
    body: Element = element_of(init)
    for part, spot in parts:
        here = [apply("equal", Index(k), place) for k, place in spot.ties.items()]
        value = Read(part, tuple(identity(init.shape)[k] for k in spot.free(init.rank)))
        body = apply("add", body, select(reduce(both, here), value, const(0, init.dtype)))
    return Map(init.shape, body)


def _decided(elements: Iterable[Element], slots: set[Array]) -> list[Array]:
    """The arrays read by elements that depend on carried values."""
    return [a for a in read_by(elements) if not slots.isdisjoint(reached((a,), slots))]


def _calls_by_length(element: Element, inside: set[Array]) -> bool:
    """Whether an element needs a library call on matrices whose lengths an iteration computes."""
    calls = (a for a in arrays_of(read_by((element,))) if isinstance(a, Call))
    return any(not inside.isdisjoint(lengths_read(call)) for call in calls)


def _collected(total: Carried, element: Element, found: Iterable[Array], body: Body) -> bool:
    """Whether the addend of `total` is cheap to compute from arrays over fewer axes, no larger than the
    largest row: these are collected over all iterations. A sum of outer products, or of products of
    matrices, becomes a matrix product."""
    largest = max((row.rank for _, row in body.rows), default=-1)
    sums, terms = _sums_of(element, total.slot.rank), _terms(element, total.slot.rank)
    if any(isinstance(s, Accumulate) for s in sums):
        return False
    depth = min(len(e.axes) for e in terms) if sums else total.slot.rank
    small = all(a.rank < depth and a.rank <= largest for a in found)
    quick = not any(costly(e, {}) for e in terms)
    return small and quick and all(is_float(a.dtype) and not lengths_read(a) for a in found)


def _terms(element: Element, rank: int) -> list[Element]:
    """The elements of the sums and scatters that an element adds, else the element itself."""
    return [e for s in _sums_of(element, rank) for e in s.elements] or [element]


def _sums_of(element: Element, rank: int) -> list[Reduce | Accumulate]:
    """The sums and scatters that an element adds, over its own axes in their order; none if it adds anything
    else."""
    found = [_whole_sum(e, rank) for e in operands(element, "add")]
    return [s for s in found if s is not None] if None not in found else []


def _whole_sum(element: Element, rank: int) -> Reduce | Accumulate | None:
    """The sum or scatter whose elements an element is, over its own axes in their order. One that counts only
    under a condition has it for each of its terms."""
    match element:
        case Select(otherwise=zero) if is_const(zero, 0):
            whole = _whole_sum(element.then, rank)
            return None if whole is None else _under(element.guard, whole)
        case Read(array=array) if array.rank < rank:
            return None  # the same number along an axis
        case Read(array=Accumulate() as array, args=args) if args == identity(array.shape):
            return array
        case Read(array=Reduce(op="sum") as array, args=args):
            axes = [i.axis for i in args if isinstance(i, Index)]
            if sorted(axes) == list(range(array.rank)):
                shape = tuple(array.shape[axes.index(k)] for k in range(array.rank))
                body = substitute(array.body, {k: Index(axis) for k, axis in enumerate(axes)})
                return Reduce("sum", shape, array.reduced, body)
    return None


def _under(guard: Element, whole: Reduce | Accumulate) -> Reduce | Accumulate:
    """A sum or scatter of terms that count only where a condition on the place of the result holds."""
    if isinstance(whole, Reduce):
        return Reduce("sum", whole.shape, whole.reduced, _masked(whole.body, guard))
    there = substitute(guard, dict(enumerate(whole.indices)))
    return Accumulate(whole.shape, whole.domain, whole.indices, _masked(whole.body, there))


def _opened(total: Carried, element: Element, slots: set[Array]) -> Element:
    """The addend, with arrays as large as the sum inlined."""
    while True:
        large = {a for a in _decided((element,), slots) if isinstance(a, Map) and a.rank >= total.slot.rank}
        if not large:
            return element

        (element,) = rewrite((element,), partial(_inside, large))


def _inside(arrays: set[Map], element: Element) -> Element:
    """The body of a map, for a read of one of `arrays`."""
    if isinstance(element, Read) and isinstance(element.array, Map) and element.array in arrays:
        return substitute(element.array.body, dict(enumerate(element.args)))
    return element


def _sliced(element: Element, places: Mapping[Array, Array]) -> Element:
    """An element whose loops carry only what it needs, so that they read nothing else of the iteration. What
    has `places` is known over all iterations, and stays as it is."""
    stand: dict[Array, Array] = {a: like(a) for a in places if not isinstance(a, Input)}
    there, back = Replace(dict(stand)), Replace({stood: a for a, stood in stand.items()})
    inside = [a for a in read_by((element,)) if a not in places]
    parts = dict(zip(inside, back.run(map(alone, there.run(inside))), strict=True))
    return rewrite(
        (element,), lambda e: Read(parts[e.array], e.args) if isinstance(e, Read) and e.array in parts else e
    )[0]


def addend(slot: Array, result: Array) -> Element | None:
    """The value that an iteration adds to each element of a carried array, as a sum of what each of its
    statements adds; None if it does anything else."""
    if not isinstance(result, Map) or slot.dtype == "bool":
        return None
    terms = _Addend(slot, dependents(slot, result)).of(result.body)
    if terms is None:
        return None
    terms = [t for term in terms for t in _added_in(term)]
    return reduce(partial(apply, "add"), terms) if terms else const(0, slot.dtype)


def _added_in(term: Element) -> list[Element]:
    """The sums that a term reads the sum of, as of an inner loop with several statements; else the term."""
    if isinstance(term, Read) and isinstance(term.array, Map) and term.args == identity(term.array.shape):
        parts = operands(term.array.body, "add")
        if all(_whole_sum(p, term.array.rank) is not None for p in parts):
            return parts
    return [term]


def _compared(slot: Array, result: Array) -> Element | None:
    """The integer of each iteration whose minimum a loop carries."""
    if slot.rank or slot.dtype != "i64" or not isinstance(result, Map):
        return None
    match result.body:
        case Apply(op="minimum", args=(Read(array=array), y)) if array is slot and not _reads(y, slot):
            return y
    return None


def _least(init: Array, number: Element, length: Element, found: Mapping[Array, Array]) -> Array:
    """The minimum of `init` and the integers of all iterations."""
    (body,) = shifted((number,), found, identity((length,)))
    least = Reduce("min", (), (length,), body)
    return Map((), Apply("minimum", (Read(init, ()), Read(least, ())), "i64"))


Pins = Mapping[int, Collection[Element]]  # the place that an axis has, by all its names


class _Addend:
    """Finds what is added to the elements of `slot`, on which some arrays are `dependent`."""

    def __init__(self, slot: Array, dependent: Collection[Array]) -> None:
        self.slot, self.dependent, self.own = slot, dependent, element_of(slot)
        self.left = MOST_SELECTED_SUMS

    def of(self, body: Element, pins: Pins = MappingProxyType({}), stores: int = 0) -> list[Element] | None:
        """The terms of `body` beside the slot's own element, if that is one of them, or of the sums between
        which it selects. `stores` counts those of the same iteration around it."""
        match body:
            case Read(array=array) if array is self.slot:
                return [] if self.is_own(body, pins) else None
            case Read(array=Map() as array) if array in self.dependent and stores < MOST_SUMMED_STORES:
                return self.of(_element(body), pins, stores + 1)
            case Apply(op="add" | "subtract"):
                added = self.added(body)
                terms = None if added is None else self.of(added[0], pins, stores)
                return None if added is None or terms is None else [*terms, added[1]]
            case Select(guard=guard) if self.left and not self.reads(guard):
                self.left -= 1
                return self.selected(body, pins, stores)
        return None

    def added(self, body: Element) -> tuple[Element, Element] | None:
        """The operand of a sum that depends on the slot, and what is added to it."""
        match body:
            case Apply(op="add", args=(x, y)) if not self.reads(y):
                return x, y
            case Apply(op="add", args=(x, y)) if not self.reads(x):
                return y, x
            case Apply(op="subtract", args=(x, y)) if not self.reads(y):
                return x, apply("negative", y)
        return None

    def selected(self, body: Select, pins: Pins, stores: int) -> list[Element] | None:
        """The terms of a selection between two sums: those that both have, and others where each is chosen.

        A statement `s[k] += x` selects s + x at one place and s elsewhere: it adds x at that place.
        """
        guard, inside = body.guard, _pinned(body.guard, pins)
        more = self.beyond(body.then, body.otherwise, inside)
        if more is not None:
            terms = self.of(body.otherwise, pins, stores)
            return None if terms is None else [*terms, *(_masked(t, guard) for t in more)]
        one = self.of(body.then, inside, stores)
        other = None if one is None else self.of(body.otherwise, pins, stores)
        if one is None or other is None:
            return None
        common = [t for t in one if t in other]
        chosen = [_masked(t, guard) for t in one if t not in common]
        for t in other:
            if t not in common and not _only_where(t, guard):
                chosen.append(t if _excluded(t, guard) else _masked(t, negation(guard)))
        return [*common, *chosen]

    def beyond(self, body: Element, base: Element, pins: Pins) -> list[Element] | None:
        """The terms that `body` adds to `base`, an element of the slot or of what earlier stores made of it;
        None for anything else. `s[k, l] += x` selects s + x and s at the places of one axis, too."""
        terms = list[Element]()
        while not self.is_same(body, base, pins):
            if (added := self.added(body)) is not None:
                body = added[0]
                terms.insert(0, added[1])
            elif isinstance(body, Read) and isinstance(body.array, Map) and body.array in self.dependent:
                body = _element(body)
            elif (
                isinstance(body, Select)
                and not self.reads(body.guard)
                and self.is_same(body.otherwise, base, pins)
            ):
                chosen = self.beyond(body.then, base, _pinned(body.guard, pins))
                return None if chosen is None else [*(_masked(t, body.guard) for t in chosen), *terms]
            else:
                return None
        return terms

    def is_same(self, one: Element, other: Element, pins: Pins) -> bool:
        """Whether two reads are of the same element where axes have the places `pins`."""
        if not (isinstance(one, Read) and isinstance(other, Read) and one.array is other.array):
            return False
        return one.array in self.dependent and all(
            i is j or (isinstance(j, Index) and i in pins.get(j.axis, ()))
            for i, j in zip(one.args, other.args, strict=True)
        )

    def is_own(self, read: Read, pins: Pins) -> bool:
        """Whether a read of the slot is of the element itself."""
        places = enumerate(zip(read.args, self.own.args, strict=True))
        return all(i is j or i in pins.get(k, ()) for k, (i, j) in places)

    def reads(self, element: Element) -> bool:
        """Whether an element depends on the slot."""
        return not set(read_by((element,))).isdisjoint(self.dependent)


def _element(read: Read) -> Element:
    """The element of a map that is read."""
    if read.args == identity(read.array.shape):
        return read.array.elements[-1]
    return folded(substitute(read.array.elements[-1], dict(enumerate(read.args))))


def _masked(term: Element, guard: Element) -> Element:
    """A term where a guard holds, else 0."""
    if isinstance(term, Select) and is_const(term.otherwise, 0):
        return select(both(guard, term.guard), term.then, term.otherwise)
    return select(guard, term, const(0, term.dtype))


def _only_where(term: Element, guard: Element) -> bool:
    """Whether a term is 0 wherever a guard does not hold."""
    return set(operands(guard, "logical_and")) <= set(guarded(term)[0])


def _excluded(term: Element, guard: Element) -> bool:
    """Whether a term is 0 wherever a guard holds: both tie an axis to a place, one a constant distance from
    the other."""
    places = dict(tie for c in operands(guard, "logical_and") for tie in ties(c))
    return any(
        bool((linear(place) - linear(places[axis])).constant)
        for condition in guarded(term)[0] for axis, place in ties(condition) if axis in places
    )  # fmt: skip


def _pinned(guard: Element, pins: Pins) -> Pins:
    """The places of axes where a guard holds as well."""
    found = {k: set(places) for k, places in pins.items()}
    for condition in operands(guard, "logical_and"):
        for axis, place in scalar_ties(condition):
            found.setdefault(axis, set()).add(place)
        if isinstance(condition, Apply) and condition.op == "equal":
            for places in found.values():
                if not places.isdisjoint(condition.args):
                    places.update(condition.args)
    return found


def _reads(element: Element, slot: Array) -> bool:
    return slot in read_by((element,))


def total(init: Array, added: Element, length: Element, found: Mapping[Array, Array]) -> Array:
    """`init` plus the sum of `added` over all iterations; `found` maps arrays of one iteration to those over
    all iterations."""
    shape = init.shape
    parts = _by_place(added)
    totals = [_scattered(shape, p, length, found) or _summed(shape, p, length, found) for p in parts]
    summed = totals[0]
    if len(totals) > 1:
        reads: list[Element] = [element_of(t) for t in totals]
        summed = closed(shape, reduce(partial(apply, "add"), reads))
    own = identity(shape)
    if isinstance(init, Map) and isinstance(init.body, Const) and is_const(init.body, 0):
        return summed
    return Map(shape, Apply("add", (Read(init, own), Read(summed, own)), init.dtype))


def _by_place(added: Element) -> list[Element]:
    """The terms of an addend that are added at one place an iteration, and the sum of the others."""
    terms = operands(added, "add")
    placed = [t for t in terms if _has_place(t)]
    others = [t for t in terms if t not in placed]
    return [*placed, *([reduce(partial(apply, "add"), others)] if others else [])]


def _has_place(term: Element) -> bool:
    """Whether a term is zero but at a place of some axis."""
    return any(scalar_ties(c) for c in guarded(term)[0])


def _at_places_of(added: Element, places: Mapping[Array, Array]) -> Element:
    """An addend with the terms of arrays that are zero but at a place, unless an array has `places`:
    it is known over all iterations."""

    def terms(term: Element) -> list[Element]:
        match term:
            case Read(array=Map(body=body) as array, args=args) if args == identity(array.shape):
                parts = operands(body, "add")
                return parts if array not in places and all(map(_has_place, parts)) else [term]
        return [term]

    return reduce(partial(apply, "add"), [t for term in operands(added, "add") for t in terms(term)])


def _summed(shape: Shape, added: Element, length: Element, found: Mapping[Array, Array]) -> Array:
    sums = [] if is_const(length, 1) else _sums_of(added, len(shape))
    if sums:
        totals = [_over_iterations(s, length, found) for s in sums]
        reads: list[Element] = [Read(total, identity(shape)) for total in totals]
        return closed(shape, reduce(lambda a, b: apply("add", a, b), reads))
    one = Map(shape, added)
    (whole,) = batch((one,), found, (length,))
    iteration = Index(len(shape)) if not is_const(length, 1) else const(0, "i64")
    at = identity(shape) if whole is one else (iteration, *identity(shape))
    return Reduce("sum", shape, (length,), Read(whole, at))


def _over_iterations(one: Reduce | Accumulate, length: Element, found: Mapping[Array, Array]) -> Array:
    """The sum over all iterations of what a sum, or a scatter, in each adds up: one over more axes."""
    (whole,) = batch((one,), found, (length,))
    match whole:
        case Accumulate() if whole is not one:
            return Accumulate(one.shape, whole.domain, whole.indices[1:], whole.body)
        case Reduce() if whole is not one:
            moved: dict[int, Element] = {0: Index(one.rank)}
            body = substitute(whole.body, moved | {k + 1: Index(k) for k in range(one.rank)})
            return Reduce("sum", one.shape, (length, *whole.reduced), body)
    at = identity(one.shape)
    return Reduce("sum", one.shape, (length,), Read(whole, at if whole is one else (Index(one.rank), *at)))


def _scattered(shape: Shape, added: Element, length: Element, found: Mapping[Array, Array]) -> Array | None:
    """A sum of values added at one place per iteration, as a scatter over the iterations."""
    conditions, body = guarded(added)
    places: dict[int, Element] = {}
    rest: list[Element] = []
    for condition in conditions:
        tied = [p for p in scalar_ties(condition) if p[0] not in places]
        places.update(tied)
        rest += [] if tied else [condition]
    if not places:
        return None
    for condition in reversed(rest):
        body = select(condition, body, const(0, body.dtype))
    free = [k for k in range(len(shape)) if k not in places]
    moved: dict[int, Element] = {k: Index(p) for p, k in enumerate(free)} | places
    spots = [places[k] if k in places else Index(free.index(k)) for k in range(len(shape))]
    elements = (*spots, substitute(body, moved))
    *indices, value = shifted(elements, found, identity((length,)))
    domain = (length, *(shape[k] for k in free))
    return Accumulate(shape, domain, tuple(indices), value)
