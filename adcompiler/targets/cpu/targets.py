"""From an optimised program to its kernels, for each target: passes, and selection by lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar

from adcompiler.analysis.puts import Dissolved
from adcompiler.ir.nodes import Func
from adcompiler.ir.types import Dtype
from adcompiler.ir.walk import arrays_of
from adcompiler.kernels.emit.block_partition import lengths
from adcompiler.kernels.emit.traffic import Time, predicted_time
from adcompiler.kernels.schedule.materialise import Scheduled, scheduled
from adcompiler.kernels.schedule.schedule import schedule
from adcompiler.lazy_dataclass import dataclass
from adcompiler.passes.limits import CALL_POINTS
from adcompiler.passes.order.gathered_products import Pays as Chooses
from adcompiler.passes.order.gathered_products import gathered_products
from adcompiler.passes.order.gemm import Product, found, found_in_loops, with_calls
from adcompiler.passes.order.guarded_products import guarded_products
from adcompiler.passes.order.interchange import interchange
from adcompiler.passes.order.interchange import pays as interchange_pays
from adcompiler.passes.order.triangles import lengths as rows
from adcompiler.passes.order.triangles import pays as bounded_pays
from adcompiler.passes.order.triangles import triangles
from adcompiler.passes.pipeline import FINISH, GATHERED, PREPARE, run
from adcompiler.passes.recurrences.loop_products import LoopProducts, loop_products
from adcompiler.targets.cpu.compiled import PLAIN, CpuKernel, Mode
from adcompiler.targets.cpu.gemm_epilogue import GemmEpilogue, pays, product_of_two
from adcompiler.targets.cpu.kernels import Form, KernelSelector, Pays, Sizes


@dataclass(frozen=True)
class Cpu:
    """Processors. `threads` threads share a kernel (None: as many as the process has); `precise` disables
    vectorised mathematics; `by_numba` compiles with numba, for one thread."""

    precise: bool = False
    threads: int | None = None
    by_numba: bool = False
    packs: ClassVar[bool] = True

    def gathered(self, func: Func, chooses: Chooses) -> Func:
        """Products of gathered rows become products of rows."""
        made = gathered_products(func, chooses)
        return func if made.roots == func.roots else run(GATHERED, made)

    def prepared(self, func: Func) -> Func:
        """Guarded sums become products of matrices."""
        return guarded_products(func)

    def with_products(self, func: Func) -> Func:
        """Sums over windows, too."""
        return guarded_products(func, windows=True)

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """A lower threshold applies to products after all loops of a program: the kernel stays unchanged."""
        products, inside = found(func), found_in_loops(func)
        after = bool(products) and pays(with_calls(func, products, self.packs))
        return [*products, *inside], CALL_POINTS if after else None

    def with_loop_products(self, func: Func) -> LoopProducts | None:
        """Products of vectors and matrices in loops, for all iterations at once."""
        return loop_products(func)

    def form(self, func: Func) -> Form:
        """Apply passes up to the choice of loop orders; final products run after the kernel."""
        if not pays(func):
            return _alternatives(run(PREPARE, func))
        epilogue = GemmEpilogue(func, self.multiply)
        form = _alternatives(run(PREPARE, epilogue.program))
        around = lambda kernel: partial(epilogue, kernel)  # noqa: E731
        return form._replace(around=around, whole=lambda: run(PREPARE, func))

    def multiply(self, op: str, dtype: Dtype) -> KernelSelector:
        """The kernel of a product of matrices."""
        return _product(op, dtype, self.precise, self.threads)

    def finished(self, func: Func) -> Scheduled:
        """Apply the last passes, schedule, and materialise."""
        return scheduled(run(FINISH, func))

    def compiled(self, made: Scheduled, mode: Mode, plain: CpuKernel | None) -> CpuKernel:
        """The kernel of a scheduled program."""
        return CpuKernel(made, self.precise, self.threads, mode, plain, by_numba=self.by_numba)

    def predicted(self, made: Scheduled) -> Callable[[Sizes], Time]:
        """The nominal nanoseconds of a scheduled program."""
        return predicted_time(made)

    def skips_zeros(self, func: Func, sizes: Sizes) -> bool:
        """Whether sums are bounded by triangles, and these pay."""
        bounded = triangles(func)
        return bool(bounded.across) and bounded_pays(lengths(rows(bounded))(sizes))

    def mode(self, kernel: CpuKernel, sizes: Sizes) -> Mode:
        """The mode that suits the kernel's loops and points; numba's kernels have only one."""
        return kernel.mode_at(sizes) if not self.by_numba else PLAIN


@dataclass(frozen=True)
class Finished(Cpu):
    """Processors, for a program to which all passes have been applied."""

    def gathered(self, func: Func, chooses: Chooses) -> Func:
        """The program unchanged."""
        return func

    def prepared(self, func: Func) -> Func:
        """The program unchanged."""
        return func

    def with_products(self, func: Func) -> Func:
        """The program unchanged."""
        return func

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """No products are sought."""
        return (), None

    def with_loop_products(self, func: Func) -> LoopProducts | None:
        """None are sought."""
        return None

    def form(self, func: Func) -> Form:
        """The program unchanged."""
        return Form(func)

    def finished(self, func: Func) -> Scheduled:
        """Schedule and materialise."""
        return scheduled(func)


@dataclass(frozen=True)
class Cuda:
    """Devices. With `atomics`, the last bits of scatters differ between runs; with `fast`, mathematics is
    approximate."""

    atomics: bool = False
    fast: bool = False
    packs: ClassVar[bool] = False

    def gathered(self, func: Func, chooses: Chooses) -> Func:
        """The program with stores as arrays that select; sums at computed places sort these."""
        return Dissolved().func(func)

    def prepared(self, func: Func) -> Func:
        """The program unchanged: the kernels of both sums would run."""
        return func

    def with_products(self, func: Func) -> Func:
        """The program unchanged."""
        return func

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """Large products of two matrices."""
        return [p for p in found(func) if not p.cases], None

    def with_loop_products(self, func: Func) -> LoopProducts | None:
        """None: the times of kernels on a device are not predicted."""
        return None

    def form(self, func: Func) -> Form:
        """The program unchanged: all passes run when it is compiled."""
        return Form(func)

    def finished(self, func: Func) -> Func:
        """The program unchanged."""
        return func

    def compiled(self, made: Func, mode: Mode, plain: Any) -> Any:
        """The program on a device, with its own kernels for small and large calls."""
        from adcompiler.targets.cuda.backend import executable

        return executable(made, self.atomics, self.fast)

    def predicted(self, made: Func) -> Callable[[Sizes], Time]:
        """Nothing is predicted: every product that `products` finds is a call if it is large."""
        return lambda sizes: Time(0.0, 0.0)

    def skips_zeros(self, func: Func, sizes: Sizes) -> bool:
        """No loop order is chosen here."""
        return False

    def mode(self, kernel: Any, sizes: Sizes) -> Mode:
        """The only mode."""
        return PLAIN


@cache
def _product(op: str, dtype: Dtype, precise: bool, threads: int | None) -> KernelSelector:
    return KernelSelector(Finished(precise, threads), product_of_two(op, dtype))


def finished(func: Func) -> KernelSelector:
    """The kernels of a program to which all passes have been applied."""
    return KernelSelector(Finished(), func)


def _alternatives(func: Func) -> Form:
    """A program, and the same with other loop orders, if any: sums bounded by triangles, or interchanged.
    Whether interchanged sums share a loop is found for the first lengths for which they pay."""
    bounded = triangles(func)
    if bounded.across:
        of = lengths(rows(bounded))
        return Form(func, lambda: bounded, lambda sizes: bounded_pays(of(sizes)))
    others = [other for o in (True, False) if (other := interchange(func, outer=o)).interchanged]
    if not others:
        return Form(func)
    each = [_interchange_pays(other) for other in others]

    @cache
    def sharing() -> int | None:
        return next((k for k, other in enumerate(others) if shares(run(FINISH, other))), None)

    def interchanged() -> Func | None:
        k = sharing()
        return None if k is None else others[k]

    def pays(sizes: Sizes) -> bool:
        if not any(of(sizes) for of in each):
            return False
        k = sharing()
        return k is not None and each[k](sizes)

    return Form(func, interchanged, pays)


def _interchange_pays(other: Func) -> Pays:
    """A predicate: whether to interchange these sums."""
    each = [lengths(a.domain) for a in arrays_of(other.roots) if a in other.interchanged]
    return lambda sizes: all(interchange_pays(of(sizes)) for of in each)


def shares(func: Func) -> bool:
    """Whether each interchanged sum shares a loop with others of several loops. A sum that needs all of
    another one does not."""
    tasks = [t for t in schedule(func).tasks if t.array in func.interchanged]
    nests = ([o for o in t.loops[0].tasks if o.array not in func.interchanged] for t in tasks)
    return bool(tasks) and all(any(len(o.order) > 1 for o in others) for others in nests)
