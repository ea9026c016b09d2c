"""Derivatives inside the language: `diff(u, x, k)`, `grad(f)(x)`, `jvp(f, args, tangents)`.

The function is lowered on placeholders for the variables, its result is differentiated program to program,
and the placeholders are replaced by the variables. Each placeholder is unique, so nested derivatives do not
interfere. If the argument is open in axes of comprehensions, its placeholder has these axes and is read at
them: each point has its own derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.frontend.values.open_axes import Opened, open_axes
from adcompiler.frontend.values.operations import Calculus, Context, over
from adcompiler.frontend.values.values import AnyValue, Value, as_array, describe, is_number
from adcompiler.ir.bodies import Replace, like
from adcompiler.ir.nodes import Array, Element, Map, Read, closed, const, zeros_like
from adcompiler.ir.types import is_float
from adcompiler.lazy_dataclass import dataclass

Variables = Sequence[tuple[str, int]]  # names, and the order of differentiation for each
Make = Callable[[list[Value]], AnyValue]  # from placeholders of the variables to the differentiated value


@dataclass(frozen=True, slots=True)
class _Point:
    """A variable of differentiation: the placeholder `place` replaces `whole`, and is read as `value`."""

    whole: Array
    place: Array
    value: Value


# -- interface ------------------------------------------------------------------------------------------


def partial(context: Context, function: Callable[..., AnyValue], args: Sequence[AnyValue],
            variables: Variables, names: Sequence[str], span: Span) -> AnyValue:  # fmt: skip
    """The mixed partial derivative of `function(*args)` with respect to arguments called `names`."""
    found = list(args)

    def make(k: int) -> AnyValue:
        if k == len(variables):
            return function(*found)
        name, order = variables[k]
        position = names.index(name)
        before = found[position]

        def inner(values: list[Value]) -> AnyValue:
            found[position] = values[0]
            return make(k + 1)

        value = _differentiable(context, before, name, span)
        made = _along(context, value, order, inner, span)
        found[position] = before
        return made

    return make(0)


def gradient(
    context: Context, call: Callable[..., AnyValue], args: Sequence[AnyValue], wanted: Sequence[int],
    names: Sequence[str], span: Span,
) -> tuple[Value, list[Value]]:  # fmt: skip
    """The scalar `call(*args)`, and its gradient with respect to the arguments number `wanted`."""
    values = [_differentiable(context, args[k], names[k], span) for k in wanted]
    lead: set[int] = {a for v in values for a in open_axes(v.element)}
    start = len(context.binders.checks)
    while True:
        points = [_point(context, v, lead) for v in values]
        given = list(args)
        for k, point in zip(wanted, points, strict=True):
            given[k] = point.value
        result = _scalar(context, call(*given), span)
        more = set(open_axes(result.element)) - lead
        if not more:
            break
        lead |= more  # the result has open axes that the arguments lack: each point has its own gradient
        del context.binders.checks[start:]
    read = context.binders.enclose(closed, (), result.element)
    cotangent = Map(read.array.shape, const(1, read.dtype))
    pulled = _calculus(context, span).pull(read.array, cotangent, [p.place for p in points])
    grads = [zeros_like(p.place) if g is None else g for p, g in zip(points, pulled, strict=True)]
    whole, *grads = _settled(context, points, [read.array, *grads], start)
    found = [
        Value(p.value.shape, Read(g, _indices(p.value)), p.value.weak)
        for p, g in zip(points, grads, strict=True)
    ]
    return Value((), Read(whole, read.args), result.weak), found


def pushed(context: Context, call: Callable[..., AnyValue], args: Sequence[AnyValue],
           tangents: Sequence[AnyValue], span: Span) -> tuple[AnyValue, AnyValue]:  # fmt: skip
    """`call(*args)` and its derivative along `tangents` (None for zero)."""
    given = list(args)
    ways: dict[Array, Array] = {}
    points: list[_Point] = []
    start = len(context.binders.checks)
    for k, tangent in enumerate(tangents):
        if tangent is not None:
            value = _differentiable(context, args[k], f"argument {k}", span)
            way = fitting(context, value, _differentiable(context, tangent, f"tangent {k}", span), span)
            point = _point(context, value, open_axes(way.element))
            ways[point.place] = whole_of(context.binders.opened(point.value.element), way)
            given[k] = point.value
            points.append(point)
    value = call(*given)
    calculus = _calculus(context, span)
    tangent = _each(context, value, lambda r: calculus.along(r, ways, 1), points, start, span)
    return _each(context, value, lambda r: r, points, start, span), tangent


def fitting(context: Context, value: Value, tangent: Value, span: Span) -> Value:
    """A tangent in its argument's shape and type."""
    same = value.rank == tangent.rank and all(
        context.sizes.merge(a, b, f"axis {k} of a tangent", span)
        for k, (a, b) in enumerate(zip(value.shape, tangent.shape, strict=True))
    )
    if not same:
        cause = f"a tangent is {describe(tangent)}, but its argument is {describe(value)}"
        context.fail(ShapeError, cause, span, "a tangent must have the shape of its argument")
    return Value(value.shape, over(tangent, value.shape, value.dtype), value.weak)


