"""Forward mode: from inputs and their tangents to the tangents of results, program to program.

The tangent of an element is the sum of its arguments' tangents times the partial derivatives; that of an
array is the same array of tangents. A tangent is zero outside its guard, so no zero is multiplied by a value
that may be infinite there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adcompiler.ad.custom_rules import forward as forward_ruled
from adcompiler.ad.guards import TRUE, either, mask, negation, support, total, within
from adcompiler.ad.library import push
from adcompiler.ad.loops import Orders, forward
from adcompiler.ad.partials import differentiable, partial, times
from adcompiler.ad.products import attaining, factor
from adcompiler.ad.vjp import vjp
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Func,
    Input,
    Map,
    Read,
    Reduce,
    Select,
    const,
    element_of,
    identity,
    select,
    zeros_like,
)
from adcompiler.ir.origins import derived
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of, substitute
from adcompiler.ops.build import apply, cast


class Tangent(NamedTuple):
    """A tangent, an array or an element; it is zero where `guard` does not hold, whatever `value` is
    there."""

    guard: Element
    value: Any


Tangents = dict[Array, Tangent]


def jvp(
    results: Sequence[Array],
    tangents: Mapping[Array, Array],
    guards: Mapping[Array, Element] | None = None,
) -> list[Array | None]:
    """The tangents of `results` for the tangents of some arrays; None where it is known to be zero.

    A tangent has its array's shape and dtype. `guards` say where it is nonzero (over its array's axes):
    elsewhere it is not multiplied by anything.
    """
    guards = guards or {}
    found: Tangents = {a: Tangent(guards.get(a, TRUE), tangent) for a, tangent in tangents.items()}
    for array in arrays_of(results):
        if isinstance(array, Item) and array not in found:
            _loop(array.loop, found)
        elif isinstance(array, Ruled) and array not in found:
            tangent = forward_ruled(array, {a: masked(found[a], a) for a in array.args if a in found}, vjp)
            if tangent is not None:
                found[array] = Tangent(TRUE, tangent)
        elif array not in found and not isinstance(array, Input):
            made = _array(array, found)
            if made is not None:
                found[array] = made
                derived((made.guard, made.value), array)
    return [masked(found[r], r) if r in found else None for r in results]


def _loop(loop: Loop, found: Tangents) -> None:
    """The tangents of all results of a loop."""
    given = {a: masked(found[a], a) for a in loop.operands if a in found}
    if given and not any(item in found for item in loop.items):
        pushed = forward(loop, {a: [tangent] for a, tangent in given.items()}, 1, _pushed)
        for item, (tangent,) in zip(loop.items, pushed, strict=True):
            if tangent is not None:
                found[item] = Tangent(TRUE, tangent)
                derived((tangent,), item)


def _pushed(results: Sequence[Array], given: Mapping[Array, Orders]) -> list[Orders]:
    """The tangents of an iteration's results."""
    return [[found] for found in jvp(results, {a: d for a, (d,) in given.items() if d is not None})]


def value_and_tangent(func: Func, wanted: Sequence[int], with_value: bool = True) -> Func:
    """The program of the results, if wanted, and their tangents; it takes tangents of the wanted inputs too.

    The tangent of a result that depends on no wanted input is zeros.
    """
    primals = [func.inputs[k] for k in wanted]
    tangents = [Input(len(func.inputs) + p, i.dtype, i.shape) for p, i in enumerate(primals)]
    pushed = jvp(func.results, dict(zip(primals, tangents, strict=True)))
    live = [p if p is not None else zeros_like(r) for p, r in zip(pushed, func.results, strict=True)]
    names = distinct((*func.input_names, *(f"d{func.input_names[k]}" for k in wanted)))
    labels = distinct([f"d{n}" for n in func.result_names], (*names, *func.result_names))
    own = len(func.results) if with_value else 0
    return func.with_(
        name=f"{func.name}.value_and_tangent",
        inputs=(*func.inputs, *tangents),
        input_names=names,
        results=(*func.results[:own], *live),
        result_names=(*func.result_names[:own], *labels),
    )


def masked(tangent: Tangent, array: Array) -> Array:
    """The tangent as an array, with zeros where its guard does not hold."""
    value: Array = tangent.value
    if tangent.guard is TRUE:
        return value
    return Map(array.shape, mask(Read(value, identity(array.shape)), tangent.guard))


