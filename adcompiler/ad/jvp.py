"""Forward mode: from inputs and their tangents to the tangents of results, program to program.

The tangent of an element is the sum of its arguments' tangents times the partial derivatives; that of an
array is the same array of tangents. A tangent is zero outside its guard, so no zero is multiplied by a value
that may be infinite there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.ad.custom_rules import forward as forward_ruled
from adcompiler.ad.guards import (
    TRUE,
    Tangent,
    conjunction,
    either,
    holding,
    mask,
    masked,
    negation,
    support,
    total,
    within,
)
from adcompiler.ad.library import push
from adcompiler.ad.loops import Orders, forward
from adcompiler.ad.partials import active_arrays, differentiable, partial, times
from adcompiler.ad.products import attaining, factor
from adcompiler.ad.singular import exposed_arrays
from adcompiler.ad.vjp import pulled
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
    Put,
    Read,
    Reduce,
    Select,
    const,
    element_of,
    identity,
    is_const,
    select,
    zeros_like,
)
from adcompiler.ir.origins import derived
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, elements_of, substitute
from adcompiler.ops.build import apply, cast

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
    found = pushed(results, {a: Tangent(guards.get(a, TRUE), tangent) for a, tangent in tangents.items()})
    return [None if t is None else masked(t, r) for t, r in zip(found, results, strict=True)]


def pushed(
    results: Sequence[Array], tangents: Mapping[Array, Tangent], exposed: bool = False
) -> list[Tangent | None]:
    """The tangents of `results`, with their guards; None where it is known to be zero.

    Those of arrays that may meet an infinite derivative, also behind the results if they are `exposed`, are
    guarded where they are zero since nothing contributes to them.
    """
    order = arrays_of(results)
    active = active_arrays(order, list(tangents))
    guarded = exposed_arrays(order, active, results if exposed else ())
    found: Tangents = dict(tangents)
    for array in order:
        if isinstance(array, Item) and array not in found:
            _loop(array.loop, found, guarded)
        elif isinstance(array, Ruled) and array not in found:
            tangent = forward_ruled(array, {a: found[a] for a in array.args if a in found}, pulled)
            if tangent is not None:
                found[array] = tangent
        elif array not in found and not isinstance(array, Input):
            made = _array(array, found, guarded)
            if made is not None:
                found[array] = made
                derived((made.guard, made.value), array)
    return [found.get(r) for r in results]


def _loop(loop: Loop, found: Tangents, exposed: set[Array]) -> None:
    """The tangents of all results of a loop."""
    given: dict[Array, Orders] = {a: [found[a]] for a in loop.operands if a in found}
    if given and not any(item in found for item in loop.items):
        is_exposed = not exposed.isdisjoint(loop.items)
        made = forward(loop, given, 1, _pushed, is_exposed)
        for item, (tangent,) in zip(loop.items, made, strict=True):
            if tangent is not None:
                found[item] = tangent
                derived((tangent.value,), item)


def _pushed(results: Sequence[Array], given: Mapping[Array, Orders], exposed: bool) -> list[Orders]:
    """The tangents of an iteration's results."""
    return [[t] for t in pushed(results, {a: d for a, (d,) in given.items() if d is not None}, exposed)]


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


def _array(array: Array, tangents: Tangents, exposed: set[Array]) -> Tangent | None:
    """The tangent of one array."""
    if isinstance(array, Call):
        return push(array, [tangents.get(a) for a in array.operands])
    body = array.elements[-1]
    found = _body(body, array, tangents)
    if isinstance(array, Put):
        base = tangents.get(array.base)
        return stored(array, None if base is None else masked(base, array.base), found)
    if found is None:
        return None
    if isinstance(array, Map):
        return Tangent(found.guard, Map(array.shape, found.value))
    guard = somewhere(array, found.guard) if array in exposed else TRUE
    return Tangent(guard, gathered(array, body, mask(found.value, found.guard)))


def somewhere(array: Array, guard: Element) -> Element:
    """Where a reduction or an accumulation has a point at which a guard holds."""
    if isinstance(array, Accumulate):
        bits = select(guard, const(1, "i64"), const(0, "i64"))
        count = Accumulate(array.shape, array.domain, array.indices, bits)
        return apply("greater", Read(count, identity(array.shape)), const(0, "i64"))
    assert isinstance(array, Reduce)
    if guard is not TRUE:
        return holding(guard, array)
    lengths = [n for n in array.reduced if not is_const(n)]
    return conjunction(apply("less", const(0, "i64"), n) for n in lengths)


def stored(array: Put, base: Array | None, value: Tangent | None) -> Tangent | None:
    """The tangent of an array in which values are stored, from those of the array and of the values."""
    if base is None and value is None:
        return None
    if value is None and array.op == "add":
        return None if base is None else Tangent(TRUE, base)
    base = zeros_like(array.base) if base is None else base
    tangent = const(0, array.dtype) if value is None else mask(value.value, value.guard)
    return Tangent(TRUE, Put(base, array.op, array.domain, array.indices, array.guard, tangent))


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
