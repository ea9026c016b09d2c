"""Elementary functions of vectors, inlined (`second.py`): no call, hence no registers saved around one.

Every one is exact at its edges (infinities, NaN, subnormal numbers, the sign of 0) without a branch, but for the
sines of large angles. docs/accuracy.md has the greatest errors that were measured.

Tables of 16 numbers are held in registers: the processor looks up a vector of them at once, by the low four bits
of each lane. The coefficients are computed by tests/rules/coefficients.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from adcompiler.codegen.llvm.coefficients import COEFFICIENTS
from adcompiler.codegen.llvm.inlined import Inlined, Kind
from adcompiler.codegen.vectormath import WIDEST

LARGE = {"double": 1e5, "float": 1e4}  # angles from which on pi in three parts is not exact enough


class Power(NamedTuple):
    """e^x as 2^k (t + t p), where t is between 1 and 2, and p is small."""

    k: str
    t: str
    p: str


class Elementary(Inlined):
    """Writes one of the functions below."""

    def __init__(self, kind: Kind, params: str = "x") -> None:
        super().__init__(kind, params)
        self.numbers = COEFFICIENTS[kind.element]

    # -- instructions ------------------------------------------------------------------------------

    def constant(self, value: float) -> str:
        """A number in all lanes, rounded to the type."""
        single = self.kind.element == "float"
        return super().constant(struct.unpack("f", struct.pack("f", value))[0] if single else value)

    def subtract(self, x: str, y: str) -> str:
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
        return value if self.kind.bits == 64 else struct.unpack("f", struct.pack("f", value))[0]

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
        """The multiple of 2 ** -places that is nearest to a product, and a word whose low bits are that number."""
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
        return self.emit(f"fneg {self.kind.vector} {x}")

    def small(self, x: str) -> str:
        """x where it is small, and any small number, of the same sign, where it is not; also for NaN."""
        return self.masked("range", x, self.constant(0.03125), "i32 2")

    def scaled(self, x: str, k: str) -> str:
        """x 2^k, for the whole number below k, rounded once; too large ones are infinite."""
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

    def reduced(self, x: str, rest: str = "") -> tuple[str, str, str]:
        """k in sixteenths, its word, and r = x - k log(2); of x + rest, if there is that."""
        factor, high, low = self.constants("exp_reduction")
        k, z = self.nearest(x, factor, 4)
        r = self.rest(k, low, self.rest(k, high, x))
        return k, self.word(z), self.add(r, rest) if rest else r

    def power(self, k: str, index: str, r: str, name: str = "exp") -> Power:
        """e^r 2^k: t is the number nearest to a power of 2, and the difference of their logarithms goes into r."""
        r = self.add(r, self.lookup(index, "exp_logs"))
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
        for e in (
            self.power(k, index, r, "expm1"),
            self.power(self.negated(k), minus, self.negated(r), "expm1"),
        ):
            found.append((self.scaled(e.t, self.subtract(e.k, one)), e.p))
        return found[0], found[1]

    def exponential(self, e: Power) -> str:
        """e^x."""
        return self.scaled(self.fma(e.t, e.p, e.t), e.k)

    # -- logarithms ----------------------------------------------------------------------------------

    def logarithm(self, name: str, x: str, rest: str = "") -> str:
        """The logarithm of x, or of x + rest: x = 2^k m, 3/4 <= m < 3/2, m c = 1 + r for a number c of few digits
        near 1 / m; around 1, c = 1.

        The processor's k is that of the fraction between 1 and 2; where m is below 1, log(2) is in the table.
        """
        m, k = self.masked("getmant", x, "i32 15"), self.masked("getexp", x)
        index = self.emit(f"lshr {self.kind.words} {self.word(m)}, {self.whole(self.kind.fraction - 4)}")
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
        if self.numbers[f"{name}_one"][0] == 1:
            part = self.add(r, part)
        else:
            part = self.fma(r, one, self.fma(r, little, part))
        return self.add(whole, part)

    # -- cells ---------------------------------------------------------------------------------------

    def uniform(self, name: str, x: str) -> tuple[str, str]:
        """Which cell a number is in, and how far from its centre; cells of the same width."""
        scale, _ = self.numbers[f"{name}_cells"]
        index = self.word(self.nearest(x, self.constant(scale))[1])
        return index, self.subtract(x, self.lookup(index, f"{name}_centres"))

    def growing(self, name: str, x: str) -> tuple[str, str, str]:
        """Which cell a number is in, how far from its centre, and 1 + scale x; four cells for a power of 2."""
        scale, _ = self.numbers[f"{name}_cells"]
        u = self.fma(x, self.constant(scale), self.constant(1.0))
        index = self.emit(f"lshr {self.kind.words} {self.word(u)}, {self.whole(self.kind.fraction - 2)}")
        return index, self.subtract(x, self.lookup(index, f"{name}_centres")), u

    def piecewise(self, name: str, index: str, d: str) -> tuple[str, str]:
        """The first coefficient of a cell's polynomial, and the sum of all other terms divided by d."""
        count = sum(n.startswith(f"{name}_") and n.removeprefix(f"{name}_").isdigit() for n in self.numbers)
        first, *others = [self.lookup(index, f"{name}_{k}") for k in range(count)]
        return first, self.polynomial(d, others)

    # -- sines ---------------------------------------------------------------------------------------

    def wave(self, more: int) -> str:
        """The sine of x and some quarters of a turn: x = k pi / 2 + r, and it is +-sin(r) or +-cos(r).

        With s = r^2, it is w + w s p, where w is r or 1, and p one of two polynomials in s.
        """
        factor, *parts = self.constants("sin_reduction")
        k, z = self.nearest("%x", factor)
        r = "%x"
        for p in parts:
            r = self.rest(k, p, r)
        s, words = self.multiply(r, r), self.kind.words
        quarter = self.emit(f"add {words} {self.word(z)}, {self.whole(more)}")
        last = self.emit(f"and {words} {quarter}, {self.whole(1)}")
        odd = self.emit(f"icmp ne {words} {last}, zeroinitializer")
        both = zip(*(self.constants(f"{n}_polynomial") for n in ("cos", "sin")), strict=True)
        p = self.polynomial(s, [self.select(odd, *c) for c in both])
        w = self.select(odd, self.constant(1.0), r)
        y = self.fma(self.multiply(w, s), p, w)
        half = self.emit(f"and {words} {quarter}, {self.whole(2)}")
        sign = self.emit(f"shl {words} {half}, {self.whole(self.kind.bits - 2)}")
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


