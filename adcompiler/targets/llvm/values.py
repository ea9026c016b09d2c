"""Values of our own compiler: numbers or vectors in registers, arrays in memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from adcompiler.targets.llvm.libmvec import Set


class UnsupportedError(Exception):
    """The text has something that only numba compiles."""


class BrokenModuleError(Exception):
    """LLVM refuses a module that this compiler wrote: a fault of ours, and no `UnsupportedError`."""


def typed(element: str, lanes: int) -> str:
    """The type of so many numbers of a type."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


class Value(NamedTuple):
    """An LLVM value: a register or a constant, and its type. Of unsigned integers there are indices only.

    A vector has the numbers of several iterations of a loop, one a lane.
    """

    text: str
    type: str
    unsigned: bool = False

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_float(self) -> bool:
        return self.element in ("float", "double")

    @property
    def element(self) -> str:
        """The type of one lane."""
        return self.type[self.type.index("x") + 2 : -1] if self.type[0] == "<" else self.type

    @property
    def number(self) -> float:
        """What a constant is."""
        return struct.unpack("<d", bytes.fromhex(self.text[2:])[::-1])[0] if self.is_float else int(self.text)

    @property
    def lanes(self) -> int:
        """How many numbers it is."""
        return int(self.type[1 : self.type.index(" ")]) if self.type[0] == "<" else 1

    def typed(self, element: str) -> str:
        """The type of as many numbers of another type."""
        return typed(element, self.lanes)

    @property
    def parts(self) -> tuple[Value, ...]:
        """What describes it, as a function takes it."""
        return (self,)

    def named(self, names: Iterator[str]) -> Value:
        """The same value under the name of a function's parameter."""
        return self._replace(text=next(names))


@dataclass
class Needs:
    """What the functions of a module need beside them: declarations, names that the C library must have,
    functions that nothing calls yet, and what LLVM is told about loops.

    `vectors` are those for which mathematics is vectorised; None if it is not. `mixed` are kernels in which
    numbers of different sizes stand in one loop, and `doubles` those in which some have 64 bits.
    """

    vectors: Set | None = None
    mixed: bool = False
    doubles: bool = True
    declared: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)  # types of the results of functions of our own
    asking: set[str] = field(default_factory=set)  # functions of our own that may give up
    externals: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    hints: list[str] = field(default_factory=list)

    @property
    def head(self) -> list[str]:
        """What stands before the functions."""
        kept = ", ".join(f"ptr @{name}" for name in sorted(self.kept))
        used = f"appending global [{len(self.kept)} x ptr] [{kept}]"
        return [f'@llvm.compiler.used = {used}, section "llvm.metadata"'] * bool(kept) + [
            *self.declared.values()
        ]

    @property
    def attributes(self) -> str:
        """What is appended to the head of a function: LLVM prefers shorter vectors for some processors, and
        code loaded at run time may be called with a stack that is not aligned for long ones: registers that
        are saved there across two cache lines cost up to twice the time."""
        if self.vectors is None:
            return ""
        return f' "prefer-vector-width"="{self.vectors.bits}" "stackrealign"'

    def hint(self, *what: str) -> str:
        """What is appended to the last branch of a loop to tell LLVM something about it."""
        first = len(self.hints)
        parts = [first + 1 + k for k in range(len(what))]
        self.hints.append(f"!{first} = distinct !{{{', '.join(f'!{k}' for k in (first, *parts))}}}")
        self.hints += [f'!{k} = !{{!"llvm.loop.{w}}}' for k, w in zip(parts, what, strict=True)]
        return f", !llvm.loop !{first}"


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
        """The type of elements in memory: booleans are bytes there."""
        return "i8" if self.type == "i1" else self.type

    @property
    def parts(self) -> tuple[Value, ...]:
        """What describes it, as a function takes it."""
        return (self.data, *self.shape, *(self.strides or ()))

    def named(self, names: Iterator[str]) -> ArrayValue:
        """The same array under the names of a function's parameters; lengths that are known stay so."""
        given = [Value(next(names), p.type) for p in self.parts]
        data, *rest = (p if p.text.isdigit() else new for p, new in zip(self.parts, given, strict=True))
        rank = len(self.shape)
        return ArrayValue(data, self.type, tuple(rest[:rank]), tuple(rest[rank:]) if self.strides else None)


def suffix(value: Value) -> str:
    """What the names of LLVM's functions have for the type of a value."""
    kinds = {"double": "f64", "float": "f32", "i64": "i64", "i8": "i8", "ptr": "p0"}
    return f"v{value.lanes}" * (value.lanes > 1) + kinds[value.element]


def uniform(constant: Value, lanes: int) -> Value:
    """A constant in all lanes."""
    return Value(f"<{', '.join([str(constant)] * lanes)}>", typed(constant.type, lanes))


def literal(value: object, kind: str = "double") -> Value:
    """A constant; floats are written by their bits. That of a type of vectors is the same in all lanes."""
    if kind[0] == "<":
        return uniform(literal(value, Value("", kind).element), Value("", kind).lanes)
    match value:
        case bool():
            return Value(str(value).lower(), "i1")
        case int() if -(2**63) <= value < 2**63:
            return Value(str(value), "i64")
        case float():
            return Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", kind)
    raise UnsupportedError