def _array(array: Array, tangents: Tangents) -> Tangent | None:
    """The tangent of one array."""
    if isinstance(array, Call):
        pushed = push(array, [masked(tangents[a], a) if a in tangents else None for a in array.operands])
        return None if pushed is None else Tangent(TRUE, pushed)
    body = array.elements[-1]
    found = _body(body, array, tangents)
    if found is None:
        return None
    if isinstance(array, Map):
        return Tangent(found.guard, Map(array.shape, found.value))
    return Tangent(TRUE, gathered(array, body, mask(found.value, found.guard)))


def gathered(array: Array, body: Element, tangent: Element) -> Array:
    """The tangent of a reduction or an accumulation, from that of its body."""
    match array:
        case Reduce(op="min" | "max", shape=shape, reduced=reduced):
            attains, count = attaining(array, body)
            total = Reduce("sum", shape, reduced, select(attains, tangent, const(0, body.dtype)))
            some = apply("maximum", count, const(1, body.dtype))  # 1 for an empty reduction
            return Map(shape, apply("divide", Read(total, identity(shape)), some))
        case Reduce(shape=shape, reduced=reduced):
            rate = factor(array, body)
            tangent = tangent if rate is None else apply("multiply", tangent, rate)
            return Reduce("sum", shape, reduced, tangent)
        case Accumulate(shape=shape, domain=domain, indices=indices):
            return Accumulate(shape, domain, indices, tangent)
    raise AssertionError(f"no tangent of {type(array).__name__}")


def _body(body: Element, array: Array, tangents: Tangents) -> Tangent | None:
    """The tangent of an array's body; None where it is zero everywhere."""
    found: dict[Element, Tangent] = {}
    for element in elements_of((body,)):
        made = _element(element, found, tangents, array if element is body else None)
        if made is not None:
            found[element] = made
    return found.get(body)


def slope(body: Element, read: Read) -> Tangent | None:
    """The derivative of a body by one of its reads; None where it is zero everywhere."""
    rates: dict[Element, Tangent] = {read: Tangent(TRUE, const(1, read.dtype))}
    for element in elements_of((body,)):
        reads = element not in rates and any(a in rates for a in element.args)
        made = _element(element, rates, {}, None) if reads else None
        if made is not None:
            rates[element] = made
    return rates.get(body)


def _element(
    element: Element, found: Mapping[Element, Tangent], tangents: Tangents, array: Array | None
) -> Tangent | None:
    """The tangent of one element, from those of its arguments."""
    match element:
        case Read():
            tangent = tangents.get(element.array)
            return None if tangent is None else read(tangent, element)
        case Select():
            return selected(element, found)
        case Apply() if differentiable(element):
            value = element_of(array) if isinstance(array, Map) else element
            return _chain(element, found, value)
    return None


def read(tangent: Tangent, element: Read) -> Tangent:
    """The tangent of a read."""
    guard = substitute(tangent.guard, dict(enumerate(element.args)))
    whole = tangent.value
    constant = isinstance(whole, Map) and isinstance(whole.body, Const)
    return Tangent(guard, whole.body if constant else Read(whole, element.args))


def selected(element: Select, found: Mapping[Element, Tangent]) -> Tangent | None:
    """The tangent of the branch taken."""
    parts = [
        (within(condition, found[branch].guard), found[branch].value)
        for condition, branch in ((element.guard, element.then), (negation(element.guard), element.otherwise))
        if branch in found
    ]
    if len(parts) < 2:
        return Tangent(*parts[0]) if parts else None
    (then_guard, then), (other_guard, otherwise) = parts
    return Tangent(
        either((then_guard, other_guard)), select(element.guard, *_zeroed(element, found, then, otherwise))
    )


def _zeroed(
    element: Select, found: Mapping[Element, Tangent], then: Element, otherwise: Element
) -> tuple[Element, Element]:
    return mask(then, found[element.then].guard), mask(otherwise, found[element.otherwise].guard)


def _chain(element: Apply, found: Mapping[Element, Tangent], value: Element) -> Tangent | None:
    """The sum over arguments of tangent times partial derivative."""
    parts = []
    for k, arg in enumerate(element.args):
        if arg in found:
            term = times(cast(found[arg].value, element.dtype), partial(element, k, value))
            where = None if term is None else support(term)
            derived(() if term is None else (term,), element, argument=k)
            if term is not None and where is not None:
                parts.append((within(where, found[arg].guard), term))
    return Tangent(*total(parts)) if parts else None