def exp(kind: Kind) -> Inlined:
    """e^x: x = (k + j/16) log(2) + r, and e^x = 2^k 2^(j/16) e^r."""
    f = Elementary(kind)
    k, index, r = f.reduced("%x")
    f.result(f.exponential(f.power(k, index, f.small(r))))
    return f


def exp2(kind: Kind) -> Inlined:
    """2^x."""
    f = Elementary(kind)
    k, z = f.nearest("%x", f.constant(1.0), 4)
    r = f.multiply(f.subtract("%x", k), f.constants("exp_reduction")[1])
    f.result(f.exponential(f.power(k, f.word(z), f.small(r))))
    return f


def expm1(kind: Kind) -> Inlined:
    """e^x - 1 = 2^k ((t - 2^-k) + t p), where the difference is 0 for small x."""
    f = Elementary(kind)
    k, index, r = f.reduced(f.bounded("%x"))
    e = f.power(k, index, r, "expm1")
    # For all k of the same whole number below, so is this.
    inverse = f.scaled(f.constant(2.0), f.subtract(f.constant(-1 / 16), k))
    f.result(f.scaled(f.fma(e.t, e.p, f.subtract(e.t, inverse)), k), "%x")
    return f


def sinh(kind: Kind) -> Inlined:
    """(e^x - e^-x) / 2, where the difference of the powers t is 0 for small x."""
    f = Elementary(kind)
    (s, p), (t, q) = f.both_halves(f.call("fabs", "%x"))
    y = f.add(f.subtract(s, t), f.rest(t, q, f.multiply(s, p)))
    tiny = f.compare("olt", f.call("fabs", "%x"), f.constant(2.0**-30))  # halves of which may be inexact
    f.result(f.select(tiny, "%x", y), "%x")
    return f


