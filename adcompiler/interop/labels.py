"""Calls with labelled arrays, as of pandas and xarray: labels agree where axes meet, and results have them.

What a library has to say is in a module of its own (`pandas.py`, `xarray.py`); an array's labels without its
numbers are a `Mark`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from adcompiler.errors import DtypeError, ShapeError
from adcompiler.interop.axes import InputAxis, Source, flow, own_axes
from adcompiler.runtime.adapters import Dress, adapter_of
from adcompiler.runtime.graph import is_variable
from adcompiler.syntax.containers import mapped, opened
from adcompiler.syntax.structures import arrays_of, flatten, has_rows, places_of, unflatten


class Mark(NamedTuple):
    """An array's name, a label for each axis, and what else goes with it."""

    name: Any
    labels: tuple[Any, ...]
    shape: tuple[int, ...]
    more: Any = None


Along = tuple[Mark, int]  # a labelled array, and one of its axes


class Library(Protocol):
    """What a library's module has."""

    __name__: str

    def plain(self, name: str, value: Any) -> np.ndarray:
        """The numbers."""

    def mark(self, value: Any) -> Mark | None:
        """The labels; None for an object that has none."""

    def differ(self, one: Any, other: Any) -> str | None:
        """What is different in two labels, in words; None if they agree."""

    def remedy(self, first: str, axis: int, second: str, other: int) -> str:
        """What to write where those of two arguments, along an axis of each, differ."""

    def labelled(self, array: np.ndarray, along: Sequence[Sequence[Along]], name: Any) -> Any:
        """An array with labels; `along` has, for each axis, the axes of arguments that it runs along."""


class Labels:
    """The labels of one call: those of the program's inputs, and what its results have of them."""

    def __init__(self, library: Library, function: Any, types: Any, func: Any, leaves: Sequence[Any]) -> None:
        self.home, self.name, self.names = library.__name__, function.__name__, func.input_names
        self.marks = [library.mark(leaf) if _is_of(library, leaf) else None for leaf in leaves]
        found = flow(function, types)
        for group in found.paired:
            self._compare([axis for axis in group if self.marks[axis[0]] is not None])
        self.sources = found.results

    @property
    def library(self) -> Library:
        """The library's module, by its name, so that labels can be pickled."""
        return cast(Library, sys.modules.get(self.home) or import_module(self.home))

    def _compare(self, group: Sequence[InputAxis]) -> None:
        """Refuse axes that are paired and have different labels. The others are compared with the longest."""
        if not group:
            return
        first, own = max(group, key=self._length)
        for k, axis in group:
            words = self.library.differ(self._label(first, own), self._label(k, axis))
            if words is not None:
                one, other = self.names[first], self.names[k]
                raise ShapeError(
                    f"{self.name} pairs axis {own} of {one} with axis {axis} of {other} element by element, "
                    f"and {words}",
                    remedy=self.library.remedy(one, own, other, axis),
                )

    def _length(self, axis: InputAxis) -> int:
        mark = self.marks[axis[0]]
        return 0 if mark is None else mark.shape[axis[1]]

    def _label(self, k: int, axis: int) -> Any:
        mark = self.marks[k]
        return None if mark is None else mark.labels[axis]

    def along(self, source: Source, shape: tuple[int, ...]) -> list[list[Along]]:
        """The labelled arguments' axes that those of an array of some shape run along."""
        return [
            [(m, a) for k, a in each if (m := self.marks[k]) is not None and m.shape[a] == n]
            for each, n in zip(source.axes, shape, strict=True)
        ]

    def dressed(self, source: Source, value: Any) -> Any:
        """An array with its labels."""
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        along = self.along(source, value.shape)
        return self.library.labelled(value, along, self._named(source)) if any(along) else value

    def _named(self, source: Source) -> Any:
        """The name of a result, if all that it is called like have one."""
        marks = self.marks if source.namesakes is None else [self.marks[k] for k in source.namesakes]
        names = [mark.name for mark in marks if mark is not None]
        return names[0] if names and all(_same(n, names[0]) for n in names) else None

    def undressed(self, source: Source, value: Any) -> Any:
        """The numbers of a cotangent, whose labels must be those of the result."""
        if not _is_of(self.library, value):
            return value
        what, mark = f"the cotangent of {self.name}", self.library.mark(value)
        if mark is not None and len(mark.labels) == len(source.axes):
            for axis, ((first, k), *_) in ((a, p) for a, p in enumerate(self.along(source, mark.shape)) if p):
                words = self.library.differ(first.labels[k], mark.labels[axis])
                if words is not None:
                    cause = f"axis {axis} of {what} is not that of the result: {words}"
                    raise ShapeError(cause, remedy="order it like the result")
        return self.library.plain(what, value)


