"""Derivatives of loops.

Reverse mode runs a loop backwards. The reverse iteration is the vjp of the iteration. It carries the
cotangents of the carried values, and for each const the sum of its contributions; for a row of a scanned
array it returns a row. It reads values of the iteration from stacks: the loop is run with outs for its
carried values and for values that are costly to recompute. A while loop is first counted, then treated as a
loop with that trip count.

Forward mode carries the tangents along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from adcompiler.ad.guards import mask
from adcompiler.ad.liveness import liveness
from adcompiler.ad.partials import active_arrays
from adcompiler.ad.saved_temporaries import is_over_pairs
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
    standing,
    with_roots,
)
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
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
    zeros_like,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    arrays_of,
    arrays_read,
    elements_of,
    lengths_read,
    postorder,
    read_by,
    with_args,
)
from adcompiler.ops.build import apply
from adcompiler.ops.costs import NOMINAL_ROW, costly, is_costly
from adcompiler.ops.table import TABLE

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
    outs = [(whole, found[row]) for whole, row in iteration.rows]
    made = tuple(o for _, o in outs if o is not None)
    yield from _run_back(loop, iteration, live, carried, totals, outs, made, rows)


def _run_back(
    loop: Loop,
    iteration: _Iteration,
    live: set[Carried],
    carried: list[Carried],
    totals: list[tuple[Array, Array | None]],
    outs: list[tuple[Array, Array | None]],
    made: tuple[Array, ...],
    rows: Sequence[tuple[Array, Array]],
) -> Iterator[tuple[Array, Array]]:
    """Run the reverse iterations over the stacks that they read."""
    length = loop.length if loop.length is not None else Read(loop.items[-1], ())
    back = Body(
        length,
        iteration.body.step,
        tuple(carried),
        (*iteration.body.rows, *rows),
        made,
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
    for whole, contribution in outs:
        if contribution is not None:
            yield whole, _rows_of(next(stacks), whole)


def _iteration(loop: Loop, active: set[Array]) -> _Iteration:
    """The iteration of a loop and its active operands."""
    places = const_places(loop)
    body = opened(loop, places)
    body = with_roots(body, outlined(roots_of(body)), body.carried)
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
    return _Iteration(body, consts, tuple(c for c in body.carried if c in varied), rows, flowing)


def _plus(total: Array, contribution: Array) -> Array:
    body = apply("add", element_of(total), Read(contribution, identity(total.shape)))
    return Map(total.shape, body)


def _rows_of(stack: Array, whole: Array) -> Array:
    """Rows, one per iteration, as a cotangent of the scanned array: zeros beyond the iterations."""
    length, size = stack.shape[0], whole.shape[0]
    if length is size:
        return stack
    row = const(0, "i64") if is_const(size, 1) else Index(0)
    read = Read(stack, (row, *identity(whole.shape)[1:]))
    return Map(whole.shape, select(apply("less", row, length), read, const(0, whole.dtype)))


def _with_stacks(loop: Loop, iteration: _Iteration, back: Body) -> Body:
    """The reverse body, with the values of iterations that it reads as rows of stacks, and its consts in
    place."""
    given = {r for _, r in iteration.body.rows} | {p for _, p in iteration.consts} | {iteration.body.step}
    roots, saved = stacked(iteration.body, given, roots_of(back))
    found = _where_read(iteration, given, roots, saved)
    stacks = dict(zip(saved, _stacks(loop, iteration, back, found), strict=True))
    new: dict[Array, Array] = {place: whole for whole, place in iteration.consts}
    rows = {array: standing(array, new) for array in saved}
    new |= rows
    inner = [(stacks[a], rows[a]) for a in saved]
    return replaced(with_roots(back, roots, back.carried, (*back.rows, *inner)), new)


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


# -- stacks ------------------------------------------------------------------------------------------
# Stacks: what an iteration of a loop must save for its reverse.
#
# An iteration of a loop is a small program, and its reverse reads some of its arrays. All others are
# recomputed from those, or from what is available in every iteration.


def outlined(roots: Sequence[Array]) -> tuple[Array, ...]:
    """The roots of an iteration with costly functions of elements as separate arrays, which can be saved;
    those not saved are inlined again."""
    return _Outline({}).run(roots)


class _Outline(Replace):
    def array(self, array: Array) -> Array:
        if not isinstance(array, Map):
            return array
        own = identity(array.shape)
        axes = frozenset(i.axis for i in own if isinstance(i, Index))
        new: dict[Element, Element] = {}
        for e in elements_of((array.body,)):
            made = with_args(e, tuple(new[a] for a in e.args))
            stored = e is not array.body and e.axes == axes and _is_function(e)
            new[e] = Read(Map(array.shape, made), own) if stored else made
        return Map(array.shape, new[array.body])


def _is_function(element: Element) -> bool:
    """Whether an element is worth saving: a function such as tanh, but not a quotient."""
    if not (isinstance(element, Apply) and is_costly(element)):
        return False
    return element.op != "divide" and TABLE[element.op].kind == "float"


def stacked(body: Body, given: set[Array], roots: Sequence[Array]) -> tuple[Sequence[Array], list[Array]]:
    """The roots of a reverse iteration, and the arrays of the iteration `body` that they read.

    These are the carried values, or smaller parts of them if only those are read, and costly values that are
    no larger than the carried ones. The rest is recomputed from these and from the arrays `given` in every
    iteration.
    """
    slots = {c.slot for c in body.carried}
    own = _decided_by(slots | given, roots)
    made = set(arrays_of(roots_of(body)))
    most = max((_extent(c.init) for c in body.carried), default=0)
    sizes = [Counter(_lengths(c.init)) for c in body.carried]
    kept = slots & own
    for a in own - given:
        if a in made:
            small = _extent(a) <= most and _is_worth_saving(a) and not is_over_pairs(a)
        else:  # the stacks of a loop in the iteration, which then need not run again
            few = _extent(a) < most or any(Counter(_lengths(a)) <= size for size in sizes)
            small = isinstance(a, Item) and few
        if small and not lengths_read(a):  # rows of a stack have the same length
            kept.add(a)
    parts = _Parts(kept, slots, own)
    parts.find(roots)
    roots = parts.run(roots)
    kept |= parts.made
    return roots, [a for a in postorder(roots, lambda a: () if a in kept else arrays_read(a)) if a in kept]


def _decided_by(leaves: set[Array], roots: Sequence[Array]) -> set[Array]:
    """The arrays that are computed from `leaves` alone."""
    found: set[Array] = set()
    for array in postorder(roots, lambda a: () if a in leaves else arrays_read(a)):
        if array in leaves or not (
            isinstance(array, Input) or any(a not in found for a in arrays_read(array))
        ):
            found.add(array)
    return found


class _Parts(Replace):
    """Reads only parts of carried values where the indices are known in the forward pass: only these parts
    are saved."""

    def __init__(self, kept: set[Array], slots: set[Array], own: set[Array]) -> None:
        super().__init__({a: a for a in kept})
        self.kept, self.slots, self.own = kept, slots, own
        self.whole: set[Array] = set()  # arrays whose parts are not smaller
        self.made: set[Array] = set()

    def find(self, roots: Sequence[Array]) -> None:
        """Find the arrays that are read whole."""
        places: dict[Array, set[tuple[Element | None, ...]]] = {}
        self.whole.update(roots)
        for array in postorder(roots, lambda a: () if a in self.kept else arrays_read(a)):
            if array in self.kept:
                continue
            reads = [e for e in elements_of((*array.domain, *array.elements)) if isinstance(e, Read)]
            self.whole.update(set(arrays_read(array)) - {r.array for r in reads})
            for read in reads:
                places.setdefault(read.array, set()).add(self.placed(read))
        for array, found in places.items():
            if sum(_elements(_free(array, at)) for at in found) >= _elements(array.shape):
                self.whole.add(array)

    def placed(self, read: Read) -> tuple[Element | None, ...]:
        """For each index of a read, itself if it is a single one known in the forward pass, else None."""
        return tuple(
            i if not i.axes and not isinstance(i, Const) and self.own.issuperset(read_by((i,))) else None
            for i in read.args
        )

    def element(self, element: Element) -> Element:
        if not isinstance(element, Read) or element.array not in self.slots - self.whole:
            return element
        places = self.placed(element)
        shape = _free(element.array, places)
        if len(shape) == len(places):
            return element
        free = iter(identity(shape))
        part = Map(shape, Read(element.array, tuple(next(free) if p is None else p for p in places)))
        self.made.add(part)
        return Read(part, tuple(i for i, p in zip(element.args, places, strict=True) if p is None))


def _free(array: Array, places: Sequence[Element | None]) -> Shape:
    """The lengths of the axes that remain where some indices are fixed."""
    return tuple(n for n, p in zip(array.shape, places, strict=True) if p is None)


def _elements(lengths: Shape) -> int:
    """The approximate number of elements."""
    return prod(int(n.value) if isinstance(n, Const) else NOMINAL_ROW for n in lengths)


def _extent(array: Array) -> int:
    """The number of an array's axes that are not of length 1."""
    return len(_lengths(array))


def _lengths(array: Array) -> list[Element]:
    return [n for n in array.shape if not is_const(n, 1)]


def _is_worth_saving(array: Array) -> bool:
    match array:
        case Item() | Reduce():
            return True
        case Map(body=Const()):
            return False
        case Map(body=body):
            return costly(body, {})
    return not isinstance(array, Input)
