"""Signatures of functions of the prelude: what a call may pass for each parameter.

The annotation of a parameter says what kind of argument it takes. A call is checked and converted once, here;
the definition behind sees arguments that fit.

    x: array            an array or number; array(2) has at least two axes
    x: floats           an array, integers become floats; floats(1) has at least one axis
    x: vector, matrix, square
    x: double           elementwise, computed in double precision and converted back
    x: integers         an array of integers
    x: number           a scalar
    x: elements         a number, which stays a constant, or an array
    axis: axis, axes    one axis of the first array, or also a tuple of axes; None if that is the default
    n: integer          an integer known at compile time; flag is True or False
    n: length           the length of an axis, which may be known only in the call
    mode: one("a", "b") one of some strings
    f: anything         whatever is passed

Strings as defaults, such as "omitted", are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.subscripts import not_an_index
from adcompiler.frontend.linalg.matrices import matrix
from adcompiler.frontend.linalg.solving import square
from adcompiler.frontend.values.builtin_arguments import bind_arguments, flag, known_integer
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.rearranging import array, axis_length
from adcompiler.frontend.values.reductions import axes_of
from adcompiler.frontend.values.values import AnyValue, Value, as_array, describe, is_number
from adcompiler.ir.nodes import closed
from adcompiler.ir.types import Dtype, as_float
from adcompiler.lazy_dataclass import dataclass

REQUIRED = object()  # the default of a parameter without one
CONSTANTS = {"None": None, "True": True, "False": False, "inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True)
class Parameter:
    """A parameter: its kind of argument, with the kind's options, and its default."""

    name: str
    kind: str
    options: tuple[Any, ...]
    default: Any = REQUIRED

    @property
    def optional(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not REQUIRED


@dataclass(frozen=True)
class Call:
    """A call being checked: `first` is its first array."""

    context: Context
    name: str
    span: Span
    first: Value | None = None

    def array(self, x: AnyValue) -> Value:
        """A value as an array."""
        return array(self.context, self.name, x, self.span)


class Signature:
    """The parameters of a function."""

    def __init__(self, definition: tree.Def) -> None:
        self.name = definition.name.lstrip("_")
        self.parameters = tuple(map(_parameter, definition.parameters))
        self.names = tuple(p.name for p in self.parameters)
        self.optional = sum(p.optional for p in self.parameters)
        self.doubles = tuple(p.name for p in self.parameters if p.kind == "double")

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(_shown, self.parameters))})"

    def bound(
        self, context: Context, args: list[Any], keywords: dict[str, Any], span: Span
    ) -> dict[str, AnyValue]:
        """The arguments by parameter, checked and converted."""
        given = bind_arguments(context, self.name, self.names, args, keywords, span, self.optional)
        omitted = set(self.names[len(args) :]) - set(keywords)
        call, found = Call(context, self.name, span), dict[str, AnyValue]()
        for parameter, value in zip(self.parameters, given, strict=True):
            value = parameter.default if parameter.name in omitted else value
            found[parameter.name] = checked = self._checked(call, parameter, value)
            if call.first is None and isinstance(checked, Value):
                call = Call(context, self.name, span, checked)
        return found

    def _checked(self, call: Call, parameter: Parameter, value: AnyValue) -> AnyValue:
        if parameter.optional and (value is None or (value is parameter.default and isinstance(value, str))):
            return value if parameter.default is None or value is not None else _none(call, parameter)
        return KINDS[parameter.kind](call, parameter, value)

    def converted(
        self, context: Context, bound: dict[str, AnyValue], span: Span
    ) -> tuple[Dtype, bool] | None:
        """Bring `double` arguments to one shape and double precision, as separate arrays because loops read
        them repeatedly; the type of the result, or None if there are none."""
        if not self.doubles:
            return None
        values = [bound[name] for name in self.doubles]
        shape = context.broadcast(self.name, values, span)
        for name, value in zip(self.doubles, values, strict=True):
            element = over(value, shape, "f64")
            bound[name] = Value(shape, context.binders.enclose(closed, shape, element))
        dtype, weak = context.meet(values)
        return as_float(dtype), weak


def _none(call: Call, parameter: Parameter) -> AnyValue:
    """None for a parameter that has another default."""
    if parameter.kind in ("axis", "axes", "anything") or parameter.name == "axis":
        return None
    cause = f"{call.name}: {parameter.name} is None"
    call.context.fail(ParseError, cause, call.span, f"omit {parameter.name}, or write a value")


def _parameter(given: tree.Parameter) -> Parameter:
    default = REQUIRED if given.default is None else _constant(given.default)
    match given.annotation:
        case tree.Name(id=kind):
            return Parameter(given.name, kind, (), default)
        case tree.Call(function=tree.Name(id=kind), arguments=options):
            return Parameter(given.name, kind, tuple(map(_constant, options)), default)
    return Parameter(given.name, "anything", (), default)


