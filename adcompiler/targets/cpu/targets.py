"""From an optimised program to its kernels, for each target: passes, and selection by lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from adcompiler.ir.nodes import Func
from adcompiler.ir.types import Dtype
from adcompiler.ir.walk import arrays_of
from adcompiler.kernels.emit.block_partition import lengths
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.kernels.schedule.schedule import schedule
from adcompiler.passes.order.gemm import CALL_POINTS, Product, found, with_calls
from adcompiler.passes.order.interchange import interchange
from adcompiler.passes.order.interchange import pays as interchange_pays
from adcompiler.passes.order.triangles import lengths as rows
from adcompiler.passes.order.triangles import pays as bounded_pays
from adcompiler.passes.order.triangles import triangles
from adcompiler.passes.pipeline import FINISH, PREPARE, run
from adcompiler.targets.cpu.compiled import PLAIN, CpuKernel, Mode
from adcompiler.targets.cpu.gemm_epilogue import GemmEpilogue, product_of_two, worth
from adcompiler.targets.cpu.kernels import Form, KernelSelector, Pays, Sizes


@dataclass(frozen=True)
class Cpu:
    """Processors: kernels that `threads` threads share (None: as many as the process has); `precise`, without
    mathematics in vectors. Or numba compiles them, for one thread."""

    precise: bool = False
    threads: int | None = None
    by_numba: bool = False

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """Products after all loops of a program are worth a call earlier: the kernel stays as it is."""
        products = found(func)
        return products, CALL_POINTS if products and worth(with_calls(func, products)) else None

    def form(self, func: Func) -> Form:
        """Passes up to the choice of the order of loops; products that come last stand after the kernel."""
        if not worth(func):
            return _alternatives(run(PREPARE, func))
        apart = GemmEpilogue(func, self.multiply)
        form = _alternatives(run(PREPARE, apart.program))
        return form._replace(around=lambda kernel: partial(apart, kernel))

    def multiply(self, op: str, dtype: Dtype) -> KernelSelector:
        """The kernel of a product of matrices."""
        return _product(op, dtype, self.precise, self.threads)

    def compiled(self, func: Func, mode: Mode, plain: CpuKernel | None) -> CpuKernel:
        """The last passes, the schedule, and what it materialises."""
        made = scheduled(run(FINISH, func)) if plain is None else plain.made
        return CpuKernel(made, self.precise, self.threads, mode, plain, by_numba=self.by_numba)

    def mode(self, kernel: CpuKernel, sizes: Sizes) -> Mode:
        """What the kernel's loops and points ask for; numba's kernels have one form."""
        return kernel.mode_at(sizes) if not self.by_numba else PLAIN


@dataclass(frozen=True)
class Finished(Cpu):
    """Processors, for a program that has been through all passes."""

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """None are looked for."""
        return (), None

    def form(self, func: Func) -> Form:
        """As it is."""
        return Form(func)

    def compiled(self, func: Func, mode: Mode, plain: CpuKernel | None) -> CpuKernel:
        """The schedule, and what it materialises."""
        made = scheduled(func) if plain is None else plain.made
        return CpuKernel(made, self.precise, self.threads, mode, plain)


@dataclass(frozen=True)
class Cuda:
    """Devices; with `atomics` sums at computed places have other last bits in every run, and with `fast`
    mathematics is approximate."""

    atomics: bool = False
    fast: bool = False

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """Those of two matrices that are large."""
        return [p for p in found(func) if not p.cases], None

    def form(self, func: Func) -> Form:
        """All passes come when it is compiled."""
        return Form(func)

    def compiled(self, func: Func, mode: Mode, plain: Any) -> Any:
        """The program on a device, which has its own kernels for small and large calls."""
        from adcompiler.targets.cuda.backend import executable

        return executable(func, self.atomics, self.fast)

    def mode(self, kernel: Any, sizes: Sizes) -> Mode:
        """There is one."""
        return PLAIN


@cache
def _product(op: str, dtype: Dtype, precise: bool, threads: int | None) -> KernelSelector:
    return KernelSelector(Finished(precise, threads), product_of_two(op, dtype))


def finished(func: Func) -> KernelSelector:
    """The kernels of a program that has been through all passes."""
    return KernelSelector(Finished(), func)


def _alternatives(func: Func) -> Form:
    """A program, and that with loops in another order, if it has one: sums bounded by triangles, or
    interchanged."""
    bounded = triangles(func)
    if bounded.across:
        of = lengths(rows(bounded))
        return Form(func, bounded, lambda sizes: bounded_pays(of(sizes)))
    for other in (interchange(func), interchange(func, outer=False)):
        if other.interchanged and shares(run(FINISH, other)):
            return Form(func, other, _interchange_pays(other))
    return Form(func)


def _interchange_pays(other: Func) -> Pays:
    """Whether the sums that are interchanged should be."""
    each = [lengths(a.domain) for a in arrays_of(other.roots) if a in other.interchanged]
    return lambda sizes: all(interchange_pays(of(sizes)) for of in each)


def shares(func: Func) -> bool:
    """Whether all sums that are interchanged share a loop with others of several loops. A sum that needs all
    of another one does not."""
    tasks = [t for t in schedule(func).tasks if t.array in func.interchanged]
    nests = ([o for o in t.loops[0].tasks if o.array not in func.interchanged] for t in tasks)
    return bool(tasks) and all(any(len(o.order) > 1 for o in others) for others in nests)
