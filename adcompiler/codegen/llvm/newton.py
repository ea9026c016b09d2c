"""Quotients and roots of vectors by Newton's method, with the bits of the processor's own instructions.

Processors divide and take roots slowly: eight numbers of float64 keep an AVX-512 unit busy for 16 and some 24
cycles, in which it could do 32 and 48 multiplications. But they have fast approximations of 1 / b and 1 / sqrt(x)
to 14 bits, and fused multiply-adds, with which two instructions of Newton's method double the bits:

    y ~ 1 / b:              e = 1 - b y,      y' = y + y e
    g ~ s, k ~ 1 / (2 s):   e = 1/2 - g k,    g' = g + g e,    k' = k + k e      where s = sqrt(x)

A last step rounds to the nearest number: for y within one unit in the last place of 1 / b, y + y e does so, but
where all bits of b are ones, and then so does q + r y for the exact rest r = a - b q of a quotient; near s, so
does g + (x - g g) k (P. W. Markstein, IBM Journal of Research and Development 34, 1990, page 111).

All this holds where nothing on the way is too large or too small. A vector with any other number in it, such as 0
in a denominator, an infinity or NaN, is left to the processor's instruction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from adcompiler.codegen.llvm.values import literal, typed

RARE = "!{!\"branch_weights\", i32 1, i32 1000}"


class Kind(NamedTuple):
    """The vectors of 512 bits of a type of numbers."""

    element: str
    lanes: int
    bits: int
    fraction: int  # bits of the fraction of a number
    steps: int  # of Newton's method, until 14 bits are those of a number but for the last
    suffix: str  # of the processor's functions

    @property
    def vector(self) -> str:
        return typed(self.element, self.lanes)

    @property
    def name(self) -> str:
        """What the names of LLVM's functions have for it."""
        return f"v{self.lanes}f{self.bits}"


KINDS = {k.vector: k for k in (Kind("double", 8, 64, 52, 2, "pd"), Kind("float", 16, 32, 23, 1, "ps"))}
_OPERAND = r"(?:%[\w.]+|%\"[^\"]*\"|splat \([^)]*\)|<[^>]*>|zeroinitializer|poison|undef)"
_VECTOR = "|".join(map(re.escape, KINDS))
_QUOTIENT = re.compile(rf"^  (\S+) = fdiv [a-z ]*({_VECTOR}) ({_OPERAND}), ({_OPERAND})")
_ROOT = re.compile(rf"^  (\S+) = (?:tail )?call [a-z ]*({_VECTOR}) @llvm\.sqrt\.\w+\((?:{_VECTOR}) ({_OPERAND})\)")


def with_newton(text: str) -> str | None:
    """The text of a module in which vectors are divided by Newton's method; None if nothing is divided."""
    used: dict[tuple[str, Kind], None] = {}
    roots: dict[str, str] = {}

    def call(result: str, name: str, kind: Kind, *args: str) -> str:
        used[name, kind] = None
        given = ", ".join(f"{kind.vector} {a}" for a in args)
        return f"  {result} = call {kind.vector} @adc_{name}_{kind.name}({given})"

    lines = text.split("\n")
    for k, line in enumerate(lines):
        if line.startswith("define"):
            roots = {}
        elif " fdiv " in line and (found := _QUOTIENT.match(line)):
            result, vector, a, b = found.groups()
            kind = KINDS[vector]
            of_root = "_of_root" if b in roots else ""
            b = roots.get(b, b)
            one = a in (f"splat ({literal_of(kind)})", literal(1.0, kind.vector).text) or (
                a.startswith("splat") and a.endswith(" 1.000000e+00)")
            )
            lines[k] = (
                call(result, f"reciprocal{of_root}", kind, b)
                if one
                else call(result, f"quotient{of_root}", kind, a, b)
            )
        elif "@llvm.sqrt" in line and (found := _ROOT.match(line)):
            result, vector, x = found.groups()
            roots[result] = x
            lines[k] = call(result, "root", KINDS[vector], x)
    if not used:
        return None
    text = "\n".join(lines)
    needed = [FUNCTIONS[name](kind) for name, kind in used]
    declared = dict.fromkeys(d for _, kind in used for d in _declarations(kind) if d.split("(")[0] not in text)
    rare = 1 + max((int(n) for n in re.findall(r"^!(\d+) = ", text, re.MULTILINE)), default=-1)
    weights = f'!{rare} = !{{!"branch_weights", i32 2000, i32 1}}'
    return "\n".join([text, *declared, *needed, weights]).replace("!RARE", f"!{rare}")


