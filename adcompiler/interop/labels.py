"""Calls with labelled arrays (pandas, xarray): labels of paired axes must agree, and results have labels.

Each library has its own module (`pandas.py`, `xarray.py`). The labels of an array without its numbers are a
`Coordinates`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from adcompiler.eager.graph.graph import is_variable
from adcompiler.errors import ShapeError
from adcompiler.interop.axes import InputAxis, LabelOrigin, flow
from adcompiler.pytree.containers import leaves_in, mapped
from adcompiler.pytree.structures import arrays_of, unflatten
from adcompiler.runtime.arguments.adapters import adapter_of, refuse_beside
from adcompiler.runtime.arguments.signature import with_leaves
from adcompiler.runtime.programs.splitting import wrapped

Along: TypeAlias = "tuple[Coordinates, int]"  # a labelled array and one of its axes


class Coordinates(NamedTuple):
    """An array's name, a label for each axis, and other metadata of its library."""

    name: Any
    labels: tuple[Any, ...]
    shape: tuple[int, ...]
    more: Any = None

    def axes(self) -> list[list[Along]]:
        """For each axis, the axis itself as its only source."""
        return [[(self, a)] for a in range(len(self.shape))]


class Library(Protocol):
    """The interface of a library's module."""

    __name__: str

    def plain(self, name: str, value: Any) -> np.ndarray:
        """The numbers."""

    def coordinates(self, value: Any) -> Coordinates | None:
        """The labels; None for an object that has none."""

    def differ(self, one: Any, other: Any) -> str | None:
        """The difference of two labels, in words; None if they agree."""

    def remedy(self, first: str, axis: int, second: str, other: int) -> str:
        """The remedy if the labels of two arguments, along an axis of each, differ."""

    def labelled(self, array: np.ndarray, along: Sequence[Sequence[Along]], name: Any) -> Any:
        """An array with labels; `along` has, for each axis, the axes of arguments that it corresponds to."""


class Labels:
    """The labels of one call: those of the program's inputs, and where its results take theirs from."""

    def __init__(
        self, library: Library, function: Any, types: Any, names: Sequence[str], leaves: Sequence[Any]
    ) -> None:
        self.home, self.name, self.names = library.__name__, function.__name__, names
        self.coordinates = [library.coordinates(leaf) if _is_of(library, leaf) else None for leaf in leaves]
        found = flow(function, types)
        for group in found.paired:
            self._compare([axis for axis in group if self.coordinates[axis[0]] is not None])
        self.sources = found.results

    @property
    def library(self) -> Library:
        """The library's module, looked up by name, so that labels can be pickled."""
        return cast(Library, sys.modules.get(self.home) or import_module(self.home))

    def _compare(self, group: Sequence[InputAxis]) -> None:
        """Refuse paired axes with different labels. All are compared with the longest axis."""
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
        own = self.coordinates[axis[0]]
        return 0 if own is None else own.shape[axis[1]]

    def _label(self, k: int, axis: int) -> Any:
        own = self.coordinates[k]
        return None if own is None else own.labels[axis]

    def along(self, source: LabelOrigin, shape: tuple[int, ...]) -> list[list[Along]]:
        """The axes of labelled arguments that the axes of an array of some shape correspond to."""
        return [
            [(m, a) for k, a in each if (m := self.coordinates[k]) is not None and m.shape[a] == n]
            for each, n in zip(source.axes, shape, strict=True)
        ]

    def result(self, k: int, array: Any) -> Any:
        """A result with the labels of its axes, if these are known."""
        source = self.sources[k]
        if not isinstance(array, np.ndarray) or not array.ndim:
            return array
        along = self.along(source, array.shape)
        return self.library.labelled(array, along, self._named(source)) if any(along) else array

    def gradient(self, n: int, array: Any) -> Any:
        """A gradient with the labels and the name of its argument."""
        own = self.coordinates[n]
        if own is None or np.shape(array) != own.shape:  # a sum over all elements
            return array
        return self.library.labelled(array, own.axes(), own.name)

    def _named(self, source: LabelOrigin) -> Any:
        """The name of a result, if all of its namesakes have the same one."""
        every = range(len(self.coordinates)) if source.namesakes is None else source.namesakes
        names = [own.name for k in every if (own := self.coordinates[k]) is not None]
        return names[0] if names and all(_same(n, names[0]) for n in names) else None

    def cotangent(self, k: int, value: Any) -> Any:
        """The numbers of a cotangent, whose labels must be those of the result."""
        source, shape = self.sources[k], getattr(value, "shape", ())
        along = self.along(source, shape) if len(shape) == len(source.axes) else ()
        return self._agreeing(f"the cotangent of {self.name}", value, along)

    def tangent(self, n: int, value: Any) -> Any:
        """The numbers of a tangent, whose labels must be those of the argument."""
        own = self.coordinates[n]
        return self._agreeing(f"the tangent of {self.names[n]}", value, () if own is None else own.axes())

    def _agreeing(self, what: str, value: Any, along: Sequence[Sequence[Along]]) -> Any:
        """The numbers of a value, if its labels agree with those of the corresponding axes."""
        if not _is_of(self.library, value):
            return value
        own = self.library.coordinates(value)
        if own is not None and len(own.labels) == len(along):
            others = [axes[0][0].labels[axes[0][1]] if axes else None for axes in along]
            _compare(self.library, what, own.labels, others)
        return self.library.plain(what, value)


