"""Derivatives of reductions that are not linear: products, logsumexp and extrema."""

from __future__ import annotations

import math

from adcompiler.ad.guards import both
from adcompiler.ad.limits import SHORT_AXIS
from adcompiler.analysis.predicates import conditions
from adcompiler.ir.bodies import Body, Carried, build, fresh
from adcompiler.ir.nodes import (
    Array,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    Shape,
    closed,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply

# Up to this many factors, products over all but one of them are unrolled (`passes/arrays/unroll.py`).


def others(product: Reduce) -> Element:
    """The derivative of a product: at each point of its domain, the product over all other points.

    The quotient of the product and the factor would be 0 / 0 where a factor is zero. Over several axes it is
    the product over the other points of the last axis, times the derivative of the product along the other
    axes.
    """
    domain, body = product.domain, product.body
    found: Element = const(1, product.dtype)
    while len(domain) > product.rank:
        if not is_const(domain[-1], 1):
            found = apply("multiply", _along_last(domain, body), found)
        inner = Reduce("prod", domain[:-1], domain[-1:], body)
        domain, body = domain[:-1], Read(inner, identity(domain[:-1]))
    return found


def _along_last(domain: Shape, body: Element) -> Element:
    """The product over all other points of the last axis: a prefix product times a suffix product."""
    last = len(domain) - 1
    length = domain[last]
    if is_const(length) and length.value <= SHORT_AXIS:
        again = Index(last + 1)
        one = const(1, body.dtype)
        factor = select(apply("equal", Index(last), again), one, substitute(body, {last: again}))
        return Read(Reduce("prod", domain, (length,), factor), identity(domain))
    cases = sorted(body.axes - {last})
    places: dict[int, Element] = {k: Index(p) for p, k in enumerate((last, *cases))}
    rows = closed((length, *(domain[k] for k in cases)), substitute(body, places))
    at = (Index(last), *(identity(domain)[k] for k in cases))
    return Read(_running(rows, _running(rows)), at)


def _running(rows: Array, before: Array | None = None) -> Array:
    """The prefix products of rows; given these, the product of all other rows for each row."""
    shape = rows.shape[1:]
    at = identity(shape)
    total, row, other = (fresh(rows.dtype, shape) for _ in range(3))
    step = Map(shape, apply("multiply", Read(total, at), Read(row, at)))
    carried = Carried(Map(shape, const(1, rows.dtype)), total, step)
    length, iteration = rows.shape[0], fresh("i64", ())
    if before is None:
        return build(Body(length, iteration, (carried,), ((rows, row),), (total,))).outs[0]
    both = Map(shape, apply("multiply", Read(other, at), Read(total, at)))
    return build(
        Body(length, iteration, (carried,), ((rows, row), (before, other)), (both,), None, True)
    ).outs[0]


def softmax(body: Element, array: Array, shape: Shape) -> Element:
    """d log(sum exp b) / db = exp(b - log(sum exp b)); 0 where every b is -inf, and the sum 0."""
    total = Read(array, identity(shape))
    none = apply("equal", total, const(-math.inf, total.dtype))
    return select(none, const(0, total.dtype), apply("exp", apply("subtract", body, total)))


def factor(array: Reduce, body: Element) -> Element | None:
    """What the derivative of a reduction's body is multiplied by before it is summed; None if it is not."""
    if array.op == "prod":
        return others(array)
    return softmax(body, array, array.shape) if array.op == "logsumexp" else None


def attaining(array: Reduce, body: Element) -> tuple[Element, Element]:
    """Where a body attains an extremum, and how many points do: they share its derivative equally. A body
    leaves out points such as those beyond the end of a slice."""
    own, one, zero = identity(array.shape), const(1, body.dtype), const(0, body.dtype)
    attains = apply("equal", body, Read(array, own))
    for condition in conditions(array.op, body):
        attains = both(attains, condition)
    count = Reduce("sum", array.shape, array.reduced, select(attains, one, zero))
    return attains, Read(count, own)
