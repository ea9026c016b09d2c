"""A program of scalars as SymPy expressions, by the SymPy forms of the rule table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.errors import DtypeError
from adcompiler.ir.nodes import Apply, Const, Element, Func, Input, Map, Read, Select
from adcompiler.ir.types import DTYPES
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.ops.table import TABLE


def to_sympy(func: Func) -> list[Any]:
    """One SymPy expression for each result, in symbols named like the inputs.

    Raises DtypeError if an input or a step is an array, or SymPy has no form for a primitive.
    """
    import sympy

    made: dict[Any, Any] = {
        i: sympy.Symbol(name, real=True) for i, name in zip(func.inputs, func.input_names, strict=True)
    }
    for array in arrays_of(func.results):
        if array.rank or not isinstance(array, Input | Map):
            raise DtypeError("only programs of scalars have a SymPy form", remedy="compile a scalar formula")
        if isinstance(array, Map):
            for element in elements_of(array.elements):
                if element not in made:
                    made[element] = _element(sympy, element, [made[a] for a in element.args], made)
            made[array] = made[array.body]
    return [made[r] for r in func.results]


def of_element(element: Element, args: Sequence[Any]) -> Any:
    """An operation on expressions. Raises DtypeError for one that SymPy has no form of."""
    import sympy

    return _element(sympy, element, args, {})


def _element(sympy: Any, element: Element, args: Sequence[Any], made: dict[Any, Any]) -> Any:
    match element:
        case Const(value=value):
            return _number(sympy, value)
        case Read(array=array):
            return made[array]
        case Select():
            return sympy.Piecewise((args[1], _condition(sympy, args[0])), (args[2], True))
        case Apply(op=op) if op in DTYPES:
            return args[0]
        case Apply(op=("logical_and" | "logical_or" | "logical_not") as op):
            combine = {"logical_and": sympy.And, "logical_or": sympy.Or, "logical_not": sympy.Not}[op]
            return combine(*(_condition(sympy, a) for a in args))
        case Apply(op=op) if TABLE[op].sympy is not None:
            scope = dict(zip(TABLE[op].params, args, strict=True))
            return eval(TABLE[op].sympy or "", {**vars(sympy), **scope})  # the table's own text
    name = element.op if isinstance(element, Apply) else type(element).__name__
    raise DtypeError(f"SymPy has no form for {name}", remedy="compile a formula without it")


def _condition(sympy: Any, value: Any) -> Any:
    return value if isinstance(value, sympy.logic.boolalg.Boolean) else sympy.Ne(value, 0)


def _number(sympy: Any, value: int | float | bool) -> Any:
    """A constant; whole floats are integers, so that powers and quotients simplify."""
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return sympy.Integer(int(value))
    return sympy.sympify(value)
