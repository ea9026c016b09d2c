"""Arguments of a call: for each, a type to specialise on and a value for the kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from adcompiler.errors import DtypeError, Error
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.annotations import declared, is_static
from adcompiler.frontend.indexing.ragged import RowType, annotated
from adcompiler.frontend.values.values import Listed
from adcompiler.ir.types import NUMPY, Dtype, is_float
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import Container, check_depth, leaves_in, mapped_by_path, opened
from adcompiler.pytree.kinds import ArgType, Kind, Static, Types
from adcompiler.pytree.structures import arrays_of
from adcompiler.runtime.arguments.adapters import Wrapper, adapter_of, as_numpy
from adcompiler.runtime.arguments.counting import counting
from adcompiler.runtime.arguments.device import HALVES, describe_on_device, is_on_device
from adcompiler.runtime.arguments.ragged_arrays import described
from adcompiler.runtime.arguments.refused import no_number, refuse_masked
from adcompiler.runtime.arguments.struct_arrays import stacked
from adcompiler.runtime.limits import MOST_ITEMS_APART

FLOAT = ArgType("f64", (), weak=True)
INTEGER = ArgType("i64", (), weak=True)
BOOL = ArgType("bool", (), weak=True)
EITHER = ArgType("i64", (), weak=True, open=True)  # a Python int for a parameter that may be an integer
LIMIT = 2**53  # beyond, floats would round
PLAIN = frozenset((np.ndarray, float, int, bool, np.float64))  # no containers, and no hooks
NATIVE: Mapping[np.dtype, Dtype] = {dtype: name for name, dtype in NUMPY.items()}  # that kernels take
DTYPE_OF: Mapping[str, Dtype] = {
    "?": "bool", "f": "f32", "d": "f64", **dict.fromkeys("bBhHiIlLqQ", "i64"),
}  # fmt: skip

SHORT = "bBhH"  # integers of which float32 holds all


class Handled(Exception):  # noqa: N818 (an answer rather than an error)
    """An argument, or a leaf of one, handles calls: an array of another library, or a Variable."""


class ArgumentError(Error, TypeError):
    """A call does not match the function's parameters."""


REQUIRED: Any = inspect.Parameter.empty  # the default of a parameter that has none


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `integer` if its annotation makes Python ints integers, `floating` if it makes them
    floats in lists too, `counting` if the program may need an integer for it, `device` if its arrays may be
    on a CUDA device, `rows` if a list of many equal structs is one struct of arrays, `hooked` if values that
    handle calls themselves raise `Handled`, `numba` if Python ints are integers because numba has them so,
    unless it is differentiated."""

    name: str
    static: bool
    integer: bool
    device: bool = False
    floating: bool = False
    rows: bool = True
    default: Any = REQUIRED
    ragged: RowType | None = None
    counting: bool = False
    hooked: bool = False
    numba: bool = False

    @property
    def as_float(self) -> Parameter:
        """The parameter if it is differentiated."""
        return replace(self, integer=False, numba=False) if self.numba else self


def parameters_of(
    definition: tree.Def, static: Sequence[str], defaults: Mapping[str, Any], numba: bool = False
) -> tuple[Parameter, ...]:
    """The parameters of a definition; with `numba`, Python ints are integers where annotations do not say."""
    counts = counting(definition)
    return tuple(
        Parameter(
            p.name,
            p.name in static or is_static(p),
            integer=numba if (kind := declared(p)) is None else not is_float(kind.dtype),
            floating=kind is not None and is_float(kind.dtype),
            default=_as_argument(defaults[p.name]) if p.name in defaults else REQUIRED,
            ragged=annotated(p.annotation),
            counting=kind is None and p.name in counts,
            numba=numba and kind is None,
        )
        for p in definition.parameters
    )


def leaves_out(parameters: Sequence[Parameter], args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether a call, with no `_result` to write to, gives no argument for a parameter with a default."""
    return "_result" not in keywords and any(
        p.default is not REQUIRED and p.name not in keywords for p in parameters[len(args) :]
    )