def _is_of(library: Library, value: Any) -> bool:
    """Whether a value belongs to a library."""
    adapter: object = adapter_of(type(value))
    return adapter is library


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


# -- calls ----------


def call(library: Library, function: Any, bound: Sequence[Any]) -> Any:
    """A call with labelled leaves among the arguments: results have labels where these are known."""
    plain = _plain(library, function, bound)
    if any(map(is_variable, leaves_in(bound, is_variable))):
        wrapper(library, function, bound)
        return function(*plain)  # Variables have no labels
    call = function._bind(plain, rows=False)
    leaves = arrays_of(call.types, bound)
    labels = Labels(library, function, call.types, call.program.func.input_names, leaves)
    structure = call.program.structure
    return unflatten(structure, wrapped(labels, structure, call.run()))


def wrapper(library: Library, function: Any, bound: Sequence[Any]) -> Labels | None:
    """The labels of a call; None if lists of structs become arrays over their items: then results are
    numbers."""
    plain = [mapped(_value, a) for a in _plain(library, function, bound)]
    found = function._describe(plain, rows=False)
    names = function._specialise(found.types, found.values).func.input_names
    labels = Labels(library, function, found.types, names, arrays_of(found.types, bound))
    return labels if function._describe(plain).types == found.types else None


def agree(library: Library, name: str, value: Any, other: Any) -> None:
    """Raise ShapeError if the labels of a value differ from those of another one of the same shape."""
    own, theirs = (library.coordinates(v) if _is_of(library, v) else None for v in (value, other))
    if own is not None and theirs is not None and own.shape == theirs.shape:
        _compare(library, name, own.labels, theirs.labels)


def _compare(library: Library, name: str, labels: Sequence[Any], others: Sequence[Any]) -> None:
    """Raise ShapeError if labels differ from the expected ones; None stands for no labels."""
    for axis, (label, other) in enumerate(zip(labels, others, strict=True)):
        if other is not None and (words := library.differ(other, label)) is not None:
            cause = f"axis {axis} of {name} has other labels than its argument or result: {words}"
            raise ShapeError(cause, remedy="order it in the same way, or pass its values")


def _plain(library: Library, function: Any, bound: Sequence[Any]) -> list[Any]:
    """The arguments, labelled ones as numbers; DtypeError for those of another library."""
    return with_leaves(function._parameters, bound, partial(_numbers, library))


def _numbers(library: Library, name: str, value: Any) -> Any:
    if adapter_of(type(value)) is None:
        return value
    if not _is_of(library, value):
        refuse_beside(name, value, _short(library.__name__))
    return library.plain(f"the argument {name!r}", value)


def _value(value: Any) -> Any:
    return value.data if is_variable(value) else value


def _short(name: str) -> str:
    return name.rpartition(".")[2]
