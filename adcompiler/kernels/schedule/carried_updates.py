"""Bufferisation of carried arrays: in-place updates if an iteration changes a part of a carried array.

`x[e] = v` changes x at one place: it is a *store* there. `x[a:b] = v`, or an adjoint of x[a:b], stores a
part, if the iteration computes a or b. A sum scattered onto a carried array adds to it in place. Everything
else is a new array, which may replace the old one if nothing reads the old one afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from math import copysign
from types import MappingProxyType

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import facts_of, never_negative
from adcompiler.analysis.predicates import MIRRORED, ties
from adcompiler.analysis.regions import LOGIC
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Const,
    Element,
    Index,
    Map,
    Read,
    Select,
    Shape,
    closed,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import (
    arrays_of,
    arrays_read,
    elements_of,
    is_computed,
    postorder,
    read_by,
    rewrite,
    substitute,
)
from adcompiler.kernels.limits import MOST_CASES, MOST_STORES
from adcompiler.kernels.schedule.numbers import UNKNOWN, Numbers
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply
from adcompiler.passes.algebra.fold import folded

ZERO: Element = const(0, "i64")
WHOLE: Mapping[int, AxisRange] = MappingProxyType({})
Bound = tuple[str, Element]  # "start" or "stop", and its value
Places = tuple[Element | None, ...]  # of each axis; None for all of it


@dataclass(frozen=True)
class AxisRange:
    """The elements of an axis from `start` on."""

    start: Element
    length: Element


@dataclass(frozen=True)
class CarriedStore:
    """Stores `array` at `indices`; None is a whole axis."""

    indices: tuple[Element | AxisRange | None, ...]
    array: Array

    @property
    def numbers(self) -> list[Element]:
        """The elements in the indices."""
        return [
            e
            for i in self.indices
            if i is not None
            for e in ((i.start, i.length) if isinstance(i, AxisRange) else (i,))
        ]


@dataclass(frozen=True)
class InPlace:
    """Stores in a carried array, after `base` took its place: what an inner loop made of it, if not None."""

    stores: tuple[CarriedStore, ...]
    base: Array | None = None

    @property
    def arrays(self) -> list[Array]:
        """The arrays that an iteration computes for it."""
        return [*(store.array for store in self.stores), *(() if self.base is None else (self.base,))]


def in_place(slot: Array, result: Array, rows: bool, numbers: Numbers = UNKNOWN) -> InPlace | None:
    """The stores that make `result` of a carried value or of what an inner loop made of it; None if there are
    none. `rows` says whether an iteration may allocate rows of any length, and so store parts of rows."""
    if (found := stores(slot, result, rows, numbers)) is not None:
        return InPlace(tuple(found))
    for base in arrays_read(result) if isinstance(result, Map) and result.rank else ():
        fits = isinstance(base, Item) and (base.shape, base.dtype) == (slot.shape, slot.dtype)
        if fits and (found := stores(base, result, rows, numbers)) is not None:
            return InPlace(tuple(found), base)
    return None


def stores(slot: Array, result: Array, rows: bool, numbers: Numbers) -> list[CarriedStore] | None:
    """The stores that turn `slot` into `result`, in order; None if it differs at more than a few places.
    `numbers` are those of the iterations around."""
    if not isinstance(result, Map) or not result.rank:
        return None
    found: list[tuple[int, CarriedStore]] = []  # with the number of places at which it was found
    whole = _seen_through(slot, result.body)
    marked = _marked(whole)
    work: list[tuple[Places, Element]] = [((None,) * result.rank, marked)]
    same: set[CarriedStore] = set()  # stores of what is there
    while work:
        indices, body = work.pop()
        depth = sum(i is not None for i in indices)
        split = _split(slot, indices, body)
        part = _part(slot, result.shape, indices, body, numbers) if split is None else None
        if part is not None and not rows and (part[1] or any(i is not None for i in indices)):
            part = None
        axis, places = split or (0, [])
        if part is not None:
            axis, places, store = part
            found.append((depth, store))
        elif split is None and all(i is None for i in indices):
            return None
        elif split is None:
            store = _stored(result.shape, indices, body)
            found.append((depth, store))
            if body is _unchanged(slot, indices):
                same.add(store)
        for place in places:
            there = (*indices[:axis], place, *indices[axis + 1 :])
            work.append((there, folded(substitute(body, {axis: place}), numbers.ranges, numbers.stood)))
        if len(found) + len(work) > MOST_STORES:
            return None
    # A part includes places that have stores of their own, with more indices: these come later.
    ordered = [store for _, store in sorted(found, key=lambda pair: pair[0])]
    if not any(isinstance(index, AxisRange) for store in ordered for index in store.indices):
        ordered = [store for store in ordered if store not in same] or ordered[:1]
    return ordered if marked is whole else [replace(s, array=_settled(s.array)) for s in ordered]


def _split(slot: Array, indices: Sequence[Element | None], body: Element) -> tuple[int, list[Element]] | None:
    """An axis, and the places on it outside which `body` equals the slot."""
    for axis, index in enumerate(indices):
        if index is None:
            places = _places(body, axis)
            if places and _is_surely(_elsewhere(body, axis), _unchanged(slot, indices)):
                return axis, places
    return None


def _is_surely(body: Element, expected: Element, cases: int = MOST_CASES) -> bool:
    """Whether a body is as expected, for all values of conditions that its place does not decide."""
    if body is expected:
        return True
    if not cases:
        return False
    condition = next((e for e in _conditions(body) if all(a < 0 for a in e.axes)), None)
    return condition is not None and all(
        _is_surely(_with(body, condition, holds), expected, cases - 1) for holds in (True, False)
    )


def _conditions(body: Element) -> list[Element]:
    """The conditions that choose between values of a body, except those in indices."""
    order = postorder((body,), lambda e: () if isinstance(e, Read) or _is_comparison(e) else e.args)
    return [e for e in order if _is_comparison(e)]


def _is_comparison(element: Element) -> bool:
    return isinstance(element, Apply) and element.dtype == "bool" and element.op not in LOGIC


def _with(body: Element, condition: Element, holds: bool) -> Element:
    """A body, given that a condition holds, or does not."""
    return _changed(body, lambda e: const(holds, "bool") if e is condition else e)


def _changed(body: Element, change: Callable[[Element], Element]) -> Element:
    """A body after a change of its elements, simplified."""
    found = folded(rewrite((body,), change)[0])
    return rewrite((found,), _without_zeros)[0]


def _places(body: Element, axis: int) -> list[Element]:
    """The places that an axis is compared with."""
    found: dict[Element, None] = {}
    for e in elements_of((body,)):
        place = _place(e, axis)
        if place is not None:
            found[place] = None
    return list(found)


def _place(element: Element, axis: int) -> Element | None:
    """The place that an axis is compared with, if it is one place in the whole array."""
    places = (place for k, place in ties(element) if k == axis)
    return next((p for p in places if not any(a >= 0 for a in p.axes)), None)


def _elsewhere(body: Element, axis: int) -> Element:
    """A body where the axis is at none of the places that it is compared with."""
    never = const(False, "bool")
    return _changed(body, lambda e: never if _place(e, axis) is not None else e)


def _without_zeros(element: Element) -> Element:
    """Simplify x + 0 to x, ignoring the sign of zero."""
    if isinstance(element, Apply) and element.op == "add":
        x, y = element.args
        return x if is_const(y, 0) else y if is_const(x, 0) else element
    return element


def _marked(body: Element) -> Element:
    """A body whose sums have -0 instead of 0 for terms whose conditions do not hold: x + -0 is x."""
    if any(_is_negative_zero(e) for e in elements_of((body,))):
        return body

    def visit(element: Element) -> Element:
        if isinstance(element, Apply) and element.op == "add" and is_float(element.dtype):
            return apply("add", *(_masked(a) for a in element.args))
        return element

    return rewrite((body,), visit)[0]


def _settled(array: Array) -> Array:
    """An array without such zeros."""
    return closed(array.shape, _unmarked(array.body)) if isinstance(array, Map) else array


def _unmarked(body: Element) -> Element:
    """A body that is 0 where no condition of its terms holds."""
    if isinstance(body, Apply) and body.op == "add":
        first, *rest = body.args
        return apply("add", _unmarked(first), *rest)
    if isinstance(body, Select):
        return select(body.guard, _unmarked(body.then), _unmarked(body.otherwise))
    return const(0.0, body.dtype) if _is_negative_zero(body) else body


def _masked(term: Element) -> Element:
    if not isinstance(term, Select):
        return term
    zero, none = const(0.0, term.dtype), const(-0.0, term.dtype)
    return select(term.guard, *(none if side is zero else side for side in (term.then, term.otherwise)))


def _is_negative_zero(element: Element) -> bool:
    return is_const(element, 0) and copysign(1.0, element.value) < 0


def _unchanged(slot: Array, indices: Sequence[Element | None]) -> Element:
    own = identity(slot.shape)
    return Read(slot, tuple(own[k] if i is None else i for k, i in enumerate(indices)))


def _stored(
    shape: Shape, indices: Places, body: Element, ranges: Mapping[int, AxisRange] = MappingProxyType({})
) -> CarriedStore:
    """The store of a body at places, over all of the other axes or over `ranges` of them."""
    free = [k for k, i in enumerate(indices) if i is None]
    moved: dict[int, Element] = {k: Index(p) for p, k in enumerate(free)}
    lengths = [shape[k] for k in free]
    places: list[Element | AxisRange | None] = list(indices)
    for k, part in ranges.items():
        places[k] = part
        moved[k] = apply("add", moved[k], part.start)
        lengths[free.index(k)] = part.length
    value = folded(substitute(body, moved))
    return CarriedStore(tuple(places), closed(tuple(lengths), value))


def _part(
    slot: Array, shape: Shape, indices: Places, body: Element, numbers: Numbers
) -> tuple[int, list[Element], CarriedStore] | None:
    """An axis, the store of a part of it with bounds that the iteration computes, and places on it that have
    stores of their own, if nothing else changes."""
    own = _unchanged(slot, indices)
    for axis, size in enumerate(shape):
        if indices[axis] is not None:
            continue
        places, rest = _places(body, axis), _elsewhere(body, axis)
        found = {e: side for e in elements_of((rest,)) if (side := _side(e, axis)) is not None}
        bounds = {side for side in found.values() if side not in (("start", ZERO), ("stop", size))}
        ends = dict(bounds)
        if len(bounds) > len(ends) or not (
            any(map(_is_of_iteration, ends.values())) or _is_short(ends, size)
        ):
            continue
        kinds = {kind for kind, _ in bounds}
        cases = [_where(rest, found, bounds, false) for false in (kinds, *({k} for k in kinds))]
        if not all(_is_surely(rewrite((case,), _without_zeros)[0], own) for case in cases):
            continue
        start = _larger(ends.get("start", ZERO), ZERO, numbers)
        stop = _smaller(ends.get("stop", size), size, numbers)
        length = _larger((linear(stop) - linear(start)).element(), ZERO, numbers)
        inside = _where(rest, found, bounds, set())
        there = indices  # the part may be at one place of other axes
        while (split := _split(slot, there, inside)) is not None and len(split[1]) == 1 and split[0] != axis:
            other, (place,) = split
            there = (*there[:other], place, *there[other + 1 :])
            inside = folded(substitute(inside, {other: place}), numbers.ranges, numbers.stood)
        length = _known_length(length, inside, numbers)
        return axis, places, _stored(shape, there, inside, {axis: AxisRange(start, length)})
    return None


def _is_of_iteration(bound: Element) -> bool:
    """Whether an iteration computes a bound: others are those of nearly all of an axis."""
    return bool(bound.axes) or is_computed(bound)


def _is_short(ends: Mapping[str, Element], size: Element) -> bool:
    """Whether there are as many places between two ends, whatever the length of the axis."""
    extent = linear(ends.get("stop", size)) - linear(ends.get("start", ZERO))
    return not isinstance(size, Const) and extent.constant is not None


def _known_length(length: Element, body: Element, numbers: Numbers) -> Element:
    """A length as it stands in the shape of an array that a body reads, so that one loop computes both."""
    shapes = (n for a in read_by((body,)) for n in a.shape)
    return next((n for n in shapes if linear(numbers.stood(n)) == linear(numbers.stood(length))), length)


def _is_sure(form: Linear, numbers: Numbers) -> bool:
    """Whether a form is not negative in all iterations."""
    return never_negative(linear(numbers.stood(form.element())), numbers.ranges, ())


def _larger(x: Element, y: Element, numbers: Numbers) -> Element:
    return x if _is_sure(linear(x) - linear(y), numbers) else apply("maximum", x, y)


def _smaller(x: Element, y: Element, numbers: Numbers) -> Element:
    return x if _is_sure(linear(y) - linear(x), numbers) else apply("minimum", x, y)


def _where(body: Element, found: Mapping[Element, Bound], bounds: Set[Bound], false: Set[str]) -> Element:
    """A body where bounds of these kinds do not hold, and all others do."""
    known = {e: const(not (side in bounds and side[0] in false), "bool") for e, side in found.items()}
    return folded(rewrite((body,), lambda e: known.get(e, e))[0])


def _seen_through(slot: Array, body: Element) -> Element:
    """If a body is the carried value plus all of another array, inline the other array's body."""
    match body:
        case Apply(op="add", args=(Read() as x, Read() as y)):
            more = y.array if x.array is slot else x.array
            if isinstance(more, Map) and x.args == y.args == identity(more.shape):
                return apply("add", *(more.body if a.array is more else a for a in (x, y)))
    return body


