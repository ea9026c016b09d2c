"""One program in several kernels: fused loops alone, or BLAS for the products that lengths choose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from adcompiler.codegen.buffers import Into
from adcompiler.codegen.cuts import lengths
from adcompiler.ir.nodes import Func
from adcompiler.passes.gemm import Product, chosen, with_calls


class Compiled(Protocol):
    """What a backend makes of a program."""

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]: ...


class Variants:
    """A program with matrix products; each kernel is compiled when a call first has lengths for it."""

    def __init__(
        self,
        func: Func,
        products: Sequence[Product],
        compiled: Callable[[Func], Compiled],
        fewest: int | None = None,
    ) -> None:
        self.fewest = fewest
        self.func, self.products, self.compiled = func, products, compiled
        self.lengths = [lengths(p.lengths) for p in products]
        self.kernels: dict[tuple[int, ...], Compiled] = {}
        self.lock = threading.Lock()

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results: arrays, or scalars where the rank is 0."""
        contiguous = all(b is None or b.flags.c_contiguous for b in into or ())
        kernel = self.at(sizes) if contiguous else self.kernel(())  # BLAS writes contiguous arrays
        return kernel(sizes, args, into)

    def at(self, sizes: Sequence[int]) -> Compiled:
        """The kernel for these lengths."""
        return self.kernel(tuple(k for k, of in enumerate(self.lengths) if chosen(of(sizes), self.fewest)))

    def kernel(self, called: tuple[int, ...]) -> Compiled:
        """The kernel that calls BLAS for the products of these numbers."""
        if called not in self.kernels:
            with self.lock:
                if called not in self.kernels:
                    func = with_calls(self.func, [self.products[k] for k in called])
                    self.kernels[called] = self.compiled(func)
        return self.kernels[called]
