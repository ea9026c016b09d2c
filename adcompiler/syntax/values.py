"""What a name stands for while a program is lowered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from adcompiler.errors import Source
from adcompiler.ir.nodes import Array, Element, Read, Shape, identity
from adcompiler.ir.types import Dtype
from adcompiler.syntax.containers import Container
from adcompiler.syntax.tree import Def


@dataclass(frozen=True, slots=True)
class ArgType:
    """What specialisation knows of an argument: its type, and for each axis whether it has length 1.

    `weak` marks Python scalars: they take the type of the arrays they meet, as in NumPy 2.
    """

    dtype: Dtype
    ones: tuple[bool, ...] = ()
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Static:
    """An argument known while compiling."""

    value: Any


Kind: TypeAlias = ArgType | Static | Container  # what specialisation knows of an argument


@dataclass(frozen=True, slots=True)
class Value:
    """`element` at each point of `shape`: axis k of the shape is `Index(k)` of the element.

    An element never depends on an axis of length 1: such an axis is read at 0.
    """

    shape: Shape
    element: Element
    weak: bool = False

    @property
    def dtype(self) -> Dtype:
        return self.element.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Closure:
    """A definition with the names visible where it stands."""

    definition: Def
    scope: Mapping[str, Any]
    source: Source

    @property
    def name(self) -> str:
        return self.definition.name


@dataclass(frozen=True, slots=True)
class Foreign:
    """A name of the surrounding Python program that the language has no meaning for."""

    what: str
    remedy: str


# A Value, a Closure, a tuple or Container of values, or what is known while compiling: a number, a text,
# None.
AnyValue: TypeAlias = Any


def whole(array: Array, weak: bool = False) -> Value:
    """The value that is all of `array`."""
    return Value(array.shape, Read(array, identity(array.shape)), weak)


def is_number(value: AnyValue) -> bool:
    """Whether a value is a number known while compiling."""
    return isinstance(value, int | float)


def describe(value: AnyValue) -> str:
    """The kind of a value for messages."""
    match value:
        case Value(shape=shape):
            return f"an array of rank {len(shape)}" if shape else "a scalar"
        case bool() | int() | float():
            return f"the number {value!r}" if math.isfinite(value) else f"the constant {value}"
        case tuple():
            return f"a tuple of {len(value)}"
        case str():
            return "a text"
        case None:
            return "None"
        case Foreign(what=what):
            return what
        case Container():
            return value.what
    return f"the function {getattr(value, 'name', '?')!r}"
