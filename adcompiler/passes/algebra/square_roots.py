"""Norms and standard deviations recognised: what their squares are, as sums of squares.

They are written by `frontend/values/scaled_norms.py`: as an array with the rule x / r, or with both sums in
one loop, of which the scaled one gives the root.
"""

from __future__ import annotations

from collections.abc import Callable

from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    Select,
    Shape,
    identity,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import inputs_of_rule, read_by, rewrite
from adcompiler.ops.build import apply

Places = tuple[Element, ...]


def mean_square(array: Ruled, places: Places, squared: Callable[[Element], Element]) -> Element | None:
    """The square of a root r at some places: the sum of squares of x, or their mean, if the rule of the array
    is x / r, or x / r over the number of squares. None for another rule. `squared` makes the squares."""
    pulled, whole = array.pulled[0], array.args[0]
    slots = inputs_of_rule(array)
    x, r, cotangent = slots[0], slots[-2], slots[-1]
    if not isinstance(pulled, Map) or whole.rank != array.rank:
        return None
    match pulled.body:
        case Select(
            guard=Apply(op="equal", args=(Read(array=root, args=at), zero)),
            then=none,
            otherwise=Apply(op="multiply", args=(given, Apply(op="divide", args=(here, divisor)))),
        ) if root is r and is_const(zero, 0) and is_const(none, 0):
            if here is not Read(x, identity(x.shape)) or divisor is not Read(r, at):
                return None
            if at != identity(array.shape):
                return None
            count: Element | None = None
            if isinstance(given, Apply) and given.op == "divide":
                given, count = given.args
            if given is not Read(cotangent, at):
                return None
            total = _sum_of_squares(whole, array.shape, places, squared)
            return total if count is None else _over(total, count, dict(zip(slots, array.args, strict=False)))
    return None


def _over(total: Element, count: Element, given: dict[Array, Array]) -> Element | None:
    """A total over a number of terms that a rule computes of its arguments."""
    if count.axes or any(a not in given for a in read_by((count,))):
        return None
    (number,) = rewrite((count,), lambda e: Read(given[e.array], e.args) if isinstance(e, Read) else e)
    return apply("divide", total, number)


def _sum_of_squares(x: Array, shape: Shape, places: Places, squared: Callable[[Element], Element]) -> Element:
    """The sum of the squares of x over the axes that a root of this shape lacks."""
    gone = [k for k, n in enumerate(shape) if is_const(n, 1) and not is_const(x.shape[k], 1)]
    if not gone:
        return squared(Read(x, places))
    indices = list(identity(shape))
    for position, k in enumerate(gone):
        indices[k] = Index(len(shape) + position)
    total = Reduce("sum", shape, tuple(x.shape[k] for k in gone), squared(Read(x, tuple(indices))))
    return Read(total, places)


def scaled_mean_square(root: Select) -> Element | None:
    """The square of a root whose squares are summed twice: directly, and with a scale that depends on the
    direct sum. None for another element."""
    match root:
        case Select(
            guard=Apply(op="equal", args=(total, zero)),
            then=none,
            otherwise=Apply(op="multiply", args=(Apply(op="sqrt", args=(same,)), back)),
        ) if same is total and is_const(zero, 0) and is_const(none, 0):
            scales, squares = _scales(back)
            term, plain = _term(total), _term(squares)
            if term is None or plain is None or not scales:
                return None
            match term:
                case Apply(op="multiply", args=(x, by)) if x is plain:
                    forth, of = _scales(by)
                    is_scale = _is_term(of, plain) and len(forth) == len(scales)
                    if is_scale and all(a * b == 1 for a, b in zip(forth, scales, strict=True)):
                        return squares
    return None


def _term(total: Element | None) -> Element | None:
    """What is squared in a sum or mean of squares; in a sum over no axes, the square itself."""
    match total:
        case Apply(op="divide", args=(part, _)):
            return _term(part)
        case Read(array=Reduce(op="sum", body=Apply(op="square", args=(x,)))):
            return x
        case Apply(op="square", args=(x,)):
            return x
    return None


def _is_term(total: Element | None, x: Element) -> bool:
    return _term(total) is x


def _scales(element: Element) -> tuple[list[float], Element | None]:
    """The numbers of a choice by the size of one element, and that element."""
    found: list[float] = []
    of: Element | None = None
    while True:
        match element:
            case Const(value=value):
                return [*found, float(value)], of
            case Select(
                guard=Apply(op="less", args=(squares, Const())), then=Const(value=value), otherwise=rest
            ) if of is None or of is squares:
                of = squares
                found.append(float(value))
                element = rest
            case _:
                return [], None
