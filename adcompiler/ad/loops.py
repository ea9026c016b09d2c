"""Derivatives of loops.

Reverse mode runs a loop backwards. The reverse iteration is the vjp of the iteration. It carries the
cotangents of the carried values, and for each const the sum of its contributions; for a row of a scanned
array it returns a row. It reads values of the iteration from stacks: the loop is run with outs for its
carried values and for values that are costly to recompute. A while loop is first counted, then treated as a
loop with that trip count.

Forward mode carries the tangents along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from adcompiler.ad.fewest_saved import fewest
from adcompiler.ad.final_reads import final_reads
from adcompiler.ad.guards import mask
from adcompiler.ad.liveness import liveness
from adcompiler.ad.partials import active_arrays
from adcompiler.ad.rows import RowCotangent, row_cotangents
from adcompiler.ad.stacks import Outlined, is_small, longest, outlined, padded, stacked
from adcompiler.ir.bodies import (
    Body,
    Carried,
    Replace,
    build,
    const_places,
    fresh,
    like,
    opened,
    replaced,
    roots_of,
    with_roots,
)
from adcompiler.ir.loop import Loop, inside
from adcompiler.ir.nodes import (
    Array,
    Element,
    Input,
    Map,
    Read,
    closed,
    element_of,
    identity,
    zeros_like,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    arrays_of,
    read_by,
)
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

Cotangents = Sequence[Array | None]
Pull = Callable[[Sequence[Array], Cotangents, Sequence[Array]], list[Array | None]]
Orders = list[Array | None]  # the derivatives of an array in order, None for zero
Push = Callable[[Sequence[Array], Mapping[Array, Orders]], list[Orders]]


# -- reverse mode --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Iteration:
    """One iteration of a loop, with placeholders for its consts; `wanted` are the active operands, as the
    iteration refers to them."""

    body: Body
    outline: Outlined
    consts: tuple[tuple[Array, Array], ...]
    varied: tuple[Carried, ...]
    rows: tuple[tuple[Array, Array], ...]
    active: tuple[tuple[Array, Array], ...]

    @property
    def wanted(self) -> list[Array]:
        return [*(c.slot for c in self.varied), *(r for _, r in self.rows), *(p for _, p in self.active)]


def reverse(
    loop: Loop, cotangents: Cotangents, active: set[Array], vjp: Pull
) -> Iterator[tuple[Array, Array]]:
    """The contributions of a loop to the cotangents of its operands: pairs of operand and array.

    `cotangents` are those of the loop's results; `active` are the arrays that a derivative flows to, and
    `vjp` is that of a program without this loop.
    """
    iteration = _iteration(loop, active)
    body = iteration.body
    count = len(body.carried)
    slots = {c: like(c.init) for c in iteration.varied}
    finals = {c: cotangents[k] for k, c in enumerate(body.carried) if c in slots}
    rows = [
        (w, fresh(w.dtype, w.shape[1:])) for w in cotangents[count : count + len(body.outs)] if w is not None
    ]
    given = iter(rows)
    seeds = [None if w is None else next(given)[1] for w in cotangents[count : count + len(body.outs)]]
    live = {c for c, final in finals.items() if final is not None}
    roots = roots_of(replace(body, test=None))
    while True:
        incoming = [slots[c] if c in live else None for c in body.carried]
        found = dict(zip(iteration.wanted, vjp(roots, [*incoming, *seeds], iteration.wanted), strict=True))
        flowing = {c for c in iteration.varied if found[c.slot] is not None}
        if flowing <= live:
            break
        live |= flowing
    carried: list[Carried] = []
    for c in iteration.varied:
        if c in live:
            final, result = finals[c], found[c.slot]
            carried.append(
                Carried(
                    zeros_like(c.init) if final is None else final,
                    slots[c],
                    zeros_like(c.init) if result is None else result,
                )
            )
    totals = [(whole, found[place]) for whole, place in iteration.active]
    for whole, contribution in totals:
        if contribution is not None:
            total = like(whole)
            carried.append(Carried(zeros_like(whole), total, _plus(total, contribution)))
    given_rows = [(whole, found[row]) for whole, row in iteration.rows]
    outs = [part for whole, row in given_rows if row is not None for part in row_cotangents(whole, row)]
    yield from _run_back(loop, iteration, live, carried, totals, outs, rows)


def _run_back(
    loop: Loop,
    iteration: _Iteration,
    live: set[Carried],
    carried: list[Carried],
    totals: list[tuple[Array, Array | None]],
    outs: list[RowCotangent],
    rows: Sequence[tuple[Array, Array]],
) -> Iterator[tuple[Array, Array]]:
    """Run the reverse iterations over the stacks that they read."""
    length = loop.length if loop.length is not None else Read(loop.items[-1], ())
    back = Body(
        length,
        iteration.body.step,
        tuple(carried),
        (*iteration.body.rows, *rows),
        tuple(o for part in outs for o in part.outs),
        None,
        not loop.backward,
    )
    back = _with_stacks(loop, iteration, back)
    built = build(back)
    results = iter(built.finals)
    for c in iteration.varied:
        if c in live:
            yield c.init, next(results)
    for whole, contribution in totals:
        if contribution is not None:
            yield whole, next(results)
    stacks = iter(built.outs)
    for part in outs:
        yield part.whole, part.of([next(stacks) for _ in part.outs])


def _iteration(loop: Loop, active: set[Array]) -> _Iteration:
    """The iteration of a loop and its active operands."""
    places = const_places(loop)
    body = opened(loop, places)
    starts = [*(c.slot for c in body.carried), *(r for _, r in body.rows), *places.values()]
    reached = active_arrays(arrays_of(roots_of(body)), starts)
    outline = outlined(body, reached)
    body = with_roots(body, outline.roots, body.carried)
    consts = tuple(zip(loop.consts, places.values(), strict=True))
    rows = tuple((w, r) for w, r in body.rows if w in active)
    flowing = tuple((w, p) for w, p in consts if w in active)
    order = arrays_of(roots_of(body))
    varied = {c for c in body.carried if c.init in active}
    while True:
        wanted = [*(c.slot for c in varied), *(r for _, r in rows), *(p for _, p in flowing)]
        reached = active_arrays(order, wanted) | set(wanted)
        more = {c for c in body.carried if is_float(c.slot.dtype) and c.result in reached}
        if more <= varied:
            break
        varied |= more
    return _Iteration(body, outline, consts, tuple(c for c in body.carried if c in varied), rows, flowing)


def _plus(total: Array, contribution: Array) -> Array:
    body = apply("add", element_of(total), Read(contribution, identity(total.shape)))
    return Map(total.shape, body)


def _with_stacks(loop: Loop, iteration: _Iteration, back: Body) -> Body:
    """The reverse body, with the values of iterations that it reads as rows of stacks, and its consts in
    place."""
    given = {r for _, r in iteration.body.rows} | {p for _, p in iteration.consts} | {iteration.body.step}
    ends = loop.items[: len(loop.results)]
    body = iteration.body
    roots, whole = final_reads(body, ends, back.length, roots_of(back), partial(is_small, body=body))
    roots, saved, restored = stacked(iteration.body, given, roots)
    finals = dict(zip(iteration.body.carried, ends, strict=True))
    carried = (*back.carried, *(replace(r, init=finals[c]) for c, r in restored.items()))
    first = len(back.carried)
    roots = (*roots[:first], *(r.result for r in restored.values()), *roots[first:])
    saved = fewest(iteration.body, given, roots, saved)
    found = _where_read(iteration, given, roots, saved)
    shapes = [longest(a, iteration.body, given) or a.shape for a in saved]
    stacks = _stacks(
        loop, iteration, back, [padded(a, shape) for a, shape in zip(found, shapes, strict=True)]
    )
    new: dict[Array, Array] = {place: const for const, place in iteration.consts} | whole
    rows = [fresh(a.dtype, [inside(n, new) for n in shape]) for a, shape in zip(saved, shapes, strict=True)]
    parts = {a: _first_of(row, a, new) for a, row in zip(saved, rows, strict=True)}
    inner = zip(stacks, rows, strict=True)
    return replaced(with_roots(back, roots, carried, (*back.rows, *inner)), new | parts)


def _first_of(row: Array, array: Array, places: dict[Array, Array]) -> Array:
    """What a row of a stack has for an array, which may be shorter than the row."""
    shape = Replace(dict(places)).resized(array.shape)
    return row if row.shape == shape else Map(shape, Read(row, identity(shape)))


def _where_read(
    iteration: _Iteration, given: set[Array], roots: Sequence[Array], saved: Sequence[Array]
) -> list[Array]:
    """The saved arrays, with zeros where `roots` do not read them: their derivatives need not exist there.

    All reads of the reverse iteration count, including those of conditions and indices. A copy of an input of
    the iteration has a derivative everywhere, and stays as it is.
    """
    inputs = given | {c.slot for c in iteration.body.carried}

    def known(condition: Element) -> bool:
        reached = arrays_of(read_by((condition,)))
        return all(a in inputs for a in reached if isinstance(a, Input))

    def copied(array: Array) -> bool:
        return array in inputs or (
            isinstance(array, Map) and isinstance(array.body, Read) and array.body.array in inputs
        )

    live = liveness(roots, set(saved), known)
    return [a if copied(a) else closed(a.shape, mask(element_of(a), live[a])) for a in saved]


def _stacks(loop: Loop, iteration: _Iteration, back: Body, saved: Sequence[Array]) -> list[Array]:
    """The stacks of an iteration's arrays: outs of the loop, which is run again for those that it lacks."""
    body = iteration.body
    known: dict[Array, Array] = dict(zip(body.outs, loop.items[len(body.carried) :], strict=False))
    missing = [a for a in saved if a not in known]
    if missing:
        forward = Body(
            back.length, body.step, body.carried, body.rows, (*body.outs, *missing), None, loop.backward
        )
        roots = iteration.outline.inlined(roots_of(forward))  # a loop that computes the same can be merged
        forward = with_roots(forward, roots, forward.carried)
        built = build(replaced(forward, {place: whole for whole, place in iteration.consts}))
        known |= zip(missing, built.outs[len(body.outs) :], strict=True)
    return [known[a] for a in saved]


