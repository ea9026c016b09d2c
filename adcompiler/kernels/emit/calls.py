"""Calls of library routines in a kernel, one per batch case.

Threads share the tiles of a matrix product, or the cases of a batched product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from adcompiler.ir.nodes import Array, Call, Element, Shape, const, is_const
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.routines.library import TILE
from adcompiler.loopir.nodes import Access, Binary, Expr, For, Invoke, Var, literal, unsigned
from adcompiler.loopir.nodes import Call as LoopCall
from adcompiler.ops.build import apply
from adcompiler.ops.build import product as product_of


def routine(op: str) -> str:
    """The name of a routine in generated code."""
    return f"library_{op}"


# For each product: the axes of the first operand's rows and summed terms, and of the second one's columns.
PRODUCTS = {"matmul": (-2, -1, -1), "matmul_nt": (-2, -1, -2), "matmul_tn": (-1, -2, -1)}


def is_product(array: Array) -> TypeGuard[Call]:
    """Whether an array is a matrix product, possibly batched."""
    return isinstance(array, Call) and array.op in PRODUCTS


def pieces(product: Call) -> Element:
    """The number of pieces that threads share: tiles of the result (`library.py`), or cases."""
    if not product.cases:
        return _tiles(product)
    return product_of(product.cases)


def piece(product: Call) -> Shape:
    """The points of a piece: the elements of its result, times the terms summed for each."""
    result = product.shape[-2:]
    if not product.cases:
        result = tuple(apply("minimum", n, const(TILE, "i64")) for n in result)
    return *result, product.operands[0].shape[PRODUCTS[product.op][1]]


def _tiles(product: Call) -> Element:
    """The number of tiles of a product's result."""
    rows, columns = (
        apply("floor_divide", apply("add", n, const(TILE - 1, "i64")), const(TILE, "i64"))
        for n in product.shape[-2:]
    )
    return apply("multiply", rows, columns)


def product(writer: Writer, made: Call, start: Expr, stop: Expr) -> None:
    """Fill the pieces from `start` to `stop` of a product."""
    if not made.cases:
        writer.add(_invoked(writer, made, (), start, stop))
        return
    place: Expr = LoopCall("np.int64", (Var("case"),))
    indices: list[Expr] = []
    for n in reversed(made.cases[1:]):
        length = writer.written(n)
        indices.insert(0, unsigned(Binary("%", place, length)))
        place = Binary("//", place, length)
    indices.insert(0, unsigned(place))
    body = _invoked(writer, made, indices, literal(0), writer.written(_tiles(made)))
    writer.add(For("case", unsigned(start), unsigned(stop), [body]))


def call(writer: Writer, made: Array) -> None:
    """Write the statements that fill the result of a call, case by case."""
    assert isinstance(made, Call)
    tiles = (literal(0), writer.written(_tiles(made))) if made.op in PRODUCTS else ()
    axes = [f"c{k}" for k in range(len(made.cases))]
    heads = [writer.over(axis, n, d) for d, (axis, n) in enumerate(zip(axes, made.cases, strict=True))]
    writer.headed(heads, _invoked(writer, made, [*map(Var, axes)], *tiles))


def _invoked(writer: Writer, made: Call, case: Sequence[Expr], *pieces: Expr) -> Invoke:
    """The call for one case."""
    operands = [_part(writer, a, case[len(case) + 2 - a.rank :]) for a in made.operands]
    return Invoke(routine(made.op), (*operands, _part(writer, made, case), *pieces))


def _part(writer: Writer, array: Array, case: Sequence[Expr]) -> Expr:
    """The matrix of one case."""
    spots = [literal(0) if is_const(n, 1) else at for at, n in zip(case, array.shape, strict=False)]
    indices = (*writer.row(array), *spots)
    return Access(writer.label(array), indices) if indices else Var(writer.label(array))
