"""Matrix products after a kernel (GEMM): results with no other reader, of factors that the kernel computes.

If a program has loops and ends with a product, as for the gradient of a matrix that every iteration reads,
the product has a separate kernel, and the other one is the same as without products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Call, Func, Index, Input, Map, Read, Size
from adcompiler.ir.types import Dtype
from adcompiler.ir.walk import arrays_of, arrays_read
from adcompiler.ops.library import call
from adcompiler.targets.buffers import Into

OPERANDS = {"matmul": ((0, 1), (1, 2)), "matmul_tn": ((1, 0), (1, 2)), "matmul_nt": ((0, 1), (2, 1))}
Multiply = Callable[[str, Dtype], Callable[..., list[Any]]]  # the kernel of a product


class _Product(NamedTuple):
    """A call of a product; if `transposed`, the result is its transpose."""

    call: Call
    transposed: bool


class GemmEpilogue:
    """The final products of a program, run after the kernel of the rest: its `program` computes their
    factors."""

    def __init__(self, func: Func, multiply: Multiply) -> None:
        self.func, self.multiply = func, multiply
        self.last = {r: p for r in func.results if (p := _last(r, func)) is not None}
        self.rest = tuple(dict.fromkeys(r for r in func.results if r not in self.last))
        factors = (a for p in self.last.values() for a in p.call.operands)
        given = [a for a in dict.fromkeys(factors) if not (a in self.rest or isinstance(a, Input))]
        self.made = results = (*self.rest, *given)
        named = dict(zip(func.results, func.result_names, strict=True))
        names = tuple(named.get(r, "factor") for r in results)
        self.program = func.with_(results=results, result_names=names)

    def __call__(
        self, kernel: Callable[..., list[Any]], sizes: Sequence[int], args: Sequence[Any], into: Into = None
    ) -> list[Any]:
        """The results, computed by the kernel of the program: arrays, or scalars of rank 0."""
        given = dict(zip(self.func.results, into or (), strict=False))
        made = kernel(sizes, args, [given.get(a) for a in self.made])
        values: dict[Array, Any] = dict(zip(self.made, made, strict=True))
        values |= {
            a: args[a.position] for p in self.last.values() for a in p.call.operands if isinstance(a, Input)
        }
        for result, product in self.last.items():
            operands = [values[a] for a in product.call.operands]
            values[result] = self.product(product, operands, given.get(result))
        found: list[Any] = []
        for k, result in enumerate(self.func.results):
            again = result in self.func.results[:k] and result.rank
            found.append(values[result].copy() if again else values[result])
        return found

    def product(
        self, product: _Product, operands: Sequence[np.ndarray], into: np.ndarray | None
    ) -> np.ndarray:
        """The product of arrays, stored in `into` if given."""
        op, axes = product.call.op, OPERANDS[product.call.op]
        sizes = dict(zip(axes[0] + axes[1], operands[0].shape + operands[1].shape, strict=True))
        kernel = self.multiply(op, product.call.dtype)
        target = None if product.transposed else into
        made: np.ndarray
        (made,) = kernel([sizes[k] for k in range(3)], operands, [target])
        if not product.transposed:
            return made
        if into is None:
            return np.ascontiguousarray(made.T)
        into[...] = made.T
        return into


def product_of_two(op: str, dtype: Dtype) -> Func:
    """The program of a product of two matrices."""
    a, b = (Input(k, dtype, tuple(map(Size, axes))) for k, axes in enumerate(OPERANDS[op]))
    return Func("product", (a, b), ("a", "b"), (call(op, a, b),), ("c",), ("n", "k", "m"))


def pays(func: Func) -> bool:
    """Whether a program has loops, and all its calls are final products."""
    arrays = arrays_of(func.roots)
    calls = {a for a in arrays if isinstance(a, Call)}
    last = {p.call for r in func.results if (p := _last(r, func)) is not None}
    return any(isinstance(a, Item) for a in arrays) and bool(calls) and calls == last


def _last(result: Array, func: Func) -> _Product | None:
    """The product that a result is, if it has no other reader."""
    match result:
        case Call() as made:
            transposed = False
        case Map(body=Read(array=Call() as made, args=(Index(axis=1), Index(axis=0)))):
            transposed = True
        case _:
            return None
    readers = {a for a in arrays_of(func.roots) if made in arrays_read(a)}
    alone = readers <= {result} and not any(made in arrays_read(c.holds) for c in func.checks)
    return _Product(made, transposed) if alone and made.op in OPERANDS and made.rank == 2 else None