def cosh(kind: Kind) -> Inlined:
    """(e^x + e^-x) / 2."""
    f = Elementary(kind)
    (s, p), (t, q) = f.both_halves(f.call("fabs", "%x"))
    f.result(f.add(s, f.add(t, f.fma(t, q, f.multiply(s, p)))))
    return f


def log(kind: Kind) -> Inlined:
    """log(x)"""
    return logarithm(kind, "log")


def log2(kind: Kind) -> Inlined:
    """log(x) / log(2)"""
    return logarithm(kind, "log2")


def log10(kind: Kind) -> Inlined:
    """log(x) / log(10)"""
    return logarithm(kind, "log10")


def logarithm(kind: Kind, name: str) -> Inlined:
    """The logarithm for some base."""
    f = Elementary(kind)
    f.result(f.logarithm(name, "%x"))
    return f


def log1p(kind: Kind) -> Inlined:
    """log(1 + x), with what the sum's rounding takes away."""
    f = Elementary(kind)
    one = f.constant(1.0)
    u = f.add("%x", one)
    less = f.compare("olt", "%x", one)
    low, high = f.select(less, "%x", one), f.select(less, one, "%x")
    f.result(f.logarithm("log", u, f.subtract(low, f.subtract(u, high))), "%x")
    return f


def erf(kind: Kind) -> Inlined:
    """erf(x) by the polynomials of cells, the last one of which ends where erf is 1.

    It is c + (d + d q): in the first cell c is 0, and q is small.
    """
    f = Elementary(kind)
    index, d = f.uniform("erf", f.clamped(f.call("fabs", "%x"), f.numbers["erf_cells"][1]))
    c, q = f.piecewise("erf", index, d)
    f.result(f.add(c, f.fma(d, q, d)), "%x")
    return f


def tanh(kind: Kind) -> Inlined:
    """tanh(x), in the same way; it is c + d q, but in the first cell d + d q."""
    f = Elementary(kind)
    index, d, u = f.growing("tanh", f.clamped(f.call("fabs", "%x"), f.numbers["tanh_cells"][1]))
    c, q = f.piecewise("tanh", index, d)
    f.result(f.fma(d, q, f.select(f.compare("olt", u, f.constant(1.25)), d, c)), "%x")
    return f


def erfc(kind: Kind) -> Inlined:
    """erfc(x): e^(-x^2) times a polynomial c + d q of cells, and 2 less that for negative x.

    x^2 is taken in two parts. With the power 2^k t (1 + p), it is 2^k t (c + (d q + (c + d q) p)).
    """
    f = Elementary(kind)
    magnitude = f.clamped(f.call("fabs", "%x"), f.numbers["erfc_cells"][1])
    index, d, _ = f.growing("erfc", magnitude)
    c, q = f.piecewise("erfc", index, d)
    minus = f.negated(magnitude)
    square = f.multiply(minus, magnitude)
    e = f.power(*f.reduced(square, f.rest(magnitude, magnitude, f.negated(square))))
    s = f.multiply(d, q)
    y = f.scaled(f.multiply(e.t, f.add(c, f.fma(f.add(c, s), e.p, s))), e.k)
    below = f.compare("olt", "%x", f.constant(0.0))
    f.result(f.select(below, f.subtract(f.constant(2.0), y), y))
    return f


def sin(kind: Kind) -> Inlined:
    """sin(x)"""
    f = Elementary(kind)
    y = f.select(f.compare("oeq", "%x", f.constant(0.0)), "%x", f.wave(0))
    f.unless_large("sin", y)
    return f


def cos(kind: Kind) -> Inlined:
    """cos(x)"""
    f = Elementary(kind)
    f.unless_large("cos", f.wave(1))
    return f


ELEMENTARY: Mapping[str, Callable[[Kind], Inlined]] = {
    f.__name__: f for f in (exp, exp2, expm1, log, log2, log10, log1p, erf, erfc, tanh, sinh, cosh, sin, cos)
}
