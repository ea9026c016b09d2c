"""Containers: tuples, lists, dicts, named tuples and dataclasses, as trees of leaves.

A program sees only leaves: the arrays of a container are separate inputs or results. `Container` is one
node of such a tree, whatever its leaves are: types (what a call passes), values (while a program is
lowered), or places of results (`structures.py`). A list of many equal structs is one struct of arrays:
`Rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from adcompiler.errors import DtypeError, LimitError, ShapeError
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.records import Records, records, structured

# Containers inside each other: walks over them are recursive, so a container that holds itself must be
# refused before Python's stack ends.
MOST_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Container:
    """A container of class `kind`; `keys` are positions, a dict's keys, or names of fields."""

    kind: type
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]

    def map(self, f: Callable[[Any], Any]) -> Container:
        """The container with each part replaced."""
        return replace(self, parts=tuple(map(f, self.parts)))

    def path(self, key: Any) -> str:
        """The suffix of a container's name that reads a part: `['w']`, `.w`, `[0]`."""
        return f".{key}" if isinstance(key, str) and self.kind is not dict else f"[{key!r}]"

    def integer(self, key: Any) -> bool:
        """Whether the annotation of a field makes a Python int an integer; elsewhere it counts as float."""
        declared = getattr(self.kind, "__dataclass_fields__", None)
        annotations = getattr(self.kind, "__annotations__", {})
        return (declared[key].type if declared else annotations.get(key)) in (int, bool, "int", "bool")

    @property
    def sequence(self) -> bool:
        """Whether the parts are in order: a tuple, a list or a named tuple."""
        return issubclass(self.kind, tuple | list)

    @property
    def what(self) -> str:
        """The container in words."""
        if self.kind is dict:
            return f"a dict with the keys {', '.join(map(repr, self.keys)) or '(none)'}"
        if self.kind in (tuple, list):
            return f"a {self.kind.__name__} of {len(self.parts)}"
        if issubclass(self.kind, Records):
            return f"a structured array of {', '.join(self.keys)}"
        return f"a {self.kind.__name__}({', '.join(self.keys)})"

    def build(self, parts: Sequence[Any]) -> Any:
        """An object of class `kind` with these parts.

        A dataclass is made without its `__init__`: a gradient need not satisfy what that checks.
        """
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        if self.kind in (tuple, list):
            return self.kind(parts)
        if issubclass(self.kind, tuple):
            return self.kind._make(parts)  # type: ignore[attr-defined]
        if issubclass(self.kind, Records):
            return structured(self.kind.dtype, parts)
        made = object.__new__(self.kind)
        for key, part in zip(self.keys, parts, strict=True):
            object.__setattr__(made, key, part)
        return made


@dataclass(frozen=True, slots=True)
class Rows(Container):
    """A list or tuple of equal containers as one of them whose leaves have the items as their first axis.

    `kind` is list or tuple, `parts` that one container; `count` is how many items a call has, None where a
    program is for any number.
    """

    count: int | None = None

    @staticmethod
    def of(kind: type, part: Any, count: int | None = None) -> Rows:
        """The items of a list or tuple, as one container."""
        return Rows(kind, (0,), (part,), count)

    @property
    def part(self) -> Any:
        """The one container."""
        return self.parts[0]

    def path(self, key: Any) -> str:
        """`p[:].pos`: the field of all items."""
        return "[:]"

    @property
    def sequence(self) -> bool:
        """Its one part is not its first item: what reads items asks for `Rows`."""
        return False

    @property
    def what(self) -> str:
        """The list in words."""
        inner = self.part.what if isinstance(self.part, Container) else "tuples"
        return f"a {self.kind.__name__} of equal items, each {inner}"


