"""One program in several kernels, among which lengths choose.

Lengths that may be equal as one, where they are; fused loops alone, or BLAS for some products; sums as they
are, or turned; sums over triangles with vectors along rows, or along points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

from adcompiler.codegen.buffers import Into
from adcompiler.codegen.cpu import Compiled as Fused
from adcompiler.codegen.cuts import lengths
from adcompiler.codegen.schedule import schedule
from adcompiler.fork import Locked
from adcompiler.ir.nodes import Func
from adcompiler.ir.walk import arrays_of
from adcompiler.passes.gemm import Product, chosen, with_calls
from adcompiler.passes.pipeline import FINISH, run
from adcompiler.passes.triangles import lengths as rows
from adcompiler.passes.triangles import pays as bounded_pays
from adcompiler.passes.triangles import triangles
from adcompiler.passes.turn import pays as turned_pays
from adcompiler.passes.turn import turn


class Compiled(Protocol):
    """What a backend makes of a program."""

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]: ...


def kernel_at(executable: Any, sizes: Sequence[int]) -> Any:
    """The kernel of a call with these lengths."""
    found = executable.at(sizes) if hasattr(executable, "at") else executable
    return found if found is executable else kernel_at(found, sizes)


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
        self.making = Locked()

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results: arrays, or scalars where the rank is 0."""
        contiguous = all(b is None or b.flags.c_contiguous for b in into or ())
        kernel = self.at(sizes) if contiguous else self.kernel(())  # BLAS writes contiguous arrays
        return kernel(sizes, args, into)

    def at(self, sizes: Sequence[int]) -> Compiled:
        """The kernel for these lengths."""
        called = tuple(k for k, of in enumerate(self.lengths) if chosen(of(sizes), self.fewest))
        kernel = self.kernel(called)
        return kernel.at(sizes) if isinstance(kernel, Choice) else kernel

    def kernel(self, called: tuple[int, ...]) -> Compiled:
        """The kernel that calls BLAS for the products of these numbers."""
        if called not in self.kernels:
            with self.making.lock:
                if called not in self.kernels:
                    func = with_calls(self.func, [self.products[k] for k in called])
                    self.kernels[called] = self.compiled(func)
        return self.kernels[called]


Pays = Callable[[Sequence[int]], bool]  # for lengths


class Choice:
    """Two programs for the same, the other one where it `pays`."""

    def __init__(self, func: Func, other: Func, compiled: Callable[[Func], Any], pays: Pays) -> None:
        self.pays = pays
        self.plain, self.other = (cache(lambda one=one: compiled(one)) for one in (func, other))

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results: arrays, or scalars where the rank is 0."""
        found: list[Any] = self.at(sizes)(sizes, args, into)
        return found

    def at(self, sizes: Sequence[int]) -> Any:
        """The kernel for these lengths."""
        return self.other() if self.pays(sizes) else self.plain()


def chosen_later(func: Func, compiled: Callable[[Func], Fused]) -> Fused | Choice:
    """A program for the scheduler: its kernel, or two among which lengths choose."""
    bounded = triangles(func)
    if bounded.across:
        of = lengths(rows(bounded))
        return Choice(func, bounded, compiled, lambda sizes: bounded_pays(of(sizes)))
    for turned in (turn(func), turn(func, outer=False)):
        if turned.turned and shares(run(FINISH, turned)):
            return Choice(func, turned, compiled, _turned_pays(turned))
    return compiled(func)


def _turned_pays(turned: Func) -> Pays:
    """Whether the sums that are turned shall be."""
    each = [lengths(a.domain) for a in arrays_of(turned.roots) if a in turned.turned]
    return lambda sizes: all(turned_pays(of(sizes)) for of in each)


def shares(func: Func) -> bool:
    """Whether all sums that are turned share a loop with others of several loops. A sum that needs all of
    another one does not."""
    tasks = [t for t in schedule(func).tasks if t.array in func.turned]
    nests = ([o for o in t.loops[0].tasks if o.array not in func.turned] for t in tasks)
    return bool(tasks) and all(any(len(o.order) > 1 for o in others) for others in nests)
