"""Calls of definitions with a user-defined derivative.

The rule is lowered on placeholders for the arguments, the result and its cotangent, and closed over them
(ir/ruled.py). Values open in axes of comprehensions have these axes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.frontend.values.derivatives import fitting, whole_of
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import (
    AnyValue,
    Closure,
    Masked,
    Value,
    as_array,
    describe,
    is_number,
)
from adcompiler.ir.bodies import Replace, closed_rule, fresh
from adcompiler.ir.nodes import Array, Read, const, zeros_like
from adcompiler.ir.types import is_float


def ruled(context: Context, closure: Closure, args: Sequence[AnyValue], span: Span) -> AnyValue:
    """The value of a definition on these arguments, with its rule."""
    args = [as_array(a) for a in args]
    for name, arg in zip((p.name for p in closure.definition.parameters), args, strict=True):
        if not isinstance(arg, Value | str | None) and not is_number(arg):
            cause = f"{closure.name} has a derivative rule, but {name} is {describe(arg)}"
            remedy = "a function with a rule takes only numbers and arrays"
            if isinstance(arg, Masked):
                remedy += ": where(mask, x, 0), or in a loop of statements a = x[s[i] : s[i + 1]]"
            context.fail(DtypeError, cause, span, remedy)
    value = as_array(context.invoke(replace(closure, rule=None), list(args), {}, span))
    if is_number(value):
        return value
    if not isinstance(value, Value) or not is_float(value.dtype):
        cause = f"{closure.name}, which has a rule, returns {describe(value)}"
        context.fail(DtypeError, cause, span, "return one float array, or a scalar")
    made = _Rule(context, closure, args, value).array(span)
    return Value(value.shape, Read(made.array, made.args), value.weak)


class _Rule:
    """One call of a definition with a rule; all its arrays have the open `axes` first."""

    def __init__(self, context: Context, closure: Closure, args: list[AnyValue], value: Value) -> None:
        self.context, self.closure, self.args, self.value = context, closure, args, value
        self.moving = [k for k, a in enumerate(args) if isinstance(a, Value)]
        self.given: list[Value] = [args[k] for k in self.moving]
        self.axes = context.binders.opened(*(v.element for v in (value, *self.given)))
        kinds = (*self.given, value, value)
        self.places: list[Array] = [fresh(v.dtype, self.axes.lengths + v.shape) for v in kinds]

    def array(self, span: Span) -> Read:
        """The value with its rule, which is lowered on placeholders and closed over them."""
        start = len(self.context.binders.checks)
        pulled = _cotangents(self.context, self.closure, self.called(span), self.args, span)
        whole = whole_of(self.axes, self.value)
        arrays = tuple(whole_of(self.axes, v) for v in self.given)
        roots = [self.root(pulled[k], a) for k, a in zip(self.moving, arrays, strict=True)]
        made = closed_rule(whole, arrays, self.places, roots)
        actual = Replace(dict(zip(self.places, (*arrays, made, made), strict=True)))
        checks = self.context.binders.checks
        checks[start:] = [replace(c, holds=actual.run((c.holds,))[0]) for c in checks[start:]]
        return self.axes.read(made, self.value.shape)

    def called(self, span: Span) -> AnyValue:
        """The results of the rule on placeholders."""
        kinds = (*self.given, self.value, self.value)
        pairs = zip(self.places, kinds, strict=True)
        stands = [Value(v.shape, self.axes.read(p, v.shape), v.weak) for p, v in pairs]
        inner = list(self.args)
        for k, stand in zip(self.moving, stands, strict=False):
            inner[k] = stand
        return self.context.invoke(self.closure.rule, [*inner, *stands[-2:]], {}, span)

    def root(self, cotangent: Value | None, array: Array) -> Array:
        return zeros_like(array) if cotangent is None else whole_of(self.axes, cotangent)


def _cotangents(
    context: Context, closure: Closure, found: AnyValue, args: Sequence[AnyValue], span: Span
) -> list[Value | None]:
    """The cotangents that a rule returns, one per argument: None for arguments that are not float arrays."""
    found = as_array(found)
    listed = list(found) if isinstance(found, tuple) else [found]
    names = [p.name for p in closure.definition.parameters]
    if len(listed) != len(names):
        cause = f"the rule of {closure.name} returns {len(listed)} cotangents"
        context.fail(ParseError, cause, span, f"return one per argument ({', '.join(names)}), or None")
    made: list[Value | None] = []
    for name, arg, cotangent in zip(names, args, map(as_array, listed), strict=True):
        if not isinstance(arg, Value) or not is_float(arg.dtype) or cotangent is None:
            made.append(None)
            continue
        if is_number(cotangent):
            cotangent = Value((), const(float(cotangent), arg.dtype), weak=True)
        if not isinstance(cotangent, Value) or cotangent.rank != arg.rank:
            cause = f"the rule of {closure.name} gives {describe(cotangent)} for {name}, {describe(arg)}"
            context.fail(ShapeError, cause, span, "a cotangent must have the shape of its argument")
        made.append(fitting(context, arg, cotangent, span))
    return made
