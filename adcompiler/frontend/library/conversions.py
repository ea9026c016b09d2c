"""`int`, `float` and `bool` of a number, `array`, `asarray`, and `dtype=` of functions that create arrays."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any

from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin
from adcompiler.frontend.values.integer_widths import WIDE
from adcompiler.frontend.values.modules import part_of
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import array
from adcompiler.frontend.values.values import AnyValue, FunctionValue, Value, describe, is_number
from adcompiler.ir.nodes import Map, const
from adcompiler.ir.types import Dtype, is_float
from adcompiler.ops.build import apply, cast

DTYPES: Mapping[str, Dtype] = {
        "float": "f64", "float64": "f64", "f64": "f64", "double": "f64", "float32": "f32", "f32": "f32",
        "int": "i64", "int64": "i64", "i64": "i64", "bool": "bool", "bool_": "bool",
        "int32": "i64", "int_": "i64", "intp": "i64",
    }  # fmt: skip
LIBRARIES = ("np", "numpy", "nb", "numba")
BEYOND = const(2.0**63, "f64")


def dtype_named(node: tree.Expression, scope: Container[str]) -> str | None:
    """The name of a type as the value of `dtype=`: `float`, `np.float32`; None for other expressions."""
    value = part_of(node, scope)
    if isinstance(node, tree.Name) and isinstance(scope, Mapping):
        value = scope.get(node.id)
    if isinstance(value, FunctionValue) and value.library and value.name in DTYPES:
        return value.name
    match node:
        case tree.Attribute(value=tree.Name(id=library), name=name) if library in LIBRARIES:
            return name if library not in scope and name in DTYPES else None
        case tree.Name(id=name):
            return name if name not in scope and name in DTYPES else None
    return None


def _scalar(context: Context, name: str, x: AnyValue, span: Span) -> Value:
    found = array(context, name, x, span)
    if found.rank:
        remedy = "convert the argument before the call"
        context.fail(ShapeError, f"{name} of {describe(found)}: it takes one number", span, remedy)
    return found


def _integer(context: Context, x: AnyValue, span: Span) -> AnyValue:
    """Truncate a number, as in Python."""
    if is_number(x) and math.isfinite(x):
        return int(x)
    x = _scalar(context, "int", x, span)
    if is_float(x.dtype):
        fits = apply("less", apply("abs", cast(x.element, "f64")), BEYOND)
        context.binders.check(
            fits, (), "int of a value that is not a 64-bit integer", "test it first: isfinite(x)", span
        )
    return Value((), cast(x.element, "i64"), weak=True)


def _float(context: Context, x: AnyValue, span: Span) -> AnyValue:
    if is_number(x):
        return float(x)
    if isinstance(x, str):
        context.fail(DtypeError, "float of a string", span, "write inf, nan, or the number itself")
    x = _scalar(context, "float", x, span)
    return x if is_float(x.dtype) else Value((), cast(x.element, "f64"), weak=True)


def _truth(context: Context, x: AnyValue, span: Span) -> AnyValue:
    if is_number(x):
        return bool(x)
    return Value((), cast(_scalar(context, "bool", x, span).element, "bool"))


def _array(context: Context, x: AnyValue, dtype: AnyValue, span: Span) -> AnyValue:
    return converted(context, array(context, "array", x, span), dtype, span)


def converted(context: Context, x: AnyValue, dtype: AnyValue, span: Span) -> AnyValue:
    """A value converted to the type that `dtype=` names; unchanged for None."""
    if dtype is None:
        return x
    if not isinstance(dtype, str) or dtype not in DTYPES:
        remedy = "write dtype=float, int, bool, np.float32, np.float64 or np.int64"
        context.fail(ParseError, f"a dtype must be a type, not {describe(dtype)}", span, remedy)
    known = DTYPES[dtype]
    if is_float(x.dtype) and not is_float(known) and not x.weak:
        remedy = "convert the argument before the call"
        context.fail(DtypeError, f"an array of {x.dtype} as one of {known}", span, remedy)
    if known == x.dtype == "i64" and context.widths:  # NumPy's int64, whatever it was before
        whole = context.binders.enclose(Map, x.shape, x.element)
        context.widths[whole.array] = WIDE
        return Value(x.shape, whole)
    return Value(x.shape, cast(x.element, known))


def _astype(context: Context, x: AnyValue, dtype: AnyValue, span: Span) -> AnyValue:
    """`x.astype(dtype)`: floats become integers by truncation, as in NumPy."""
    found = array(context, "astype", x, span)
    if is_float(found.dtype) and DTYPES.get(dtype) == "i64":
        fits = apply("less", apply("abs", cast(found.element, "f64")), BEYOND)
        cause = "astype of a value that is not a 64-bit integer"
        context.binders.check(fits, found.shape, cause, "test it first: isfinite(x)", span)
        return Value(found.shape, cast(found.element, "i64"))
    made: Value = converted(context, found, dtype, span)
    return Value(made.shape, made.element)


def with_dtype(function: Builtin) -> Builtin:
    """A function that creates an array, extended by `dtype=`."""

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        dtype = keywords.pop("dtype", None)
        return converted(context, function(context, args, keywords, span), dtype, span)

    return call


def _of_type(name: str) -> Builtin:
    """A NumPy type as a function: `np.float32(x)`, of a number or an array."""

    def convert(context: Context, x: AnyValue, span: Span) -> AnyValue:
        found = array(context, name, x, span)
        if not is_float(DTYPES[name]) and not found.rank:
            whole = _integer(context, x, span)
            is_known = not isinstance(whole, Value)
            return whole if is_known else converted(context, Value((), whole.element), name, span)
        return converted(context, found, name, span)

    return builtin(name, ("x",), convert)


def _type(context: Context, x: AnyValue, span: Span) -> AnyValue:
    """`type(x)` as a function, which converts to the type of x."""
    if is_number(x):
        return FunctionValue(type(x).__name__, ("x",), CONVERSIONS[type(x).__name__])
    found = array(context, "type", x, span)
    if found.weak or found.dtype == "bool":
        name = {"i64": "int", "bool": "bool"}.get(found.dtype, "float")
    else:
        name = {"i64": "int64", "f32": "float32"}.get(found.dtype, "float64")
    return FunctionValue(name, ("x",), CONVERSIONS[name])


_NAMES = ("float64", "float32", "int64", "int32", "intp", "int_")
CONVERSIONS: Mapping[str, Builtin] = {
    "astype": builtin("astype", ("x", "dtype"), _astype),
    "type": builtin("type", ("x",), _type),
    **{name: _of_type(name) for name in _NAMES},
    "int": builtin("int", ("x",), _integer),
    "float": builtin("float", ("x",), _float),
    "bool": builtin("bool", ("x",), _truth),
} | {name: builtin(name, ("x", "dtype"), _array, optional=1) for name in ("array", "asarray")}