def _constant(node: tree.Expression) -> Any:
    """The value of a default."""
    match node:
        case tree.Number(value=value) | tree.Text(value=value):
            return value
        case tree.Name(id=name):
            return CONSTANTS[name]
        case tree.Unary(op="-", operand=operand):
            return -_constant(operand)
        case tree.Sequence(items=items):
            return tuple(map(_constant, items))
    raise AssertionError(node)


def _shown(parameter: Parameter) -> str:
    """A parameter in a signature: `axis=None`."""
    if not parameter.optional:
        return parameter.name
    default = parameter.default
    return f"{parameter.name}=" if default == "omitted" else f"{parameter.name}={default!r}"


# -- kinds ---------------------------------------------------------------------------------------------


def _array(call: Call, parameter: Parameter, value: AnyValue) -> Value:
    found, least = call.array(value), next(iter(parameter.options), 0)
    if found.rank < least:
        remedy = f"{call.name} takes an array of rank {least} or more"
        call.context.fail(ShapeError, f"{call.name} of {describe(found)}", call.span, remedy)
    return found


def _floats(call: Call, parameter: Parameter, value: AnyValue) -> AnyValue:
    return call.context.elementwise("multiply", (_array(call, parameter, value), 1.0), call.span)


def _vector(call: Call, parameter: Parameter, value: AnyValue) -> Value:
    found = call.array(value)
    if found.rank != 1:
        cause = f"{call.name} takes vectors, not {describe(found)}"
        call.context.fail(ShapeError, cause, call.span, "pass a vector, such as one row: x[0]")
    return found


def _matrix(call: Call, parameter: Parameter, value: AnyValue) -> Value:
    return matrix(call.context, call.name, value, call.span)


def _square(call: Call, parameter: Parameter, value: AnyValue) -> Value:
    return square(call.context, call.name, value, call.span)


def _integers(call: Call, parameter: Parameter, value: AnyValue) -> Value:
    found = call.array(value)
    if found.dtype != "i64":
        not_an_index(call.context, found, call.span)
    return found


def _number(call: Call, parameter: Parameter, value: AnyValue) -> AnyValue:
    value = as_array(value)
    if not (is_number(value) or (isinstance(value, Value) and not value.rank and value.dtype != "bool")):
        cause = f"{call.name}: {parameter.name} must be a number, not {describe(value)}"
        call.context.fail(ParseError, cause, call.span, f"omit {parameter.name}, or pass one number")
    return value


def _elements(call: Call, parameter: Parameter, value: AnyValue) -> AnyValue:
    return value if is_number(value) else call.array(value)


def _axes(call: Call, parameter: Parameter, value: AnyValue) -> tuple[int, ...] | None:
    axes = axes_of(call.context, value, call.span)
    if call.first is not None:
        call.context.normalise(axes, call.first.rank, call.span)
    return axes


def _axis(call: Call, parameter: Parameter, value: AnyValue) -> int:
    axes = _axes(call, parameter, value)
    if axes is None or len(axes) != 1:
        remedy = "write axis=0, or reshape before"
        call.context.fail(ParseError, f"{call.name} takes one axis", call.span, remedy)
    return axes[0]


def _integer(call: Call, parameter: Parameter, value: AnyValue) -> int:
    return known_integer(call.context, parameter.name, value, parameter.default or 0, call.span)


def _flag(call: Call, parameter: Parameter, value: AnyValue) -> bool:
    return flag(call.context, parameter.name, value, call.span)


def _length(call: Call, parameter: Parameter, value: AnyValue) -> Value:
    return Value((), axis_length(call.context, value, call.span), weak=True)


def _one(call: Call, parameter: Parameter, value: AnyValue) -> str:
    if not (isinstance(value, str) and value in parameter.options):
        what = repr(value) if isinstance(value, str) else describe(value)
        cause = f"{call.name} has no {parameter.name} {what}"
        remedy = f"the {parameter.name}s are {', '.join(parameter.options)}"
        call.context.fail(ParseError, cause, call.span, remedy)
    return value


def _anything(call: Call, parameter: Parameter, value: AnyValue) -> AnyValue:
    return value


KINDS: Mapping[str, Callable[[Call, Parameter, AnyValue], AnyValue]] = {
    "array": _array, "floats": _floats, "vector": _vector, "matrix": _matrix, "square": _square,
    "double": _array, "integers": _integers, "number": _number, "elements": _elements, "axis": _axis,
    "axes": _axes, "integer": _integer, "flag": _flag, "length": _length, "one": _one,
    "anything": _anything,
}  # fmt: skip
