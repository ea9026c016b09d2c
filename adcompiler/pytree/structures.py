"""Nesting of arguments and results: trees of types, and structures, which give the place of each array.

In a structure None is the place of an array, a `Static` is a fixed value, and a plain tuple is a tuple; other
containers are a `Container`. Arrays of `Rows` have the items as one axis: the first one, or, in a block of a
Jacobian, the one `Behind` the axes of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from adcompiler.errors import ShapeError
from adcompiler.ir.types import is_float
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import Container, Ragged, Rows, opened
from adcompiler.pytree.kinds import ArgType, Static
from adcompiler.pytree.records import Records
from adcompiler.pytree.trees import leaves, map_leaves

NOTHING = Static(None)  # the place of what has no derivative
NO_FLOAT = "use None for values without a derivative"


# -- trees of types ----------


def arrays_in(types: Sequence[Any]) -> list[ArgType]:
    """The types of the arrays among the leaves of some arguments: those of the program's inputs."""
    return [leaf for kind in types for leaf in leaves(kind) if isinstance(leaf, ArgType)]


def is_of_numbers(kind: Any) -> bool:
    """Whether there are no arrays among the leaves of a type but Python numbers."""
    return all(leaf.weak for leaf in leaves(kind) if isinstance(leaf, ArgType))


