"""Loops that only store: each iteration sets elements of a carried array, at places that follow from the
iteration's number, to values that depend on no carried array.

Such an array is not a recurrence: after `for k in range(n): d[k] = x[k + 1] - x[k]` each element is the value
of the one iteration that sets it, or what it was. It is computed outside of the loop, as by a comprehension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from adcompiler.ad.guards import TRUE, conjunction, negation, within
from adcompiler.analysis.affine import Linear, linear
from adcompiler.ir.batch import batch, shifted
from adcompiler.ir.bodies import Body, Carried, build, opened, reached, varying, with_roots
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
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
    closed,
    const,
    element_of,
    identity,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import LoopRewriter, Rewriter, arrays_of, elements_of, operands, read_by, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply
from adcompiler.ops.costs import is_costly
from adcompiler.passes.recurrences.changes import changes
from adcompiler.passes.recurrences.initial_reads import places_of, stored_places, with_initial_reads


def stores(func: Func) -> Func:
    """The program with arrays that loops only store in computed outside of them."""
    return _Stores().func(func)


class _Stores(LoopRewriter):
    """Rewrites loops; those in the iterations of another loop are `inner` ones."""

    def __init__(self, is_inner: bool = False) -> None:
        super().__init__()
        self.is_inner = is_inner

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        """The same for loops in the iterations of a loop."""
        return _Stores(isinstance(loop, Loop) or self.is_inner)

    def results(self, loop: Loop) -> Sequence[Array]:
        return _split(loop, self.is_inner)


@dataclass(frozen=True)
class _Store:
    """Elements at which `guard` holds are set to `value`. `Index(axis)` is `step * iteration + rest`."""

    guard: Element
    value: Element
    axis: int
    step: int
    rest: Linear

    @property
    def iteration(self) -> Element:
        """The number of the iteration that sets an element."""
        distance = (linear(Index(self.axis)) - self.rest).element()
        return distance if self.step == 1 else apply("floor_divide", distance, const(self.step, "i64"))

    def met(self, length: Element, axis: Element) -> Element:
        """Whether there is this iteration of a loop; `axis` is the length of the axis."""
        zero, distance = const(0, "i64"), (linear(Index(self.axis)) - self.rest).element()
        conditions: list[Element] = []
        if (offset := self.rest.constant) is None or offset > 0:
            conditions.append(apply("less_equal", zero, distance))
        whole = self.step == 1 and offset is not None
        whole = whole and (linear(axis) - linear(_positive(length))).constant == offset
        if not whole:
            conditions.append(apply("less", self.iteration, length))
        if self.step > 1:
            remainder = apply("remainder", distance, const(self.step, "i64"))
            conditions.append(apply("equal", remainder, zero))
        return conjunction(conditions)


def _split(loop: Loop, is_inner: bool) -> list[Array]:
    """The results of a loop; those in which it only stores are computed outside.

    An inner loop that sets few elements of a long array changes it in place: it stays what it is.
    """
    if loop.length is None or loop.backward:
        return list(loop.items)
    body, found = _found(opened(loop), is_inner)
    if not found:
        return list(loop.items)
    rest = [c for c in body.carried if c not in found]
    others = (*(c.result for c in rest), *body.outs)
    built = build(with_roots(replace(body, carried=tuple(rest)), others, rest))
    kept = dict(zip(rest, built.finals, strict=True))
    every: dict[Array, Array] = {row: whole for whole, row in body.rows}
    every[body.step] = Map((loop.length,), identity((loop.length,))[0])
    arrays = [a for a in _read_by(found.values()) if a not in every]
    iterations = batch(arrays, every, (loop.length,))
    every |= {old: new for old, new in zip(arrays, iterations, strict=True) if new is not old}
    kept |= {c: _stored(c.init, own, loop.length, every) for c, own in found.items()}
    return [*(kept[c] for c in body.carried), *built.outs]


def _found(body: Body, is_inner: bool) -> tuple[Body, dict[Carried, list[_Store]]]:
    """The carried arrays that only stores change, with their stores; and the iteration, in which reads of
    what no iteration before has stored are of initial values."""
    inside = varying(body)
    places = {c.slot: own for c in body.carried if (own := stored_places(c, body, inside))}
    while places:
        trial = with_initial_reads(body, places)
        found = _only_stored(trial, is_inner)
        stored = {c.slot for c in found}
        if places.keys() <= stored:
            return trial, found
        places = {slot: place for slot, place in places.items() if slot in stored}
    return body, _only_stored(body, is_inner)


def _only_stored(body: Body, is_inner: bool) -> dict[Carried, list[_Store]]:
    """The carried arrays in which an iteration only stores what depends on nothing carried."""
    inside = varying(body)
    found = {c: s for c in body.carried if (s := _stores_of(c, body, inside)) is not None}
    slots = {c.slot for c in body.carried}
    if is_inner and body.length is not None:
        found = {c: own for c, own in found.items() if _is_fresh(c.init) or _sets_most(c, own, body.length)}
    while True:
        rest = [c for c in body.carried if c not in found]
        taken = reached((*(c.result for c in rest), *body.outs, *_read_by(found.values())), slots)
        bad = [c for c, own in found.items() if c.slot in taken or not _are_disjoint(own, slots)]
        if not bad:
            return found
        found = {c: s for c, s in found.items() if c not in bad}


def _is_fresh(init: Array) -> bool:
    """Whether an array is filled with a constant: this takes as long as its elements do."""
    return isinstance(init, Map) and isinstance(init.body, Const)


def _sets_most(carried: Carried, stores: Iterable[_Store], length: Element) -> bool:
    """Whether a loop has an iteration for each position along the axis, but for a constant number."""
    shape, steps = carried.init.shape, linear(_positive(length))
    return any((linear(shape[s.axis]) - steps * s.step).constant is not None for s in stores)


def _positive(length: Element) -> Element:
    """A length without its clamp at 0."""
    is_clamped = isinstance(length, Apply) and length.op == "maximum" and is_const(length.args[1], 0)
    return length.args[0] if is_clamped else length


def _are_disjoint(stores: Iterable[_Store], slots: set[Array]) -> bool:
    """Whether stores depend on nothing carried."""
    return slots.isdisjoint(reached(_read_by((stores,)), slots))


def _read_by(groups: Iterable[Iterable[_Store]]) -> tuple[Array, ...]:
    """The arrays that stores read."""
    return read_by(e for own in groups for s in own for e in (s.guard, s.value))


def _stored(init: Array, stores: Sequence[_Store], length: Element, every: Mapping[Array, Array]) -> Array:
    """What an array is after all iterations. The last store has been the first of `stores`."""
    body: Element = element_of(init)
    for store in reversed(stores):
        at = {0: store.iteration} | {k + 1: Index(k) for k in range(init.rank)}
        guard, value = (
            substitute(e, at) for e in shifted((store.guard, store.value), every, identity((length,)))
        )
        where = within(store.met(length, init.shape[store.axis]), guard)
        body = value if where is TRUE else select(where, value, body)
    return closed(init.shape, body)


def _stores_of(carried: Carried, body: Body, inside: set[Array]) -> list[_Store] | None:
    """The stores of an iteration, those that hold last first; None if it does anything else."""
    pairs = changes(carried)
    if pairs is None:
        return None
    found = []
    for guard, value in pairs:
        conditions = operands(guard, "logical_and")
        if any(negation(c) in conditions for c in conditions):
            continue  # it never holds
        store = _store(guard, value, Read(body.step, ()))
        reads = arrays_of(read_by((guard, value)))
        computed = [a for a in reads if a in inside and not isinstance(a, Input)]
        if store is None or not _are_small(computed, carried.slot):
            return None
        found.append(store)
    return _ordered(found) if found else None


def _are_small(computed: Sequence[Array], stored: Array) -> bool:
    """Whether what an iteration computes is small enough to be computed for all of them: an array that is
    larger than what is stored is computed where it is read."""
    factors = {a for call in computed if isinstance(call, Call) for a in call.operands}
    large = [a for a in computed if a.rank >= stored.rank]
    return all(
        isinstance(a, Map) and (a.rank == stored.rank or not (a in factors or _is_dear(a.body)))
        for a in large
    )


def _is_dear(element: Element) -> bool:
    """Whether an element takes long at each point, not once."""
    return any(is_costly(e) for e in elements_of((element,)) if e.axes)


def _store(guard: Element, value: Element, number: Element) -> _Store | None:
    """A store at a place that follows from the number of the iteration."""
    for condition, place in places_of(guard, number):
        left = [c for c in operands(guard, "logical_and") if c is not condition]
        return _Store(conjunction(left), value, *place)
    return None


def _ordered(stores: list[_Store]) -> list[_Store] | None:
    """Stores in an order in which the first one that sets an element has set it last."""
    first = stores[0]
    places = []
    for store in stores:
        distance = (store.rest - first.rest).constant
        if store.axis != first.axis or store.step != first.step or distance is None:
            return None
        places.append(distance)
    return [stores[k] for k in sorted(range(len(stores)), key=places.__getitem__)]
