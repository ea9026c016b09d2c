"""Building blocks of elementary functions of vectors (`elementary.py`).

Tables have 16 numbers: the processor looks up a vector of them at once, by the low four bits of each lane.
The coefficients are computed by tests/ops/rules/coefficients.py.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from adcompiler.targets.llvm.libmvec import WIDEST
from adcompiler.targets.llvm.vectormath.inlined import Inlined, Kind

COEFFICIENTS: Mapping[str, Mapping[str, Sequence[float]]] = json.loads(
    Path(__file__).with_name("coefficients.json").read_text("utf-8")
)
LARGE = {"double": 1e5, "float": 1e4}  # angles from which on pi in three parts is not exact enough


class Power(NamedTuple):
    """e^x as 2^k (t + t p), where t is between 1 and 2, and p is small."""

    k: str
    t: str
    p: str


class Approximation(Inlined):
    """Writes a function of vectors by the numbers of `coefficients.json`."""

    def __init__(self, kind: Kind, params: str = "x") -> None:
        super().__init__(kind, params)
        self.numbers = COEFFICIENTS[kind.element]

    # -- instructions ------------------------------------------------------------------------------

    def constant(self, value: float) -> str:
        """A number in all lanes, rounded to the type."""
        return super().constant(self.rounded(value))

    def subtract(self, x: str, y: str) -> str:
        """A difference."""
        return self.emit(f"fsub {self.kind.vector} {x}, {y}")

    def masked(self, name: str, *args: str) -> str:
        """A function of AVX-512 that takes a mask and a mode of rounding, without either."""
        v, mask = self.kind.vector, f"i{self.kind.lanes}"
        name = f"llvm.x86.avx512.mask.{name}.{self.kind.letters}.512"
        types = [a.split(" ")[0] if a.startswith("i32 ") else v for a in args]
        given = [a if a.startswith("i32 ") else f"{v} {a}" for a in args]
        self.declared[f"declare {v} @{name}({', '.join([*types, v, mask, 'i32'])})"] = None
        return self.emit(f"call {v} @{name}({', '.join(given)}, {v} zeroinitializer, {mask} -1, i32 4)")

    def word(self, x: str) -> str:
        """The bits of a vector."""
        return self.emit(f"bitcast {self.kind.vector} {x} to {self.kind.words}")

    def lookup(self, index: str, name: str) -> str:
        """Numbers of a table by the low four bits of an index."""
        v, w, numbers = self.kind.vector, self.kind.words, self.numbers[name]
        halves = [self.vector(numbers[k : k + self.kind.lanes]) for k in range(0, 16, self.kind.lanes)]
        if len(halves) == 1:
            self.declared[f"declare {v} @llvm.x86.avx512.permvar.sf.512({v}, {w})"] = None
            return self.emit(f"call {v} @llvm.x86.avx512.permvar.sf.512({v} {halves[0]}, {w} {index})")
        self.declared[f"declare {v} @llvm.x86.avx512.vpermi2var.pd.512({v}, {w}, {v})"] = None
        given = f"{v} {halves[0]}, {w} {index}, {v} {halves[1]}"
        return self.emit(f"call {v} @llvm.x86.avx512.vpermi2var.pd.512({given})")

    def vector(self, numbers: Sequence[float]) -> str:
        """A constant of different numbers."""
        words = [struct.unpack("<Q", struct.pack("<d", self.rounded(n)))[0] for n in numbers]
        return f"<{', '.join(f'{self.kind.element} 0x{w:016X}' for w in words)}>"

    def rounded(self, value: float) -> float:
        """The nearest number of the type."""
        return value if self.kind.bits == 64 else float(struct.unpack("f", struct.pack("f", value))[0])

    def polynomial(self, x: str, coefficients: Sequence[str], square: str = "") -> str:
        """A polynomial, from the constant on: its even and its odd part side by side where it is long."""
        if len(coefficients) > 5:
            square = square or self.multiply(x, x)
            even, odd = (self.polynomial(square, coefficients[k::2]) for k in (0, 1))
            return self.fma(x, odd, even)
        *others, result = coefficients
        for c in reversed(others):
            result = self.fma(result, x, c)
        return result

    def constants(self, name: str) -> list[str]:
        """Numbers, each one in all lanes."""
        return [self.constant(c) for c in self.numbers[name]]

    def nearest(self, x: str, factor: str, places: int = 0) -> tuple[str, str]:
        """The multiple of 2 ** -places that is nearest to a product, and a number with its last bits."""
        magic = self.constant(self.magic(places))
        z = self.fma(x, factor, magic)
        return self.subtract(z, magic), z

    def magic(self, places: int) -> float:
        """A number whose last bit is 2 ** -places."""
        return 1.5 * 2.0 ** (self.kind.fraction - places)

    def clamped(self, x: str, limit: float) -> str:
        """The lesser of a number and a limit; NaN stays so."""
        c = self.constant(limit)
        return self.select(self.compare("ogt", x, c), c, x)

    def negated(self, x: str) -> str:
        """The negative."""
        return self.emit(f"fneg {self.kind.vector} {x}")

    def small(self, x: str) -> str:
        """x where it is small, and any small number, of the same sign, where it is not; also for NaN."""
        return self.masked("range", x, self.constant(0.03125), "i32 2")

    def scaled(self, x: str, k: str) -> str:
        """x 2^k, for the integer below k, rounded once; too large ones are infinite."""
        return self.masked("scalef", x, k)

    def result(self, x: str, sign: str = "") -> None:
        """What the function returns, with the sign of another number."""
        self.lines.append(
            f"  %r = call {self.kind.vector} @llvm.copysign.{self.kind.name}"
            f"({self.kind.vector} {x}, {self.kind.vector} {sign or x})"
        )
        v = self.kind.vector
        self.declared[f"declare {v} @llvm.copysign.{self.kind.name}({v}, {v})"] = None

    # -- powers of e ---------------------------------------------------------------------------------

    def reduced(self, x: str) -> tuple[str, str, str]:
        """k in sixteenths, its word, and x less k times the high part of log(2), which is exact."""
        factor, high, _ = self.constants("exp_reduction")
        k, z = self.nearest(x, factor, 4)
        return k, self.word(z), self.rest(k, high, x)

    def remainder(self, k: str, index: str, r: str, more: str = "") -> str:
        """r, and more, less k times the low part of log(2), and less what t of `power` is too large."""
        _, _, low = self.constants("exp_reduction")
        little = self.rest(k, low, self.lookup(index, "exp_logs"))
        return self.add(r, self.add(little, more) if more else little)

    def power(self, k: str, index: str, r: str, name: str = "exp") -> Power:
        """e^r 2^k, where t is nearly a power of 2."""
        p = self.fma(self.multiply(r, r), self.polynomial(r, self.constants(f"{name}_polynomial")), r)
        return Power(k, self.lookup(index, "exp_powers"), p)

    def bounded(self, x: str) -> str:
        """x between numbers of which e^x is 0, next to 1, and infinite."""
        high, low = (710.0, -60.0) if self.kind.bits == 64 else (89.0, -30.0)
        c, x = self.constant(low), self.clamped(x, high)
        return self.select(self.compare("olt", x, c), c, x)

    def both_halves(self, x: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """e^x / 2 and e^-x / 2 for x > 0, as t (1 + p)."""
        k, index, r = self.reduced(self.clamped(x, 711.0 if self.kind.bits == 64 else 90.0))
        minus = self.emit(f"sub {self.kind.words} zeroinitializer, {index}")
        one = self.constant(1.0)
        found = []
        for part in ((k, index, r), (self.negated(k), minus, self.negated(r))):
            e = self.power(*part[:2], self.remainder(*part), "expm1")
            found.append((self.scaled(e.t, self.subtract(e.k, one)), e.p))
        return found[0], found[1]

    def exponential(self, e: Power) -> str:
        """e^x."""
        return self.scaled(self.fma(e.t, e.p, e.t), e.k)

    # -- logarithms ----------------------------------------------------------------------------------

    def logarithm(self, name: str, x: str, rest: str = "") -> str:
        """The logarithm of x, or of x + rest: x = 2^k m, 3/4 <= m < 3/2, m c = 1 + r for a number c of few
        digits near 1 / m; around 1, c = 1.

        The processor's k is that of the fraction between 1 and 2; where m is below 1, log(2) is in the table.
        """
        m, k = self.masked("getmant", x, "i32 15"), self.masked("getexp", x)
        index = self.emit(f"lshr {self.kind.words} {self.word(m)}, {self.integer(self.kind.fraction - 4)}")
        r = self.fma(m, self.lookup(index, "log_factors"), self.constant(-1.0))
        if rest:  # infinite for an infinity and for 0, where k alone decides
            rest = self.scaled(rest, self.negated(k))
            rest = self.small(rest)
            r = self.fma(rest, self.lookup(index, "log_whole_factors"), r)
        high, low = self.constants(f"{name}_two")
        whole = self.fma(k, high, self.lookup(index, f"{name}_highs"))
        part = self.lookup(index, f"{name}_lows")
        part = self.fma(k, low, part) if self.numbers[f"{name}_two"][1] else part
        square = self.multiply(r, r)
        part = self.fma(square, self.polynomial(r, self.constants(f"{name}_polynomial"), square), part)
        one, little = self.constants(f"{name}_one")
        part = self.fma(r, little, part) if self.numbers[f"{name}_one"][1] else part
        total = self.fma(r, one, whole)
        # What its rounding takes away; NaN for infinities.
        lost = self.small(self.fma(r, one, self.subtract(whole, total)))
        return self.add(total, self.add(lost, part))

    # -- cells ---------------------------------------------------------------------------------------

    def uniform(self, name: str, x: str) -> tuple[str, str]:
        """Which cell a number is in, and how far from its centre; cells of the same width."""
        scale, _ = self.numbers[f"{name}_cells"]
        index = self.word(self.nearest(x, self.constant(scale))[1])
        return index, self.subtract(x, self.lookup(index, f"{name}_centres"))

    def growing(self, name: str, x: str) -> tuple[str, str, str]:
        """The same, and 1 + scale x; there are four cells for each power of 2 in which that can be."""
        scale, _ = self.numbers[f"{name}_cells"]
        u = self.fma(x, self.constant(scale), self.constant(1.0))
        index = self.emit(f"lshr {self.kind.words} {self.word(u)}, {self.integer(self.kind.fraction - 2)}")
        return index, self.subtract(x, self.lookup(index, f"{name}_centres")), u

    def piecewise(self, name: str, index: str, d: str) -> tuple[str, str]:
        """The first coefficient of a cell's polynomial, and the sum of all other terms divided by d."""
        count = sum(n.startswith(f"{name}_") and n.removeprefix(f"{name}_").isdigit() for n in self.numbers)
        first, *others = [self.lookup(index, f"{name}_{k}") for k in range(count)]
        return first, self.polynomial(d, others)

    # -- sines ---------------------------------------------------------------------------------------

    def wave(self, more: int) -> str:
        """The sine of x and some quarters of an iteration: x = k pi / 2 + r, and it is +-sin(r) or +-cos(r).

        With s = r^2, it is w + w s p, where w is r or 1, and p one of two polynomials in s.
        """
        factor, *parts = self.constants("sin_reduction")
        k, z = self.nearest("%x", factor)
        r = "%x"
        for p in parts:
            r = self.rest(k, p, r)
        s, words = self.multiply(r, r), self.kind.words
        quarter = self.emit(f"add {words} {self.word(z)}, {self.integer(more)}")
        last = self.emit(f"and {words} {quarter}, {self.integer(1)}")
        odd = self.emit(f"icmp ne {words} {last}, zeroinitializer")
        both = zip(*(self.constants(f"{n}_polynomial") for n in ("cos", "sin")), strict=True)
        p = self.polynomial(s, [self.select(odd, *c) for c in both])
        w = self.select(odd, self.constant(1.0), r)
        y = self.fma(self.multiply(w, s), p, w)
        half = self.emit(f"and {words} {quarter}, {self.integer(2)}")
        sign = self.emit(f"shl {words} {half}, {self.integer(self.kind.bits - 2)}")
        return self.emit(
            f"bitcast {words} {self.emit(f'xor {words} {sign}, {self.word(y)}')} to {self.kind.vector}"
        )

    def unless_large(self, name: str, y: str) -> None:
        """The result y, but that of the C library for large angles."""
        v = self.kind.vector
        symbol = WIDEST.symbol(name, self.kind.element)
        self.declared[f"declare {v} @{symbol}({v})"] = None
        rare = self.compare("ogt", self.call("fabs", "%x"), self.constant(LARGE[self.kind.element]))
        lines = [
            f"%b = call {v} @{symbol}({v} %x)",
            f"%s = select {self.kind.truths} {rare}, {v} %b, {v} {y}",
        ]
        self.unless(rare, y, lines)
