"""Values of the compiler without numba: numbers in registers, arrays in memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class UnsupportedError(Exception):
    """The text has something that only numba compiles."""


class Value(NamedTuple):
    """An LLVM value: a register or a constant, and its type. Of unsigned integers there are indices only."""

    text: str
    type: str
    unsigned: bool = False

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")

    @property
    def parts(self) -> tuple[Value, ...]:
        """What describes it, as a function takes it."""
        return (self,)

    def named(self, names: Iterator[str]) -> Value:
        """The same value under the name of a function's parameter."""
        return self._replace(text=next(names))


@dataclass
class Needs:
    """What the functions of a module call: declarations, and names that the C library must have."""

    declared: dict[str, str] = field(default_factory=dict)
    externals: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class ArrayValue:
    """An array in memory: where it starts, the type of its elements, its lengths, and the distance of
    neighbours along each axis in bytes: None where the array is contiguous."""

    data: Value
    type: str
    shape: tuple[Value, ...]
    strides: tuple[Value, ...] | None

    @property
    def stored(self) -> str:
        """The type of elements in memory: truth values are bytes there."""
        return "i8" if self.type == "i1" else self.type

    @property
    def align(self) -> str:
        """What an access may not take for granted."""
        return ", align 1" if self.strides is not None else ""

    @property
    def parts(self) -> tuple[Value, ...]:
        """What describes it, as a function takes it."""
        return (self.data, *self.shape, *(self.strides or ()))

    def named(self, names: Iterator[str]) -> ArrayValue:
        """The same array under the names of a function's parameters."""
        data, *rest = (Value(next(names), p.type) for p in self.parts)
        rank = len(self.shape)
        return ArrayValue(data, self.type, tuple(rest[:rank]), tuple(rest[rank:]) if self.strides else None)


def literal(value: object, kind: str = "double") -> Value:
    """A constant; floats are written by their bits."""
    match value:
        case bool():
            return Value(str(value).lower(), "i1")
        case int() if -(2**63) <= value < 2**63:
            return Value(str(value), "i64")
        case float():
            return Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", kind)
    raise UnsupportedError
