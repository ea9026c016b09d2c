"""Quotients and roots of vectors by Newton's method, with the bits of the processor's own instructions.

Processors divide and take roots slowly: eight numbers of float64 keep an AVX-512 unit busy for 16 and some
24 cycles, in which it could do 32 and 48 multiplications. But they have fast approximations of 1 / b and
1 / sqrt(x) to 14 bits, and fused multiply-adds, with which two instructions of Newton's method double the
bits:

    y ~ 1 / b:              e = 1 - b y,      y' = y + y e
    g ~ s, k ~ 1 / (2 s):   e = 1/2 - g k,    g' = g + g e,    k' = k + k e      where s = sqrt(x)

A last step rounds to the nearest number: for y within one unit in the last place of 1 / b, y + y e does so,
but where all bits of b are ones, and then so does q + r y for the exact rest r = a - b q of a quotient;
near s, so does g + (x - g g) k (P. W. Markstein, IBM Journal of Research and Development 34, 1990, page
111). There is none for 1 / sqrt(x) as one operation, `rsqrt`: up to 1.5 units in the last place are wrong.

All this holds if no intermediate value overflows or underflows. Vectors with other numbers, such as 0 in a
denominator, an infinity or NaN, use the processor's instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adcompiler.targets.llvm.vectormath.inlined import Inlined, Kind

STEPS = {"double": 2, "float": 1}  # until 14 bits are all those of a number, except for the last one


class Newton(Inlined):
    """One of the functions below."""

    def inverse(self, b: str) -> str:
        """1 / b."""
        y = self.processor("rcp14", b)
        for _ in range(STEPS[self.kind.element] + 1):
            y = self.fma(y, self.rest(b, y, self.constant(1.0)), y)
        return y

    def root(self, x: str) -> str:
        """sqrt(x)."""
        near, half = self.processor("rsqrt14", x), self.constant(0.5)
        g, k = self.multiply(x, near), self.multiply(near, half)
        for _ in range(STEPS[self.kind.element]):
            e = self.rest(g, k, half)
            g, k = self.fma(g, e, g), self.fma(k, e, k)
        return self.fma(self.rest(g, g, x), k, g)

    def quotient(self, a: str, b: str, y: str) -> tuple[str, str]:
        """a / b by y = 1 / b, and where the result is too large or too small for that."""
        q = self.multiply(a, y)
        nearest = self.fma(self.rest(b, q, a), y, q)
        some = self.compare("une", a, self.constant(0.0))  # for 0, the product has the right sign
        return self.select(some, nearest, q), self.both(some, self.outside(nearest))


def root(kind: Kind) -> Inlined:
    """sqrt(x)."""
    f = Newton(kind, "x")
    f.unless(f.outside("%x", signed=True), f.root("%x"), [sqrt(kind, "%s")])
    return f


def reciprocal(kind: Kind) -> Inlined:
    """1 / x."""
    f = Newton(kind, "x")
    f.unless(f.outside("%x"), f.inverse("%x"), [f"%s = fdiv {kind.vector} {f.constant(1.0)}, %x"])
    return f


def quotient(kind: Kind) -> Inlined:
    """a / x."""
    f = Newton(kind, "ax")
    q, outside = f.quotient("%a", "%x", f.inverse("%x"))
    f.unless(f.either(f.outside("%x"), outside), q, [f"%s = fdiv {kind.vector} %a, %x"])
    return f


def rsqrt(kind: Kind) -> Inlined:
    """1 / sqrt(x), by y ~ 1 / sqrt(x): e = 1/2 - (x/2) y y, y' = y + y e.

    What comes of 0 and of infinity is NaN, and what comes of subnormal numbers is none or too large.
    """
    f = Newton(kind, "x")
    y, half = f.processor("rsqrt14", "%x"), f.constant(0.5)
    halved = f.multiply("%x", half)
    for _ in range(STEPS[kind.element]):
        y = f.fma(y, f.rest(halved, f.multiply(y, y), half), y)
    large = f.compare("uge", y, f.constant(2.0 ** (2 ** (kind.exponent - 3))))
    f.unless(large, y, [sqrt(kind, "%b"), f"%s = fdiv {kind.vector} {f.constant(1.0)}, %b"])
    return f


def sqrt(kind: Kind, result: str) -> str:
    """The processor's root of %x."""
    return f"{result} = call {kind.vector} @llvm.sqrt.{kind.name}({kind.vector} %x)"


NEWTON: Mapping[str, Callable[[Kind], Inlined]] = {f.__name__: f for f in (root, reciprocal, quotient, rsqrt)}
