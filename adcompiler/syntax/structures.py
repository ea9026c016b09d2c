"""How arguments and results nest: trees of types, and structures, which say where each array has its place.

In a structure None is the place of an array, a `Static` stands for its own value, and a plain tuple is a
tuple; other containers are a `Container`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from adcompiler.errors import ShapeError
from adcompiler.ir.types import is_float
from adcompiler.syntax.containers import Container, opened
from adcompiler.syntax.records import Records
from adcompiler.syntax.values import ArgType, Static

NOTHING = Static(None)  # the place of what has no derivative
NO_FLOAT = "None stands for what carries no derivative"


# -- trees of types ----------


def leaves(name: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of a tree in order, each with its path from `name`."""
    if isinstance(tree, Container):
        for key, part in zip(tree.keys, tree.parts, strict=True):
            yield from leaves(name + tree.path(key), part)
    else:
        yield name, tree


def arrays_in(types: Sequence[Any]) -> list[ArgType]:
    """The types of the arrays among the leaves of some arguments: those of the program's inputs."""
    found: list[ArgType] = []
    for kind in types:
        if isinstance(kind, Container):
            found += arrays_in(kind.parts)
        elif isinstance(kind, ArgType):
            found.append(kind)
    return found


def arrays_of(types: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The arrays among the leaves of some arguments, as they are given: one for each input of the program."""
    found: list[Any] = []
    for kind, arg in zip(types, args, strict=True):
        if isinstance(kind, Container):
            container = opened(arg, "an argument")
            assert container is not None
            found += arrays_of(kind.parts, container.parts)
        elif isinstance(kind, ArgType):
            found.append(arg)
    return found


def places_of(kind: Any) -> Any:
    """The structure of a gradient: an array for each float, None for what has no derivative."""
    if isinstance(kind, Container):
        return kind.map(places_of)
    return None if isinstance(kind, ArgType) and is_float(kind.dtype) else NOTHING


# -- structures ------------------------------------------------------------------------------------


def unflatten(structure: Any, flat: Sequence[Any]) -> Any:
    """Arrays nested as `structure` says."""
    return flat[0] if structure is None else _nested(structure, iter(flat))


def _nested(structure: Any, remaining: Iterator[Any]) -> Any:
    if structure is None:
        return next(remaining)
    if isinstance(structure, tuple):
        return tuple([_nested(part, remaining) for part in structure])
    if isinstance(structure, Container):
        return structure.build([_nested(part, remaining) for part in structure.parts])
    return structure.value


def flatten(structure: Any, value: Any, name: str = "the result") -> list[Any]:
    """The arrays of a value nested as `structure` says; None for all of a container is None for each.

    Raises ShapeError that says where in `name` the nesting differs.
    """
    if structure is None:
        return [value]
    if isinstance(structure, Static):
        if value is not None and not (type(value) is str and value == structure.value):
            raise ShapeError(f"{name} is no float, but a {type(value).__name__} is given", remedy=NO_FLOAT)
        return []
    if isinstance(structure, tuple):
        structure = Container(tuple, tuple(range(len(structure))), structure)
    parts: Iterable[tuple[Any, Any, Any]]
    parts = zip(structure.keys, structure.parts, parts_like(structure, value, name), strict=True)
    if issubclass(structure.kind, Records):  # which has something in the place of what is no float
        parts = ((key, place, None if isinstance(place, Static) else part) for key, place, part in parts)
    return [leaf for key, place, part in parts for leaf in flatten(place, part, name + structure.path(key))]


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
        f"{name} is {structure.what}: it is given {given.what if given else f'a {type(value).__name__}'}",
        remedy="nest the values like it; None stands for all of a container",
    )


def _as_container(value: Any, name: str) -> Container | None:
    """A container; here a list is one, whatever it holds."""
    return opened(tuple(value) if type(value) is list else value, name)


def grafted(outer: Any, inner: Any) -> Any:
    """`outer` with `inner` in the place of each array."""
    if outer is None:
        return inner
    if isinstance(outer, tuple):
        return tuple(grafted(part, inner) for part in outer)
    return outer.map(lambda part: grafted(part, inner)) if isinstance(outer, Container) else outer
