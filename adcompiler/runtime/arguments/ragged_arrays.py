"""Lists of arrays of different lengths as arguments, and gradients nested like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError, Error, ShapeError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.ragged import RowType, annotated
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.pytree.containers import Container, Ragged
from adcompiler.pytree.kinds import ArgType
from adcompiler.pytree.structures import Behind, arrays_in
from adcompiler.runtime.arguments.refused import refuse_masked

PLACES = ArgType("i64", (False,))


def described(name: str, rows: RowType, value: Any) -> tuple[Ragged, list[np.ndarray]]:
    """The type of a list of arrays, and its elements, starts and lengths as kernels take them.

    Raises DtypeError if it is not a list, or for rows of another type, ShapeError for rows of another rank or
    of other lengths behind their first axes.
    """
    if not isinstance(value, list | tuple):
        raise DtypeError(
            f"the argument {name!r} is a {type(value).__name__}, but its annotation is a list of arrays",
            remedy="pass a list of arrays: [array, array, ...]",
        )
    dtype, rank = NUMPY[rows.dtype], len(rows.axes)
    plain = all(type(v) is np.ndarray and v.dtype == dtype and v.ndim == rank for v in value)
    arrays = value if plain else [_row(f"{name}[{k}]", rows, v) for k, v in enumerate(value)]
    behind = arrays[0].shape[1:] if arrays else tuple(map(_width, rows.axes[1:]))
    if rank > 1:
        _check_widths(name, arrays)
    lengths = np.array([len(a) for a in arrays], np.int64)
    flat = np.concatenate(arrays) if arrays else np.zeros((0, *behind), dtype)
    kind = ArgType(rows.dtype, tuple(n == 1 for n in flat.shape))
    places = ArgType("i64", (len(lengths) == 1,))
    found = Ragged(list, Ragged.KEYS, (kind, places, places), name)
    return found, [flat, lengths.cumsum() - lengths, lengths]


def any_rows(parameter: tree.Parameter) -> Ragged | None:
    """The type that an annotation `list[f64[:]]` names."""
    rows = annotated(parameter.annotation)
    if rows is None:
        return None
    kind = ArgType(rows.dtype, tuple(isinstance(a, tree.Number) and a.value == 1 for a in rows.axes))
    return Ragged(list, Ragged.KEYS, (kind, PLACES, PLACES), parameter.name)


def _check_widths(name: str, arrays: Sequence[np.ndarray]) -> None:
    """Demand that rows may differ only in the length of their first axis."""
    for k, array in enumerate(arrays):
        if array.shape[1:] != arrays[0].shape[1:]:
            raise ShapeError(
                f"{name}[0] has shape {arrays[0].shape}, {name}[{k}] {array.shape}",
                remedy="rows may differ only in the length of their first axis",
            )


def _width(axis: tree.Tree) -> int:
    """The length of an axis of no row."""
    return int(axis.value) if isinstance(axis, tree.Number) else 0


def _row(name: str, rows: RowType, value: Any) -> np.ndarray:
    """One row as an array."""
    refuse_masked(name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DtypeError(f"{name} is not an array: {error}", remedy="pass an array for each row") from error
    if not isinstance(value, np.ndarray) and is_float(rows.dtype) and array.dtype.kind in "iu":
        array = array.astype(NUMPY[rows.dtype])
    if array.size == 0 and not isinstance(value, np.ndarray):
        array = array.astype(NUMPY[rows.dtype])
    if array.dtype != NUMPY[rows.dtype]:
        remedy = f"convert it: {name}.astype('{NUMPY[rows.dtype]}')"
        raise DtypeError(f"{name} is {array.dtype}, but annotated {rows.dtype}", remedy=remedy)
    if array.ndim != len(rows.axes):
        raise ShapeError(
            f"{name} has rank {array.ndim}, but its annotation has rank {len(rows.axes)}",
            remedy=f"pass arrays of rank {len(rows.axes)}, or annotate list[{rows.dtype}[:, :]] for matrices",
        )
    return array


# -- results ----------


def with_rows(structure: Any, types: Sequence[Any], values: Sequence[Any]) -> Any:
    """A structure of results for one call: what is shaped like a list of arrays is one, of rows as long."""
    return with_offsets(structure, offsets_in(types, values))


def offsets_in(types: Sequence[Any], values: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    """The bounds of the rows of lists of arrays, by the name of the argument."""
    if Ragged not in map(type, types):
        return {}
    found, first = {}, 0
    for kind in types:
        if isinstance(kind, Ragged):
            found[kind.name] = (0, *accumulate(map(int, values[first + 2])))
        first += len(arrays_in((kind,)))
    return found


def with_offsets(structure: Any, offsets: Mapping[str, tuple[int, ...]]) -> Any:
    """A structure in which lists of arrays have their offsets."""
    if not offsets or structure is None:
        return structure
    if isinstance(structure, tuple):
        return tuple(with_offsets(part, offsets) for part in structure)
    if isinstance(structure, Behind):
        return replace(structure, inner=with_offsets(structure.inner, offsets))
    if isinstance(structure, Ragged):
        return replace(structure, offsets=offsets.get(structure.name))
    if isinstance(structure, Container):
        return structure.map(lambda part: with_offsets(part, offsets))
    return structure


def refuse(what: str, kinds: Sequence[Any]) -> None:
    """Refuse what has no meaning for lists of arrays of different lengths, among types or places."""
    for kind in kinds:
        if isinstance(kind, tuple):
            refuse(what, kind)
        if isinstance(kind, Ragged):
            raise Error(
                f"{what}: {kind.name} is a list of arrays of different lengths",
                remedy="use grad, vjp, jvp or hvp, or pass all elements as one array, with offsets",
            )


def check_tangents(
    parameters: Sequence[Any], types: Sequence[Any], values: Sequence[Any], tangents: Sequence[Any]
) -> None:
    """Demand that the rows of tangents, or of a direction, are as long as those that they belong to."""
    offsets = offsets_in(types, values)
    for parameter, kind, tangent in zip(parameters, types, tangents, strict=True):
        if isinstance(kind, Ragged) and isinstance(tangent, list | tuple):
            ends = [0, *accumulate(len(row) for row in tangent)]
            if tuple(ends) != offsets[kind.name]:
                cause = f"the rows of the tangent of {parameter.name} differ in length from its own"
                raise ShapeError(cause, remedy="a tangent must have the shape of its argument, row by row")