def _as_argument(value: Any) -> Any:
    """A default as an argument of a call: a list in the language is a tuple."""
    if isinstance(value, tuple):
        if isinstance(value, Listed):
            return list(map(_as_argument, value.written or value))
        return tuple(map(_as_argument, value))
    return value


def bind(
    name: str, parameters: Sequence[Parameter], args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Positional and named arguments in the order of the parameters."""
    if not keywords and len(args) == len(parameters):
        return tuple(args)
    names = [p.name for p in parameters]
    bound = dict(zip(names, args, strict=False))
    for key in keywords:
        if key not in names or key in bound:
            what = f"{key!r} twice" if key in bound else f"an unexpected argument {key!r}"
            raise ArgumentError(f"{name}() got {what}", remedy=f"it takes ({', '.join(names)})")
    bound.update(keywords)
    for parameter in parameters:
        if parameter.default is not REQUIRED:
            bound.setdefault(parameter.name, parameter.default)
    missing = [n for n in names if n not in bound]
    if missing or len(args) > len(names):
        what = f"is missing {', '.join(missing)}" if missing else f"got {len(args)} arguments"
        remedy = f"it takes ({', '.join(names)})"
        if names[:1] == ["self"] and len(missing) == 1:
            remedy += ": a compiled function is not a method; pass what it needs of self as arguments"
        raise ArgumentError(f"{name}() {what}", remedy=remedy)
    return tuple(bound[n] for n in names)


def with_leaves(
    parameters: Sequence[Parameter], bound: Sequence[Any], convert: Callable[[str, Any], Any]
) -> list[Any]:
    """Arguments with each leaf replaced by `convert` of its path and of it; static ones as they are."""
    pairs = zip(parameters, bound, strict=True)
    return [a if p.static else mapped_by_path(convert, p.name, a) for p, a in pairs]


class Described(NamedTuple):
    """The arguments of a call: their types, the values that kernels take, whether all of these are Python
    numbers, and the arguments in order, as they were given."""

    types: Types
    values: list[Any]
    plain: bool
    given: Sequence[Any]

    @property
    def leaves(self) -> list[Any]:
        """The arrays in the arguments as they were given: one for each input of the program."""
        return arrays_of(self.types, self.given)


def describe(parameter: Parameter, value: Any, depth: int = 0) -> tuple[Kind, Any]:
    """The type of an argument, and its value as kernels take it: a number, an array, or a list of these."""
    if parameter.static:
        return Static(_known(parameter, value)), None
    if parameter.ragged is not None:
        if parameter.hooked and any(map(handles_calls, leaves_in(value, handles_calls, parameter.name))):
            raise Handled
        return described(parameter.name, parameter.ragged, value)
    kind = type(value)
    if (value is None or kind is str) and type(parameter.default) in (NoneType, str):
        return Static(value), None
    if kind is float:
        return FLOAT, value
    if kind is bool:
        return BOOL, value
    if kind is int:
        if parameter.integer:
            return INTEGER, _int64(parameter, value)
        if parameter.counting and -LIMIT <= value < LIMIT:
            return EITHER, value
        return FLOAT, _float(parameter, value)
    if kind is not np.ndarray:
        if (container := opened(value, parameter.name)) is not None:
            return _leaves(parameter, container, depth)
        if parameter.hooked and handles_calls(value):
            raise Handled
        if hasattr(value, "__adc_call__"):
            raise DtypeError(
                f"the argument {parameter.name!r} is a {type(value).__name__}",
                remedy="call the function itself on it, or pass its value",
            )
        refuse_masked(f"the argument {parameter.name!r}", value)
        if is_on_device(value):
            return describe_on_device(parameter.name, value, parameter.device)
        if kind in (list, range):
            return _of_list(parameter, value)
        value = _array(parameter, value)
    return _described(parameter, value, depth)


def _of_list(parameter: Parameter, value: Any) -> tuple[ArgType, Any]:
    """A list of numbers; whole ones count as floats unless integers are needed (`integer_lists.py`)."""
    array = _array(parameter, value)
    if array.size and array.dtype.kind not in "iu":
        return _described(parameter, array)
    if parameter.floating or (array.dtype.kind == "u" and not parameter.integer):
        return _described(parameter, floats(array))
    kind, found = _described(parameter, array.astype(np.int64, copy=False))
    return (kind if parameter.integer else replace(kind, weak=True, open=True)), found


def floats(array: np.ndarray) -> np.ndarray:
    """The integers of a list as floats, which hold them exactly."""
    found = array.astype(float)
    large = np.abs(found) >= LIMIT
    if large.any() and any(int(f) != n for f, n in zip(found[large], array[large], strict=True)):
        raise DtypeError(
            "a list has integers beyond 2**53, which floats would round",
            remedy="pass floats if that does not matter, or an array: np.array(x)",
        )
    return found


def _described(parameter: Parameter, array: np.ndarray, depth: int = 0) -> tuple[Any, Any]:
    """The type of an array, and the array as kernels take it; one of rank 0 is a number."""
    if (found := _type_of(array)) is not None:
        return found, array
    dtype = DTYPE_OF.get(array.dtype.char)
    if parameter.device and array.dtype.name in HALVES:
        ones = tuple(n == 1 for n in array.shape)
        return ArgType("f32", ones), array if ones else np.float32(array[()])
    if dtype is None:
        if array.dtype.names and (container := opened(array, parameter.name)) is not None:
            return _leaves(parameter, container, depth)
        raise no_number(f"the argument {parameter.name!r}", array.dtype)
    width = array.dtype.name if array.dtype.char in SHORT else ""
    if array.dtype != NUMPY[dtype] or not array.flags.aligned:
        array = _converted(parameter, array, dtype)
    if array.ndim == 0:
        return ArgType(dtype, width=width), array[()] if dtype != "f64" else float(array[()])
    return _array_type(dtype, tuple([n == 1 for n in array.shape]), width), array


def _type_of(array: np.ndarray) -> ArgType | None:
    """The type of an array that kernels take as it is; None for a number, and what must be converted."""
    dtype = NATIVE.get(array.dtype)
    if dtype is None or not array.ndim or not array.flags.aligned:
        return None
    return _array_type(dtype, tuple([n == 1 for n in array.shape]))


@cache
def _array_type(dtype: Dtype, ones: tuple[bool, ...], width: str = "") -> ArgType:
    return ArgType(dtype, ones, width=width)


def handles_calls(value: Any) -> bool:
    """Whether a value handles calls with it: an array of another library, or a Variable."""
    kind = type(value)
    return kind not in PLAIN and (adapter_of(kind) is not None or hasattr(value, "__adc_call__"))


def find_hook(function: Any, args: Sequence[Any], keywords: Mapping[str, Any] = {}) -> Any:
    """The argument, or leaf of one, that handles calls: an array of another library, else a Variable."""
    names = function._names
    named = (*zip(names, args, strict=False), *keywords.items())
    found = [v for name, value in named for v in leaves_in(value, handles_calls, name) if handles_calls(v)]
    return next((v for v in found if adapter_of(type(v)) is not None), found[0] if found else None)


def adapter_in(function: Any, args: Sequence[Any]) -> Any:
    """The adapter of arrays of another library among the arguments, or in them; None if there are none."""
    if PLAIN.issuperset(map(type, args)):
        return None
    hook = find_hook(function, args)
    return None if hook is None else adapter_of(type(hook))


def wrapper_of(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Wrapper | None:
    """The converter of results, if arguments are arrays of another library; None for NumPy.

    Raises ShapeError for labels that differ where axes are paired.
    """
    if not keywords and PLAIN.issuperset(map(type, args)):
        return None
    hook = find_hook(function, args, keywords)
    make = None if hook is None else getattr(adapter_of(type(hook)), "wrapper", None)
    if make is None:
        return None
    return make(function, function._in_order(args, keywords))  # type: ignore[no-any-return]


def _leaves(parameter: Parameter, container: Container, depth: int) -> tuple[Container, list[Any]]:
    """A container's type, and the values of its arrays as kernels take them, in order."""
    check_depth(depth, parameter.name)
    types: list[Any] = []
    values: list[Any] = []
    for key, part in zip(container.keys, container.parts, strict=True):
        known = _type_of(part) if type(part) is np.ndarray else FLOAT if type(part) is float else None
        if known is not None:
            types.append(known)
            values.append(part)
            continue
        if part is None or type(part) is str:
            types.append(Static(part))
            continue
        name = parameter.name + container.path(key)
        integer = container.integer(key) or parameter.numba
        leaf = Parameter(name, False, integer, parameter.device, rows=parameter.rows, hooked=parameter.hooked)
        kind, value = describe(leaf, part, depth + 1)
        types.append(kind)
        values += value if isinstance(kind, Container) else (value,)
    if len(types) > MOST_ITEMS_APART and parameter.rows and (found := stacked(container, types, values)):
        return found
    return Container(container.kind, container.keys, tuple(types)), values


def _array(parameter: Parameter, value: Any) -> np.ndarray:
    given = as_numpy(f"the argument {parameter.name!r}", value)
    try:
        array = np.asarray(given)
        if array.dtype == object and isinstance(value, list) and not parameter.integer:
            array = floats(array)  # integers beyond int64
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise DtypeError(
            f"the argument {parameter.name!r} is not an array: {error}", remedy="pass numbers or arrays"
        ) from error
    if array.ndim and array.dtype.kind in "mMOUS":
        raise no_number(f"the argument {parameter.name!r}", array.dtype)
    if array.dtype.kind not in "biufc":
        raise DtypeError(
            f"the argument {parameter.name!r} is a {type(value).__name__}, not a number or an array",
            remedy="pass numbers or arrays",
        )
    return array


def _converted(parameter: Parameter, array: np.ndarray, dtype: Dtype) -> np.ndarray:
    """A copy in the kernel's type and byte order; integers must fit."""
    if (
        array.dtype.kind == "u"
        and array.dtype.itemsize == 8
        and array.size
        and array.max() > np.iinfo(np.int64).max
    ):
        raise DtypeError(
            f"the argument {parameter.name!r} has integers beyond int64",
            remedy="pass floats or smaller integers",
        )
    return np.ascontiguousarray(array, NUMPY[dtype]).reshape(array.shape)


def _int64(parameter: Parameter, value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise DtypeError(f"the argument {parameter.name!r} does not fit int64", remedy="pass a float")
    return value


def _float(parameter: Parameter, value: int) -> float:
    """A Python int as a float, which holds it exactly."""
    if -LIMIT <= value <= LIMIT:
        return float(value)
    try:
        float(value)
    except OverflowError as error:
        raise DtypeError(
            f"the argument {parameter.name!r} is an integer that does not fit float64",
            remedy="scale it before the call",
        ) from error
    raise DtypeError(
        f"the argument {parameter.name!r} is an integer beyond 2**53, which a float would round",
        remedy=f"pass a float if that does not matter; for an integer annotate it, {parameter.name}: int",
    )


def _known(parameter: Parameter, value: Any) -> Any:
    """A static argument as the language knows it: NumPy's numbers are Python's."""
    if isinstance(value, tuple):
        return tuple([_known(parameter, part) for part in value])
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    why = "is not supported in the language" if getattr(type(value), "__hash__", None) else "cannot be hashed"
    raise DtypeError(
        f"the static argument {parameter.name!r} is a {type(value).__name__}, which {why}",
        remedy="pass a number, a string or a tuple of these",
    )
