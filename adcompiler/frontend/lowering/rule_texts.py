"""Texts of the rule table as elements: partial derivatives, and primitives expanded into others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse_expression
from adcompiler.frontend.lowering.program import free_names
from adcompiler.frontend.lowering.statements import Lowering
from adcompiler.frontend.values.operations import over
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Element
from adcompiler.ir.types import Dtype


@cache
def _parsed(text: str) -> tuple[tree.Expression, frozenset[str]]:
    expression = parse_expression(text)
    return expression, frozenset(free_names(expression))


def names_in(text: str) -> frozenset[str]:
    """The variables in a text."""
    return _parsed(text)[1]


def element_of(text: str, scope: Mapping[str, Element | int], dtype: Dtype) -> Element:
    """The element of a text, with its variables bound to the elements and numbers of `scope`."""
    values: dict[str, AnyValue] = {n: v if isinstance(v, int) else Value((), v) for n, v in scope.items()}
    value = Lowering(None).expression(_parsed(text)[0], values)
    return over(value, (), dtype)
