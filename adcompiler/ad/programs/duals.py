"""Programs on dual numbers of any order: forward mode applied once for each nilpotent part.

A dual number of order n has a coefficient for each set of the parts e0, ..., e(n-1), of which each squares to
zero; a set is written as the integer whose bits are its members. The coefficient of the empty set is the
value; that of {e0, e1} is the mixed second derivative along both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from adcompiler.ad.jvp import value_and_tangent
from adcompiler.ir.nodes import Func

Coefficient = tuple[int, int]  # the number of an input or of a result, and the set of its parts


def completed(present: Iterable[Coefficient]) -> list[Coefficient]:
    """The coefficients that a program on dual numbers takes: with a set {.., a, b} also the sets without its
    last members, which are zero if they are not given."""
    found: set[Coefficient] = set()
    for number, parts in present:
        while parts and (number, parts) not in found:
            found.add((number, parts))
            parts &= ~(1 << (parts.bit_length() - 1))
    return sorted(found, key=lambda c: (c[1].bit_length(), c))


def on_duals(
    func: Func, order: int, taken: Collection[Coefficient], simplify: Callable[[Func], Func]
) -> tuple[Func, list[Coefficient]]:
    """`func` on dual numbers of an `order`, and the coefficients that its inputs are.

    The coefficients `taken`, after completion, are inputs; all others are zero. The results are all
    coefficients, set by set, in the order of the sets' integers.
    """
    inputs: list[Coefficient] = [(n, 0) for n in range(len(func.inputs))]
    for part in range(order):
        bit = 1 << part
        wanted = [k for k, (n, parts) in enumerate(inputs) if (n, parts | bit) in taken]
        inputs += [(inputs[k][0], inputs[k][1] | bit) for k in wanted]
        func = simplify(value_and_tangent(func, wanted))
    return func, inputs