@dataclass(frozen=True, slots=True)
class Ragged(Container):
    """A list of arrays of different lengths, for a parameter annotated `list[f64[:]]`: the elements of all
    rows in order, where each row starts, and how long it is.

    `name` is the argument's. In a structure of results, `offsets` are those of the rows of one call.
    """

    name: str = ""
    offsets: tuple[int, ...] | None = None
    KEYS: ClassVar[tuple[str, ...]] = ("values", "starts", "lengths")

    @property
    def what(self) -> str:
        return "a list of arrays of different lengths"

    def build(self, parts: Sequence[Any]) -> Any:
        """The rows of an array of all elements, which is given back as it is where no offsets are known."""
        if self.offsets is None or parts[0] is None:
            return parts[0]
        return [parts[0][start:end] for start, end in pairwise(self.offsets)]


def opened(value: Any, name: str) -> Container | None:
    """A container with its parts as they are; None for anything else.

    A list of nothing but numbers is an array, as NumPy has it. A dict of any class counts as a plain one:
    what is made of it, such as a gradient, is a plain one too. Raises DtypeError for a dict whose keys are no
    texts, and for a dataclass with a field that is not set. A structured array has its fields as parts.
    """
    kind = type(value)
    if kind is tuple or (kind is list and not _numbers(value, MOST_DEPTH)):
        return Container(kind, tuple(range(len(value))), tuple(value))
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise DtypeError(f"{name} has the key {key!r}", remedy="keys must be strings")
        return Container(dict, tuple(value), tuple(value.values()))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return Container(kind, kind._fields, tuple(value))
    if hasattr(kind, "__dataclass_fields__"):
        keys = tuple(f.name for f in fields(value))
        for key in keys:
            if not hasattr(value, key):
                raise DtypeError(f"{name}.{key} is not set", remedy="set the field")
        return Container(kind, keys, tuple(getattr(value, key) for key in keys))
    if isinstance(value, np.ndarray | np.void) and value.dtype.names:
        keys = value.dtype.names
        return Container(records(value.dtype), keys, tuple(value[key] for key in keys))
    return None


def mapped(f: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A value, or each leaf of a container, replaced: by `f` of it and of the leaves of `others`, which nest
    alike."""
    container = opened(value, "an argument")
    if container is None:
        return f(value, *others)
    columns = [opened(other, "an argument") for other in others]
    if any(c is None or c.keys != container.keys for c in columns):
        raise ShapeError("containers nest differently", remedy="give them the same keys and lengths")
    parts = zip(container.parts, *(c.parts for c in columns if c is not None), strict=True)
    return container.build([mapped(f, *each) for each in parts])


def mapped_by_path(
    f: Callable[[str, Any], Any],
    name: str,
    value: Any,
    build: Callable[[Container, list[Any]], Any] = lambda container, parts: container.build(parts),
) -> Any:
    """A value, or each leaf of a container, replaced by `f` of its path, as `x['w']` in `x`, and of it.
    `build` makes a container of its new parts."""
    container = opened(value, name)
    if container is None:
        return f(name, value)
    pairs = zip(container.keys, container.parts, strict=True)
    return build(container, [mapped_by_path(f, name + container.path(k), part, build) for k, part in pairs])


def leaves_in(
    value: Any, ends: Callable[[Any], bool] = lambda value: False, name: str = "an argument", depth: int = 0
) -> Iterator[Any]:
    """A value, or the leaves of a container in order; what `ends` a path is a leaf, whatever is in it."""
    container = None if ends(value) else opened(value, name)
    if container is None:
        yield value
        return
    check_depth(depth, name)
    for key, part in zip(container.keys, container.parts, strict=True):
        yield from leaves_in(part, ends, name + container.path(key), depth + 1)


def _numbers(value: Any, depth: int) -> bool:
    """Whether a list holds numbers only, or lists of them."""
    return depth > 0 and all(_numbers(v, depth - 1) if type(v) is list else _is_number(v) for v in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.generic) and not isinstance(value, np.void)


def check_depth(depth: int, name: str) -> None:
    """Raise LimitError for containers that nest too deeply, as one that holds itself does."""
    if depth > MOST_DEPTH:
        raise LimitError(f"{name[:60]}...: containers nest deeper than {MOST_DEPTH}", remedy="flatten them")
