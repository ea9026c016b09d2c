"""The kernels of a program: one for each configuration, selected by the lengths of a call.

The best form of a program often depends on lengths: `select` chooses the form for the lengths of a call
(`Configuration`). A kernel is compiled when a call first needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, NamedTuple, Protocol

from adcompiler.analysis.exact_lengths import Lengths
from adcompiler.fork import Locked
from adcompiler.ir.nodes import Func
from adcompiler.kernels.emit.block_partition import lengths
from adcompiler.passes.known_lengths import NOTHING, Known, for_lengths
from adcompiler.passes.order.gemm import Product, chosen, is_certain, with_calls
from adcompiler.targets.buffers import Into
from adcompiler.targets.cpu.compiled import PLAIN, Mode

MOST_LENGTHS = 1000  # most calls' lengths whose kernels are cached
SLOWER = 1.1  # by which calls must lose to loops in predicted times: loops rarely reach theirs
MOST_KNOWN = 8  # most programs specialised for lengths

Sizes = Sequence[int]  # the values of a program's size symbols
Pays = Callable[[Sizes], bool]


class Configuration(NamedTuple):
    """The choices about a kernel that depend on lengths.

    known which lengths are constants, and which of those that are likely to be equal are one symbol products
    the numbers of the matrix products that BLAS computes reordered sums over pairs are interchanged, or
    bounded where a matrix is zero mode the variant one kernel's source is compiled as (`compiled.py`)
    """

    known: Known = NOTHING
    products: tuple[int, ...] = ()
    reordered: bool = False
    mode: Mode = PLAIN


def never(sizes: Sizes) -> bool:
    """The default for programs without an alternative."""
    return False


class Form(NamedTuple):
    """A program for the scheduler, and an equivalent one that is better for lengths where it `pays`. `around`
    adds to a kernel the work done after it."""

    func: Func
    other: Func | None = None
    pays: Pays = never
    around: Callable[[Any], Any] = lambda kernel: kernel


class Target(Protocol):
    """A target of compilation."""

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """The products that BLAS could compute, and the least points worth a call, if not the default."""
        ...

    def form(self, func: Func) -> Form:
        """The program for the scheduler."""
        ...

    def compiled(self, func: Func, mode: Mode, plain: Any) -> Any:
        """The kernel of a form; for other modes, `plain` is the kernel in the plain mode."""
        ...

    def predicted(self, func: Func) -> Callable[[Sizes], float]:
        """The time of a program by its lengths, to compare programs; 0 if the target does not predict it."""
        ...

    def mode(self, kernel: Any, sizes: Sizes) -> Mode:
        """The mode for lengths, chosen by the kernel in the plain mode."""
        ...


class _Program:
    """A program with its possible BLAS calls, and its forms."""

    def __init__(self, func: Func, target: Target) -> None:
        self.func, self.target = func, target
        self.products, self.fewest = target.products(func)
        self.lengths = [lengths(p.lengths) for p in self.products]
        self.funcs: dict[tuple[int, ...], Func] = {(): func}
        self.forms: dict[tuple[int, ...], Form] = {}
        self.times: dict[tuple[int, ...], Callable[[Sizes], float]] = {}
        self.slower: dict[tuple[tuple[int, ...], Sizes], bool] = {}
        self.exact = Lengths(func, whole=True)

    def chosen(self, sizes: Sizes) -> tuple[int, ...]:
        """The products that BLAS computes for these lengths."""
        each = [of(sizes) for of in self.lengths]
        found = tuple(k for k, lengths in enumerate(each) if chosen(lengths, self.fewest))
        if not found or all(is_certain(each[k]) for k in found):
            return found
        return () if self.is_slower(found, rounded(sizes)) else found

    def is_slower(self, products: tuple[int, ...], sizes: Sizes) -> bool:
        """Whether the program takes longer with these products as calls, by the predicted times."""
        key = products, tuple(sizes)
        if key not in self.slower:
            if len(self.slower) >= MOST_LENGTHS:
                self.slower.clear()
            without, with_calls = (self.time(p, sizes) for p in ((), products))
            self.slower[key] = with_calls > SLOWER * without
        return self.slower[key]

    def time(self, products: tuple[int, ...], sizes: Sizes) -> float:
        """The predicted time of the program in which BLAS computes these products."""
        if products not in self.times:
            self.times[products] = self.target.predicted(self.with_calls(products))
        return self.times[products](sizes)

    def with_calls(self, products: tuple[int, ...]) -> Func:
        """The program in which BLAS computes these products."""
        if products not in self.funcs:
            self.funcs[products] = with_calls(self.func, [self.products[k] for k in products])
        return self.funcs[products]

    def form(self, products: tuple[int, ...]) -> Form:
        """Its form for the scheduler."""
        if products not in self.forms:
            self.forms[products] = self.target.form(self.with_calls(products))
        return self.forms[products]


def rounded(sizes: Sizes) -> Sizes:
    """Lengths with three significant bits: similar lengths have one decision, which depends on nothing
    else."""
    return tuple(n >> s << s for n in sizes for s in (max(n.bit_length() - 3, 0),))


class KernelSelector:
    """A program compiled for a target. `known` gives the facts about lengths that a kernel may rely on. Each
    program is `optimised` when first needed."""

    def __init__(
        self,
        target: Target,
        func: Func,
        known: Callable[[Sizes], Known] = lambda sizes: NOTHING,
        optimised: Callable[[Func], Func] = lambda func: func,
    ) -> None:
        self.target, self.func, self.known, self.optimised = target, func, known, optimised
        self.programs: dict[Known, _Program] = {}
        self.kernels: dict[Configuration, Any] = {}
        self.selected: dict[tuple[int, ...], Any] = {}
        self.making = Locked(RLock)

    def __call__(self, sizes: Sizes, args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results: arrays, or scalars of rank 0."""
        contiguous = into is None or all(b is None or b.flags.c_contiguous for b in into)
        found: list[Any] = (self.at(sizes) if contiguous else self.at(sizes, False))(sizes, args, into)
        return found

    def at(self, sizes: Sizes, contiguous: bool = True) -> Any:
        """The kernel of a call; BLAS computes only `contiguous` results."""
        key = tuple(sizes)
        if contiguous and key in self.selected:
            return self.selected[key]
        configuration = self.select(sizes, contiguous)
        kernel = self.form(configuration).around(self.kernel(configuration))
        if contiguous and len(self.selected) < MOST_LENGTHS:
            self.selected[key] = kernel
        return kernel

    @property
    def general(self) -> Any:
        """The kernel that assumes nothing about lengths."""
        return self.kernel(Configuration())

    def select(self, sizes: Sizes, contiguous: bool = True) -> Configuration:
        """The configuration for the lengths of a call."""
        known = self.known(sizes)
        if known not in self.programs and len(self.programs) >= MOST_KNOWN:
            known = NOTHING
        self.program(known).exact.check(sizes)
        products = self.program(known).chosen(sizes) if contiguous else ()
        found = Configuration(known, products)
        found = found._replace(reordered=self.form(found).pays(sizes))
        return found._replace(mode=self.target.mode(self.kernel(found), sizes))

    def program(self, known: Known) -> _Program:
        """The program for any lengths, or specialised for known ones."""
        with self.making.lock:
            if known not in self.programs:
                func = self.optimised(for_lengths(self.func, known))
                self.programs[known] = _Program(func, self.target)
            return self.programs[known]

    def form(self, configuration: Configuration) -> Form:
        """The program for the scheduler."""
        with self.making.lock:
            return self.program(configuration.known).form(configuration.products)

    def kernel(self, configuration: Configuration) -> Any:
        """The kernel of a configuration."""
        with self.making.lock:
            if configuration not in self.kernels:
                form, mode = self.form(configuration), configuration.mode
                func = form.other if configuration.reordered and form.other is not None else form.func
                plain = self.kernel(configuration._replace(mode=PLAIN)) if mode != PLAIN else None
                self.kernels[configuration] = self.target.compiled(func, mode, plain)
            return self.kernels[configuration]


def kernel_at(executable: Any, sizes: Sizes) -> Any:
    """The kernel of a call with these lengths."""
    return executable.at(sizes) if isinstance(executable, KernelSelector) else executable
