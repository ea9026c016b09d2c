"""Loops that only combine: each iteration combines a carried value with something that depends on no carried
value, by a sum, an extremum or logaddexp.

Such a value is not a recurrence: `s += x[i] * w[i]` is a sum over the iterations, `out[idx[i]] += w[i]` a
scatter, and `best = logaddexp(best, x[i])` a logsumexp. All are computed outside the loop, in the same fixed
order as other reductions, and in parallel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from adcompiler.ad.guards import TRUE, conjunction
from adcompiler.ad.spots import Spot, spots
from adcompiler.analysis.predicates import guarded, scalar_ties
from adcompiler.ir.batch import batch, shifted
from adcompiler.ir.bodies import (
    Body,
    Carried,
    Replace,
    build,
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
from adcompiler.passes.arrays.prune import alone
from adcompiler.passes.recurrences.updates import Update, masked, update


def reductions(func: Func) -> Func:
    """The program with values that loops only combine computed as reductions."""
    return _Reductions().func(func)


class _Reductions(LoopRewriter):
    def results(self, loop: Loop) -> Sequence[Array]:
        """The results of a loop, with its reductions moved out."""
        return _split(loop)


def _split(loop: Loop) -> list[Array]:
    """The results of a loop; those it only combines are computed outside."""
    if loop.length is None:
        return list(loop.items)
    given = opened(loop)
    body, placed = _by_places(given)
    slots = {c.slot for c in body.carried}
    inside = varying(body)
    found = {c: u for c in body.carried if (u := update(c.slot, c.result)) is not None}
    found = {c: _opened(c, u, slots) if c.slot.rank > 1 else u for c, u in found.items()}
    found = {c: u for c, u in found.items() if u.op == "add" or not any(map(u.has_place, u.parts))}
    while True:
        rest = [c for c in body.carried if c not in found]
        decided = {c: _decided(u.terms(c.slot.rank), slots) for c, u in found.items()}
        stacked = dict.fromkeys(a for arrays in decided.values() for a in arrays)
        outs = (*body.outs, *(a for a in stacked if a not in body.outs))
        taken = reached((*(c.result for c in rest), *outs), slots)
        bad = [
            c for c, arrays in decided.items()
            if c.slot in taken or (arrays and not _collected(c, found[c], arrays, body))
            or _calls_by_length(found[c].element, inside)
        ]  # fmt: skip
        if not bad:
            break
        found = {c: u for c, u in found.items() if c not in bad}
    if not found or (placed and not any(c in found for parts in placed.values() for c, *_ in parts)):
        return list(loop.items)
    others = (*(c.result for c in rest), *outs)
    built = build(with_roots(replace(body, carried=tuple(rest), outs=outs), others, rest))
    kept = dict(zip(rest, built.finals, strict=True))
    every: dict[Array, Array] = {row: whole for whole, row in body.rows}
    every |= {a: stack for a, stack in zip(outs, built.outs, strict=True) if a in stacked}
    every[body.step] = Map((loop.length,), Index(0) if not is_const(loop.length, 1) else const(0, "i64"))
    found = {c: _at_places_of(_sliced(u, every), every) for c, u in found.items()}
    read = [a for a in read_by(e for c, u in found.items() for e in u.terms(c.slot.rank)) if a not in every]
    iterations = batch(read, every, (loop.length,))
    every |= {old: new for old, new in zip(read, iterations, strict=True) if new is not old}
    totals = {c: total(c.init, u, loop.length, every) for c, u in found.items()}
    finals = {c: totals[c] if c in totals else kept[c] for c in body.carried}
    finals |= {c: _at_places(c.init, [(finals[p], s, u) for p, s, u in parts]) for c, parts in placed.items()}
    return [*(finals[c] for c in given.carried), *built.outs[: len(body.outs)]]


Parts = list[tuple[Carried, Spot, Update]]  # what an array is combined with at fixed places


def _by_places(body: Body) -> tuple[Body, dict[Carried, Parts]]:
    """A body that carries a separate value for each fixed place at which it combines values with a carried
    array, as for `out[i, k] = max(out[i, k], x[j])` or in the gradient of `x @ W[0]`; and these values."""
    slots, inside = {c.slot for c in body.carried}, varying(body)
    placed: dict[Carried, Parts] = {}
    carried: list[Carried] = []
    for c in body.carried:
        own = update(c.slot, c.result) if c.slot.rank else None
        found = None if own is None else _fixed_spots(c, own, slots, inside)
        rest = (*(o.result for o in body.carried if o is not c), *body.outs)
        if own is None or not found or c.slot in reached(rest, slots):
            carried.append(c)
            continue
        placed[c] = [(_separate(c, spot, own), spot, own) for spot in found]
        carried += [part for part, *_ in placed[c]]
    return (replace(body, carried=tuple(carried)), placed) if placed else (body, placed)


def _fixed_spots(carried: Carried, own: Update, slots: set[Array], inside: set[Array]) -> list[Spot] | None:
    """The places at which all iterations combine values with an array; None if there are others. Of values
    that are added, only sums are worth it: one number at a place is a scatter."""
    if own.op != "add":
        found = [_spot(part, own, inside) for part in own.parts]
        return None if None in found else [spot for spot in found if spot is not None]
    sums = spots(_opened(carried, own, slots).element) if carried.slot.rank > 1 else None
    return sums if sums is not None and _are_fixed_sums(sums, inside) else None


def _spot(part: Element, own: Update, inside: set[Array]) -> Spot | None:
    """The fixed place outside which a value is neutral."""
    conditions, value = guarded(part, own.neutral.value)
    ties: dict[int, Element] = {}
    rest: list[Element] = []
    for condition in conditions:
        fixed = [
            t for t in scalar_ties(condition) if t[0] not in ties and inside.isdisjoint(read_by((t[1],)))
        ]
        ties |= dict(fixed[:1])
        rest += [] if fixed else [condition]
    return Spot(ties, conjunction(rest), value) if ties else None


def _are_fixed_sums(found: Iterable[Spot], inside: Collection[Array]) -> bool:
    """Whether spots are at the same places in all iterations, and their values are sums."""
    return all(
        not any(a in inside for a in read_by((s.guard, *s.ties.values())))
        and isinstance(s.value, Read) and isinstance(s.value.array, Reduce) and s.value.array.rank
        for s in found
    )  # fmt: skip


def _separate(carried: Carried, spot: Spot, own: Update) -> Carried:
    """A value of its own for what is combined at a spot."""
    rank = carried.slot.rank
    free = spot.free(rank)
    shape = tuple(carried.slot.shape[k] for k in free)
    at: dict[int, Element] = {k: Index(p) for p, k in enumerate(free)} | dict(spot.ties)
    value = spot.value if spot.guard is TRUE else masked(spot.value, spot.guard, own.neutral)
    slot = fresh(carried.slot.dtype, shape)
    result = apply(own.op, element_of(slot), substitute(value, at))
    return Carried(Map(shape, own.neutral), slot, Map(shape, result))


def _at_places(init: Array, parts: Iterable[tuple[Array, Spot, Update]]) -> Array:
    """An array, with values combined at their places."""
    body: Element = element_of(init)
    for part, spot, own in parts:
        here = conjunction(apply("equal", Index(k), place) for k, place in spot.ties.items())
        value = Read(part, tuple(identity(init.shape)[k] for k in spot.free(init.rank)))
        if own.op == "add":
            body = apply("add", body, select(here, value, const(0, init.dtype)))
        else:
            body = select(here, apply(own.op, substitute(body, dict(spot.ties)), value), body)
    return Map(init.shape, body)


def _decided(elements: Iterable[Element], slots: set[Array]) -> list[Array]:
    """The arrays read by elements that depend on carried values."""
    return [a for a in read_by(elements) if not slots.isdisjoint(reached((a,), slots))]


def _calls_by_length(element: Element, inside: set[Array]) -> bool:
    """Whether an element needs a library call on matrices whose lengths an iteration computes."""
    calls = (a for a in arrays_of(read_by((element,))) if isinstance(a, Call))
    return any(not inside.isdisjoint(lengths_read(call)) for call in calls)


def _collected(carried: Carried, own: Update, found: Iterable[Array], body: Body) -> bool:
    """Whether what is combined with a carried value is cheap to compute from arrays over fewer axes, no
    larger than the largest row: these are collected over all iterations. A sum of outer products, or of
    products of matrices, becomes a matrix product. A costly operation is worth arrays over the same axes."""
    if not all(is_float(a.dtype) and not lengths_read(a) for a in found):
        return False
    rank = carried.slot.rank
    if own.is_costly:
        return all(a.rank <= rank for a in found)
    largest = max((row.rank for _, row in body.rows), default=-1)
    wholes, terms = own.wholes(rank), own.terms(rank)
    if own.op != "add" or any(isinstance(w, Accumulate) for w in wholes):
        return False
    depth = min(len(e.axes) for e in terms) if wholes else rank
    small = all(a.rank < depth and a.rank <= largest for a in found)
    return small and not any(costly(e, {}) for e in terms)


def _opened(carried: Carried, own: Update, slots: set[Array]) -> Update:
    """What is combined with a carried array, with arrays as large as that inlined."""
    element = own.element
    while True:
        decided = _decided((element,), slots)
        large = {a for a in decided if isinstance(a, Map) and a.rank >= carried.slot.rank}
        if not large:
            return own._replace(element=element)

        (element,) = rewrite((element,), partial(_inside, large))


def _inside(arrays: set[Map], element: Element) -> Element:
    """The body of a map, for a read of one of `arrays`."""
    if isinstance(element, Read) and isinstance(element.array, Map) and element.array in arrays:
        return substitute(element.array.body, dict(enumerate(element.args)))
    return element


def _sliced(own: Update, places: Mapping[Array, Array]) -> Update:
    """An update whose loops carry only what it needs, so that they read nothing else of the iteration. What
    has `places` is known over all iterations, and stays as it is."""
    stand: dict[Array, Array] = {a: like(a) for a in places if not isinstance(a, Input)}
    there, back = Replace(dict(stand)), Replace({stood: a for a, stood in stand.items()})
    inside = [a for a in read_by((own.element,)) if a not in places]
    parts = dict(zip(inside, back.run(map(alone, there.run(inside))), strict=True))

    def change(e: Element) -> Element:
        return Read(parts[e.array], e.args) if isinstance(e, Read) and e.array in parts else e

    return own._replace(element=rewrite((own.element,), change)[0])


def total(init: Array, own: Update, length: Element, found: Mapping[Array, Array]) -> Array:
    """`init` and what all iterations combine with it; `found` maps arrays of one iteration to those over all
    iterations."""
    shape, at = init.shape, identity(init.shape)
    parts = _by_place(own)
    totals = [
        (own.op == "add" and _scattered(shape, p, length, found))
        or _reduced(shape, own._replace(element=p), length, found)
        for p in parts
    ]
    combined = totals[0] if len(totals) == 1 else closed(shape, own.combined([Read(t, at) for t in totals]))
    if isinstance(init, Map) and isinstance(init.body, Const) and is_const(init.body, own.neutral.value):
        return combined
    return Map(shape, Apply(own.op, (Read(init, at), Read(combined, at)), init.dtype))


def _by_place(own: Update) -> list[Element]:
    """The terms of a sum that are added at one place an iteration, and the sum of the others; each term of
    another operation that is costly to repeat."""
    parts = own.parts
    if own.op != "add":
        return parts if own.is_costly else [own.element]
    placed = [t for t in parts if own.has_place(t)]
    others = [t for t in parts if t not in placed]
    return [*placed, *([own.combined(others)] if others else [])]


def _at_places_of(own: Update, places: Mapping[Array, Array]) -> Update:
    """A sum with the terms of arrays that are zero but at a place, unless an array has `places`: it is known
    over all iterations."""

    def terms(term: Element) -> list[Element]:
        match term:
            case Read(array=Map(body=body) as array, args=args) if args == identity(array.shape):
                parts = operands(body, "add")
                return parts if array not in places and all(map(own.has_place, parts)) else [term]
        return [term]

    if own.op != "add":
        return own
    return own._replace(element=own.combined([t for term in own.parts for t in terms(term)]))


def _reduced(shape: Shape, own: Update, length: Element, found: Mapping[Array, Array]) -> Array:
    """What all iterations combine."""
    wholes = [] if is_const(length, 1) else own.wholes(len(shape))
    if wholes:
        totals = [_over_iterations(w, length, found) for w in wholes]
        return closed(shape, own.combined([Read(total, identity(shape)) for total in totals]))
    if own.op != "add" and not is_const(length, 1):
        (body,) = shifted((own.element,), found, identity((length,)))
        return Reduce(own.reducer, shape, (length,), _behind(body, len(shape)))
    one = Map(shape, own.element)
    (whole,) = batch((one,), found, (length,))
    iteration = Index(len(shape)) if not is_const(length, 1) else const(0, "i64")
    at = identity(shape) if whole is one else (iteration, *identity(shape))
    return Reduce(own.reducer, shape, (length,), Read(whole, at))


def _behind(body: Element, rank: int) -> Element:
    """An element with its first axis, that of the iterations, behind the `rank` axes that follow it."""
    moved: dict[int, Element] = {0: Index(rank)}
    return substitute(body, moved | {k + 1: Index(k) for k in range(rank)})


def _over_iterations(one: Reduce | Accumulate, length: Element, found: Mapping[Array, Array]) -> Array:
    """The sum over all iterations of what a sum, or a scatter, in each adds up: one over more axes."""
    (whole,) = batch((one,), found, (length,))
    match whole:
        case Accumulate() if whole is not one:
            return Accumulate(one.shape, whole.domain, whole.indices[1:], whole.body)
        case Reduce() if whole is not one:
            return Reduce(whole.op, one.shape, (length, *whole.reduced), _behind(whole.body, one.rank))
    at = identity(one.shape)
    op = one.op if isinstance(one, Reduce) else "sum"
    return Reduce(op, one.shape, (length,), Read(whole, at if whole is one else (Index(one.rank), *at)))


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
