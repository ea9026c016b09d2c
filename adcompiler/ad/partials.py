"""Partial derivatives of primitives, from the texts of the rule table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import isfinite
from typing import TypeGuard

from adcompiler.frontend.lowering.rule_texts import element_of, names_in
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Const,
    Element,
    Index,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    const,
    is_const,
    select,
)
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import arrays_read, elements_of
from adcompiler.ops.build import apply, evaluated, operands
from adcompiler.ops.table import TABLE

RESULT = "r"


def partial(element: Apply, k: int, result: Element | None = None) -> Element:
    """The derivative of a primitive's result with respect to its argument number `k`.

    `result` refers to the primitive's own value, if it is available.
    """
    one = const(1, element.dtype)
    if element.op in DTYPES:
        return one
    entry = TABLE[element.op]
    text = entry.partials[k]
    if text in ("0", "1"):
        return const(int(text), element.dtype)
    scope = operands(element) | {RESULT: result or element}
    known = scope.get(text)
    return known if isinstance(known, Element) else _decided(element_of(text, scope, element.dtype))


def _decided(derivative: Element) -> Element:
    """A derivative without the cases that constants decide: that of x ** 2 needs no case for an exponent of
    0.

    An undecided case would become a guard, which cotangents carry from array to array.
    """
    while isinstance(derivative, Select) and (holds := _known(derivative.guard)) is not None:
        derivative = derivative.then if holds else derivative.otherwise
    return derivative


def _known(condition: Element) -> bool | None:
    """The truth of a condition, if it is constant."""
    if isinstance(condition, Const):
        return bool(condition.value)
    if isinstance(condition, Apply) and condition.op == "logical_and":
        parts = [_known(a) for a in condition.args]
        return False if False in parts else None if None in parts else True
    if isinstance(condition, Apply) and all(isinstance(a, Const) for a in condition.args):
        return bool(evaluated(condition).value)
    return None


def named(element: Apply, k: int) -> list[Element]:
    """The elements that partial derivative number `k` refers to: the backward pass needs them."""
    if element.op in DTYPES:
        return []
    entry = TABLE[element.op]
    scope = operands(element) | {RESULT: element}
    found = (scope.get(name) for name in sorted(names_in(entry.partials[k])))
    return [value for value in found if isinstance(value, Element)]


def differentiable(element: Element) -> bool:
    """Whether a derivative can flow through `element` to its arguments."""
    if not is_float(element.dtype):
        return False
    return not isinstance(element, Apply) or element.op in DTYPES or TABLE[element.op].differentiable


def delta(value: Element, pairs: Iterable[tuple[Element, Element]]) -> Element:
    """`value` where the indices of each pair are equal, zero elsewhere."""
    zero = const(0, value.dtype)
    for one, other in pairs:
        if one is not other:
            value = select(apply("equal", one, other), value, zero)
    return value


def is_delta(element: Element) -> TypeGuard[Select]:
    """Whether an element is zero except where two indices are equal: a direction of a Jacobian."""
    if not (isinstance(element, Select) and is_const(element.otherwise, 0)):
        return False
    guard = element.guard
    return (
        isinstance(guard, Apply)
        and guard.op == "equal"
        and all(isinstance(a, Index | Const) for a in guard.args)
    )


def times(cotangent: Element, coefficient: Element) -> Element | None:
    """The product with a partial derivative; None where the partial is zero everywhere.

    It is taken inside a `select` between partials such as 0 and 1: with where(x > 0, 1, 0) an infinite
    cotangent gives 0 for x < 0, not inf * 0. Any others are selected first and multiplied once.
    """
    if is_const(coefficient, 0):
        return None
    if is_const(coefficient, 1):
        return cotangent
    if is_const(cotangent, 1):
        return coefficient
    if is_const(coefficient, -1):
        return apply("negative", cotangent)
    if is_delta(cotangent):
        guard, one, zero = cotangent.args
        product = times(one, coefficient)
        return None if product is None else select(guard, product, zero)
    if isinstance(coefficient, Select) and any(map(_saves_product, _selected(coefficient))):
        zero = const(0, cotangent.dtype)
        then, otherwise = times(cotangent, coefficient.then), times(cotangent, coefficient.otherwise)
        if then is None and otherwise is None:
            return None
        return select(coefficient.guard, then or zero, otherwise or zero)
    if isinstance(coefficient, Apply) and _saves_product(coefficient):
        return apply("divide", cotangent, coefficient.args[1])
    return apply("multiply", cotangent, coefficient)


def _selected(element: Element) -> Iterator[Element]:
    """The values between which an element selects."""
    work = [element]
    while work:
        element = work.pop()
        if isinstance(element, Select):
            work += (element.then, element.otherwise)
        else:
            yield element


def _saves_product(coefficient: Element) -> bool:
    """Whether the product with a partial derivative is none, or a quotient."""
    if isinstance(coefficient, Const):
        return coefficient.value in (0, 1, -1)
    return isinstance(coefficient, Apply) and coefficient.op == "divide" and is_const(coefficient.args[0], 1)


def active_arrays(order: Iterable[Array], wanted: Sequence[Array]) -> set[Array]:
    """The arrays through which a derivative flows to `wanted`; `order` has producers first."""
    active: set[Array] = set()
    for array in order:
        if is_float(array.dtype) and (array in wanted or any(a in active for a in arrays_read(array))):
            active.add(array)
    return active


def linear_arrays(
    order: Iterable[Array], active: Collection[Array], unsafe: Collection[Array] = ()
) -> set[Array]:
    """The arrays that are inputs, other than `unsafe` ones, or depend on such arrays with constants as
    derivatives: sums, multiples, extrema of two numbers. A cotangent that is zero stays zero on its way
    through them, since no factor is infinite. `order` has producers first."""
    linear: set[Array] = set()
    for array in order:
        if (isinstance(array, Input) and array not in unsafe) or (
            array in active and _is_linear(array, active, linear)
        ):
            linear.add(array)
    return linear


def _is_linear(array: Array, active: Collection[Array], linear: Collection[Array]) -> bool:
    """Whether an array depends on other arrays that are `linear`, with constants as derivatives."""
    if isinstance(array, Put) and array.base in active and array.base not in linear:
        return False
    if not isinstance(array, Map | Accumulate | Put) and not (
        isinstance(array, Reduce) and array.op == "sum"
    ):
        return False
    moving: set[Element] = set()
    for e in elements_of((array.elements[-1],)):
        if isinstance(e, Read):
            if e.array in active:
                if e.array not in linear:
                    return False
                moving.add(e)
        elif differentiable(e) and (moved := [k for k, a in enumerate(e.args) if a in moving]):
            if isinstance(e, Apply) and not all(_is_finite(partial(e, k)) for k in moved):
                return False
            moving.add(e)
    return True


def _is_finite(factor: Element) -> bool:
    """Whether a derivative is a finite constant, or one of several."""
    if isinstance(factor, Select):
        return _is_finite(factor.then) and _is_finite(factor.otherwise)
    return isinstance(factor, Const) and isfinite(factor.value)
