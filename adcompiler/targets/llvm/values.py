"""Values of our own compiler: numbers or vectors in registers, arrays in memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import field
from typing import NamedTuple

from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.libmvec import Set
from adcompiler.targets.llvm.module_text import kept
from adcompiler.targets.llvm.places import Places


class BrokenModuleError(Exception):
    """LLVM rejects a module that this compiler wrote: a bug here, not an `UnsupportedError`."""


def typed(element: str, lanes: int) -> str:
    """The type of a vector of `lanes` elements, or of a scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


class Value(NamedTuple):
    """An LLVM value: a register or a constant, and its type. Only indices are unsigned.

    A vector has the values of several iterations of a loop, one per lane.
    """

    text: str
    type: str
    unsigned: bool = False

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point number."""
        return self.element in ("float", "double")

    @property
    def element(self) -> str:
        """The type of one lane."""
        return self.type[self.type.index("x") + 2 : -1] if self.type[0] == "<" else self.type

    @property
    def is_literal(self) -> bool:
        """Whether it is a known integer or truth."""
        return self.type in ("i64", "i1") and self.text[0] != "%"

    @property
    def number(self) -> float:
        """The value of a constant."""
        return struct.unpack("<d", bytes.fromhex(self.text[2:])[::-1])[0] if self.is_float else int(self.text)

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return int(self.type[1 : self.type.index(" ")]) if self.type[0] == "<" else 1

    def typed(self, element: str) -> str:
        """The type with the same lanes and another element type."""
        return typed(element, self.lanes)

    @property
    def parts(self) -> tuple[Value, ...]:
        """The LLVM values that represent it as an argument."""
        return (self,)

    def named(self, names: Iterator[str]) -> Value:
        """The same value under the name of a function's parameter."""
        return self._replace(text=next(names))


@dataclass
class Needs:
    """Requirements of a module's functions: declarations, symbols of the C library, functions to keep
    although nothing calls them yet, and loop metadata.

    `vectors` are those for which mathematics is vectorised; None if it is not. In `mixed` kernels numbers of
    different sizes occur in one loop; with `doubles` some have 64 bits. In a module that is listed,
    instructions have `places`.
    """

    vectors: Set | None = None
    mixed: bool = False
    doubles: bool = True
    places: Places | None = None
    declared: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)  # result types of our functions
    asking: set[str] = field(default_factory=set)  # our functions that may give up
    externals: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    hints: list[str] = field(default_factory=list)

    @property
    def head(self) -> list[str]:
        """The declarations before the functions."""
        return [
            *([kept(sorted(self.kept))] if self.kept else []),
            *self.declared.values(),
            *([] if self.places is None else self.places.head(self.hints)),
        ]

    @property
    def attributes(self) -> str:
        """Attributes of functions. LLVM prefers shorter vectors for some processors. Code loaded at run time
        may be called with a stack not aligned for long ones: registers spilled across two cache lines take up
        to twice the time."""
        if self.vectors is None:
            return ""
        return f' "prefer-vector-width"="{self.vectors.bits}" "stackrealign"'

    def hint(self, *what: str) -> str:
        """Metadata to append to the last branch of a loop."""
        first = len(self.hints)
        parts = [first + 1 + k for k in range(len(what))]
        self.hints.append(f"!{first} = distinct !{{{', '.join(f'!{k}' for k in (first, *parts))}}}")
        self.hints += [f'!{k} = !{{!"llvm.loop.{w}}}' for k, w in zip(parts, what, strict=True)]
        return f", !llvm.loop !{first}"


@dataclass(frozen=True)
class ArrayValue:
    """An array in memory: its address, element type, lengths, and strides in bytes (None if contiguous)."""

    data: Value
    type: str
    shape: tuple[Value, ...]
    strides: tuple[Value, ...] | None

    @property
    def stored(self) -> str:
        """The type of elements in memory; booleans are stored as bytes."""
        return "i8" if self.type == "i1" else self.type

    @property
    def parts(self) -> tuple[Value, ...]:
        """The LLVM values that represent it as an argument."""
        return (self.data, *self.shape, *(self.strides or ()))

    def named(self, names: Iterator[str]) -> ArrayValue:
        """The same array under the names of a function's parameters; known lengths stay constants."""
        given = [Value(next(names), p.type) for p in self.parts]
        data, *rest = (p if p.text.isdigit() else new for p, new in zip(self.parts, given, strict=True))
        rank = len(self.shape)
        return ArrayValue(data, self.type, tuple(rest[:rank]), tuple(rest[rank:]) if self.strides else None)


def suffix(value: Value) -> str:
    """The suffix of LLVM intrinsics for the type of a value."""
    kinds = {"double": "f64", "float": "f32", "i64": "i64", "i8": "i8", "ptr": "p0"}
    return f"v{value.lanes}" * (value.lanes > 1) + kinds[value.element]


def uniform(constant: Value, lanes: int) -> Value:
    """A constant in all lanes."""
    return Value(f"<{', '.join([str(constant)] * lanes)}>", typed(constant.type, lanes))


def literal(value: object, kind: str = "double") -> Value:
    """A constant; floats are written as bits. For vector types, the same in all lanes."""
    if kind[0] == "<":
        return uniform(literal(value, Value("", kind).element), Value("", kind).lanes)
    match value:
        case bool():
            return Value(str(value).lower(), "i1")
        case int() if -(2**63) <= value < 2**63:
            return Value(str(value), "i64")
        case float():
            return Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", kind)
    raise UnsupportedError(f"the constant {value!r}")