# -- implementation -------------------------------------------------------------------------------------


def _along(context: Context, value: Value, order: int, make: Make, span: Span) -> AnyValue:
    """The derivative of `make` with respect to one variable, entry by entry if that is an array."""
    start = len(context.binders.checks)
    point = _point(context, value, ())
    ones = {point.place: Map(point.place.shape, const(1, point.place.dtype))}
    calculus = _calculus(context, span)

    def derivative(result: Array) -> Array | None:
        if value.rank and not calculus.pointwise(result, point.place):
            context.fail(
                ShapeError,
                "diff by an array is elementwise, but here an element depends on several of the array",
                span,
                "use grad(f, wrt=...) of a scalar, or diff by one element: [... for i in range(n)]",
            )
        return calculus.along(result, ones, order)

    return _each(context, make([point.value]), derivative, [point], start, span)


def _each(context: Context, value: AnyValue, change: Callable[[Array], Array | None],
          points: Sequence[_Point], start: int, span: Span) -> AnyValue:  # fmt: skip
    """Change every array of a result, with placeholders replaced."""
    value = as_array(value)
    if isinstance(value, tuple):
        return tuple(_each(context, part, change, points, start, span) for part in value)
    if is_number(value):
        value = Value((), const(float(value), "f64"), weak=True)
    if not isinstance(value, Value) or not is_float(value.dtype):
        what = value.dtype if isinstance(value, Value) else describe(value)
        context.fail(DtypeError, f"the differentiated value is {what}", span, "make it a float or an array")
    read = context.binders.enclose(closed, value.shape, value.element)
    made = change(read.array)
    (found,) = _settled(context, points, [zeros_like(read.array) if made is None else made], start)
    return Value(value.shape, Read(found, read.args), value.weak)


def _settled(
    context: Context, points: Sequence[_Point], arrays: Sequence[Array], start: int
) -> tuple[Array, ...]:
    """Arrays, and the checks made since `start`, with the placeholders replaced."""
    rewriter = Replace({p.place: p.whole for p in points})
    found = rewriter.run(arrays)
    checks = context.binders.checks
    checks[start:] = [replace(c, holds=rewriter.run((c.holds,))[0]) for c in checks[start:]]
    for old, new in rewriter.moved().items():
        if old in context.names:
            context.names.setdefault(new, context.names[old])
        if old in context.spans:
            context.spans.setdefault(new, context.spans[old])
    return found


def _differentiable(context: Context, value: AnyValue, name: str, span: Span) -> Value:
    """An argument as a float value."""
    value = as_array(value)
    if is_number(value) and not isinstance(value, bool):
        return Value((), const(float(value), "f64"), weak=True)
    if not isinstance(value, Value) or not is_float(value.dtype):
        what = value.dtype if isinstance(value, Value) else describe(value)
        remedy = "differentiate by floats" if not isinstance(value, Value) else f"pass 1.0 * {name}"
        context.fail(DtypeError, f"{name} is {what}: it has no derivative", span, remedy)
    return value


def _scalar(context: Context, value: AnyValue, span: Span) -> Value:
    """A result that has a gradient."""
    value = as_array(value)
    if is_number(value):
        value = Value((), const(float(value), "f64"), weak=True)
    if not isinstance(value, Value) or value.rank:
        context.fail(
            ShapeError,
            f"grad of {describe(value)}",
            span,
            "reduce it to one scalar: sum(...); for each point write [grad(f)(v) for v in x]",
        )
    if not is_float(value.dtype):
        context.fail(DtypeError, f"grad of {value.dtype}, which has no derivative", span, "return a float")
    return value


def _point(context: Context, value: Value, lead: Any) -> _Point:
    """A placeholder for a value, at each point of the value's open axes and of `lead`."""
    axes = context.binders.opened(value.element, also=lead)
    whole = whole_of(axes, value)
    place = like(whole)
    return _Point(whole, place, Value(value.shape, axes.read(place, value.shape), value.weak))


def whole_of(lead: Opened, value: Value) -> Array:
    """The array of a value, with the open axes `lead` first."""
    return closed(lead.lengths + value.shape, lead.closed(value.element))


def _indices(value: Value) -> tuple[Element, ...]:
    assert isinstance(value.element, Read)
    return value.element.args


def _calculus(context: Context, span: Span) -> Calculus:
    if context.calculus is None:
        context.fail(ParseError, "a derivative outside a function", span, "write it inside a def")
    return context.calculus
