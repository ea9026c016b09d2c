"""Lists of equal structs as arguments: structs of arrays, so a program can loop over them.

Equal structs have the same classes, keys, types and shapes. If a program needs individual items, for example
to unpack them, lowering refuses the struct of arrays, and the items become separate arguments
(`integer_lists.py`), as in lists of up to `WRITTEN_OUT` items. These in turn become structs of arrays if a
program needs that, for example for computed indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adcompiler.errors import ShapeError
from adcompiler.ir.types import NUMPY
from adcompiler.pytree.containers import Container, Rows
from adcompiler.pytree.kinds import ArgType, Kind
from adcompiler.pytree.structures import arrays_in
from adcompiler.pytree.trees import leaves_by_path, map_leaves


def stacked(
    container: Container, kinds: Sequence[Kind], values: Sequence[Any]
) -> tuple[Rows, list[Any]] | None:
    """The type of a list whose items have types `kinds`, and its arrays; None if they are not equal structs.

    `values` are the arrays and numbers of all items.
    """
    if container.kind not in (tuple, list):
        return None
    common = _common(kinds)
    if common is None:
        return None
    fields = arrays_in((common,))
    columns = [_column(values[k :: len(fields)], kind) for k, kind in enumerate(fields)]
    arrays = [c for c in columns if c is not None]
    if len(arrays) != len(columns):
        return None
    return Rows.of(container.kind, _lifted(common), len(kinds)), arrays


def _common(kinds: Sequence[Any]) -> Container | None:
    """The type of each of some items; None if they are not equal structs with arrays or numbers in them."""
    common = kinds[0]
    for kind in kinds[1:]:
        if kind is not common and kind != common:
            common = _met(common, kind)
    return common if isinstance(common, Container) and arrays_in((common,)) else None


def _met(one: Any, other: Any) -> Any:
    """The type of two items; None if they are not equal. Python's floats fit NumPy's, and lists of whole
    numbers those of floats."""
    if one == other:
        return one
    if isinstance(one, ArgType) and isinstance(other, ArgType):
        floats = all(t.open or t.dtype == "f64" for t in (one, other))
        return ArgType("f64", one.ones) if floats and one.ones == other.ones else None
    if not (isinstance(one, Container) and isinstance(other, Container)):
        return None
    if (type(one), one.kind, one.keys) != (type(other), other.kind, other.keys):
        return None
    parts = tuple(_met(a, b) for a, b in zip(one.parts, other.parts, strict=True))
    return None if None in parts else replace(one, parts=parts)


def _column(values: Sequence[Any], kind: ArgType) -> np.ndarray | None:
    """The values of a field as one array; None if their shapes differ, or they are not in memory here."""
    if kind.ones:
        shape = np.shape(values[0])
        if any(not isinstance(v, np.ndarray) or v.shape != shape for v in values):
            return None
    elif any(isinstance(v, np.ndarray) for v in values):
        return None
    return np.array(values, NUMPY[kind.dtype])


def _lifted(kind: Any) -> Any:
    """The type of all items: each array has an axis more."""
    return map_leaves(lambda k: replace(k, ones=(False, *k.ones)) if isinstance(k, ArgType) else k, kind)


def _lowered(kind: Any) -> Any:
    """The type of one item."""
    return map_leaves(lambda k: replace(k, ones=k.ones[1:]) if isinstance(k, ArgType) else k, kind)


# -- which lists are structs of arrays ----------


def is_list_of_structs(kind: Any) -> bool:
    """Whether a type is that of a short list, whose items may be equal structs."""
    parts = kind.parts if isinstance(kind, Container) and kind.kind in (tuple, list) else ()
    return len(parts) > 1 and isinstance(parts[0], Container)


def has_lists(kind: Any) -> bool:
    """Whether lists of structs are part of a type."""
    if not isinstance(kind, Container):
        return False
    return isinstance(kind, Rows) or is_list_of_structs(kind) or any(map(has_lists, kind.parts))


def is_open(kind: Any) -> bool:
    """Whether the program decides on a type: there are lists of structs or of integers in it."""
    if isinstance(kind, ArgType):
        return kind.open
    if not isinstance(kind, Container):
        return False
    return isinstance(kind, Rows) or is_list_of_structs(kind) or any(map(is_open, kind.parts))


def _as_described(kind: Any) -> Any:
    """A type with long lists as structs of arrays, for any number of items, and short ones item by item."""
    if isinstance(kind, Rows):
        return Rows.of(kind.kind, _as_described(kind.part))
    return kind.map(_as_described) if isinstance(kind, Container) else kind


def _otherwise(kind: Any) -> Any:
    """A type with long lists item by item, and short ones as structs of arrays."""
    if isinstance(kind, Rows):
        assert kind.count is not None
        parts = (_otherwise(_lowered(kind.part)),) * kind.count
        return Container(kind.kind, tuple(range(kind.count)), parts)
    if not isinstance(kind, Container):
        return kind
    common = _common(kind.parts) if is_list_of_structs(kind) else None
    return kind.map(_otherwise) if common is None else Rows.of(kind.kind, _lifted(_otherwise(common)))


def choices(types: tuple[Kind, ...]) -> Iterator[tuple[Kind, ...]]:
    """The types to try for some arguments, in order: as described, one argument otherwise, all of them."""
    several = [k for k, kind in enumerate(types) if has_lists(kind)]
    found = [frozenset[int](), *(frozenset((k,)) for k in several), frozenset(several)]
    for others in dict.fromkeys(found):
        yield tuple((_otherwise if k in others else _as_described)(kind) for k, kind in enumerate(types))


def alike(kind: Any, tangent: Any) -> Any:
    """The type of a tangent of an argument of a type, with lists as that has them."""
    if not (isinstance(kind, Container) and isinstance(tangent, Container)):
        return tangent
    if isinstance(kind, Rows):
        part = tangent.part if isinstance(tangent, Rows) else _lifted(tangent.parts[0])
        return Rows.of(kind.kind, alike(kind.part, part))
    if isinstance(tangent, Rows):
        tangent = Container(kind.kind, kind.keys, (_lowered(tangent.part),) * len(kind.parts))
    return replace(tangent, parts=tuple(map(alike, kind.parts, tangent.parts)))


def converted(given: Any, kind: Any, values: Iterator[Any], name: str) -> Iterator[Any]:
    """The values of an argument that is described as `given`, for a program that takes `kind`.

    Raises ShapeError if it takes a struct of arrays, and the shapes of the items differ.
    """
    if isinstance(given, Rows) and not isinstance(kind, Rows):
        columns = [next(values) for _ in arrays_in((given,))]
        part = _lowered(given.part)
        for k, item in enumerate(kind.parts):
            yield from converted(part, item, iter([_entry(c, k) for c in columns]), f"{name}[{k}]")
    elif isinstance(kind, Rows) and not isinstance(given, Rows):
        item = _lowered(kind.part)
        items = [list(converted(part, item, values, name)) for part in given.parts]
        for column, (path, leaf) in zip(
            zip(*items, strict=True), leaves_by_path(name + "[:]", item), strict=True
        ):
            yield _demanded(_column(column, leaf), path, column)
    elif isinstance(given, Container):
        for key, one, other in zip(given.keys, given.parts, kind.parts, strict=True):
            yield from converted(one, other, values, name + given.path(key))
    elif isinstance(given, ArgType):
        yield next(values)


def _demanded(column: np.ndarray | None, path: str, values: Sequence[Any]) -> np.ndarray:
    if column is None:
        shapes = ", ".join(dict.fromkeys(str(np.shape(v)) for v in values))
        raise ShapeError(
            f"{path} have shapes {shapes}: items of a list that the program indexes, or loops over "
            "inside a loop, must have one shape",
            remedy="give the items the same shape",
        )
    return column


def _entry(column: np.ndarray, k: int) -> Any:
    """An item's own array, or number as kernels take it."""
    found = column[k]
    if column.ndim > 1:
        return np.ascontiguousarray(found)
    return found if column.dtype == np.float32 else found.item()
