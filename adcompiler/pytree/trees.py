"""Trees: a `Container` whose parts are trees, or a leaf, which is anything else.

Their leaves are types (what a call passes), places of results (`structures.py`), or numbers and arrays of
parameters (`eager/variable/leaves.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeVar

from adcompiler.errors import ShapeError
from adcompiler.pytree.containers import Container, check_depth, opened

T = TypeVar("T")


def tree_of(
    value: Any, name: str, leaf: Callable[[str, Any, bool], T], integer: bool = False, depth: int = 0
) -> Container | T:
    """A value as a tree: `leaf` makes each leaf, of its path, its value, and whether a Python int is no float
    there, as `integer` says of the value itself.

    Raises LimitError for containers that hold themselves.
    """
    container = opened(value, name)
    if container is None:
        return leaf(name, value, integer)
    check_depth(depth, name)
    parts = zip(container.keys, container.parts, strict=True)
    trees = [tree_of(p, name + container.path(k), leaf, container.integer(k), depth + 1) for k, p in parts]
    return Container(container.kind, container.keys, tuple(trees))


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of a tree, in order."""
    if isinstance(tree, Container):
        for part in tree.parts:
            yield from leaves(part)
    else:
        yield tree


def leaves_by_path(name: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of a tree in order, each with its path from `name`."""
    if isinstance(tree, Container):
        for key, part in zip(tree.keys, tree.parts, strict=True):
            yield from leaves_by_path(name + tree.path(key), part)
    else:
        yield name, tree


def map_leaves(f: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with each leaf replaced."""
    return tree.map(lambda part: map_leaves(f, part)) if isinstance(tree, Container) else f(tree)


def map_kinds(f: Callable[[Any, bool], Any], tree: Any, integer: bool = False) -> Any:
    """A tree with each leaf replaced: by `f` of it, and of whether a Python int is no float there."""
    if not isinstance(tree, Container):
        return f(tree, integer)
    pairs = zip(tree.keys, tree.parts, strict=True)
    return replace(tree, parts=tuple(map_kinds(f, part, tree.integer(key)) for key, part in pairs))


def built(tree: Any, values: Iterator[Any]) -> Any:
    """A container like the tree, of these values."""
    if isinstance(tree, Container):
        return tree.build([built(part, values) for part in tree.parts])
    return next(values)


def beside(tree: Any, other: Any, path: str, partial: bool = False) -> Iterator[tuple[str, Any]]:
    """What stands in the value `other` at the place of each leaf, with its path; None stands for all of a
    container. Where it may be `partial`, a dict names some parts of a dict, or some fields, and None stands
    for the others.

    Raises ShapeError if the two nest differently.
    """
    if not isinstance(tree, Container):
        yield path, other
        return
    if other is None:
        parts: Sequence[Any] = [None] * len(tree.parts)
    elif partial and isinstance(other, dict) and not (tree.sequence and tree.kind in (tuple, list)):
        parts = _some_parts(tree, other, path)
    else:
        parts = _parts(tree, other, path)
    for key, part, theirs in zip(tree.keys, tree.parts, parts, strict=True):
        yield from beside(part, theirs, path + tree.path(key), partial)


def _some_parts(container: Container, other: dict[Any, Any], path: str) -> Sequence[Any]:
    """The parts that a dict names, in the container's order, and None for the others."""
    for key in other:
        if key not in container.keys:
            near = get_close_matches(str(key), [str(known) for known in container.keys], 1)
            raise ShapeError(
                f"{path} names {key!r}, but there is only {', '.join(map(repr, container.keys))}",
                remedy=f"did you mean {near[0]!r}?" if near else "name parts of the start",
            )
    return [other.get(key) for key in container.keys]


def _parts(container: Container, other: Any, path: str) -> Sequence[Any]:
    """The parts of a value that nests as a container does, in the container's order."""
    if container.sequence:  # a list of numbers is not a container, but one next to arrays of rank 0
        fits = isinstance(other, tuple | list) and len(other) == len(container.parts)
    elif container.kind is dict:
        fits = isinstance(other, dict) and other.keys() == set(container.keys)
    else:
        fits = all(hasattr(other, key) for key in container.keys)
    if not fits:
        raise ShapeError(f"{path} is {shown(other)}, not {container.what}", remedy="nest it like params")
    if container.sequence:
        return list(other)
    return [other[k] if container.kind is dict else getattr(other, k) for k in container.keys]


def shown(value: Any) -> str:
    """A value in words: its class, or what a container has."""
    container = opened(value, "it")
    return f"a {type(value).__name__}" if container is None else container.what