def arrays_of(types: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The arrays among the leaves of some arguments, as they are given: one for each input of the program, a
    `Column` where that is a field of all items of a list."""
    found: list[Any] = []
    for kind, arg in zip(types, args, strict=True):
        if isinstance(kind, Ragged):
            lengths = np.array([len(row) for row in arg], np.int64)
            found += [joined(arg), lengths.cumsum() - lengths, lengths]
        elif isinstance(kind, Rows):
            items = [arrays_of((kind.part,), (item,)) for item in arg]
            found += map(Column, zip(*items, strict=True))
        elif isinstance(kind, Container):
            container = opened(arg, "an argument")
            assert container is not None
            found += arrays_of(kind.parts, container.parts)
        elif isinstance(kind, ArgType):
            found.append(arg)
    return found


def joined(rows: Any) -> Any:
    """The elements of all rows of a list of arrays; what is one array already as it is."""
    if not isinstance(rows, list | tuple):
        return rows
    arrays = [row if hasattr(row, "__array_function__") else np.asarray(row) for row in rows]
    return np.concatenate(arrays) if arrays else np.zeros(0)


class Column(tuple[Any, ...]):
    """A field of all items of a list."""


def places_of(kind: Any) -> Any:
    """The structure of a gradient: an array for each float, None for what has no derivative."""
    return map_leaves(lambda k: None if isinstance(k, ArgType) and is_float(k.dtype) else NOTHING, kind)


# -- structures ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Behind:
    """A structure whose `Rows` have their items behind `axes` other axes."""

    axes: int
    inner: Any


def unflatten(structure: Any, flat: Sequence[Any]) -> Any:
    """Arrays nested as `structure` says; where no item of a list has any, None stands for all of the list."""
    return flat[0] if structure is None else _nested(structure, iter(flat), 0)


def _nested(structure: Any, remaining: Iterator[Any], axis: int) -> Any:
    """`axis` is that of the items of `Rows`."""
    if structure is None:
        return next(remaining)
    if isinstance(structure, tuple):
        return tuple([_nested(part, remaining, axis) for part in structure])
    if isinstance(structure, Behind):
        return _nested(structure.inner, remaining, axis + structure.axes)
    if isinstance(structure, Rows):
        arrays = [next(remaining) for _ in range(count(structure.part))]
        columns = [_items(a, axis) for a in arrays if a is not None]
        if not columns:
            return None
        rest = iter(columns)
        nothing = [None] * len(columns[0])
        each = zip(*[nothing if a is None else next(rest) for a in arrays], strict=True)
        return structure.kind([_nested(structure.part, iter(item), axis) for item in each])
    if isinstance(structure, Container):
        return structure.build([_nested(part, remaining, axis) for part in structure.parts])
    return structure.value


def _items(array: Any, axis: int) -> Sequence[Any]:
    """An array along an axis; numbers are Python's, except for float32."""
    if isinstance(array, np.ndarray) and array.ndim == 1:
        return list(array) if array.dtype == np.float32 else array.tolist()
    before = (slice(None),) * axis
    return [array[(*before, k)] for k in range(array.shape[axis])]


def count(place: Any) -> int:
    """How many arrays have their places in a structure, or in a tree of types."""
    if isinstance(place, Behind):
        return count(place.inner)
    parts = place.parts if isinstance(place, Container) else place
    return sum(map(count, parts)) if isinstance(parts, tuple) else int(not isinstance(place, Static))


def has_rows(structure: Any) -> bool:
    """Whether there is a list of equal items in a structure, or a type."""
    if isinstance(structure, Behind):
        return has_rows(structure.inner)
    parts = structure.parts if isinstance(structure, Container) else structure
    return isinstance(structure, Rows) or (isinstance(parts, tuple) and any(map(has_rows, parts)))


def batched(structure: Any) -> Any:
    """A structure of arrays that have one axis more, the first one."""
    return Behind(1, structure) if has_rows(structure) else structure


def flatten(structure: Any, value: Any, name: str = "the result", axis: int = 0) -> list[Any]:
    """The arrays of a value nested as `structure` says; None for all of a container is None for each.

    Raises ShapeError that says where in `name` the nesting differs.
    """
    if structure is None:
        return [value]
    if isinstance(structure, Static):
        if value is not None and not (type(value) is str and value == structure.value):
            raise ShapeError(f"{name} is not a float, but got a {type(value).__name__}", remedy=NO_FLOAT)
        return []
    if isinstance(structure, Behind):
        return flatten(structure.inner, value, name, axis + structure.axes)
    if isinstance(structure, Rows):
        return _columns(structure, value, name, axis)
    if isinstance(structure, Ragged):
        return [joined(value)]
    if isinstance(structure, tuple):
        structure = Container(tuple, tuple(range(len(structure))), structure)
    parts: Iterable[tuple[Any, Any, Any]]
    parts = zip(structure.keys, structure.parts, parts_like(structure, value, name), strict=True)
    if issubclass(structure.kind, Records):  # which has something for values that are not floats
        parts = ((key, place, None if isinstance(place, Static) else part) for key, place, part in parts)
    return [
        leaf for key, place, part in parts for leaf in flatten(place, part, name + structure.path(key), axis)
    ]


def _columns(structure: Rows, value: Any, name: str, axis: int) -> list[Any]:
    """The arrays of a list of equal items; zeros where some have a value and others None."""
    if value is None:
        return [None] * count(structure.part)
    if not isinstance(value, tuple | list):
        cause = f"{name} is {structure.what}, but got a {type(value).__name__}"
        raise ShapeError(cause, remedy="give the values its structure; None stands for a whole container")
    items = [flatten(structure.part, v, f"{name}[{k}]", axis) for k, v in enumerate(value)]
    return [stacked(column, name, axis) for column in zip(*items, strict=True)]


def stacked(column: Sequence[Any], name: str, axis: int = 0) -> Any:
    """A field of all items of a list as one array: zero where an item has none; None where none has."""
    known = next((v for v in column if v is not None), None)
    if known is None:
        return None
    try:
        return np.stack([np.zeros_like(known) if v is None else v for v in column], axis)
    except ValueError as error:
        shapes = ", ".join(dict.fromkeys(str(np.shape(v)) for v in column if v is not None))
        raise ShapeError(
            f"the items of {name} have shapes {shapes}", remedy="items must have the same shape"
        ) from error


def parts_like(structure: Container, value: Any, name: str) -> Sequence[Any]:
    """The parts of a value that is nested like a container, in the container's order."""
    if value is None:
        return [None] * len(structure.keys)
    given = _as_container(value, name)
    if structure.kind in (tuple, list):
        if given is not None and given.kind in (tuple, list) and len(given.parts) == len(structure.parts):
            return given.parts
    elif given is not None and given.kind is structure.kind and set(given.keys) == set(structure.keys):
        found = dict(zip(given.keys, given.parts, strict=True))
        return [found[key] for key in structure.keys]
    raise ShapeError(
        f"{name} is {structure.what}, but got {given.what if given else f'a {type(value).__name__}'}",
        remedy="give the values its structure; None stands for a whole container",
    )


def _as_container(value: Any, name: str) -> Container | None:
    """A container; here a list is one, whatever it holds."""
    return opened(tuple(value) if type(value) is list else value, name)


def grafted(outer: Any, inner: Any, ranks: Sequence[int]) -> Any:
    """`outer` with `inner` in the place of each array, whose axes come first: `ranks` says how many."""
    return _grafted(outer, inner, iter(ranks), 0)


def _grafted(outer: Any, inner: Any, ranks: Iterator[int], before: int) -> Any:
    """`before` counts the axes that are items of lists around, or that a `Behind` around has passed."""
    if outer is None:
        axes = next(ranks) - before
        return Behind(axes, inner) if axes and has_rows(inner) else inner
    if isinstance(outer, tuple):
        return tuple(_grafted(part, inner, ranks, before) for part in outer)
    if isinstance(outer, Behind):
        return Behind(outer.axes, _grafted(outer.inner, inner, ranks, before + outer.axes))
    if isinstance(outer, Container):
        around = before + isinstance(outer, Rows)
        return outer.map(lambda part: _grafted(part, inner, ranks, around))
    return outer
