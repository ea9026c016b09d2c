"""Stores under a condition: `y[i] = v`, conditionally on `c`, becomes `y[i] = v if c else y[i]`.

The carried array then changes in one place, in values and derivatives, without a mask over all of it.
"""

from __future__ import annotations

from adcompiler.frontend.values.open_axes import open_axes
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.bodies import Replace
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Element,
    Index,
    Map,
    Read,
    Select,
    closed,
    element_of,
    identity,
    select,
)
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply

Changed = dict[Array, Array]


def masked(test: Value, then: AnyValue, otherwise: AnyValue, changed: Changed) -> Value | None:
    """An array after a branch, if one branch only stores elements in it.

    `changed` collects replacements for arrays of the branch, which are equal where the branch is taken.
    """
    if not all(isinstance(v, Value) and v.rank and _is_whole(v) for v in (then, otherwise)):
        return None
    if open_axes(test.element) or then.dtype != otherwise.dtype:
        return None
    before, after = otherwise.element.array, then.element.array
    found = _after(test.element, after, before, changed)
    if found is None:
        found = _after(apply("logical_not", test.element), before, after, changed)
    if found is None:
        return None
    return Value(then.shape, element_of(found), then.weak and otherwise.weak)


def read_anew(value: AnyValue, changed: Changed) -> AnyValue:
    """A value that reads the replacements of arrays of its branch."""
    if not changed or not isinstance(value, Value) or not isinstance(value.element, Read):
        return value
    (array,) = Replace(dict(changed)).run((value.element.array,))
    return Value(value.shape, Read(array, value.element.args), value.weak)


def _is_whole(value: Value) -> bool:
    read = value.element
    return isinstance(read, Read) and read.args == identity(read.array.shape)


def _after(condition: Element, array: Array, before: Array, changed: Changed) -> Array | None:
    """`before` with the stores that led to `array`, made conditional."""
    stores: list[Map] = []
    while array is not before:
        if not (isinstance(array, Map) and isinstance(array.body, Select)):
            return None
        base = array.body.otherwise
        if not (isinstance(base, Read) and base.args == identity(array.shape)):
            return None
        stores.append(array)
        array = base.array
    earlier = Replace(dict(changed))
    for store in reversed(stores):  # a store reads the conditional results of earlier stores
        (now,) = earlier.run((store,)) if changed else (store,)
        assert isinstance(now, Map)
        assert isinstance(now.body, Select)
        array = Map(now.shape, _stored(condition, now.body, now.body.otherwise, {}))
        changed[store] = earlier.arrays[store] = array
    return array


def _stored(condition: Element, body: Element, base: Element, places: dict[int, Element]) -> Element:
    """The body of a store under an additional condition; `places` are the indices in its guards."""
    if isinstance(body, Select) and body.otherwise is base:
        match body.guard:
            case Apply(op="equal", args=(Index(axis=axis), place)):
                places = {**places, axis: place}
        return select(body.guard, _stored(condition, body.then, base, places), base)
    value = select(condition, body, substitute(base, places))
    return value if value.axes else Read(closed((), value), ())
