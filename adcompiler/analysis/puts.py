"""Stores as nodes, and as arrays that select: the same array in two forms.

`array (i < n) { select(i == k, v, %x[i]) }` is `%x with () { [k] = v }`, and a slice from s to e is
`%x with (i < e - s) { [i + s] = v }`. The first form is fused with what reads it; the second is one store,
whatever else an iteration of a loop stores. A value that is added to the element that it replaces is a `+=`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.intervals import facts_of
from adcompiler.analysis.loop_order import is_short
from adcompiler.ir.bodies import Body, roots_of
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Element,
    Index,
    Map,
    Put,
    Read,
    Select,
    Shape,
    const,
    identity,
    is_const,
    read_whole,
    select,
)
from adcompiler.ir.walk import (
    Rewriter,
    arrays_of,
    arrays_read,
    elements_of,
    operands,
    read_by,
    rewrite,
    substitute,
)
from adcompiler.ops.build import apply

TRUE: Element = const(True, "bool")
ZERO: Element = const(0, "i64")


def conjunction(conditions: Iterable[Element]) -> Element:
    """Where all conditions hold."""
    parts = [c for c in conditions if c is not TRUE]
    return reduce(lambda x, y: Apply("logical_and", (x, y), "bool"), parts) if parts else TRUE


# -- from selects to stores ----------------------------------------------------------------------------


class _Bounds(NamedTuple):
    """Where the conditions on an axis hold: from one index to another; None where there is none."""

    start: Linear | None = None
    stop: Linear | None = None


def as_put(array: Array) -> Put | None:
    """An array as what it stores in another one; None if it is none that has the elements of another one
    where conditions on its axes do not hold."""
    if not (isinstance(array, Map) and array.rank and isinstance(array.body, Select)):
        return None
    before = array.body.otherwise
    base = read_whole(array.shape, before)
    if base is None:
        return None
    body: Element = array.body
    ties: dict[int, Element] = {}
    bounds: dict[int, _Bounds] = {}
    rest: list[Element] = []
    while (inner := _branch(body, (before, substitute(before, ties)))) is not None:
        for condition in operands(inner.guard, "logical_and"):
            if (tie := _tie(condition)) is not None and tie[0] not in ties:
                ties[tie[0]] = tie[1]
            elif not _bind(condition, bounds):
                rest.append(condition)
        body = inner.then
    rest += [c for k in ties if k in bounds for c in _conditions(k, bounds[k])]
    free = [k for k in range(array.rank) if k not in ties]
    places: dict[int, Element] = dict(ties)
    domain: list[Element] = []
    for p, k in enumerate(free):
        length, start = _extent(bounds.get(k, _Bounds()), array.shape[k])
        domain.append(length)
        point: Element = ZERO if is_const(length, 1) else Index(p)
        places[k] = point if start is None else (linear(point) + start).element()
    guard, value, here = (_simplified(e, places) for e in (conjunction(rest), body, before))
    indices = tuple(places[k] for k in range(array.rank))
    term = _added(value, here)
    if term is not None:
        return Put(base, "add", tuple(domain), indices, guard, term)
    return Put(base, "set", tuple(domain), indices, guard, value)


def _branch(body: Element, unchanged: Sequence[Element]) -> Select | None:
    """A value that is one of `unchanged` where a condition does not hold, itself or as a value of its own."""
    match body:
        case Read(array=Map(body=Select() as inner), args=args):
            body = substitute(inner, dict(enumerate(args)))
    return body if isinstance(body, Select) and body.otherwise in unchanged else None


def _tie(condition: Element) -> tuple[int, Element] | None:
    """The axis that a condition equates with an index without axes, and this index."""
    match condition:
        case Apply(op="equal", args=(Index(axis=axis), place)) if _is_single(place):
            return axis, place
        case Apply(op="equal", args=(place, Index(axis=axis))) if _is_single(place):
            return axis, place
    return None


def _is_single(place: Element) -> bool:
    """Whether an index is the same at all points of an array."""
    return all(k < 0 for k in place.axes)


def _bind(condition: Element, bounds: dict[int, _Bounds]) -> bool:
    """Whether a condition bounds one axis by a number that a length may read; `bounds` gets the bound, if
    the axis has none on that side."""
    forms = facts_of(condition)
    if len(forms) != 1:
        return False
    (form,) = forms
    axes = [a for a in form.atoms if isinstance(a, Index) and a.axis >= 0]
    if len(axes) != 1 or form.terms[axes[0]] not in (1, -1):
        return False
    axis, factor = axes[0].axis, form.terms[axes[0]]
    rest = form - linear(axes[0]) * factor
    if not all(map(_is_single, rest.atoms)) or any(a.rank for a in read_by(rest.atoms)):
        return False
    own = bounds.get(axis, _Bounds())
    if factor > 0 and own.start is None:
        bounds[axis] = own._replace(start=rest * -1)
    elif factor < 0 and own.stop is None:
        bounds[axis] = own._replace(stop=rest + linear_constant(1))
    else:
        return False
    return True


def _conditions(axis: int, own: _Bounds) -> list[Element]:
    """Bounds of an axis as conditions."""
    found = []
    if own.start is not None:
        found.append(apply("less_equal", own.start.element(), Index(axis)))
    if own.stop is not None:
        found.append(apply("less", Index(axis), own.stop.element()))
    return found


def _extent(own: _Bounds, size: Element) -> tuple[Element, Linear | None]:
    """The length of a part of an axis, and where it starts if that is not 0."""
    start = None if own.start is None or own.start.constant == 0 else own.start
    if start is None and own.stop is None:
        return size, None
    form = (linear(size) if own.stop is None else own.stop) - (start or linear_constant(0))
    if form.constant is not None:
        return const(max(form.constant, 0), "i64"), start
    return apply("maximum", form.element(), ZERO), start


def _simplified(element: Element, places: Mapping[int, Element]) -> Element:
    """An element at other points, with sums of integers in their normal form: (i + k) - k is i."""
    if all(isinstance(place, Index) or _is_single(place) for place in places.values()):
        return substitute(element, places)

    def visit(e: Element) -> Element:
        is_sum = isinstance(e, Apply) and e.op in ("add", "subtract") and e.dtype == "i64"
        return linear(e).element() if is_sum else e

    return rewrite((substitute(element, places),), visit)[0]


def _added(value: Element, before: Element) -> Element | None:
    """What is added to the element `before`; None if a value is another one than a sum with it."""
    match value:
        case Read(array=Map(body=Apply() as body), args=args):
            return _added(substitute(body, dict(enumerate(args))), before)
        case Apply(op="add", args=(x, y), dtype=dtype) if before in (x, y) and dtype != "bool":
            return y if x is before else x
        case Apply(op="subtract", args=(x, y)) if x is before:
            return apply("negative", y)
    return None


# -- from stores to selects ----------------------------------------------------------------------------


def as_map(put: Put) -> Map:
    """An array in which values are stored as one that selects them."""
    whole, zero = Read(put.base, identity(put.shape)), const(0, put.dtype)
    found = _inverse(put)
    if found is None:
        assert put.op == "add", "a store at places that other axes decide"
        value = put.value if put.guard is TRUE else select(put.guard, put.value, zero)
        sums = Accumulate(put.shape, put.domain, put.indices, value)
        return Map(put.shape, apply("add", whole, Read(sums, identity(put.shape))))
    places, conditions = found
    condition = conjunction((*conditions, _simplified(put.guard, places)))
    value = _simplified(put.value, places)
    if put.op == "set":
        return Map(put.shape, value if condition is TRUE else select(condition, value, whole))
    return Map(put.shape, apply("add", whole, value if condition is TRUE else select(condition, value, zero)))


def _inverse(put: Put) -> tuple[dict[int, Element], list[Element]] | None:
    """The point of the domain that stores at each place, and the conditions that there is one; None if there
    may be several."""
    places: dict[int, Element] = {k: ZERO for k, n in enumerate(put.domain) if is_const(n, 1)}
    conditions: list[Element] = []
    for k, (index, size) in enumerate(zip(put.indices, put.shape, strict=True)):
        form = linear(index)
        axes = [a for a in form.atoms if isinstance(a, Index) and a.axis >= 0]
        rest = form - linear(axes[0]) if axes else form
        if not all(map(_is_single, rest.atoms)) or (axes and axes[0].axis in places):
            return None
        if not axes:
            if not (is_const(size, 1) and is_const(index, 0)):
                conditions.append(Apply("equal", (Index(k), index), "bool"))
            continue
        point = (linear(Index(k)) - rest).element()
        places[axes[0].axis] = point
        if rest.constant != 0:
            conditions.append(apply("less_equal", ZERO, point))
        if rest.constant != 0 or put.domain[axes[0].axis] is not size:
            conditions.append(apply("less", point, put.domain[axes[0].axis]))
    return (places, conditions) if len(places) == len(put.domain) else None


# -- of a loop ------------------------------------------------------------------------------------------


def puts_of(body: Body) -> dict[Array, Put]:
    """The arrays of an iteration that store in a carried array, as what they store; but none of an array of
    which the iteration reads or stores nearly all: its cotangent is computed anew, by one loop."""
    found: dict[Array, Put] = {}
    order = arrays_of(roots_of(body))
    for c in body.carried:
        chain: dict[Array, Put] = {}
        array = c.result
        while array not in found and (put := as_put(array)) is not None:
            chain[array] = put
            array = put.base
        versions = {*chain, *(put.base for put in chain.values())}
        whole = any(is_most(put.indices, put.domain, put.shape) for put in chain.values()) or any(
            isinstance(e, Read) and e.array in versions and is_most(e.args, reader.domain, e.array.shape)
            for reader in order
            if reader not in chain and not versions.isdisjoint(arrays_read(reader))
            for e in elements_of(reader.elements)
        )
        if not whole:
            found |= chain
    return found


def is_stored_in(result: Array) -> bool:
    """Whether an iteration leaves most of a carried array as it is: it, or an inner loop, stores in it."""
    while isinstance(result, Item) and result.k < len(result.loop.results):
        result = result.loop.results[result.k]
    put = as_put(result)
    return put is not None and not is_most(put.indices, put.domain, put.shape)


def is_most(indices: Sequence[Element], domain: Shape, shape: Shape) -> bool:
    """Whether indices reach nearly all of an array: along each long axis they follow one of the domain that
    is as long, but for a constant."""
    for index, size in zip(indices, shape, strict=True):
        lengths = [domain[k] for k in index.axes if k < len(domain)]
        if not is_short(size) and not any(is_nearly(n, size) for n in lengths):
            return False
    return True


def is_nearly(length: Element, size: Element) -> bool:
    """Whether two lengths differ by a constant."""
    match length:
        case Apply(op="maximum", args=(x, zero)) if is_const(zero, 0):
            return is_nearly(x, size)
    return (linear(length) - linear(size)).constant is not None


class Dissolved(Rewriter):
    """Rewrites stores to arrays that select, also in the bodies of loops."""

    def array(self, array: Array) -> Array:
        return as_map(array) if isinstance(array, Put) else array
