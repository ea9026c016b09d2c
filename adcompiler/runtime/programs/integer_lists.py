"""Lists and Python ints as arguments, whose types are determined by lowering the program.

A list of integers means floats, unless the program needs integers (indices, bounds): a call describes it as
an `open` array of integers. So does an int for a parameter that may count something (`counting.py`). The
program is lowered with floats, and if that is refused, with as few integers as needed. A list of many equal
structs is a struct of arrays; if that is refused, its items are separate arguments, and the reverse for a
short list (`struct_arrays.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError, Error
from adcompiler.ir.types import Dtype
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import arrays_in
from adcompiler.pytree.trees import map_leaves
from adcompiler.runtime.arguments import struct_arrays
from adcompiler.runtime.arguments.signature import floats

FLOATS: Dtype = "f64"
INTEGERS: Dtype = "i64"


def whole_lists(types: Types) -> frozenset[int]:
    """The arrays among some arguments that are lists of integers."""
    return frozenset(k for k, t in enumerate(arrays_in(types)) if t.open)


def typed(types: Types, integers: frozenset[int]) -> Types:
    """The types of arguments in which the lists `integers` hold integers, and all others floats."""
    number = count()

    def one(kind: Any) -> Any:
        if not isinstance(kind, ArgType):
            return kind
        k = next(number)
        if not kind.open:
            return kind
        return replace(kind, dtype=INTEGERS if k in integers else FLOATS, weak=not kind.ones, open=False)

    return tuple(map_leaves(one, kind) for kind in types)


def with_integer_lists(types: Types, lower: Callable[[Types], Any]) -> Types:
    """The types for which `lower` takes the arguments: lists of structs as described if that can be, and as
    many floats as that allows."""
    if not any(map(struct_arrays.has_lists, types)):
        return _with_floats(types, lower)
    refused: list[Error] = []
    for chosen in struct_arrays.choices(types):
        try:
            found = _with_floats(chosen, lower)
            lower(found)
        except Error as error:
            refused.append(error)
        else:
            return found
    raise refused[0]


def _with_floats(types: Types, lower: Callable[[Types], Any]) -> Types:
    """The types with as many floats in lists of integers as `lower` takes."""
    lists = whole_lists(types)
    if not lists:
        return types

    def fits(integers: frozenset[int]) -> Error | None:
        try:
            lower(typed(types, integers))
        except Error as error:
            return error
        return None

    refused = fits(frozenset())
    if refused is None:
        return typed(types, frozenset())
    if (also := fits(lists)) is not None:
        for k in sorted(lists):
            if fits(frozenset({k})) is None:
                return typed(types, frozenset({k}))
        # Of the attempt that came further: on one line, an error that is not about types.
        raise max(refused, also, key=lambda error: (error.line or 0, not isinstance(error, DtypeError)))
    integers = lists
    for k in sorted(lists):
        if fits(integers - {k}) is None:
            integers -= {k}
    return typed(types, integers)


def convert_lists(f: Any, types: Types, values: Sequence[Any]) -> tuple[Types, list[Any]]:
    """The types of a call's lists as the program of `f` has them, and its values in these."""
    found: Types = f._list_types.made(types, lambda: f._with_integer_lists(types))
    if found == types:
        return found, list(values)
    return found, converted(f._names, values, types, found)


def converted(names: Sequence[str], values: Sequence[Any], given: Types, types: Types) -> list[Any]:
    """The values of arguments that are described as `given`, in the types that were found for their lists."""
    if any(map(struct_arrays.has_lists, given)):
        values = list(_rearranged(names, given, types, iter(values)))
    pairs = zip(values, arrays_in(types), strict=True)
    return [_as_float(v) if t.dtype == FLOATS else v for v, t in pairs]


def _rearranged(names: Sequence[str], given: Types, types: Types, values: Iterator[Any]) -> Iterator[Any]:
    for name, one, other in zip(names, given, types, strict=True):
        yield from struct_arrays.converted(one, other, values, name)


def _as_float(value: Any) -> Any:
    """A value of an argument that is a float: Python's integers, and arrays of integers, are converted."""
    if type(value) is int:
        return float(value)
    return floats(value) if isinstance(value, np.ndarray) and value.dtype.kind == "i" else value