def _is_of(library: Library, value: Any) -> bool:
    """Whether calls with a value are a library's."""
    adapter: object = adapter_of(type(value))
    return adapter is library


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


# -- calls ----------


def call(library: Library, function: Any, bound: Sequence[Any]) -> Any:
    """A call where some leaves of arguments are labelled: results have labels where these are known."""
    plain = _plain(library, function, bound)
    if _has_variable(bound):
        _Call(library, function, bound, [mapped(_value, a) for a in plain])
        return function(*plain)  # whose results are Variables, which have no labels
    this = _Call(library, function, bound, plain)
    results, places = this.results(), this.labels.sources
    if not has_rows(this.structure) and len(places) == len(results):
        results = [this.labels.dressed(*each) for each in zip(places, results, strict=True)]
    return unflatten(this.structure, results)


def check(library: Library, function: Any, bound: Sequence[Any]) -> None:
    """Refuse arguments whose labels differ where axes meet, for what takes their numbers alone."""
    plain = _plain(library, function, bound)
    _Call(library, function, bound, [mapped(_value, a) for a in plain])


def dress(library: Library, function: Any, bound: Sequence[Any], wrt: Any) -> Dress:
    """How a value and gradients of `vjp` come back, and what a cotangent must be."""
    this = _Call(library, function, bound, _plain(library, function, bound))
    types, labels = this.types, this.labels
    positions = function.positions(wrt, types)
    gradients = tuple(places_of(types[k]) for k in positions)
    wanted = [own_axes(types, k) for k in function.inputs_of(positions, types)]
    return Dress(
        partial(_each, labels.dressed, this.structure, labels.sources),
        partial(_each, labels.dressed, gradients, wanted),
        partial(_each, labels.undressed, this.structure, labels.sources),
    )


class _Call:
    """What is known of a call before it runs."""

    def __init__(self, library: Library, function: Any, bound: Sequence[Any], plain: Sequence[Any]) -> None:
        self.types, self.values, self.numbers = function.describe(plain, {}, rows=False)
        self.found = function.specialise(self.types, self.values)
        self.structure = self.found.lowered.structure
        leaves = arrays_of(self.types, bound)
        self.labels = Labels(library, function, self.types, self.found.func, leaves)

    def results(self) -> list[Any]:
        """The arrays and numbers of the results."""
        return list(self.found.run(self.found.sizes(self.values), self.values, self.numbers))


def _each(f: Callable[[Source, Any], Any], structure: Any, places: Sequence[Source], value: Any) -> Any:
    """A value nested as `structure` says, with each of its arrays replaced."""
    if has_rows(structure):
        return value
    flat = flatten(structure, value)
    return unflatten(structure, [v if v is None else f(a, v) for a, v in zip(places, flat, strict=True)])


def _plain(library: Library, function: Any, bound: Sequence[Any]) -> list[Any]:
    """The arguments, the labelled ones as numbers; DtypeError for those of another library."""
    named = zip(function.parameters, bound, strict=True)
    return [a if p.static else mapped(partial(_numbers, library, p.name), a) for p, a in named]


def _numbers(library: Library, name: str, value: Any) -> Any:
    if adapter_of(type(value)) is None:
        return value
    if not _is_of(library, value):
        raise DtypeError(
            f"the argument {name!r} is a {type(value).__name__}, beside others of {_short(library.__name__)}",
            remedy="convert it, or pass NumPy's array of it: that goes with any",
        )
    return library.plain(f"the argument {name!r}", value)


def _has_variable(values: Sequence[Any]) -> bool:
    containers = (opened(v, "an argument") for v in values if not is_variable(v))
    return any(map(is_variable, values)) or any(_has_variable(c.parts) for c in containers if c is not None)


def _value(value: Any) -> Any:
    return value.data if is_variable(value) else value


def _short(name: str) -> str:
    return name.rpartition(".")[2]
