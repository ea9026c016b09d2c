"""What objects of Python's libraries are in the language: functions and types, by identity.

A name in a Python function is the object that it is bound to. SciPy and other libraries are not imported: an
object of theirs exists only if they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from types import FunctionType, MethodType, ModuleType
from typing import Any

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.library.builtins import (
    BUILTINS,
    FUNCTIONALS,
    JOINS,
    STANDARD,
    as_value,
    function_value,
)
from adcompiler.frontend.library.conversions import CONVERSIONS, DTYPES
from adcompiler.frontend.library.distributions import DISTRIBUTIONS
from adcompiler.frontend.library.numpy_names import function_of
from adcompiler.frontend.values.builtin_arguments import Builtin
from adcompiler.frontend.values.modules import dotted, part_of
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, FunctionValue

# The functions of `operator` and of Python itself, and what they are here.
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "neg": "negative", "abs": "abs", "matmul": "matmul", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
    "not_": "logical_not", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
OF_PYTHON = "abs all any bool float int len max min pow round sum type"
# Names that mean the same in several libraries: by module, a prefix of the language whose names they are.
PREFIX_OF = {
    "numpy": "numpy", "numpy.linalg": "numpy.linalg", "math": "math", "numba": "numba",
    "scipy.special": "scipy.special", "scipy.linalg": "scipy.linalg", "scipy.integrate": "numpy",
    "autograd.numpy": "numpy", "autograd.numpy.linalg": "numpy.linalg",
    "autograd.scipy.special": "scipy.special", "cupy": "numpy", "cupy.linalg": "numpy.linalg",
    "jax.numpy": "numpy", "jax.numpy.linalg": "numpy.linalg", "jax.scipy.special": "scipy.special",
}  # fmt: skip
# Of these modules only these names; of the others, all that the language has.
ONLY = {
    "scipy.integrate": ("trapezoid", "cumulative_trapezoid"),
    "numba": tuple(name for name in DTYPES if name in CONVERSIONS),
}


def of_object(value: Any) -> tuple[FunctionValue, ...]:
    """The function or the type of the language that an object of a library is, under all names that it has
    there; nothing for other objects."""
    if isinstance(value, MethodType):
        name = f"{distribution(value.__self__)}.{value.__name__}"
        return (as_value(name),) if name in BUILTINS else ()
    for module in (*PREFIX_OF, "operator", "builtins", "adcompiler"):
        if module in sys.modules and (found := _known(module).get(id(value))) is not None:
            return tuple(function for _, function in found)
    return ()


@cache
def _known(module: str) -> Mapping[int, list[tuple[Any, FunctionValue]]]:
    """The objects of a module that the language knows, by their identities."""
    found: dict[int, list[tuple[Any, FunctionValue]]] = {}
    for name, function in functions_of(module):
        known = getattr(sys.modules[module], name, None)
        if known is not None:
            found.setdefault(id(known), []).append((known, function))
    return found


def functions_of(module: str) -> Iterator[tuple[str, FunctionValue]]:
    """The names of a module whose objects the language knows, and what these are."""
    match module:
        case "operator":
            for name, ours in OPERATORS.items():
                yield (
                    name,
                    function_value(ours, _of_numbers(name, BUILTINS[ours]), partial(_again, module, name)),
                )
        case "builtins":
            yield from ((name, as_value(name)) for name in OF_PYTHON.split())
        case "adcompiler":
            yield from ((name, as_value(name)) for name in FUNCTIONALS)
        case _:
            prefix = PREFIX_OF[module]
            for name in ONLY.get(module) or sorted(STANDARD.intersection(dir(sys.modules[module]))):
                if (function := function_of(prefix, name)) is not None:
                    yield name, function_value(name, function, partial(_again, module, name))
    if PREFIX_OF.get(module) == "numpy":
        yield from (
            (name, FunctionValue(name, (), JOINS[f"np.{name}"], home=partial(_again, module, name)))
            for name in ("r_", "c_")
        )


def _again(module: str, name: str) -> FunctionValue:
    """The function that is known by a name of a module, where it is unpickled."""
    import_module(module)
    return dict(functions_of(module))[name]


def _of_numbers(name: str, function: Builtin) -> Builtin:
    """A function of `operator`: an operator of Python, which has another meaning for lists and tuples."""

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        if any(isinstance(a, tuple) for a in args):
            context.fail(ParseError, f"operator.{name} of a list or a tuple", span, "write the operator")
        return function(context, args, keywords, span)

    return call


def distribution(value: Any) -> str | None:
    """The name of one of SciPy's distributions; None for other values."""
    stats = sys.modules.get("scipy.stats")
    name = getattr(value, "name", None)
    known = stats is not None and isinstance(name, str) and name in DISTRIBUTIONS
    return name if known and getattr(stats, str(name), None) is value else None


# -- decorators ----------------------------------------------------------------------------------------


def _above_a_def(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    context.fail(ParseError, "a decorator is not a function here", span, "write it above a def")


def _unchanged() -> FunctionValue:
    return UNCHANGED


# A decorator that leaves the function as it is.
UNCHANGED = FunctionValue("decorator", (), _above_a_def, home=_unchanged)
NEUTRAL = {
    "adcompiler": ("function",),
    "numba": ("njit", "jit"),
    "functools": ("cache", "lru_cache", "wraps"),
}
AS_TEXT = frozenset(
    f"{prefix}{name}"
    for prefixes, names in (
        (("", "adc.", "adcompiler."), ("function",)),
        (("", "nb.", "numba."), ("njit", "jit")),
        (("", "functools."), ("cache", "lru_cache", "wraps")),
    )
    for prefix in prefixes
    for name in names
)


def is_neutral(value: Any) -> bool:
    """Whether an object is a decorator that leaves the results of a function as they are."""
    return any(
        getattr(sys.modules.get(module), name, None) is value
        for module, names in NEUTRAL.items()
        for name in names
    )


def changes_nothing(decorator: tree.Expression, scope: Mapping[str, AnyValue]) -> bool:
    """Whether a decorator, or the call of one, leaves the results of a function as they are."""
    node = decorator.function if isinstance(decorator, tree.Call) else decorator
    text = dotted(node) or ""
    root = text.partition(".")[0]
    if root in scope:
        return (scope[root] if isinstance(node, tree.Name) else part_of(node, scope)) is UNCHANGED
    return text in AS_TEXT


def name_of(value: Any) -> str | None:
    """The name of an object with its module, such as `numpy.frexp`; None for an object without one."""
    name = getattr(value, "__name__", None)
    if isinstance(value, ModuleType) or not isinstance(name, str):
        return name
    home = getattr(value, "__module__", None)
    places = (m for m in (*PREFIX_OF, home, "adcompiler", "scipy.stats") if isinstance(m, str))
    public = next((m for m in places if getattr(sys.modules.get(m), name, None) is value), None)
    if public is not None:
        return f"{public}.{name}"
    return f"{home}.{value.__qualname__}" if isinstance(value, type | FunctionType) else None
