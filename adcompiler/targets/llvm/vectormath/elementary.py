"""Elementary functions of vectors, inlined (`second_pass.py`): no call, hence no registers saved around one.

Each is right for special values (infinities, NaN, subnormal numbers, the sign of 0) without a branch, except
for sines of large angles. docs/accuracy.md has the largest measured errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adcompiler.targets.llvm.vectormath.approximation import Approximation
from adcompiler.targets.llvm.vectormath.inlined import Inlined, Kind


def exp(kind: Kind) -> Inlined:
    """e^x: x = (k + j/16) log(2) + r, and e^x = 2^k 2^(j/16) e^r."""
    f = Approximation(kind)
    k, index, r = f.reduced("%x")
    f.result(f.exponential(f.power(k, index, f.small(f.remainder(k, index, r)))))
    return f


def exp2(kind: Kind) -> Inlined:
    """2^x."""
    f = Approximation(kind)
    k, z = f.nearest("%x", f.constant(1.0), 4)
    index = f.word(z)
    r = f.fma(f.subtract("%x", k), f.constants("exp_reduction")[1], f.lookup(index, "exp_logs"))
    f.result(f.exponential(f.power(k, index, f.small(r))))
    return f


def expm1(kind: Kind) -> Inlined:
    """e^x - 1 = 2^k ((t - 2^-k) + t p), where the difference is 0 for small x."""
    f = Approximation(kind)
    k, index, r = f.reduced(f.bounded("%x"))
    e = f.power(k, index, f.remainder(k, index, r), "expm1")
    # For all k of the same integer below, so is this.
    inverse = f.scaled(f.constant(2.0), f.subtract(f.constant(-1 / 16), k))
    f.result(f.scaled(f.fma(e.t, e.p, f.subtract(e.t, inverse)), k), "%x")
    return f


def sinh(kind: Kind) -> Inlined:
    """(e^x - e^-x) / 2, where the difference of the powers t is 0 for small x."""
    f = Approximation(kind)
    (s, p), (t, q) = f.both_halves(f.call("fabs", "%x"))
    y = f.add(f.subtract(s, t), f.rest(t, q, f.multiply(s, p)))
    tiny = f.compare("olt", f.call("fabs", "%x"), f.constant(2.0**-30))  # halves of which may be inexact
    f.result(f.select(tiny, "%x", y), "%x")
    return f


def cosh(kind: Kind) -> Inlined:
    """(e^x + e^-x) / 2."""
    f = Approximation(kind)
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
    f = Approximation(kind)
    f.result(f.logarithm(name, "%x"))
    return f


def log1p(kind: Kind) -> Inlined:
    """log(1 + x), with what the sum's rounding takes away."""
    f = Approximation(kind)
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
    f = Approximation(kind)
    index, d = f.uniform("erf", f.clamped(f.call("fabs", "%x"), f.numbers["erf_cells"][1]))
    c, q = f.piecewise("erf", index, d)
    f.result(f.add(c, f.fma(d, q, d)), "%x")
    return f


def erfc(kind: Kind) -> Inlined:
    """erfc(x): e^(-x^2) times a polynomial c + d q of cells, and 2 less that for negative x.

    x^2 is taken in two parts. With the power 2^k t (1 + p), it is 2^k (t c + t (d q + (c + d q) p)).
    """
    f = Approximation(kind)
    magnitude = f.clamped(f.call("fabs", "%x"), f.numbers["erfc_cells"][1])
    index, d, _ = f.growing("erfc", magnitude)
    c, q = f.piecewise("erfc", index, d)
    minus = f.negated(magnitude)
    square = f.multiply(minus, magnitude)
    k, z, r = f.reduced(square)
    e = f.power(k, z, f.remainder(k, z, r, f.rest(magnitude, magnitude, f.negated(square))))
    s = f.multiply(d, q)
    others = f.multiply(e.t, f.fma(f.add(c, s), e.p, s))
    y = f.scaled(f.fma(e.t, c, others), k)
    below = f.compare("olt", "%x", f.constant(0.0))
    f.result(f.select(below, f.subtract(f.constant(2.0), y), y))
    return f


def sin(kind: Kind) -> Inlined:
    """sin(x)"""
    f = Approximation(kind)
    y = f.select(f.compare("oeq", "%x", f.constant(0.0)), "%x", f.wave(0))
    f.unless_large("sin", y)
    return f


def cos(kind: Kind) -> Inlined:
    """cos(x)"""
    f = Approximation(kind)
    f.unless_large("cos", f.wave(1))
    return f


ELEMENTARY: Mapping[str, Callable[[Kind], Inlined]] = {
    f.__name__: f for f in (exp, exp2, expm1, log, log2, log10, log1p, erf, erfc, sinh, cosh, sin, cos)
}
