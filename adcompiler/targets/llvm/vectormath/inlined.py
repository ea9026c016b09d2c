"""Functions of vectors that are inlined into the loops which LLVM has vectorised (`second_pass.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adcompiler.targets.llvm.values import literal, typed

RARE = "!rare"  # stands for what tells LLVM that a branch is hardly ever taken


class Kind(NamedTuple):
    """The vectors of 512 bits of a type of numbers, or single numbers."""

    element: str
    lanes: int
    bits: int
    fraction: int  # the bits of a number's fraction
    letters: str  # what the names of the processor's functions have for it

    @property
    def exponent(self) -> int:
        """The bits of a number's exponent."""
        return self.bits - 1 - self.fraction

    @property
    def vector(self) -> str:
        """The type of the vectors."""
        return typed(self.element, self.lanes)

    @property
    def words(self) -> str:
        """The type of the vectors of integers of as many bits."""
        return typed(f"i{self.bits}", self.lanes)

    @property
    def truths(self) -> str:
        """The type of the vectors of booleans."""
        return typed("i1", self.lanes)

    @property
    def name(self) -> str:
        """What the names of LLVM's functions have for them."""
        return f"v{self.lanes}f{self.bits}" if self.lanes > 1 else f"f{self.bits}"


DOUBLES, FLOATS = Kind("double", 8, 64, 52, "pd"), Kind("float", 16, 32, 23, "ps")
KINDS = {k.vector: k for k in (DOUBLES, FLOATS)}
NUMBERS = {k.vector: k for k in (Kind("double", 1, 64, 52, "sd"), Kind("float", 1, 32, 23, "ss"))}


class Inlined:
    """Writes one function of vectors, instruction by instruction: values are texts, registers or constants.

    `params` are the letters of its parameters; the result is %r.
    """

    def __init__(self, kind: Kind, params: str) -> None:
        self.kind, self.params = kind, params
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}

    def emit(self, instruction: str) -> str:
        """A new register that holds what the instruction computes."""
        self.lines.append(f"  %t{len(self.lines)} = {instruction}")
        return f"%t{len(self.lines) - 1}"

    def constant(self, value: float) -> str:
        """A number in all lanes."""
        return literal(value, self.kind.vector).text

    def integer(self, number: int) -> str:
        """An integer in all lanes."""
        return f"<{', '.join([f'i{self.kind.bits} {number}'] * self.kind.lanes)}>"

    def call(self, name: str, *args: str) -> str:
        """A function of LLVM on vectors."""
        v = self.kind.vector
        self.declared[f"declare {v} @llvm.{name}.{self.kind.name}({', '.join([v] * len(args))})"] = None
        given = ", ".join(f"{v} {a}" for a in args)
        return self.emit(f"call {v} @llvm.{name}.{self.kind.name}({given})")

    def processor(self, name: str, x: str) -> str:
        """A function of AVX-512 of one vector, in all lanes."""
        if self.kind.lanes == 1:
            return self.processor_of_one(name, x)
        v, mask = self.kind.vector, f"i{self.kind.lanes}"
        name = f"llvm.x86.avx512.{name}.{self.kind.letters}.512"
        self.declared[f"declare {v} @{name}({v}, {v}, {mask})"] = None
        return self.emit(f"call {v} @{name}({v} {x}, {v} zeroinitializer, {mask} -1)")

    def processor_of_one(self, name: str, x: str) -> str:
        """The same of one number."""
        kind, v = self.kind.element, typed(self.kind.element, 128 // self.kind.bits)
        name = f"llvm.x86.avx512.{name}.{self.kind.letters}"
        self.declared[f"declare {v} @{name}({v}, {v}, {v}, i8)"] = None
        given = self.emit(f"insertelement {v} zeroinitializer, {kind} {x}, i64 0")
        found = self.emit(f"call {v} @{name}({v} {given}, {v} {given}, {v} zeroinitializer, i8 -1)")
        return self.emit(f"extractelement {v} {found}, i64 0")

    def add(self, x: str, y: str) -> str:
        """A sum."""
        return self.emit(f"fadd {self.kind.vector} {x}, {y}")

    def multiply(self, x: str, y: str) -> str:
        """A product."""
        return self.emit(f"fmul {self.kind.vector} {x}, {y}")

    def fma(self, x: str, y: str, z: str) -> str:
        """x y + z, rounded once."""
        return self.call("fma", x, y, z)

    def rest(self, x: str, y: str, z: str) -> str:
        """z - x y, rounded once."""
        return self.fma(self.emit(f"fneg {self.kind.vector} {x}"), y, z)

    def select(self, guard: str, x: str, y: str) -> str:
        """x where the guard holds, else y."""
        v = self.kind.vector
        return self.emit(f"select {self.kind.truths} {guard}, {v} {x}, {v} {y}")

    def compare(self, how: str, x: str, y: str) -> str:
        """Where a comparison of floats holds."""
        return self.emit(f"fcmp {how} {self.kind.vector} {x}, {y}")

    def both(self, x: str, y: str) -> str:
        """Where both hold."""
        return self.emit(f"and {self.kind.truths} {x}, {y}")

    def either(self, x: str, y: str) -> str:
        """Where one holds."""
        return self.emit(f"or {self.kind.truths} {x}, {y}")

    def outside(self, x: str, signed: bool = False) -> str:
        """Where |x|, or x if it is `signed`, is not in the middle quarter of all exponents."""
        kind = self.kind
        low = (2 ** (kind.exponent - 1) - 1 - 2 ** (kind.exponent - 3)) << kind.fraction
        high = 0b11 << (kind.bits - 3) | signed << (kind.bits - 1)
        word = self.emit(f"bitcast {kind.vector} {x} to {kind.words}")
        moved = self.emit(f"sub {kind.words} {word}, {self.integer(low)}")
        beyond = self.emit(f"and {kind.words} {moved}, {self.integer(high)}")
        return self.emit(f"icmp ne {kind.words} {beyond}, zeroinitializer")

    def unless(self, rare: str, result: str, otherwise: Sequence[str]) -> None:
        """The result, or where a lane is `rare`, for all lanes what other instructions leave in %s."""
        word = self.emit(f"bitcast {self.kind.truths} {rare} to i{self.kind.lanes}")
        none = self.emit(f"icmp eq i{self.kind.lanes} {word}, 0")
        self.lines += [
            f"  br i1 {none}, label %done, label %slow, !prof {RARE}",
            "slow:",
            *(f"  {line}" for line in otherwise),
            "  br label %done",
            "done:",
            f"  %r = phi {self.kind.vector} [ {result}, %0 ], [ %s, %slow ]",
        ]

    def definition(self, name: str, inlines: bool = True) -> str:
        """The function's text."""
        v = self.kind.vector
        head = f"define internal {v} @{name}({', '.join(f'{v} %{p}' for p in self.params)})"
        lines = [*self.lines, f"  ret {v} %r"]
        how = "alwaysinline" if inlines else "noinline"
        return "\n".join([f"{head} {how} nounwind willreturn memory(none) {{", *lines, "}"])