# -- forward mode --------------------------------------------------------------------------------------


def forward(loop: Loop, given: Mapping[Array, Orders], order: int, push: Push) -> list[Orders]:
    """The derivatives of a loop's results up to an order, for the derivatives of its operands.

    `push` differentiates the body on placeholders for the derivatives of its slots. Which carried derivatives
    are zero is found from the body, repeated up to a fixed point.
    """
    none: Orders = [None] * order
    given = dict.fromkeys(loop.operands, none) | {**given}
    places = const_places(loop)
    body = opened(loop, places)
    roots = roots_of(replace(body, test=None))
    count = len(body.carried)
    consts = list(zip(loop.consts, places.values(), strict=True))
    fixed = {place: _placeholders(place, given[whole]) for whole, place in (*body.rows, *consts)}
    slots = {c.slot: _placeholders(c.slot, given[c.init]) for c in body.carried}
    while True:
        found = push(roots, {body.step: none, **fixed, **slots})
        more = [
            (c.slot, k)
            for c, orders in zip(body.carried, found, strict=False)
            for k, d in enumerate(orders)
            if d is not None and slots[c.slot][k] is None
        ]
        if not more:
            break
        for slot, k in more:
            slots[slot][k] = like(slot)
    moving = [
        Carried(first or zeros_like(c.init), placeholder, result or zeros_like(c.init))
        for c, orders in zip(body.carried, found, strict=False)
        for first, placeholder, result in zip(given[c.init], slots[c.slot], orders, strict=True)
        if placeholder is not None
    ]
    rows = [(d, p) for w, r in body.rows for d, p in zip(given[w], fixed[r], strict=True) if d and p]
    outs = tuple(d for orders in found[count:] for d in orders if d is not None)
    back: dict[Array, Array] = {place: whole for whole, place in consts}
    back |= {p: d for w, c in consts for d, p in zip(given[w], fixed[c], strict=True) if d and p}
    made = replace(body, carried=(*body.carried, *moving), rows=(*body.rows, *rows), outs=outs)
    built = build(replaced(made, back))
    finals, stacks = iter(built.finals[count:]), iter(built.outs)
    items: list[Orders] = [[None if p is None else next(finals) for p in slots[c.slot]] for c in body.carried]
    items += [[None if d is None else next(stacks) for d in orders] for orders in found[count:]]
    return [*items, *(none for _ in loop.items[len(items) :])]


def _placeholders(place: Array, orders: Orders) -> Orders:
    """A placeholder for each derivative of a placeholder."""
    return [None if d is None else like(place) for d in orders]
