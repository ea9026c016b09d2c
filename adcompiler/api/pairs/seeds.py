"""The derivatives in pairs: tangents of arguments and cotangents of results, by their dual parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from adcompiler.ad.programs.duals import Coefficient
from adcompiler.api.pairs.pairs import DiffPair
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.ir.nodes import Array
from adcompiler.ir.types import is_float
from adcompiler.pytree.containers import Container, Ragged, Rows, opened
from adcompiler.pytree.kinds import ArgType, Static, Types
from adcompiler.pytree.records import Records
from adcompiler.pytree.structures import NO_FLOAT, count, parts_like, stacked
from adcompiler.runtime.arguments.adapters import Wrapper
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.arguments.tangents import as_cotangent, fitted

Leaf = tuple[int, int, str, Any, Any]  # its number, its parts, path, place and value


def tangents(
    names: Sequence[str],
    args: Sequence[Any],
    types: Types,
    values: Sequence[Any],
    order: int,
    wrapper: Wrapper | None = None,
) -> dict[Coefficient, Any]:
    """The tangents of arguments that are pairs, `order` deep at most, or hold some: by input and parts.

    Raises ShapeError for one of another shape or structure than its argument, DtypeError if that is no
    float.
    """
    found: dict[Coefficient, Any] = {}
    first = 0
    for name, kind, arg in zip(names, types, args, strict=True):
        for number, parts, path, place, tangent in spread(kind, arg, order, name, first):
            if parts and not is_float(place.dtype):
                raise DtypeError(
                    f"{path} is {place.dtype}: it has no tangent", remedy=f"pass floats, or None: {NO_FLOAT}"
                )
            if parts:
                tangent = tangent if wrapper is None else wrapper.tangent(number, tangent)
                found[number, parts] = fitted(tangent, values[number], place, path)
        first += count(kind)
    return found


def cotangents(
    structure: Any,
    results: Sequence[Array],
    names: Sequence[str],
    cotangent: Any,
    order: int,
    wrapper: Wrapper | None = None,
) -> dict[Coefficient, Any]:
    """The cotangents of results for kernels, by result and parts; none for values that are not floats."""
    found: dict[Coefficient, Any] = {}
    given = _unwrapped(structure, results, cotangent)
    for k, parts, _, _, value in spread(structure, given, order, "the cotangent"):
        if is_float(results[k].dtype):
            value = value if wrapper is None else wrapper.cotangent(k, value)
            found[k, parts] = as_cotangent(value, names[k], results[k].dtype, results[k].rank)
    return found


def _unwrapped(structure: Any, results: Sequence[Array], cotangent: Any) -> Any:
    """The cotangent of one result, which may stand in a tuple; a list of numbers is an array."""
    if structure is not None or not isinstance(cotangent, tuple | list) or len(cotangent) != 1:
        return cotangent
    is_array = results[0].rank and type(cotangent) is list and opened(cotangent, "the cotangent") is None
    return cotangent if is_array else cotangent[0]


def spread(place: Any, value: Any, order: int, name: str, first: int = 0, parts: int = 0) -> Iterator[Leaf]:
    """What pairs, `order` deep at most, hold at the places of a tree of types or of a structure.

    Places are counted from `first`. An outermost pair has the last part of a dual number of that order.
    """
    if isinstance(value, DiffPair):
        yield from spread(place, value.p, order - 1, name, first, parts)
        yield from spread(place, value.d, order - 1, name, first, parts | 1 << (order - 1))
    elif value is None:
        return
    elif place is None or isinstance(place, ArgType):
        yield first, parts, name, place, value
    elif isinstance(place, Static):
        if parts and value != place.value:
            raise ShapeError(f"{name} is not a float, but got a {type(value).__name__}", remedy=NO_FLOAT)
    elif isinstance(place, Ragged):
        if parts:
            refuse("a pair", (place,))
    elif isinstance(place, Rows):
        yield from _of_items(place, value, order, name, first, parts)
    else:
        if isinstance(place, tuple):
            place = Container(tuple, tuple(range(len(place))), place)
        for key, part, given in zip(place.keys, place.parts, parts_like(place, value, name), strict=True):
            if not (parts and issubclass(place.kind, Records) and not _has_float(part)):  # of any value there
                yield from spread(part, given, order, name + place.path(key), first, parts)
            first += count(part)


def _of_items(place: Rows, value: Any, order: int, name: str, first: int, parts: int) -> Iterator[Leaf]:
    """What the items of a list hold, each of their fields as one array: zero where an item has none."""
    if not isinstance(value, tuple | list):
        parts_like(place, value, name)
    columns: dict[tuple[int, int], tuple[str, Any, list[Any]]] = {}
    for k, item in enumerate(value):
        for number, here, path, leaf, found in spread(place.part, item, order, f"{name}[{k}]", first, parts):
            columns.setdefault((number, here), (path, leaf, [None] * len(value)))[2][k] = found
    for (number, here), (path, leaf, column) in columns.items():
        yield number, here, path, leaf, stacked(column, name)


def _has_float(place: Any) -> bool:
    return isinstance(place, Container) or (isinstance(place, ArgType) and is_float(place.dtype))
