"""A Python function as a source of the oracle: its names are the objects that Python's interpreter reads.

The names around a function are looked up in its globals and its closure. A function of NumPy, SciPy, `math`
or `operator` becomes its own name, whatever it is called in the function; a number or an array becomes its
value, and a Python function a def in front of it. So the oracle, unlike the text, does not depend on what
names are spelled like.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import operator
import textwrap
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import scipy.integrate
import scipy.special

# Where an object is looked for, and the prefix of its name in a source.
HOMES: tuple[tuple[Any, str], ...] = (
    (np, "np."), (np.linalg, "np.linalg."), (math, "math."), (scipy.special, "special."),
    (scipy.integrate, "np."),
)  # fmt: skip
# Functions that have another name in the oracle.
OTHERS = {
    scipy.special.expit: "sigmoid", scipy.special.gammaln: "lgamma",
    operator.add: "add", operator.sub: "subtract", operator.mul: "multiply", operator.truediv: "divide",
    operator.neg: "negative", operator.mod: "remainder", operator.pow: "power", operator.abs: "abs",
}  # fmt: skip
DIFFERENT = ("math.remainder", "math.isclose")  # functions that the oracle's of that name are not
ABSENT = object()


def source_of(f: Any) -> str:
    """The source of a function, after the sources of those that it calls."""
    python = inspect.unwrap(f)
    assert isinstance(python, FunctionType), f
    defs: dict[str, str] = {}
    _add(python, python.__name__, defs)
    return "\n\n".join(defs.values())


def _add(f: FunctionType, name: str, defs: dict[str, str]) -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(f)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list, definition.name = [], name
    found = ast.unparse(ast.fix_missing_locations(_Named(f, defs).visit(tree)))
    defs[name] = found


class _Named(ast.NodeTransformer):
    """Gives the names around a function the spelling of the objects that they are bound to."""

    def __init__(self, f: FunctionType, defs: dict[str, str]) -> None:
        self.f, self.defs = f, defs
        cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        self.around = f.__globals__ | {name: cell.cell_contents for name, cell in cells}
        self.local = {*f.__code__.co_varnames, *f.__code__.co_cellvars}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.named(node, self.bound(node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        value = self.bound(node)
        if value is ABSENT:
            self.generic_visit(node)
            return node
        return self.named(node, value)

    def bound(self, node: ast.expr) -> Any:
        """The object of a name, or of one behind modules; ABSENT for other expressions."""
        if isinstance(node, ast.Name):
            inside = node.id in self.local and node.id not in self.f.__code__.co_freevars
            return ABSENT if inside else self.around.get(node.id, ABSENT)
        if isinstance(node, ast.Attribute) and isinstance(owner := self.bound(node.value), ModuleType):
            return getattr(owner, node.attr)
        return ABSENT

    def named(self, node: ast.expr, value: Any) -> ast.expr:
        if value is ABSENT or value is self.f:
            return node
        if isinstance(value, FunctionType) and value.__module__ == self.f.__module__:
            name = f"{value.__name__}_{len(self.defs)}"
            _add(value, name, self.defs)
            return ast.Name(name, ast.Load())
        if isinstance(value, np.ndarray | int | float):
            return ast.parse(repr(np.asarray(value).tolist()), mode="eval").body
        return ast.parse(_spelled(value, ast.unparse(node)), mode="eval").body


def _spelled(value: Any, written: str) -> str:
    """The name of an object in a source. Raises NameError for one that the oracle does not know."""
    name = getattr(value, "__name__", "")
    if name and getattr(builtins, name, None) is value:
        return str(name)
    if isinstance(value, ModuleType):
        return written
    if value in OTHERS:
        return f"np.{OTHERS[value]}"
    for home, prefix in HOMES:
        if getattr(home, name, None) is value and f"{prefix}{name}" not in DIFFERENT:
            return f"{prefix}{name}"
    raise NameError(f"the oracle does not know {written}: {value!r}")
