"""Derivatives of reductions that are not linear: a product, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math

from adcompiler.ir.nodes import (
    Array,
    Element,
    Index,
    Read,
    Reduce,
    Shape,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply


def others(product: Reduce) -> Element:
    """The derivative of a product: at each point of its domain, the product over all other points.

    Not the product divided by the factor, which is 0 / 0 where a factor is zero. It takes a second turn over
    the reduced axes for each point.
    """
    rank, domain = product.rank, product.domain
    again = {k: Index(k + len(product.reduced)) for k in range(rank, len(domain))}
    same: Element = const(True, "bool")
    for k in range(rank, len(domain)):
        if not is_const(domain[k], 1):
            same = apply("logical_and", same, apply("equal", Index(k), again[k]))
    factor = select(same, const(1, product.dtype), substitute(product.body, dict(again)))
    array = Reduce("prod", domain, product.reduced, factor)
    return Read(array, identity(domain))


def softmax(body: Element, array: Array, shape: Shape) -> Element:
    """d log(sum exp b) / db = exp(b - log(sum exp b)); 0 where every b is -inf, and the sum 0."""
    total = Read(array, identity(shape))
    none = apply("equal", total, const(-math.inf, total.dtype))
    return select(none, const(0, total.dtype), apply("exp", apply("subtract", body, total)))
