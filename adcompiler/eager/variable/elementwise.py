"""Elementwise operations on Variables, by the rule table.

A backward pass reads a partial derivative's text as an expression over Variables, so there is one
rule for each primitive, and the derivative can be differentiated again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import (
    Cotangents,
    Entry,
    Stub,
    Variable,
    is_variable,
    perform,
    refuse_packed,
    state,
)
from adcompiler.eager.graph.provenance import identities, take_array
from adcompiler.eager.variable.linear import cleared, expand, index, reduced, scatter
from adcompiler.errors import DtypeError, Error, GraphError, ShapeError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse_expression
from adcompiler.ir.textform import notation
from adcompiler.ops.build import order_of
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import ALIASES, TABLE
from adcompiler.runtime.arguments.refused import refuse_masked

INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "floor_divide": "//",
    "remainder": "%",
}  # fmt: skip
COMPARISONS = {symbol: name for name, symbol in notation.COMPARISONS.items()}
OPERATORS = {symbol: name for name, symbol in INFIX.items()}
KEEPS_OPERANDS = ("divide",)  # a result that is changed in place is no error, as in PyTorch
COTANGENT = "*"  # the cotangent's key in a scope: no name of a formula looks like it

Scope = Mapping[str, Any]  # what the names of a formula stand for: Variables, arrays and numbers


def apply(name: str, *args: Any) -> Any:
    """The primitive `name` of the rule table on Variables, arrays and numbers.

    Shapes broadcast as in NumPy. The result is a Variable if an argument is one; comparisons and logic
    return plain arrays. Raises Error for an unknown name or a wrong number of arguments, ShapeError, and
    DtypeError for arguments that are not real numbers.
    """
    if (graph := state.fusing) is not None and (later := graph.elementwise(name, args)) is not None:
        return later
    entry = primitive(name)
    args += entry.defaults[len(args) - len(entry.params) :] if len(args) < len(entry.params) else ()
    if len(args) != len(entry.params):
        raise Error(
            f"{name} got {len(args)} arguments",
            remedy=f"it takes ({', '.join(entry.params)}): {entry.doc}",
        )
    if entry.orders is not None and order_of(entry.name, args[0]) is None:
        raise DtypeError(
            f"the order of {name} is {word(args[0])}",
            remedy=f"pass an integer from {entry.orders[0]} to {entry.orders[-1]}",
        )
    operands = [a if is_variable(a) else _constant(a, name) for a in args]
    data = _compute(entry, operands)
    if not entry.differentiable or not any(is_variable(a) for a in operands):
        return _warned(entry, data, operands)
    operation = Elementwise(entry, operands)
    if len(operation.inputs) < len(operands):
        operation.given = identities(args)
    result = perform(operation, [data])[0]
    if _names_result(entry.name):
        operation.keep(0, result.data)
    return result


def _warned(entry: Primitive, data: np.ndarray, operands: Sequence[Any]) -> np.ndarray:
    """A comparison's result, which messages can trace to its operands."""
    if state.recording and state.inside is None:
        for v in filter(is_variable, operands):
            take_array(entry.name, data, v)
    return data


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, otherwise `y`; a cotangent goes to the one that was taken.

    Unlike `where` in a compiled function it cannot hide an infinite derivative inside the argument
    that is not taken, which has already been computed.
    """
    refuse_masked("the condition of where", condition)
    test = np.asarray(condition.data if is_variable(condition) else condition, bool)
    if state.fusing is not None and (later := state.fusing.where(test, x, y)) is not None:
        return later
    operands = [a if is_variable(a) else _constant(a, "where") for a in (x, y)]
    shape = np.broadcast_shapes(test.shape, *map(_shape, operands))
    mask = np.array(np.broadcast_to(test, shape))
    kind = np.result_type(*(a.data if is_variable(a) else a for a in operands))
    taken = [_spread(_at(a, m, shape), m, kind) for a, m in zip(operands, (mask, ~mask), strict=True)]
    return taken[0] + taken[1]


def primitive(name: str) -> Primitive:
    """The table's entry for a name, or for another library's name of it."""
    found = TABLE.get(ALIASES.get(name, name))
    if found is None:
        close = difflib.get_close_matches(name, [*TABLE, *ALIASES], 1)
        hint = f"did you mean {close[0]}?" if close else "docs/rules.md lists them"
        raise Error(f"there is no elementwise function {name!r}", remedy=hint)
    return found


class Elementwise(Entry):
    """A primitive applied to operands, some of which are Variables."""

    __slots__ = ("given", "operands", "primitive")

    def __init__(self, primitive: Primitive, operands: Sequence[Any]) -> None:
        super().__init__([a for a in operands if is_variable(a)])
        self.primitive, self.operands = primitive, tuple(operands)
        self.given: Sequence[Any] = ()

    @property
    def holds(self) -> bool:  # type: ignore[override]
        """Whether a partial derivative is said in operands or the result, not in numbers alone."""
        return any(_names_in(text) for text in self.primitive.partials)

    def clear(self) -> None:
        self.operands = ()

    def lighten(self, stubs: Sequence[Variable | Stub]) -> None:
        super().lighten(stubs)
        remaining = iter(stubs)
        self.operands = tuple(next(remaining) if _is_input(a) else a for a in self.operands)

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        """For each Variable the cotangent times the partial derivative, summed over broadcast axes."""
        asked = iter(wanted)
        found: Cotangents = []
        for text, operand in zip(self.primitive.partials, self.operands, strict=True):
            if _is_input(operand):
                product = self._product(cotangents[0], text) if next(asked) else None
                found.append(None if product is None else reduced(product, operand.shape))
        return found

    def _product(self, cotangent: Any, text: str) -> Any:
        if text in ("0", "1"):
            return cotangent if text == "1" else None
        scope = self._scope(_names_in(text))
        if text in scope:  # add and multiply do without a parser
            return _scaled(cotangent, scope[text])
        found = _times(parse_expression(text), {**scope, COTANGENT: cotangent})
        return cleared(cotangent, ...) if found is None else found  # zero for these values, not for all

    def _scope(self, names: frozenset[str]) -> dict[str, Any]:
        """What these names of a partial derivative stand for; only what is read must be unchanged."""
        scope: dict[str, Any] = {}
        k = 0
        for name, operand in zip(self.primitive.params, self.operands, strict=True):
            if name in names:
                scope[name] = self.input(k) if _is_input(operand) else operand
            k += _is_input(operand)
        if "r" in names:
            scope["r"] = self.output(0, checked=self.primitive.name not in KEEPS_OPERANDS)
        return scope

    def right(self) -> str:
        words = [word(a) for a in self.operands]
        if self.primitive.name in INFIX:
            return f" {INFIX[self.primitive.name]} ".join(words)
        return (
            f"-{words[0]}"
            if self.primitive.name == "negative"
            else f"{self.primitive.name}({', '.join(words)})"
        )


@cache
def _names_result(name: str) -> bool:
    """Whether a partial derivative is said in terms of the result."""
    return any("r" in _names_in(text) for text in TABLE[name].partials)


@cache
def _names_in(text: str) -> frozenset[str]:
    """The words of a partial derivative: parameters, r for the result, and functions."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def _is_input(operand: Any) -> bool:
    return is_variable(operand) or isinstance(operand, Stub)


