"""Names around a Python function, and what they mean in the language.

A name is the object that it is bound to. Names whose objects mean what the language makes of their texts are
left to it, and so are names that are bound to nothing.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Collection, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from adcompiler.api.function import Function, SourceFunction
from adcompiler.api.numba_functions import compiled_once, is_prange, of_numba, why_refused
from adcompiler.api.python_functions import (
    CACHED,
    LIBRARIES,
    compiled_plain,
    is_plain,
    objects_around,
)
from adcompiler.api.transforms import Gradient
from adcompiler.errors import Error
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.iterables import ITERATORS, RANGE
from adcompiler.frontend.library.builtins import BUILTINS, CONSTANTS, JOINS, PREFIXES, function_value
from adcompiler.frontend.library.functionals import gradient_of
from adcompiler.frontend.library.numpy_names import function_of
from adcompiler.frontend.library.objects import UNCHANGED, distribution, is_neutral, name_of, of_object
from adcompiler.frontend.library.suggestions import elsewhere
from adcompiler.frontend.values.modules import ModuleValue, dotted
from adcompiler.frontend.values.values import REFUSED, Closure, Foreign, FunctionValue
from adcompiler.ir.walk import postorder
from adcompiler.runtime.programs.python_constants import constant_array

# Names of modules, as programs usually write them.
USUAL = {"np": "numpy", "nb": "numba", "adc": "adcompiler", "jnp": "jax.numpy", "special": "scipy.special",
         "stats": "scipy.stats"}  # fmt: skip
ABSENT, INSIDE = object(), object()
CALLABLE = "write a function with that body, decorated with @adc.function"


def captured(f: FunctionType, module: tree.Module, errors: list[Error]) -> dict[str, Any]:
    """The numbers, functions and modules among the names that `f` uses; `errors` takes what is wrong with
    other functions."""
    return meanings(objects_around(f), module, errors)


def meanings(
    seen: Mapping[str, Any], module: tree.Module, errors: list[Error] | None = None
) -> dict[str, Any]:
    """The values of the captured names that a module reads. With `errors`, what is wrong with functions
    is added to them instead of raised."""
    read = _Reads(module)
    found: dict[str, Any] = {}
    for name, value in seen.items():
        parts = read.parts.get(name, ())
        if isinstance(value, ModuleType) or distribution(value) is not None:
            taken = _module(name, value, parts, name in read.alone)
            found |= {name: taken} if taken is not None else {}
        elif (name in read.alone or parts) and not _as_written(name, value):
            found[name] = _meaning(name, value, errors)
    return found


class _Reads:
    """The names that a module reads: `alone`, and before a dot with the names behind it, in `parts`."""

    def __init__(self, module: tree.Module) -> None:
        nodes = postorder(list[tree.Tree]((module,)), tree.children)
        owners = {id(n.value) for n in nodes if isinstance(n, tree.Attribute)}
        self.alone = {n.id for n in nodes if isinstance(n, tree.Name) and id(n) not in owners}
        self.parts: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, tree.Attribute) and (whole := dotted(node)) is not None:
                root, _, rest = whole.partition(".")
                self.parts.setdefault(root, set()).add(rest)


def _as_written(name: str, value: Any) -> bool:
    """Whether an object is what the language makes of its name."""
    if name in ITERATORS or name == "print":
        return bool(getattr(builtins, name) is value)
    return name in BUILTINS and any(known.call is BUILTINS[name] for known in of_object(value))


def _module(name: str, module: Any, rests: Collection[str], alone: bool) -> ModuleValue | None:
    """What a program reads of a module, or of one of SciPy's distributions; None if the language makes the
    same of the text."""
    usual, same = _is_usual(name, module), not alone
    parts: dict[str, Any] = {}
    for rest in rests:
        whole = f"{name}.{rest}"
        prefix, _, last = whole.rpartition(".")
        written = function_of(prefix, last)
        value = _part(module, rest)
        if value is INSIDE:
            continue
        if value is ABSENT and usual and written is not None:
            parts[rest] = function_value(last, written)  # the language has more than the library
        elif value is ABSENT:
            parts[rest] = Foreign(f"not in {name_of(module)}", elsewhere(whole))
        elif isinstance(value, ModuleType) or distribution(value) is not None:
            parts[rest] = ModuleValue(whole, _what(value), {})
        else:
            found = parts[rest] = _meaning(whole, value, None, last)
            functions = (*(known.call for known in of_object(value)), RANGE.call)
            same = same and (
                (written is None and isinstance(found, Foreign))
                or (isinstance(found, FunctionValue) and (written or JOINS.get(whole)) in functions)
                or (prefix in PREFIXES and last in ("newaxis", *CONSTANTS))
            )
    return None if usual and same else ModuleValue(name, _what(module), parts)


def _is_usual(name: str, module: Any) -> bool:
    """Whether a module has the name by which the language knows it."""
    if distribution(module) is not None:
        return distribution(module) == name
    usual = ("numpy.linalg", "scipy.linalg") if name == "linalg" else (USUAL.get(name, name),)
    return any(sys.modules.get(each) is module for each in usual)


def _part(module: Any, rest: str) -> Any:
    """A part of a module by its dotted name; ABSENT if there is none, INSIDE for a part of a value."""
    value = module
    for name in rest.split("."):
        if not isinstance(value, ModuleType) and distribution(value) is None:
            return INSIDE
        value = getattr(value, name, ABSENT)
    return value


def _what(value: Any) -> str:
    """A module or a distribution, for messages."""
    known = distribution(value)
    return f"the module {value.__name__}" if known is None else f"scipy.stats.{known}, a distribution"


def _meaning(name: str, value: Any, errors: list[Error] | None, last: str = "") -> Any:
    """What a name from the surrounding program is in the language."""
    match value:
        case SourceFunction():
            return value._closure
        case FunctionValue():
            return value
        case bool() | int() | float():
            return value
        case np.generic() if value.dtype.kind in "biuf":
            return value.item()
        case np.ndarray():
            return constant_array(name, value)
        case None | str():
            return value
        case tuple() if type(value) is tuple and _is_known(value):
            return tuple(_meaning(name, item, errors) for item in value)
        case list() if _is_of_numbers(value):
            return constant_array(name, np.array(value))
        case Gradient() if isinstance(of := _meaning(name, value._of, errors), Closure | FunctionValue):
            return gradient_of(of, value._wrt, value._with_value, name)
        case Function():
            return Foreign(
                "a function made by a transform", "only functions with a source can be called here"
            )
        case _ if is_plain(value) or of_numba(value) is not None:
            return _compiled(value, errors)
        case _ if isinstance(value, CACHED):
            return _meaning(name, value.__wrapped__, errors)
        case _ if value is not None and is_neutral(value):
            return UNCHANGED
        case _ if is_prange(value):
            return RANGE
    known = {found.name: found for found in of_object(value)}
    if known:
        return known.get(last or name, next(iter(known.values())))
    return _unknown(name, value)


def _compiled(value: Any, errors: list[Error] | None) -> Any:
    """The definition of another function; its errors are added to `errors`."""
    try:
        made = compiled_plain(value) if is_plain(value) else compiled_once(value)
        closure: Closure = made._closure
        return closure
    except Error as error:
        if errors is None:
            raise
        errors.append(error)
        return REFUSED


def _unknown(name: str, value: Any) -> Foreign:
    """An object that the language does not know, by its own name, and what to write instead."""
    kind, remedy = type(value), why_refused(value)
    own = kind.__module__ in ("builtins", "__main__")
    what = f"a {kind.__name__ if own else f'{kind.__module__}.{kind.__name__}'} from the surrounding program"
    if remedy is None and isinstance(value, partial):
        remedy = "write a function that passes all arguments, and decorate it with @adc.function"
    elif remedy is None and callable(value):
        real = name_of(value) or ""
        known = real.partition(".")[0] in (*LIBRARIES, *sys.stdlib_module_names)
        what, remedy = (real, elsewhere(real)) if known else (what, CALLABLE)
    return Foreign(what, remedy or f"make {name} a parameter")


def _is_known(value: Any) -> bool:
    """Whether a value is a number, a text or None, or a tuple of these."""
    if type(value) is tuple:
        return all(map(_is_known, value))
    return value is None or isinstance(value, bool | int | float | str | np.bool | np.integer | np.floating)


def _is_of_numbers(value: list[Any]) -> bool:
    """Whether a list holds nothing but numbers, or rows equally long."""
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:  # rows that differ in length
        return False
