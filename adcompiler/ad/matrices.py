"""Arithmetic on stacks of matrices, for derivatives of library routines."""

from __future__ import annotations

from collections.abc import Callable

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
    element_of,
    identity,
    is_const,
    select,
)
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply

ZERO = const(0, "i64")


def at(array: Array, cases: Shape, row: Element, column: Element) -> Read:
    """The element of each matrix in the given row and column; `cases` are the leading axes."""
    own = array.rank - 2
    lead = identity(cases)[len(cases) - own :]
    ends = (row, column)
    return Read(
        array, (*lead, *(ZERO if is_const(n, 1) else e for n, e in zip(array.shape[-2:], ends, strict=True)))
    )


def axes(cases: Shape, count: int = 2) -> list[Element]:
    """The indices of the axes after the leading ones."""
    return [Index(len(cases) + k) for k in range(count)]


def matrix(cases: Shape, ends: Shape, of: Callable[[Element, Element], Element]) -> Array:
    """The matrices whose element at each row and column is given by `of`."""
    shape = cases + ends
    ones = {k: ZERO for k, n in enumerate(shape) if is_const(n, 1)}
    return closed(shape, substitute(of(*axes(cases)), ones))


def product(x: Array, y: Array, left: str = "n", right: str = "n") -> Array:
    """X Y; `left` or `right` is "t" for the transpose of X or of Y."""
    cases = max(x.shape[:-2], y.shape[:-2], key=len)
    rows, inner = x.shape[-2:] if left == "n" else x.shape[:-3:-1]
    columns = y.shape[-1 if right == "n" else -2]
    i, j, k = axes(cases, 3)
    a = at(x, cases, i, k) if left == "n" else at(x, cases, k, i)
    b = at(y, cases, k, j) if right == "n" else at(y, cases, j, k)
    shape = (*cases, rows, columns)
    ones = {d: ZERO for d, n in enumerate((*shape, inner)) if is_const(n, 1)}
    body = substitute(apply("multiply", a, b), ones)
    return Map(shape, body) if is_const(inner, 1) else Reduce("sum", shape, (inner,), body)


def transposed(x: Array) -> Array:
    """The transpose of each matrix."""
    cases, (rows, columns) = x.shape[:-2], x.shape[-2:]
    return matrix(cases, (columns, rows), lambda i, j: at(x, cases, j, i))


def negative(x: Array) -> Array:
    """The negative of each entry."""
    return Map(x.shape, apply("negative", element_of(x)))


def difference(x: Array, y: Array) -> Array:
    """X - Y; either may be shared by the cases of the other."""
    cases = max(x.shape[:-2], y.shape[:-2], key=len)
    return matrix(cases, y.shape[-2:], lambda i, j: apply("subtract", at(x, cases, i, j), at(y, cases, i, j)))


def unit_matrix(like: Array) -> Array:
    """The unit matrix of the size of a square matrix."""
    one, zero = const(1, like.dtype), const(0, like.dtype)
    n = like.shape[-1]
    return matrix((), (n, n), lambda i, j: select(apply("equal", i, j), one, zero))


def lower(x: Array, diagonal: float = 1.0) -> Array:
    """The lower triangle, with its diagonal multiplied by a number."""
    cases, zero = x.shape[:-2], const(0, x.dtype)

    def of(i: Element, j: Element) -> Element:
        here = at(x, cases, i, j)
        scaled = here if diagonal == 1 else apply("multiply", const(diagonal, x.dtype), here)
        inner = select(apply("equal", i, j), scaled, here) if diagonal != 1 else here
        return select(apply("less", i, j), zero, inner)

    return matrix(cases, x.shape[-2:], of)


def symmetric(x: Array) -> Array:
    """(X + Xᵀ) / 2."""
    cases, half = x.shape[:-2], const(0.5, x.dtype)
    return matrix(
        cases, x.shape[-2:],
        lambda i, j: apply("multiply", half, apply("add", at(x, cases, i, j), at(x, cases, j, i))),
    )  # fmt: skip


def summed(x: Array, like: Array) -> Array:
    """A cotangent per case as that of an operand: summed over the cases that share it."""
    more = x.rank - like.rank
    if not more:
        return x
    own = tuple(ZERO if is_const(n, 1) else Index(k) for k, n in enumerate(like.shape))
    over = [k for k in range(more) if not is_const(x.shape[k], 1)]
    lead: list[Element] = [ZERO] * more
    for place, k in enumerate(over):
        lead[k] = Index(like.rank + place)
    read = Read(x, (*lead, *own))
    if not over:
        return closed(like.shape, read)
    return Reduce("sum", like.shape, tuple(x.shape[k] for k in over), read)


def scaled(x: Array, factors: Array, place: Element) -> Array:
    """Each matrix times the element `place` of its row of factors."""
    cases = factors.shape[:-1]
    factor = Read(factors, (*identity(cases), place))
    return matrix(cases, x.shape[-2:], lambda i, j: apply("multiply", factor, at(x, cases, i, j)))
