"""Vectors of a solver as containers like the start, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from adcompiler.eager.variable.leaves import Leaf, Tree, tree
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.fit.checks import SolverError, check_finite, limits_of
from adcompiler.pytree.containers import opened
from adcompiler.pytree.trees import beside, built, leaves, map_leaves


class Points:
    """The points that a solver visits, as vectors of float64 and as arguments of a function.

    start     an array, a number or a container; a bare array may have integers
    name      the name of the start in messages
    names     None if the start is one argument; else the parameters that its parts are passed to

    Solvers compute in float64. `own` is set for functions whose annotations need the dtypes of the start.
    """

    def __init__(self, start: Any, name: str, names: Sequence[str] | None = None) -> None:
        self.name, self.names, self.own = name, names, False
        start = _as_floats(start)
        self.is_vector = names is not None and isinstance(start, np.ndarray)
        parts = _parts(start, name, names) if names is not None else start
        whole: Tree = tree(parts, name)
        found = [one for one in leaves(whole) if one.dtype is not None]
        if not sum(one.size for one in found):
            raise SolverError(f"{name} has no floats", remedy="pass floats: nothing else can vary")
        for one in found:
            check_finite(one.path, one.flat().reshape(one.shape))
        self.start = np.concatenate([one.flat() for one in found]).astype(float)
        self.tree = map_leaves(Leaf.emptied, whole)
        self.leaves = [one for one in leaves(self.tree) if one.dtype is not None]
        self.sizes = [one.size for one in self.leaves]
        self.bounds = [0, *accumulate(self.sizes)]

    @property
    def has_float32(self) -> bool:
        """Whether parts of the start are float32."""
        return any(one.dtype == np.float32 for one in self.leaves)

    def arguments(self, vector: np.ndarray, copied: bool = True) -> tuple[Any, ...]:
        """The arguments of a function at a point; arrays are views of it unless they are `copied`."""
        return self._passed(built(self.tree, self._values(vector, copied=copied)))

    def directions(self, vector: np.ndarray) -> tuple[Any, ...]:
        """A direction for each of the arguments; what has no derivative has None."""
        return self._passed(built(self.tree, self._values(vector, direction=True)))

    def params(self, vector: Any) -> Any:
        """A point, or something with a number for each entry of it, as a container like the start."""
        if self.is_vector:
            return np.array(vector)
        flat = iter(self._split(np.asarray(vector)))
        values = (
            one.value if one.dtype is None else one.like(next(flat).astype(one.dtype))
            for one in leaves(self.tree)
        )
        return built(self.tree, values)

    def flat(self, value: Any, path: str, missing: float) -> np.ndarray:
        """Limits that nest like the start, as a vector; a number stands for all of an array, and None for
        `missing`."""
        if isinstance(value, int | float | np.number):
            return np.full(len(self.start), float(value))
        value = _as_floats(value)
        if isinstance(value, np.ndarray) and value.shape == self.start.shape:
            return value.astype(float)
        found = [
            limits_of(where, limit, missing, f"{one.path} has", one.shape)
            for one, (where, limit) in zip(leaves(self.tree), beside(self.tree, value, path), strict=True)
            if one.dtype is not None
        ]
        return np.concatenate(found)

    def _passed(self, container: Any) -> tuple[Any, ...]:
        if self.names is None:
            return (container,)
        return tuple(container[n] for n in self.names) if isinstance(container, dict) else tuple(container)

    def _values(self, vector: np.ndarray, direction: bool = False, copied: bool = True) -> Iterator[Any]:
        flat = iter(self._split(vector))
        for one in leaves(self.tree):
            if one.dtype is None:
                yield None if direction else one.value
                continue
            part = next(flat).reshape(one.shape).astype(one.dtype if self.own else float, copy=copied)
            yield part if one.shape else part[()]

    def _split(self, vector: np.ndarray) -> list[np.ndarray]:
        return [vector[a:b] for a, b in pairwise(self.bounds)]


def _as_floats(value: Any) -> Any:
    """Lists of numbers and arrays of integers as arrays of floats; other values as they are."""
    if isinstance(value, list) and opened(value, "it") is None:
        try:
            value = np.array(value)
        except ValueError:  # rows of different lengths
            return value
    if isinstance(value, np.ndarray | np.integer) and value.dtype.kind in "iu":
        return value.astype(float)
    return value


def _parts(start: Any, name: str, names: Sequence[str]) -> Any:
    """The start as a container with a part for each of several parameters."""
    listed = ", ".join(names)
    if isinstance(start, dict):
        if set(start) != set(names):
            raise ShapeError(
                f"{name} has the keys {', '.join(map(repr, start))}, but the parameters are {listed}",
                remedy="pass a dict with their names as keys, or a sequence of their values",
            )
        return {n: start[n] for n in names}  # derivatives come in the order of the parameters
    if isinstance(start, np.ndarray):
        start = tuple(start.tolist() if start.ndim == 1 else start) if start.ndim else (start[()],)
    elif isinstance(start, int | float | np.number):
        start = (start,)
    if not isinstance(start, tuple | list):
        raise DtypeError(
            f"{name} is a {type(start).__name__}, not values for {listed}",
            remedy="pass a sequence of values, or a dict with the names as keys",
        )
    if len(start) != len(names):
        raise ShapeError(
            f"{name} has {len(start)} values for {len(names)} parameters: {listed}",
            remedy=f"pass {len(names)} values",
        )
    return start