def literal_of(kind: Kind) -> str:
    return f"{kind.element} 1.000000e+00"


def _declarations(kind: Kind) -> list[str]:
    v, mask = kind.vector, f"i{kind.lanes}"
    return [
        f"declare {v} @llvm.fma.{kind.name}({v}, {v}, {v})",
        f"declare {v} @llvm.sqrt.{kind.name}({v})",
        f"declare {v} @llvm.x86.avx512.rcp14.{kind.suffix}.512({v}, {v}, {mask})",
        f"declare {v} @llvm.x86.avx512.rsqrt14.{kind.suffix}.512({v}, {v}, {mask})",
    ]


class _Writer:
    """Writes one function of vectors."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.lines: list[str] = []

    def emit(self, text: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def constant(self, value: float) -> str:
        return literal(value, self.kind.vector).text

    def call(self, name: str, *args: str) -> str:
        v = self.kind.vector
        given = ", ".join(f"{v} {a}" for a in args)
        return self.emit(f"call {v} @llvm.{name}.{self.kind.name}({given})")

    def fma(self, x: str, y: str, z: str) -> str:
        return self.call("fma", x, y, z)

    def rest(self, x: str, y: str, z: str) -> str:
        """z - x y."""
        return self.fma(self.emit(f"fneg {self.kind.vector} {x}"), y, z)

    def product(self, x: str, y: str) -> str:
        return self.emit(f"fmul {self.kind.vector} {x}, {y}")

    def approximate(self, name: str, x: str) -> str:
        v, kind = self.kind.vector, self.kind
        mask = f"i{kind.lanes} -1"
        return self.emit(f"call {v} @llvm.x86.avx512.{name}.{kind.suffix}.512({v} {x}, {v} zeroinitializer, {mask})")

    def reciprocal(self, b: str, y: str, steps: int) -> str:
        """1 / b, from an approximation."""
        for _ in range(steps):
            y = self.fma(y, self.rest(b, y, self.constant(1.0)), y)
        return y

    def root(self, x: str) -> tuple[str, str]:
        """sqrt(x), and almost its reciprocal."""
        y = self.approximate("rsqrt14", x)
        half = self.constant(0.5)
        g, k = self.product(x, y), self.product(y, half)
        for _ in range(self.kind.steps):
            e = self.rest(g, k, half)
            g, k = self.fma(g, e, g), self.fma(k, e, k)
        return self.fma(self.rest(g, g, x), k, g), self.emit(f"fadd {self.kind.vector} {k}, {k}")

    def quotient(self, a: str, b: str, y: str) -> tuple[str, str]:
        """a / b by y = 1 / b, and where it is not in the range."""
        q = self.product(a, y)
        near = self.fma(self.rest(b, q, a), y, q)
        v, truths = self.kind.vector, typed("i1", self.kind.lanes)
        some = self.emit(f"fcmp une {v} {a}, {self.constant(0.0)}")
        outside = self.emit(f"and {truths} {some}, {self.outside(near)}")
        return self.emit(f"select {truths} {some}, {v} {near}, {v} {q}"), outside

    def outside(self, x: str, signed: bool = False) -> str:
        """Where x, or its absolute value, is not in the middle quarter of all exponents."""
        kind = self.kind
        words, width = typed(f"i{kind.bits}", kind.lanes), kind.bits - 1 - kind.fraction
        low = ((1 << (width - 1)) - 1 - (1 << (width - 3))) << kind.fraction
        high = 0b11 << (kind.bits - 3) | signed << (kind.bits - 1)
        word = self.emit(f"bitcast {kind.vector} {x} to {words}")
        moved = self.emit(f"sub {words} {word}, {self.whole(low)}")
        bits = self.emit(f"and {words} {moved}, {self.whole(high)}")
        return self.emit(f"icmp ne {words} {bits}, zeroinitializer")

    def whole(self, number: int) -> str:
        n = f"i{self.kind.bits} {number}"
        return f"<{', '.join([n] * self.kind.lanes)}>"

    def function(self, name: str, params: str, result: str, outside: Sequence[str], slow: Sequence[str]) -> str:
        kind, truths = self.kind, typed("i1", self.kind.lanes)
        some = outside[0]
        for other in outside[1:]:
            some = self.emit(f"or {truths} {some}, {other}")
        word = self.emit(f"bitcast {truths} {some} to i{kind.lanes}")
        all_inside = self.emit(f"icmp eq i{kind.lanes} {word}, 0")
        self.lines += [f"  br i1 {all_inside}, label %done, label %slow, !prof !RARE", "slow:", *slow, "  br label %done", "done:"]
        self.lines += [f"  %r = phi {kind.vector} [ {result}, %0 ], [ %s, %slow ]", f"  ret {kind.vector} %r"]
        given = ", ".join(f"{kind.vector} %{p}" for p in params)
        head = f"define internal {kind.vector} @adc_{name}_{kind.name}({given}) alwaysinline nounwind willreturn memory(none)"
        return "\n".join([head + " {", *self.lines, "}"])


def _root(kind: Kind) -> str:
    w = _Writer(kind)
    s, _ = w.root("%x")
    v = kind.vector
    slow = [f"  %s = call {v} @llvm.sqrt.{kind.name}({v} %x)"]
    return w.function("root", "x", s, [w.outside("%x", True)], slow)


def _reciprocal(kind: Kind) -> str:
    w = _Writer(kind)
    y = w.reciprocal("%b", w.approximate("rcp14", "%b"), kind.steps + 1)
    slow = [f"  %s = fdiv {kind.vector} {w.constant(1.0)}, %b"]
    return w.function("reciprocal", "b", y, [w.outside("%b")], slow)


def _quotient(kind: Kind) -> str:
    w = _Writer(kind)
    y = w.reciprocal("%b", w.approximate("rcp14", "%b"), kind.steps + 1)
    q, outside = w.quotient("%a", "%b", y)
    return w.function("quotient", "ab", q, [w.outside("%b"), outside], [f"  %s = fdiv {kind.vector} %a, %b"])


def _reciprocal_of_root(kind: Kind) -> str:
    w = _Writer(kind)
    s, y = w.root("%x")
    y = w.reciprocal(s, y, 1)
    v = kind.vector
    slow = [f"  %b = call {v} @llvm.sqrt.{kind.name}({v} %x)", f"  %s = fdiv {v} {w.constant(1.0)}, %b"]
    return w.function("reciprocal_of_root", "x", y, [w.outside("%x", True)], slow)


def _quotient_of_root(kind: Kind) -> str:
    w = _Writer(kind)
    s, y = w.root("%x")
    q, outside = w.quotient("%a", s, w.reciprocal(s, y, 1))
    v = kind.vector
    slow = [f"  %b = call {v} @llvm.sqrt.{kind.name}({v} %x)", f"  %s = fdiv {v} %a, %b"]
    return w.function("quotient_of_root", "ax", q, [w.outside("%x", True), outside], slow)


FUNCTIONS: dict[str, Callable[[Kind], str]] = {
    "root": _root,
    "reciprocal": _reciprocal,
    "quotient": _quotient,
    "reciprocal_of_root": _reciprocal_of_root,
    "quotient_of_root": _quotient_of_root,
}