def word(operand: Any) -> str:
    """An operand as a trace shows it."""
    if _is_input(operand):
        return str(operand.name)
    return str(operand) if np.ndim(operand) == 0 else f"array{np.shape(operand)}"


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if is_variable(value) else np.shape(value)


# -- values ------------------------------------------------------------------------------------


def _constant(value: Any, name: str) -> Any:
    """An operand that is not a Variable: a number as it is, an array as a copy, which nobody can change."""
    if type(value) in (int, float, bool):
        return value
    if value is None:
        raise DtypeError(
            f"an operand of {name} is None",
            remedy="a gradient of None means zero: test `is None` before computing with it",
        )
    if state.inside is not None and isinstance(value, np.ndarray | np.generic):
        raise GraphError(
            f"the propagate of {state.inside.outputs[0].name} computes with a plain array, which derivatives "
            "of higher order would treat as a constant",
            remedy="compute it from Variables, or record it as an output; a true constant is adc.Variable(c)",
        )
    refuse_masked(f"an operand of {name}", value)
    refuse_packed(f"an operand of {name}", value)
    array = np.array(value)
    if array.dtype.kind not in "biuf" or array.dtype.char in "eg":
        raise DtypeError(
            f"an operand of {name} is a {type(value).__name__}, not a real number or an array of them",
            remedy="pass Variables, numbers, or arrays of bool, integer, float32 or float64",
        )
    return array


def _compute(entry: Primitive, operands: Sequence[Any]) -> np.ndarray:
    """The primitive's values; operands meet in one type as NumPy says, where numbers are weak."""
    values = [a.data if is_variable(a) else a for a in operands]
    kind = _meet(entry, values)
    with np.errstate(all="ignore"):
        try:
            return np.asarray(entry.numpy(*(np.asarray(v, kind) for v in values)))
        except ValueError as error:
            raise _explained(entry, operands, error) from error


def _explained(entry: Primitive, operands: Sequence[Any], error: ValueError) -> Error:
    shapes = list(map(_shape, operands))
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return ShapeError(
            f"{entry.name}: the shapes {' and '.join(map(str, shapes))} of "
            f"{' and '.join(map(word, operands))} do not fit",
            remedy="lengths must be equal or 1; reshape() or expand() one of them",
        )
    return DtypeError(f"{entry.name}: {error}", remedy="pass floats")


def _meet(entry: Primitive, values: Sequence[Any]) -> np.dtype:
    if entry.kind == "logical":
        return np.dtype(bool)
    dtypes: set[np.dtype] = {v.dtype for v in values if isinstance(v, np.ndarray)}
    if len(dtypes) == 1 and next(iter(dtypes)).kind == "f" and entry.kind != "integer":
        return dtypes.pop()  # the usual case; numbers are weak
    common = np.result_type(*values)
    if entry.kind == "float" and common.kind != "f":
        return np.dtype(float)
    if common.kind == "b" and entry.kind == "arithmetic":
        return np.dtype(np.int64)
    if entry.kind == "integer" and common.kind == "f":
        raise DtypeError(f"{entry.name} takes integers", remedy="pass integers")
    return np.dtype(np.int64) if common.kind in "iu" else common


