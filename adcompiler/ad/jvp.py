"""Forward mode: from inputs and their tangents to the tangents of results, program to program.

The tangent of an element is the sum of its arguments' tangents times the partial derivatives; that of
an array is the same array of tangents. A `select` selects between tangents, so nothing of the branch
not taken is ever seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.ad.partials import differentiable, partial, times
from adcompiler.ad.products import others
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Element,
    Input,
    Map,
    Read,
    Reduce,
    Select,
    const,
    identity,
    select,
)
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.ops.build import apply, cast

Tangents = dict[Array, Array]


def jvp(results: Sequence[Array], tangents: Mapping[Array, Array]) -> list[Array | None]:
    """The tangents of `results` for the tangents of some arrays; None where it is known to be zero.

    A tangent has its array's shape and dtype.
    """
    found: Tangents = dict(tangents)
    for array in arrays_of(results):
        if array not in found and not isinstance(array, Input):
            made = _array(array, found)
            if made is not None:
                found[array] = made
    return [found.get(result) for result in results]


def _array(array: Array, tangents: Tangents) -> Array | None:
    """The tangent of one array."""
    body = array.elements[-1]
    tangent = _body(body, array, tangents)
    if tangent is None:
        return None
    match array:
        case Map(shape=shape):
            return Map(shape, tangent)
        case Reduce(op="sum", shape=shape, reduced=reduced):
            return Reduce("sum", shape, reduced, tangent)
        case Reduce(op="prod", shape=shape, reduced=reduced):
            return Reduce("sum", shape, reduced, apply("multiply", tangent, others(array)))
        case Reduce(op="logsumexp", shape=shape, reduced=reduced):
            softmax = apply("exp", apply("subtract", body, Read(array, identity(shape))))
            return Reduce("sum", shape, reduced, apply("multiply", tangent, softmax))
        case Reduce(shape=shape, reduced=reduced):
            # The points that attain the extremum share evenly, as in reverse mode.
            attains = apply("equal", body, Read(array, identity(array.shape)))
            one, zero = const(1, body.dtype), const(0, body.dtype)
            total = Reduce("sum", shape, reduced, select(attains, tangent, zero))
            count = Reduce("sum", shape, reduced, select(attains, one, zero))
            return Map(
                shape, apply("divide", Read(total, identity(array.shape)), Read(count, identity(array.shape)))
            )
        case Accumulate(shape=shape, domain=domain, indices=indices):
            return Accumulate(shape, domain, indices, tangent)
    raise AssertionError(f"no tangent of {type(array).__name__}")


def _body(body: Element, array: Array, tangents: Tangents) -> Element | None:
    """The tangent of an array's body; None where it is zero everywhere."""
    found: dict[Element, Element] = {}
    for element in elements_of((body,)):
        made = _element(element, found, tangents, array if element is body else None)
        if made is not None:
            found[element] = made
    return found.get(body)


def _element(
    element: Element, found: Mapping[Element, Element], tangents: Tangents, array: Array | None
) -> Element | None:
    """The tangent of one element, from those of its arguments."""
    match element:
        case Read():
            tangent = tangents.get(element.array)
            return None if tangent is None else Read(tangent, element.args)
        case Select(guard=guard, then=then, otherwise=otherwise):
            if then not in found and otherwise not in found:
                return None
            zero = const(0, element.dtype)
            return select(guard, found.get(then, zero), found.get(otherwise, zero))
        case Apply() if differentiable(element):
            value = Read(array, identity(array.shape)) if isinstance(array, Map) else element
            return _chain(element, found, value)
    return None


def _chain(element: Apply, found: Mapping[Element, Element], value: Element) -> Element | None:
    """The sum over arguments of tangent times partial derivative."""
    total: Element | None = None
    for k, arg in enumerate(element.args):
        if arg in found:
            term = times(cast(found[arg], element.dtype), partial(element, k, value))
            if term is not None:
                total = term if total is None else apply("add", total, term)
    return total
