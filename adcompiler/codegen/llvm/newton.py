"""Quotients and roots of vectors by Newton's method, with the bits of the processor's own instructions.

Processors divide and take roots slowly: eight numbers of float64 keep an AVX-512 unit busy for 16 and some
24 cycles, in which it could do 32 and 48 multiplications. But they have fast approximations of 1 / b and
1 / sqrt(x) to 14 bits, and fused multiply-adds, with which two instructions of Newton's method double the bits:

    y ~ 1 / b:              e = 1 - b y,      y' = y + y e
    g ~ s, k ~ 1 / (2 s):   e = 1/2 - g k,    g' = g + g e,    k' = k + k e      where s = sqrt(x)

A last step rounds to the nearest number: for y within one unit in the last place of 1 / b, y + y e does so,
but where all bits of b are ones, and then so does q + r y for the exact rest r = a - b q of a quotient; near s,
so does g + (x - g g) k (P. W. Markstein, IBM Journal of Research and Development 34, 1990, page 111).

All this holds where nothing on the way is too large or too small. Vectors with any other number, such as 0 in
a denominator, an infinity or NaN, are left to the processor's instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adcompiler.codegen.llvm.inlined import Inlined, Kind

STEPS = {"double": 2, "float": 1}  # until 14 bits are all those of a number, but for the last one


class Newton(Inlined):
    """One of the functions below."""

    def inverse(self, b: str) -> str:
        """1 / b."""
        return self.nearer(b, self.processor("rcp14", b), STEPS[self.kind.element] + 1)

    def nearer(self, b: str, y: str, steps: int) -> str:
        """1 / b from what is near it."""
        for _ in range(steps):
            y = self.fma(y, self.rest(b, y, self.constant(1.0)), y)
        return y

    def root(self, x: str) -> tuple[str, str]:
        """sqrt(x), and what is near its inverse."""
        near, half = self.processor("rsqrt14", x), self.constant(0.5)
        g, k = self.multiply(x, near), self.multiply(near, half)
        for _ in range(STEPS[self.kind.element]):
            e = self.rest(g, k, half)
            g, k = self.fma(g, e, g), self.fma(k, e, k)
        return self.fma(self.rest(g, g, x), k, g), self.add(k, k)

    def quotient(self, a: str, b: str, y: str) -> tuple[str, str]:
        """a / b by y = 1 / b, and where the result is too large or too small for that."""
        q = self.multiply(a, y)
        nearest = self.fma(self.rest(b, q, a), y, q)
        some = self.compare("une", a, self.constant(0.0))  # for 0, the product has the right sign
        return self.select(some, nearest, q), self.both(some, self.outside(nearest))


def root(kind: Kind) -> Inlined:
    """sqrt(x)."""
    f = Newton(kind, "x")
    s, _ = f.root("%x")
    f.unless(f.outside("%x", signed=True), s, [sqrt(kind, "%s")])
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


def reciprocal_of_root(kind: Kind) -> Inlined:
    """1 / sqrt(x)."""
    f = Newton(kind, "x")
    s, near = f.root("%x")
    slow = [sqrt(kind, "%b"), f"%s = fdiv {kind.vector} {f.constant(1.0)}, %b"]
    f.unless(f.outside("%x", signed=True), f.nearer(s, near, 1), slow)
    return f


def quotient_of_root(kind: Kind) -> Inlined:
    """a / sqrt(x)."""
    f = Newton(kind, "ax")
    s, near = f.root("%x")
    q, outside = f.quotient("%a", s, f.nearer(s, near, 1))
    slow = [sqrt(kind, "%b"), f"%s = fdiv {kind.vector} %a, %b"]
    f.unless(f.either(f.outside("%x", signed=True), outside), q, slow)
    return f


def sqrt(kind: Kind, result: str) -> str:
    """The processor's root of %x."""
    return f"{result} = call {kind.vector} @llvm.sqrt.{kind.name}({kind.vector} %x)"


NEWTON: Mapping[str, Callable[[Kind], Inlined]] = {
    f.__name__: f for f in (root, reciprocal, quotient, reciprocal_of_root, quotient_of_root)
}