def _side(condition: Element, axis: int) -> Bound | None:
    """The bound that a condition imposes on an axis, if no other axis decides it: the first place, or the one
    after the last."""
    forms = facts_of(condition) if isinstance(condition, Apply) and condition.op in MIRRORED else []
    if not forms:
        return None
    (rest,) = forms  # 0 or more where the condition holds
    factor = rest.terms.get(Index(axis), 0)
    rest -= linear(Index(axis)) * factor
    if any(a >= 0 for a in rest.axes) or factor not in (1, -1):
        return None
    return (
        ("start", (rest * -1).element()) if factor == 1 else ("stop", (rest + linear_constant(1)).element())
    )


def scattered(slot: Array, result: Array, roots: Sequence[Array]) -> Accumulate | None:
    """The sum that an iteration scatters onto a carried array, if nothing else reads either."""
    if not isinstance(result, Map):
        return None
    match result.body:
        case Apply(op="add", args=(Read() as x, Read() as y)):
            own, total = (x, y) if x.array is slot else (y, x)
        case _:
            return None
    added = total.array
    plain = own.array is slot and own.args == total.args == identity(slot.shape)
    if not (plain and isinstance(added, Accumulate) and added.shape == slot.shape):
        return None
    readers = [a for a in arrays_of(roots) if slot in arrays_read(a) or added in arrays_read(a)]
    return added if readers == [result] and roots.count(result) == 1 else None
