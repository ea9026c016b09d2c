"""Names around a Python function, and what they mean in the language."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from adcompiler.api.function import Function, SourceFunction
from adcompiler.api.numba_functions import compiled_once, is_prange, of_numba, why_refused
from adcompiler.api.transforms import Gradient
from adcompiler.errors import Error
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.iterables import RANGE
from adcompiler.frontend.library.builtins import BUILTINS, PREFIXES, as_value, dotted
from adcompiler.frontend.library.functionals import gradient_of
from adcompiler.frontend.lowering.early_checks import ANY
from adcompiler.frontend.values.values import Closure, Foreign, FunctionValue
from adcompiler.ir.walk import postorder
from adcompiler.runtime.programs.python_constants import constant_array

REFUSED = FunctionValue("refused", (), lambda *_: ANY)  # a function with errors, in those that call it
MATHEMATICS = (math, np, np.linalg, builtins)  # modules whose functions the language knows by their names


def captured(f: FunctionType, module: tree.Module, errors: list[Error]) -> dict[str, Any]:
    """The numbers and compiled functions among the names that `f` uses; `errors` takes what is wrong with
    functions of numba."""
    cells = {
        name: cell.cell_contents
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        if _filled(cell)
    }
    seen: Mapping[str, Any] = {
        **{n: f.__globals__[n] for n in _names_used(f.__code__) if n in f.__globals__},
        **cells,
    }
    around = {n: v for n, v in seen.items() if getattr(v, "__wrapped__", None) is not f}
    around |= _parts_of_modules(module, around)
    for name, value in around.items():
        if of_numba(value) is not None:
            try:
                around[name] = compiled_once(value)
            except Error as error:
                errors.append(error)
                around[name] = REFUSED
    found = meanings(around)
    return {n: v for n, v in found.items() if "." not in n or not isinstance(v, Foreign)}


def meanings(seen: Mapping[str, Any]) -> dict[str, Any]:
    """The values of captured names, except for modules and functions of the language."""
    found: dict[str, Any] = {}
    for name, value in seen.items():
        if isinstance(value, ModuleType):
            continue
        if callable(value) and name in BUILTINS and not _ours(value):
            continue
        found[name] = meaning(name, value)
    return found


def _parts_of_modules(module: tree.Module, around: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What dotted names such as `core.norm` are, where `core` is a module whose name the language does not
    know."""
    for node in postorder(list[tree.Tree]((module,)), tree.children):
        whole = dotted(node) if isinstance(node, tree.Attribute) else None
        before = "" if whole is None else whole.rpartition(".")[0]
        if whole is None or (before in PREFIXES and _distribution(around.get(before)) is None):
            continue
        root, *names = whole.split(".")
        value = around.get(root)
        for name in names:
            value = part_of(value, name)
        if value is not None and not isinstance(value, ModuleType):
            yield whole, value


def part_of(value: Any, name: str) -> Any:
    """What a name in a module is, or a method of a distribution of SciPy; None for other values."""
    if isinstance(value, ModuleType):
        return getattr(value, name, None)
    method = f"{_distribution(value)}.{name}"
    return as_value(method) if method in BUILTINS else None


def _distribution(value: Any) -> str | None:
    """The name of one of SciPy's distributions; None for other values."""
    known = type(value).__module__.startswith("scipy.stats.")
    return getattr(value, "name", None) if known else None


def _names_used(code: CodeType) -> list[str]:
    """The global names in a function's code, and in that of the comprehensions and functions inside."""
    codes = postorder([code], lambda c: [k for k in c.co_consts if isinstance(k, CodeType)])
    return [name for c in codes for name in c.co_names]


def _ours(value: Any) -> bool:
    """Whether a name means what it is in Python, though the language has a function of that name."""
    if isinstance(value, FunctionType):
        return not value.__module__.startswith("adcompiler.")  # adc.grad is the language's grad
    return isinstance(value, Function) or of_numba(value) is not None


def meaning(name: str, value: Any) -> Any:
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
            return tuple(meaning(name, item) for item in value)
        case list() if _is_of_numbers(value):
            return constant_array(name, np.array(value))
        case Gradient() if isinstance(of := meaning(name, value._of), Closure | FunctionValue):
            return gradient_of(of, value._wrt, value._with_value, name)
        case Function():
            return Foreign(
                "a function made by a transform", "only functions with a source can be called here"
            )
        case _ if of_numba(value) is not None:
            return compiled_once(value)._closure
        case _ if is_prange(value):
            return RANGE
        case _ if (known := _of_mathematics(value)) is not None:
            return as_value(known)
        case FunctionType():
            return Foreign("a plain Python function", f"decorate {name} with @adc.function")
    remedy = why_refused(value) or f"make {name} a parameter"
    return Foreign(f"a {type(value).__name__} from the surrounding program", remedy)


def _of_mathematics(value: Any) -> str | None:
    """The name of a function of Python or NumPy that has another name in the surrounding program."""
    name = getattr(value, "__name__", "")
    known = callable(value) and name in BUILTINS
    return str(name) if known and any(getattr(m, name, None) is value for m in MATHEMATICS) else None


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


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
