"""Pairs of a value and its derivative, for SlangPy's call styles, and their accumulators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adcompiler.eager.aggregates.kernel_values import kernel_array
from adcompiler.eager.graph.graph import is_variable
from adcompiler.errors import Error, ShapeError
from adcompiler.frames import public
from adcompiler.public_types import Values
from adcompiler.pytree.containers import Container, leaves_in, mapped, mapped_by_path, opened
from adcompiler.runtime.arguments.adapters import agree, is_adapted
from adcompiler.runtime.arguments.signature import PLAIN
from adcompiler.runtime.programs.snapshot import snapshot
from adcompiler.targets.buffers import POOL

ACCUMULATORS = ("sum", "total", "push", "first")
BEGIN = "assign d = None to start a new sum"


class DiffPair:
    """A value `p` and its derivative `d`: a tangent for `forward`, a gradient after `backward`.

    p            a number, an array, or a container of these (a struct). A pair, or a container with pairs,
                 makes it a dual number, for derivatives of higher order (docs/slangpy.md)
    d            shaped (and nested) like p; None means zero
    accumulator  how `backward` combines contributions of result entries that share p by broadcasting: "sum"
                 adds all to d, "push" appends each to the list d, "first" keeps the very first in d,
                 "total" adds all contributions to all elements of p to one number
    needs_grad   whether `backward` computes a gradient

    If there are pairs, `backward` gives no gradients to other arguments. If p is read by a gather,
    `p[index]`, and d is already an array, `backward` adds to that array in place, in time independent of its
    length, and returns it. `primal` and `grad` are SlangPy's names of p and d.
    """

    __slots__ = ("_accumulator", "d", "needs_grad", "p")

    @public
    def __init__(
        self, p: Values = None, d: Values = None, accumulator: str = "sum", needs_grad: bool = True
    ) -> None:
        self.p, self.d, self.accumulator, self.needs_grad = p, d, accumulator, needs_grad

    @property
    def accumulator(self) -> str:
        """The accumulator of `backward`: "sum", "total", "push" or "first"."""
        return self._accumulator

    @accumulator.setter
    @public
    def accumulator(self, name: str) -> None:
        if name not in ACCUMULATORS:
            raise Error(f"unknown accumulator {name!r}", remedy=f"use one of {', '.join(ACCUMULATORS)}")
        self._accumulator = name

    @property
    def is_plain(self) -> bool:
        """Whether it gathers a sum, and holds a number or an array."""
        return self._accumulator == "sum" and self.needs_grad and type(self.p) in PLAIN

    @property
    def primal(self) -> Values:
        """The value, p."""
        return self.p

    @primal.setter
    def primal(self, value: Values) -> None:
        self.p = value

    @property
    def grad(self) -> Values:
        """The derivative, d."""
        return self.d

    @grad.setter
    def grad(self, value: Values) -> None:
        self.d = value

    def __repr__(self) -> str:
        return f"DiffPair({self.p!r}, {self.d!r})"

    def gather(self, found: Values) -> None:
        """Add the result of one `backward` to `d`: a gradient, or a list of contributions."""
        if type(found) is not float:
            found = copied(found)  # the caller gets what is gathered as well
        if self.accumulator == "push":
            self.d = [*(self.d if self.d is not None else ()), *found]
        elif self.accumulator == "first":
            self.d = found if self.d is None else self.d
        else:
            self.d = _added(self.d, found)


def copied(found: Any) -> Any:
    """A copy of the result."""
    if isinstance(found, DiffPair):
        return DiffPair(copied(found.p), copied(found.d))
    return mapped(lambda v: v.copy() if is_adapted(v) and hasattr(v, "copy") else snapshot(v), found)


def _added(one: Any, other: Any) -> Any:
    """The sum of two gradients of one structure; None is zero, and a number is a dual one without a part."""
    if one is None or other is None:
        return other if one is None else one
    if type(one) is float and type(other) is float:
        return one + other
    if isinstance(one, DiffPair) or isinstance(other, DiffPair):
        one, other = (g if isinstance(g, DiffPair) else DiffPair(g) for g in (one, other))
        return DiffPair(_added(one.p, other.p), _added(one.d, other.d))
    container = opened(other, "a gradient")
    if container is None:
        if np.shape(one) != np.shape(other):
            raise ShapeError(
                f"the pair's d has shape {np.shape(one)}, but its gradient {np.shape(other)}",
                remedy=BEGIN if np.ndim(one) else f'{BEGIN}; accumulator="total" adds up all elements',
            )
        return _sum(one, other)
    before = opened(one, "a gradient")
    if before is None or before.keys != container.keys:
        raise ShapeError("the pair's d does not have the structure of its p", remedy=BEGIN)
    return container.build([_added(a, b) for a, b in zip(before.parts, container.parts, strict=True)])


def _sum(one: Any, other: Any) -> Any:
    """The sum of two arrays, in memory that is used again: fresh memory costs more than the addition."""
    if type(one) is list:  # as a user gave it
        one = np.asarray(one, np.asarray(other).dtype)
    kinds = {type(one), type(other)}
    if kinds != {np.ndarray} or one.dtype != other.dtype:
        agree("what is added to a gradient", other, one)
        return one + other
    return np.add(one, other, out=POOL.empty(one.shape, one.dtype))


# -- pairs in arguments ----------


def depth(arg: Any) -> int:
    """How deep pairs nest in an argument: 0 without any."""
    if isinstance(arg, np.ndarray | float | int | np.generic):
        return 0
    pairs = (one for one in leaves_in(arg) if isinstance(one, DiffPair))
    return max((1 + max(depth(one.p), depth(one.d)) for one in pairs), default=0)


def bare(arg: Any, of: Callable[[Any], Any]) -> Any:
    """An argument with what `of` gives in the place of each pair and Variable that stands in no other one.

    A list that holds some stays a container: numbers in it become arrays of rank 0.
    """
    if type(arg) in (np.ndarray, float, int, bool) or not any(map(is_marked, leaves_in(arg))):
        return arg
    return mapped_by_path(lambda _, a: of(a) if is_marked(a) else a, "an argument", arg, _of_arrays)


def _of_arrays(container: Container, parts: list[Any]) -> Any:
    """A container of these parts; in a list that is no array, numbers are arrays of rank 0."""
    changed = any(a is not b for a, b in zip(parts, container.parts, strict=True))
    if container.kind is list and changed:
        parts = [np.asarray(float(p) if type(p) is int else p) if np.isscalar(p) else p for p in parts]
    return container.build(parts)


def primal(marked: Any) -> Any:
    """The value of a pair, that of the innermost ones of pairs in pairs, or of a Variable."""
    return bare(marked.p, primal) if isinstance(marked, DiffPair) else kernel_array(marked)


def inner(marked: Any) -> Any:
    """What a pair has as its value, pairs included, or the value of a Variable."""
    return marked.p if isinstance(marked, DiffPair) else kernel_array(marked)


def is_marked(arg: Any) -> bool:
    """Whether an argument is a pair or a Variable."""
    return isinstance(arg, DiffPair) or is_variable(arg)


def nested(coefficients: Mapping[int, Any], order: int, parts: int = 0) -> Any:
    """Dual numbers as pairs of pairs: the last part outermost."""
    if not order:
        return coefficients.get(parts)
    bit = 1 << (order - 1)
    return DiffPair(nested(coefficients, order - 1, parts), nested(coefficients, order - 1, parts | bit))
