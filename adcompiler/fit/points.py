"""Vectors of a solver as containers like the start, and back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from adcompiler.eager.variable.leaves import Leaf, Tree, tree
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.fit.checks import SolverError, check_finite, limits_of
from adcompiler.pytree.containers import Container, opened
from adcompiler.pytree.trees import beside, built, leaves, map_leaves


class Points:
    """The points that a solver visits, as vectors of float64 and as arguments of a function.

    start     what varies, as a vector; it is passed as an array, a number or a container, and a bare array
              may have integers
    name      the name of the start in messages
    names     None if the start is one argument; else the parameters that its parts are passed to
    fixed     names of parts that stay at their start. A parameter among `names` is then a constant, of which
              there is no derivative
    whole     the same vector with everything that does not vary

    Solvers compute in float64. `own` is set for functions whose annotations need the dtypes of the start.
    """

    def __init__(
        self, start: Any, name: str, names: Sequence[str] | None = None, fixed: Sequence[str] = ()
    ) -> None:
        self.name, self.names, self.own = name, names, False
        self.parameter = ""  # the one that the whole start is passed to
        start = _as_floats(start)
        self.is_vector = names is not None and isinstance(start, np.ndarray)
        parts = _parts(start, name, names) if names is not None else start
        whole: Tree = tree(parts, name)
        found = [one for one in leaves(whole) if one.dtype is not None]
        if not sum(one.size for one in found):
            raise SolverError(f"{name} has no floats", remedy="pass floats: nothing else can vary")
        for one in found:
            check_finite(one.path, one.flat().reshape(one.shape))
        self.whole = np.concatenate([one.flat() for one in found]).astype(float)
        self.tree = map_leaves(Leaf.emptied, whole)
        self.floats = [one for one in leaves(self.tree) if one.dtype is not None]
        self.ends = [0, *accumulate(one.size for one in self.floats)]
        all_labels = self._labels()
        self.labels = [
            label for label, one in zip(all_labels, leaves(self.tree), strict=True) if one.dtype is not None
        ]
        by_name = dict(zip(names or (), _values_of(parts), strict=True)) if names is not None else {}
        self.constants = {n: by_name[n] for n in by_name if n in fixed}
        self._vary(~self._chosen(fixed, all_labels))

    def _labels(self) -> list[str]:
        """The name of each leaf: `rate`, `layer.w`, or nothing if it is the whole start."""
        keys = list(_keys(self.tree))
        if self.names is not None:
            position = isinstance(self.tree, Container) and self.tree.sequence
            keys = [(self.names[one[0]] if position else one[0], *one[1:]) for one in keys]
        return [".".join(map(str, one)) for one in keys]

    def label(self, entry: int) -> str:
        """The name of one number of `whole`: `rate`, or `w[1, 0]` in an array."""
        k = bisect_right(self.ends, entry) - 1
        name, shape = self.labels[k] or self.parameter, self.floats[k].shape
        place = np.unravel_index(entry - self.ends[k], shape)
        return f"{name}[{', '.join(map(str, map(int, place)))}]" if shape else name

    def _vary(self, free: np.ndarray) -> None:
        """Let the entries of `whole` vary where `free` is true."""
        self.free = np.flatnonzero(free)
        self.start = self.whole[self.free]
        derived = [label.partition(".")[0] not in self.constants for label in self.labels]
        self.leaves = [one for one, of in zip(self.floats, derived, strict=True) if of]
        self.sizes = [one.size for one in self.leaves]
        kept = np.repeat(derived, np.diff(self.ends))
        columns = np.flatnonzero(free[kept])
        self.columns = None if len(columns) == kept.sum() else columns

    def _chosen(self, fixed: Sequence[str], known: Sequence[str]) -> np.ndarray:
        """Which entries belong to parts of these names, which are among the `known` ones."""
        found = np.zeros(len(self.whole), bool)
        for name in fixed:
            if not any(f"{label}.".startswith(f"{name}.") for label in known):
                raise SolverError(
                    f"fixed names {name!r}, which is no part of {self.name}",
                    remedy=f"it has {', '.join(known)}"
                    if any(known)
                    else f"{self.name} has no named parts; equal bounds hold entries of an array",
                )
            for k, label in enumerate(self.labels):
                if f"{label}.".startswith(f"{name}."):
                    found[self.ends[k] : self.ends[k + 1]] = True
        if len(fixed) and found.all():
            raise SolverError("fixed names all parameters", remedy="leave one or more to vary")
        return found

    def holding(self, entries: np.ndarray, values: np.ndarray) -> Points:
        """Points where these entries of `whole` have fixed values."""
        made = copy(self)
        made.whole = self.whole.copy()
        made.whole[entries] = values
        free = np.zeros(len(self.whole), bool)
        free[self.free] = True
        free[entries] = False
        made._vary(free)
        return made

    @property
    def has_float32(self) -> bool:
        """Whether parts of the start are float32."""
        return any(one.dtype == np.float32 for one in self.floats)

    def arguments(self, vector: np.ndarray, copied: bool = True) -> tuple[Any, ...]:
        """The arguments of a function at a point; arrays are views of it unless they are `copied`."""
        values = self._passed(built(self.tree, self._values(self._expanded(vector), copied=copied)))
        if not self.constants:
            return values
        return tuple(self.constants.get(n, value) for n, value in zip(self.names or (), values, strict=True))

    def directions(self, vector: np.ndarray) -> tuple[Any, ...]:
        """A direction for each of the arguments that vary; what has no derivative has None."""
        whole = self._expanded(vector, 0.0)
        found = self._passed(built(self.tree, self._values(whole, direction=True)))
        if not self.constants:
            return found
        return tuple(v for n, v in zip(self.names or (), found, strict=True) if n not in self.constants)

    def params(self, vector: Any, held: float | None = None) -> Any:
        """A point, or something with a number for each entry of it, as a container like the start. What does
        not vary has its own value, or `held`."""
        whole = self._expanded(np.asarray(vector), held)
        if self.is_vector:
            return np.array(whole)
        flat = iter(self._split(whole))
        values = (
            one.value if one.dtype is None else one.like(next(flat).astype(one.dtype))
            for one in leaves(self.tree)
        )
        return built(self.tree, values)

    def flat(self, value: Any, path: str, missing: float) -> np.ndarray:
        """Limits that nest like the start, as a vector like `whole`; a number stands for all of an array.
        None, and a name that a dict lacks, stand for `missing`."""
        if isinstance(value, int | float | np.number):
            return np.full(len(self.whole), float(value))
        if isinstance(value, list | tuple) and len(value) == len(self.whole) and all(map(_is_limit, value)):
            return np.array([missing if one is None else one for one in value], float)
        value = _as_floats(value)
        if isinstance(value, np.ndarray) and value.shape == self.whole.shape:
            return value.astype(float)
        beside_tree = beside(self.tree, self._ordered(value, path), path, partial=True)
        found = [
            limits_of(where, limit, missing, f"{one.path} has", one.shape)
            for one, (where, limit) in zip(leaves(self.tree), beside_tree, strict=True)
            if one.dtype is not None
        ]
        return np.concatenate(found)

    def _ordered(self, limits: Any, path: str) -> Any:
        """Limits by name in the order of several parameters whose start is a sequence; others as they are."""
        if self.names is None or not isinstance(limits, dict) or not self.tree.sequence:
            return limits
        by_name = Container(dict, tuple(self.names), tuple(self.names))
        return [limit for _, limit in beside(by_name, limits, path, partial=True)]

    def _expanded(self, vector: np.ndarray, held: float | None = None) -> np.ndarray:
        """A point with what does not vary: at its own value, or at `held`."""
        if len(self.free) == len(self.whole):
            return vector
        whole = self.whole.copy() if held is None else np.full(len(self.whole), held)
        whole[self.free] = vector
        return whole

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
        return [vector[a:b] for a, b in pairwise(self.ends)]


def _keys(part: Tree, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each leaf of a tree."""
    if not isinstance(part, Container):
        yield path
        return
    for key, inner in zip(part.keys, part.parts, strict=True):
        yield from _keys(inner, (*path, key))


def _is_limit(value: Any) -> bool:
    return value is None or isinstance(value, int | float | np.number)


def _values_of(parts: Any) -> Any:
    return parts.values() if isinstance(parts, dict) else parts


def named(fixed: Any) -> tuple[str, ...]:
    """The names that a user passed as `fixed`: None, one, or several."""
    names = () if fixed is None else (fixed,) if isinstance(fixed, str) else fixed
    if not isinstance(names, tuple | list | set | frozenset) or not all(isinstance(n, str) for n in names):
        raise SolverError(f"fixed is {fixed!r}", remedy='pass a name or several: fixed=("a", "b")')
    return tuple(names)


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
