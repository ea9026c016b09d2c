"""The derivative of a product: for each factor the product of all the others.

Not the product divided by the factor, which is 0 / 0 where a factor is zero.
"""

from __future__ import annotations

from adcompiler.ir.nodes import Element, Index, Read, Reduce, const, identity, is_const, select
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply


def others(product: Reduce) -> Element:
    """At each point of the product's domain, the product over all other points: it takes a second turn
    over the reduced axes for each of them."""
    rank, domain = product.rank, product.domain
    again = {k: Index(k + len(product.reduced)) for k in range(rank, len(domain))}
    same: Element = const(True, "bool")
    for k in range(rank, len(domain)):
        if not is_const(domain[k], 1):
            same = apply("logical_and", same, apply("equal", Index(k), again[k]))
    factor = select(same, const(1, product.dtype), substitute(product.body, dict(again)))
    array = Reduce("prod", domain, product.reduced, factor)
    return Read(array, identity(domain))
