"""Products of matrices after a kernel: results that nothing else reads, from factors that the kernel gives.

Where a program has loops of its own, and a product is the last that is done, as for the gradient of a matrix
that every turn reads, NumPy calls BLAS: the kernel stays what it is without products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler.codegen.buffers import Into
from adcompiler.ir.call import Call
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Func, Index, Input, Map, Read
from adcompiler.ir.walk import arrays_of, arrays_read

TRANSPOSED = {"matmul": (False, False), "matmul_tn": (True, False), "matmul_nt": (False, True)}


class _Product(NamedTuple):
    """A call of a product; `turned`, its transpose is the result."""

    call: Call
    turned: bool


class Apart:
    """The last products of a program, beside the kernel of the rest: its `program` gives their factors."""

    def __init__(self, func: Func) -> None:
        self.func = func
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
        """The results, by the kernel of the program: arrays, or scalars where the rank is 0."""
        given = dict(zip(self.func.results, into or (), strict=False))
        made = kernel(sizes, args, [given.get(a) for a in self.made])
        values: dict[Array, Any] = dict(zip(self.made, made, strict=True))
        values |= {
            a: args[a.position] for p in self.last.values() for a in p.call.operands if isinstance(a, Input)
        }
        for result, product in self.last.items():
            values[result] = product_of(product, values, given.get(result))
        found: list[Any] = []
        for k, result in enumerate(self.func.results):
            again = result in self.func.results[:k] and result.rank
            found.append(values[result].copy() if again else values[result])
        return found


def product_of(product: _Product, values: dict[Array, Any], into: np.ndarray | None) -> np.ndarray:
    """The product of arrays, put `into` one if it is given."""
    a, b = (
        values[o].T if t else values[o]
        for o, t in zip(product.call.operands, TRANSPOSED[product.call.op], strict=True)
    )
    return np.matmul(b.T, a.T, out=into) if product.turned else np.matmul(a, b, out=into)


def worth(func: Func) -> bool:
    """Whether a program has loops, and all its calls are products that come last."""
    arrays = arrays_of(func.roots)
    calls = {a for a in arrays if isinstance(a, Call)}
    last = {p.call for r in func.results if (p := _last(r, func)) is not None}
    return any(isinstance(a, Item) for a in arrays) and bool(calls) and calls == last


def _last(result: Array, func: Func) -> _Product | None:
    """The product that a result is, if nothing else reads it."""
    match result:
        case Call() as call:
            turned = False
        case Map(body=Read(array=Call() as call, args=(Index(axis=1), Index(axis=0)))):
            turned = True
        case _:
            return None
    readers = {a for a in arrays_of(func.roots) if call in arrays_read(a)}
    alone = readers <= {result} and not any(call in arrays_read(c.holds) for c in func.checks)
    return _Product(call, turned) if alone and call.op in TRANSPOSED and call.rank == 2 else None
