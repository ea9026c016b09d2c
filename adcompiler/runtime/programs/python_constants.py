"""Values around a decorated Python function, converted to the language: defaults, and constant arrays."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.values import Foreign, Value
from adcompiler.ir.nodes import Element, Index, const, select
from adcompiler.ops.build import apply
from adcompiler.runtime.arguments.signature import DTYPE_OF
from adcompiler.runtime.limits import MOST_CONSTANTS


def with_defaults(module: tree.Module, called: str, f: FunctionType) -> tree.Module:
    """A module whose definition of `f`, under the name `called`, has the defaults that Python has computed.

    Raises DtypeError for one that is not a number, text, None, small array, or tuple or list of these.
    """
    parameters = inspect.signature(f, follow_wrapped=False).parameters.items()
    values = {name: p.default for name, p in parameters if p.default is not p.empty}

    def given(statement: tree.Statement) -> tree.Statement:
        if not isinstance(statement, tree.Def) or statement.name != called:
            return statement
        return replace(statement, parameters=tuple(map(parameter, statement.parameters)))

    def parameter(p: tree.Parameter) -> tree.Parameter:
        if p.default is None or p.name not in values:
            return p
        found = _written(values[p.name], p.default.span)
        if found is None:
            raise DtypeError(
                f"the default of {p.name!r} is a {type(values[p.name]).__name__}",
                remedy="write a number, a string, or a tuple of these, and create arrays from it inside",
                source=module.source,
                span=p.default.span,
            )
        return replace(p, default=found)

    return replace(module, statements=tuple(map(given, module.statements))) if values else module


def _written(value: Any, span: Span) -> tree.Expression | None:
    """A value as an expression; None for one that the language has no words for."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and 0 < value.size <= MOST_CONSTANTS:
        value = value.tolist()
    match value:
        case None | bool():
            return tree.Name(span, str(value))
        case int() | float():
            return tree.Number(span, value)
        case str():
            return tree.Text(span, value)
        case tuple() | list():
            items = [_written(item, span) for item in value]
            found = tuple(item for item in items if item is not None)
            kind = "list" if isinstance(value, list) else "tuple"
            return tree.Sequence(span, kind, found) if len(found) == len(items) else None
    return None


def constant_array(name: str, array: np.ndarray) -> Any:
    """An array around a function as constants of its program: what it holds now."""
    dtype = DTYPE_OF.get(array.dtype.char)
    remedy = f"make {name} a parameter"
    if dtype is None:
        return Foreign(f"an array of {array.dtype} from the surrounding program", remedy)
    if not array.ndim:
        return array.item()
    if not 0 < array.size <= MOST_CONSTANTS:
        what = f"an array of {array.size} elements from the surrounding program"
        return Foreign(f"{what}, but a program can hold 1 to {MOST_CONSTANTS}", remedy)

    def part(values: Any, axis: int, first: int) -> Element:
        """The elements from `first` on along one axis, halved until there is one."""
        if axis == array.ndim:
            return const(values.item(), dtype)
        if len(values) == 1:
            return part(values[0], axis + 1, 0)
        half = len(values) // 2
        low, high = part(values[:half], axis, first), part(values[half:], axis, first + half)
        return select(apply("less", Index(axis), const(first + half, "i64")), low, high)

    return Value(tuple(const(n, "i64") for n in array.shape), part(array, 0, 0))
