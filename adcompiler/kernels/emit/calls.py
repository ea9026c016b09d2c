"""Calls of library routines in a kernel: one by one for each case; matrix products tile by tile."""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Call, Element, Shape, const, is_const
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.routines.library import TILE
from adcompiler.loopir.nodes import Access, Expr, Invoke, Var, literal
from adcompiler.ops.build import apply


def routine(op: str) -> str:
    """The name of a routine in generated code."""
    return f"library_{op}"


# Of products, the axes of the rows of the first operand, of its terms, and of the columns of the second one.
PRODUCTS = {"matmul": (-2, -1, -1), "matmul_nt": (-2, -1, -2), "matmul_tn": (-1, -2, -1)}


def is_product(array: Array) -> bool:
    """Whether an array is a product of two matrices."""
    return isinstance(array, Call) and array.op in PRODUCTS and not array.cases


def tiles(product: Array) -> Element:
    """The number of tiles of a product's result (`library.py`)."""
    rows, columns = (
        apply("floor_divide", apply("add", n, const(TILE - 1, "i64")), const(TILE, "i64"))
        for n in product.shape[-2:]
    )
    return apply("multiply", rows, columns)


def tile(product: Array) -> Shape:
    """The points of a tile: of its result, and what is summed up for each."""
    assert isinstance(product, Call)
    length = const(TILE, "i64")
    return length, length, product.operands[0].shape[PRODUCTS[product.op][1]]


def call(writer: Writer, made: Array, *given: Expr) -> None:
    """The statements that fill the result of a call, or the parts `given`."""
    assert isinstance(made, Call)
    if made.op in PRODUCTS and not given:
        given = literal(0), writer.written(tiles(made))
    axes = [f"c{k}" for k in range(len(made.cases))]
    heads = [writer.over(axis, n, d) for d, (axis, n) in enumerate(zip(axes, made.cases, strict=True))]
    operands = [_part(writer, a, axes[len(axes) + 2 - a.rank :]) for a in made.operands]
    into = _part(writer, made, axes)
    writer.headed(heads, Invoke(routine(made.op), (*operands, into, *given)))


def _part(writer: Writer, array: Array, axes: list[str]) -> Expr:
    """The matrix of one case."""
    spots = [literal(0) if is_const(n, 1) else Var(a) for a, n in zip(axes, array.shape, strict=False)]
    indices = (*writer.row(array), *spots)
    return Access(writer.label(array), indices) if indices else Var(writer.label(array))