# -- formulas ----------------------------------------------------------------------------------


def _times(formula: tree.Expression, scope: Scope) -> Any:
    """The scope's cotangent times a formula; None where that is zero everywhere."""
    cotangent = scope[COTANGENT]
    match formula:
        case tree.Number(value=0):
            return None
        case tree.Number(value=1):
            return cotangent
        case tree.Unary(op="-", operand=tree.Number(value=1)):
            return -cotangent
        case (
            tree.Call(function=tree.Name(id="where"), arguments=(test, then, otherwise))
            | tree.Ternary(test=test, then=then, otherwise=otherwise)
        ):
            return _branched(
                _condition(test, scope),
                lambda part: _times(then, part),
                lambda part: _times(otherwise, part),
                scope,
            )
        case tree.Binary(op="/", left=tree.Number(value=1), right=divisor):
            return cotangent / _value(divisor, scope)
    return _scaled(cotangent, _value(formula, scope))


def _scaled(cotangent: Any, factor: Any) -> Any:
    """A cotangent times a partial derivative; a factor 1 costs nothing, for it is often 1."""
    return cotangent if type(factor) in (int, float) and factor == 1 else cotangent * factor


def _value(formula: tree.Expression, scope: Scope) -> Any:
    """What a formula of the rule table means for the Variables, arrays and numbers of a scope."""
    match formula:
        case tree.Number(value=number):
            return number
        case tree.Name(id=name):
            return scope[name]
        case tree.Unary(op="-", operand=operand):
            return _apply("negative", _value(operand, scope))
        case tree.Binary(op=op, left=left, right=right):
            return _apply(OPERATORS[op], _value(left, scope), _value(right, scope))
        case (
            tree.Call(function=tree.Name(id="where"), arguments=(test, then, otherwise))
            | tree.Ternary(test=test, then=then, otherwise=otherwise)
        ):
            return _branched(
                _condition(test, scope),
                lambda part: _value(then, part),
                lambda part: _value(otherwise, part),
                scope,
            )
        case tree.Call(function=tree.Name(id=name), arguments=arguments):
            return _apply(name, *(_value(a, scope) for a in arguments))
    raise AssertionError(f"the rule table has a {type(formula).__name__}")


def _apply(name: str, *args: Any) -> Any:
    """`apply`, where numbers alone stay a number: weak, so that float32 stays float32."""
    found = apply(name, *args)
    return found.item() if all(type(a) in (int, float) for a in args) else found


def _condition(formula: tree.Expression, scope: Scope) -> np.ndarray:
    """Where a condition holds; it carries no derivative."""
    match formula:
        case tree.Compare(ops=(op,), operands=(left, right)):
            return _compute(TABLE[COMPARISONS[op]], [_value(left, scope), _value(right, scope)])
        case tree.Boolean(op=op, operands=operands):
            combine = np.logical_and if op == "and" else np.logical_or
            return np.asarray(combine.reduce(np.broadcast_arrays(*(_condition(o, scope) for o in operands))))
    raise AssertionError(f"the rule table has a {type(formula).__name__} for a condition")


def _branched(
    condition: np.ndarray, then: Callable[[Scope], Any], otherwise: Callable[[Scope], Any], scope: Scope
) -> Any:
    """Each branch computed only where it is taken.

    A branch computed everywhere and masked afterwards would leak at the next derivative, where the
    mask's zeros meet infinities of the branch not taken: 0 * inf is NaN. So the points of each
    branch are read out of the scope, and what is computed from them is written back.
    """
    if condition.all():
        return then(scope)
    if not condition.any():
        return otherwise(scope)
    shape = np.broadcast_shapes(condition.shape, *map(_shape, scope.values()))
    mask = np.array(np.broadcast_to(condition, shape))
    kind = scope[COTANGENT].dtype
    parts = [_spread(branch({n: _at(v, m, shape) for n, v in scope.items()}), m, kind)
             for m, branch in ((mask, then), (~mask, otherwise))]  # fmt: skip
    known = [p for p in parts if p is not None]
    return known[0] + known[1] if len(known) == 2 else known[0] if known else None


def _at(value: Any, mask: np.ndarray, shape: tuple[int, ...]) -> Any:
    """The values at the points of a mask; numbers are the same everywhere."""
    if is_variable(value):
        return index(expand(value, shape), mask)
    return np.broadcast_to(value, shape)[mask] if isinstance(value, np.ndarray) else value


def _spread(value: Any, mask: np.ndarray, kind: np.dtype) -> Any:
    """Values at the points of a mask as an array that is zero elsewhere; a number takes the type `kind`."""
    if value is None:
        return None
    if is_variable(value):
        return scatter(expand(value, (int(mask.sum()),)), mask, mask.shape)
    spread = np.zeros(mask.shape, value.dtype if isinstance(value, np.ndarray) else kind)
    spread[mask] = value
    return spread
