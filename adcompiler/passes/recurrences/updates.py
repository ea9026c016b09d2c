"""What an iteration makes of a carried value by an associative operation: its own, and something else.

`s += x`, `top = maximum(top, x)` and `best = logaddexp(best, x)` combine what is carried with x. So does a
store of such a value at a place of an array, and a statement of this kind under a condition: elsewhere it
combines the neutral value of the operation. Products are left out: their derivative multiplies in order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import NamedTuple

from adcompiler.ad.guards import both, negation
from adcompiler.analysis.affine import linear
from adcompiler.analysis.predicates import guarded, scalar_ties, ties
from adcompiler.ir.bodies import dependents
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Const,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    const,
    element_of,
    identity,
    is_const,
    neutral,
    select,
)
from adcompiler.ir.walk import operands, read_by, substitute
from adcompiler.ops.build import apply
from adcompiler.ops.costs import weight
from adcompiler.passes.algebra.fold import folded
from adcompiler.passes.limits import MOST_SELECTED_SUMS, MOST_SUMMED_STORES

REDUCERS = {"add": "sum", "maximum": "max", "minimum": "min", "logaddexp": "logsumexp"}

Whole = Reduce | Accumulate


class Update(NamedTuple):
    """Each element of a carried array becomes itself and `element`, combined by the operation `op`."""

    op: str
    element: Element

    @property
    def reducer(self) -> str:
        """The reduction that combines values by the operation."""
        return REDUCERS[self.op]

    @property
    def neutral(self) -> Const:
        """What changes nothing."""
        return neutral(self.reducer, self.element.dtype)

    @property
    def is_costly(self) -> bool:
        """Whether the operation takes much longer than an addition."""
        return weight(self.op) > 1

    def has_place(self, term: Element) -> bool:
        """Whether a term is neutral but at a place of some axis."""
        return any(scalar_ties(c) for c in guarded(term, self.neutral.value)[0])

    @property
    def parts(self) -> list[Element]:
        """What is combined to the element."""
        return operands(self.element, self.op)

    def combined(self, parts: Sequence[Element]) -> Element:
        """Elements combined by the operation."""
        return reduce(partial(apply, self.op), parts)

    def wholes(self, rank: int) -> list[Whole]:
        """The reductions and scatters that the element combines, over its own axes in their order; none if it
        combines anything else."""
        found = [whole(e, rank, self.reducer) for e in self.parts]
        return [w for w in found if w is not None] if None not in found else []

    def terms(self, rank: int) -> list[Element]:
        """The elements of these reductions and scatters, else the element itself."""
        return [e for w in self.wholes(rank) for e in w.elements] or [self.element]


def update(slot: Array, result: Array) -> Update | None:
    """How an iteration changes each element of a carried array: all its statements together; None if it does
    anything else."""
    if not isinstance(result, Map) or slot.dtype == "bool":
        return None
    dependent = dependents(slot, result)
    op = _operation(slot, result.body, dependent)
    terms = None if op is None else _Terms(op, slot, dependent).of(result.body)
    if op is None or terms is None:
        return None
    none = neutral(REDUCERS[op], slot.dtype)
    terms = [t for term in terms for t in _combined_in(term, op)]
    return Update(op, reduce(partial(apply, op), terms) if terms else none)


def _operation(slot: Array, body: Element, dependent: set[Array]) -> str | None:
    """The first operation on the way from a body to the slot; a sum if there is none."""
    work, seen = [body], set[Element]()
    while work:
        element = work.pop()
        if element in seen or not isinstance(element, Read | Select | Apply):
            continue
        seen.add(element)
        match element:
            case Apply(op="subtract"):
                return "add"
            case Apply(op=op) if not dependent.isdisjoint(read_by((element,))):
                return op if op in REDUCERS else None
            case Read(array=Map() as array) if array in dependent:
                work.append(array.body)
            case Select():
                work += (element.otherwise, element.then)
    return "add"


def _combined_in(term: Element, op: str) -> list[Element]:
    """The reductions that a term reads the combination of, as of an inner loop with several statements; else
    the term."""
    if isinstance(term, Read) and isinstance(term.array, Map) and term.args == identity(term.array.shape):
        parts = operands(term.array.body, op)
        if all(whole(p, term.array.rank, REDUCERS[op]) is not None for p in parts):
            return parts
    return [term]


def whole(element: Element, rank: int, reducer: str) -> Whole | None:
    """The reduction or scatter whose elements an element is, over its own axes in order. One that counts
    only under a condition has it for each of its terms."""
    match element:
        case Select(otherwise=none) if none is neutral(reducer, element.dtype) or _is_zero(none, reducer):
            inside = whole(element.then, rank, reducer)
            return None if inside is None else _under(element.guard, inside)
        case Read(array=array) if array.rank < rank:
            return None  # the same number along an axis
        case Read(array=Accumulate() as array, args=args) if args == identity(array.shape):
            return array if reducer == "sum" else None
        case Read(array=Reduce(op=op) as array, args=args) if op == reducer:
            axes = [i.axis for i in args if isinstance(i, Index)]
            if sorted(axes) == list(range(array.rank)):
                shape = tuple(array.shape[axes.index(k)] for k in range(array.rank))
                body = substitute(array.body, {k: Index(axis) for k, axis in enumerate(axes)})
                return Reduce(op, shape, array.reduced, body)
    return None


def _is_zero(element: Element, reducer: str) -> bool:
    """Whether an element adds nothing to a sum: -0.0 is one, too."""
    return reducer == "sum" and is_const(element, 0)


def _under(guard: Element, inside: Whole) -> Whole:
    """A reduction or scatter of terms that count only where a condition on the place of the result holds."""
    if isinstance(inside, Reduce):
        none = neutral(inside.op, inside.dtype)
        return Reduce(inside.op, inside.shape, inside.reduced, masked(inside.body, guard, none))
    there = substitute(guard, dict(enumerate(inside.indices)))
    body = masked(inside.body, there, const(0, inside.dtype))
    return Accumulate(inside.shape, inside.domain, inside.indices, body)


Pins = Mapping[int, Collection[Element]]  # the place that an axis has, by all its names


class _Terms:
    """Finds what an operation combines with the elements of `slot`, on which some arrays are `dependent`."""

    def __init__(self, op: str, slot: Array, dependent: Collection[Array]) -> None:
        self.op, self.slot, self.dependent, self.own = op, slot, dependent, element_of(slot)
        self.neutral = neutral(REDUCERS[op], slot.dtype)
        self.left = MOST_SELECTED_SUMS

    def of(self, body: Element, pins: Pins = MappingProxyType({}), stores: int = 0) -> list[Element] | None:
        """The terms of `body` beside the slot's own element, if that is one of them, or of the values between
        which it selects. `stores` counts those of the same iteration around it."""
        match body:
            case Read(array=array) if array is self.slot:
                return [] if self.is_own(body, pins) else None
            case Read(array=Map() as array) if array in self.dependent and stores < MOST_SUMMED_STORES:
                return self.of(_element(body), pins, stores + 1)
            case Apply():
                taken = self.taken(body)
                terms = None if taken is None else self.of(taken[0], pins, stores)
                return None if taken is None or terms is None else [*terms, taken[1]]
            case Select(guard=guard) if self.left and not self.reads(guard):
                self.left -= 1
                return self.selected(body, pins, stores)
        return None

    def taken(self, body: Element) -> tuple[Element, Element] | None:
        """The operand that depends on the slot, and what is combined with it."""
        match body:
            case Apply(op=op, args=(x, y)) if op == self.op and not self.reads(y):
                return x, y
            case Apply(op=op, args=(x, y)) if op == self.op and not self.reads(x):
                return y, x
            case Apply(op="subtract", args=(x, y)) if self.op == "add" and not self.reads(y):
                return x, apply("negative", y)
        return None

    def selected(self, body: Select, pins: Pins, stores: int) -> list[Element] | None:
        """The terms of a selection between two values: those that both have, and others where each is chosen.

        A statement `s[k] += x` selects s + x at one place and s elsewhere: it adds x at that place.
        """
        guard, inside = body.guard, _pinned(body.guard, pins)
        more = self.beyond(body.then, body.otherwise, inside)
        if more is not None:
            terms = self.of(body.otherwise, pins, stores)
            return None if terms is None else [*terms, *(self.masked(t, guard) for t in more)]
        one = self.of(body.then, inside, stores)
        other = None if one is None else self.of(body.otherwise, pins, stores)
        if one is None or other is None:
            return None
        common = [t for t in one if t in other]
        chosen = [self.masked(t, guard) for t in one if t not in common]
        for t in other:
            if t not in common and not self.only_where(t, guard):
                chosen.append(t if self.excluded(t, guard) else self.masked(t, negation(guard)))
        return [*common, *chosen]

    def beyond(self, body: Element, base: Element, pins: Pins) -> list[Element] | None:
        """The terms that `body` adds to `base`, an element of the slot or of what earlier stores made of it;
        None for anything else. `s[k, l] += x` selects s + x and s at the places of one axis, too."""
        terms = list[Element]()
        while not self.is_same(body, base, pins):
            if (taken := self.taken(body)) is not None:
                body = taken[0]
                terms.insert(0, taken[1])
            elif isinstance(body, Read) and isinstance(body.array, Map) and body.array in self.dependent:
                body = _element(body)
            elif (
                isinstance(body, Select)
                and not self.reads(body.guard)
                and self.is_same(body.otherwise, base, pins)
            ):
                chosen = self.beyond(body.then, base, _pinned(body.guard, pins))
                return None if chosen is None else [*(self.masked(t, body.guard) for t in chosen), *terms]
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

    def masked(self, term: Element, guard: Element) -> Element:
        """A term where a guard holds, else what is neutral."""
        return masked(term, guard, self.neutral)

    def only_where(self, term: Element, guard: Element) -> bool:
        """Whether a term is neutral wherever a guard does not hold."""
        return set(operands(guard, "logical_and")) <= set(self.conditions(term))

    def excluded(self, term: Element, guard: Element) -> bool:
        """Whether a term is neutral wherever a guard holds: both tie an axis to a place, one a constant
        distance from the other."""
        places = dict(tie for c in operands(guard, "logical_and") for tie in ties(c))
        return any(
            bool((linear(place) - linear(places[axis])).constant)
            for condition in self.conditions(term) for axis, place in ties(condition) if axis in places
        )  # fmt: skip

    def conditions(self, term: Element) -> list[Element]:
        """The conditions outside which a term is neutral."""
        return guarded(term, self.neutral.value)[0]


def _element(read: Read) -> Element:
    """The element of a map that is read."""
    if read.args == identity(read.array.shape):
        return read.array.elements[-1]
    return folded(substitute(read.array.elements[-1], dict(enumerate(read.args))))


def masked(term: Element, guard: Element, none: Const) -> Element:
    """A term where a guard holds, else what is neutral."""
    if isinstance(term, Select) and is_const(term.otherwise, none.value):
        return select(both(guard, term.guard), term.then, term.otherwise)
    return select(guard, term, none)


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
