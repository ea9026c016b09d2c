"""The kernels of a program: one for each configuration, selected by the lengths of a call.

The best form of a program often depends on lengths: `select` chooses the form for the lengths of a call
(`Configuration`). A kernel is compiled when a call first needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

from adcompiler.analysis.exact_lengths import Lengths
from adcompiler.ir.nodes import Func
from adcompiler.kernels.emit.block_partition import lengths
from adcompiler.kernels.emit.traffic import Time, calls_pay, time_as_loops
from adcompiler.lazy import Memo, cached_property
from adcompiler.passes.known_lengths import NOTHING, Known, for_lengths
from adcompiler.passes.limits import LOOP_POINTS
from adcompiler.passes.order.gathered_products import Pays as Chooses
from adcompiler.passes.order.gathered_products import Site
from adcompiler.passes.order.gemm import Product, chosen, is_certain, with_calls
from adcompiler.passes.order.triangles import are_bounded
from adcompiler.passes.recurrences.loop_products import LoopProducts
from adcompiler.targets.buffers import Into
from adcompiler.targets.cpu.compiled import PLAIN, Mode
from adcompiler.targets.limits import (
    BOUNDED_CALLS_SLOWER,
    BOUNDED_SHARE,
    CALLS_SLOWER,
    FEWEST_LOOP_POINTS,
    LOOP_CALLS_SLOWER,
    MOST_KNOWN,
    MOST_STORED,
)

Sizes = Sequence[int]  # the values of a program's size symbols
Pays = Callable[[Sizes], bool]
Rows = tuple[bool, ...]


class Configuration(NamedTuple):
    """The choices about a kernel that depend on lengths.

    - known: which lengths are constants, and which of those that are likely to be equal are one symbol
    - rows: whether each product of gathered rows is one over rows, in the order in which they are asked for
    - products: the numbers of the matrix products that are calls
    - reordered: whether sums over pairs are interchanged, or bounded where a matrix is zero
    - mode: the variant one kernel's source is compiled as (`compiled.py`)
    """

    known: Known = NOTHING
    rows: Rows = ()
    products: tuple[int, ...] = ()
    reordered: bool = False
    mode: Mode = PLAIN


def never(sizes: Sizes) -> bool:
    """The default for programs without an alternative."""
    return False


class Form(NamedTuple):
    """A program for the scheduler, and an equivalent one that is better for lengths where it `pays`. `around`
    adds to a kernel the work done after it; then `whole` makes the program that includes this work."""

    func: Func
    other: Callable[[], Func | None] = lambda: None
    pays: Pays = never
    around: Callable[[Any], Any] = lambda kernel: kernel
    whole: Callable[[], Func] | None = None


class Target(Protocol):
    """A target of compilation. One that `packs` has contractions (`ir/nodes.py`)."""

    @property
    def packs(self) -> bool:
        """Whether products of windows are contractions."""
        ...

    def gathered(self, func: Func, chooses: Chooses) -> Func:
        """The same program with products of gathered rows over rows, where these are chosen."""
        ...

    def prepared(self, func: Func) -> Func:
        """The program for the scheduler, without products."""
        ...

    def with_products(self, func: Func) -> Func:
        """The same program, in a form in which products are sought."""
        ...

    def products(self, func: Func) -> tuple[Sequence[Product], int | None]:
        """The products that may be calls, and the least points worth a call, if not the default."""
        ...

    def with_loop_products(self, func: Func) -> LoopProducts | None:
        """The same program with products of its loops outside of them."""
        ...

    def form(self, func: Func) -> Form:
        """The program for the scheduler."""
        ...

    def finished(self, func: Func) -> Any:
        """A program of a form after all passes, for `compiled` and `predicted`."""
        ...

    def compiled(self, made: Any, mode: Mode, plain: Any) -> Any:
        """The kernel of a finished program; for other modes, `plain` is the kernel in the plain mode."""
        ...

    def predicted(self, made: Any) -> Callable[[Sizes], Time]:
        """The time of a finished program by its lengths, to compare programs; 0 if the target does not
        predict it."""
        ...

    def skips_zeros(self, func: Func, sizes: Sizes) -> bool:
        """Whether the loop order that lengths select may be one in which loops skip zeros of triangles."""
        ...

    def mode(self, kernel: Any, sizes: Sizes) -> Mode:
        """The mode for lengths, chosen by the kernel in the plain mode."""
        ...


class _Apart(NamedTuple):
    """A program with the products of its loops outside of them: all its products, and the numbers of those,
    which follow the products of the program as it is."""

    func: Func
    products: Sequence[Product]
    lengths: Sequence[Callable[[Sizes], Sequence[int]]]
    loops: frozenset[int]
    has_matrices: bool  # whether an iteration multiplies a matrix of several rows


def stored(lengths: Sequence[int]) -> int:
    """The elements that a product of a loop stores when it is outside of it: its result, and the factor that
    has a row for each iteration."""
    *cases, i, j, k = lengths
    return prod(cases) * (i * j + max(i, j) * k)


class _Program:
    """A program with its possible calls, and its forms."""

    def __init__(self, func: Func, target: Target) -> None:
        self.plain, self.func, self.target = target.prepared(func), target.with_products(func), target
        self.products, self.fewest = target.products(self.func)
        self.lengths = [lengths(p.lengths) for p in self.products]
        self.funcs: Memo[tuple[int, ...], Func] = Memo()
        self.forms: Memo[tuple[int, ...], Form] = Memo()
        self.programs: Memo[tuple[tuple[int, ...], bool], Any] = Memo()
        self.times: Memo[tuple[tuple[int, ...], bool], Callable[[Sizes], Time]] = Memo()
        self.slower: Memo[tuple[tuple[int, ...], Sizes], bool] = Memo()
        self.exact = Lengths(self.func, whole=True)
        self.given = func
        self.rows: Memo[Sizes, Rows] = Memo()

    def gathered(self, sizes: Sizes) -> Rows:
        """Whether each product of gathered rows is one over rows for these lengths; empty if none is."""

        def make() -> Rows:
            found: list[bool] = []

            def chooses(site: Site) -> bool:
                found.append(site.pays(lambda shape: lengths(shape)(sizes)))
                return found[-1]

            self.target.gathered(self.given, chooses)
            return tuple(found) if any(found) else ()

        return self.rows.made(tuple(sizes), make) if self.gathers else ()

    @cached_property
    def gathers(self) -> bool:
        """Whether there is a product of gathered rows."""
        found: list[Site] = []

        def chooses(site: Site) -> bool:
            found.append(site)
            return False

        self.target.gathered(self.given, chooses)
        return bool(found)

    def with_rows(self, rows: Rows) -> Func:
        """The program with these products over rows."""
        chosen = iter(rows)
        return self.target.gathered(self.given, lambda site: next(chosen))

    def chosen(self, sizes: Sizes) -> tuple[int, ...]:
        """The products that are calls for these lengths: those of the program, or those of the same program
        with the products of its loops outside of them."""
        found, apart = self.of_program(sizes), self.apart
        if apart is None:
            return found
        first, each = len(self.products), [of(sizes) for of in apart.lengths]
        other = tuple(first + k for k in self.candidates(apart.products, each))
        inside = [each[k - first] for k in apart.loops]
        pays = sum(map(prod, inside)) >= FEWEST_LOOP_POINTS and sum(map(stored, inside)) <= MOST_STORED
        if not pays or not apart.loops <= set(other):
            return found
        known = rounded(sizes)

        def make() -> bool:
            most = LOOP_CALLS_SLOWER if apart.has_matrices else 1
            return self.time(other, known).whole > most * self.time(found, known).whole

        return found if self.slower.made((other, tuple(known)), make) else other

    @cached_property
    def apart(self) -> _Apart | None:
        """The program with the products of its loops outside of them; None if it has none."""
        made = self.target.with_loop_products(self.func)
        if made is None:
            return None
        products, _ = self.target.products(made.func)
        first = len(self.products)
        loops = frozenset(first + k for k, p in enumerate(products) if p.array in made.sums)
        sides = (side for p in products if p.array in made.sums for side in (p.rows, p.columns))
        matrices = any(len(side) > 1 for side in sides if 0 in side)
        return _Apart(made.func, products, [lengths(p.lengths) for p in products], loops, matrices)

    def of_program(self, sizes: Sizes) -> tuple[int, ...]:
        """The products of the program as it is that are calls for these lengths."""
        each = [of(sizes) for of in self.lengths]
        found = self.candidates(self.products, each, self.fewest)
        outside = self.outside_loops([k for k in found if not self.products[k].in_loop], each, sizes)
        inside = tuple(k for k in found if self.products[k].in_loop)
        if not inside:
            return outside
        most, known = (*outside, *inside), rounded(sizes)

        def make() -> bool:
            calls = self.time(most, known)
            if calls.whole <= CALLS_SLOWER * (calls.computing + calls.in_loops):
                return False  # loops take no less, so that they need no passes and schedule
            return calls.whole > CALLS_SLOWER * self.time(outside, known).whole

        return outside if self.slower.made((most, tuple(known)), make) else most

    def candidates(
        self, products: Sequence[Product], lengths: Sequence[Sequence[int]], fewest: int | None = None
    ) -> list[int]:
        """The numbers of products that may be calls: outside of loops, of `fewest` points or more."""
        found = []
        for k, (product, each) in enumerate(zip(products, lengths, strict=True)):
            least = LOOP_POINTS if product.in_loop else fewest
            if chosen(each, least, product.is_packed and self.target.packs):
                found.append(k)
        return found

    def outside_loops(
        self, products: Sequence[int], each: Sequence[Sequence[int]], sizes: Sizes
    ) -> tuple[int, ...]:
        """Those of some products outside of loops that are calls for these lengths."""
        found = tuple(products)
        if not found or all(is_certain(each[k]) for k in found):
            return found
        pays = self.alone(found, each)
        slower = self.is_slower(found, rounded(sizes)) if pays is None else not pays
        return () if slower else found

    def alone(self, products: tuple[int, ...], lengths: Sequence[Sequence[int]]) -> bool | None:
        """Whether calls are faster, if the products alone decide that and no times of programs are needed:
        for calls, loops may not skip the zeros of triangles."""
        pays = calls_pay((self.products[k].array.dtype, lengths[k]) for k in products)
        return None if pays and any(self.bounded[k] for k in products) else pays

    @cached_property
    def bounded(self) -> list[bool]:
        """Which products loops may skip points of."""
        return are_bounded(self.func, (p.array for p in self.products))

    def is_slower(self, products: tuple[int, ...], sizes: Sizes) -> bool:
        """Whether the program takes longer with these products as calls, by the predicted times."""

        def make() -> bool:
            calls = self.time(products, sizes)
            if calls.whole <= self.least_time(products, sizes, calls):
                return False
            other = self.other((), sizes)
            most = CALLS_SLOWER if other is None or not other.across else BOUNDED_CALLS_SLOWER
            return calls.whole > most * self.time((), sizes).whole

        return self.slower.made((products, tuple(sizes)), make)

    def least_time(self, products: tuple[int, ...], sizes: Sizes, calls: Time) -> float:
        """A bound of what `is_slower` compares with, without the passes and the schedule of the program
        without calls: it has the operations of the one with `calls`, and the products as loops."""
        each = (self.lengths[k](sizes) for k in products)
        loops = sum(
            time_as_loops(n) * (BOUNDED_SHARE if self.bounded[k] else 1.0)
            for k, n in zip(products, each, strict=True)
        )
        skips = any(self.bounded[k] for k in products) and self.target.skips_zeros(self.plain, sizes)
        return (BOUNDED_CALLS_SLOWER if skips else CALLS_SLOWER) * (calls.computing + loops)

    def other(self, products: tuple[int, ...], sizes: Sizes) -> Func | None:
        """The program with another loop order, if the lengths select it."""
        form = self.form(products)
        return form.other() if form.pays(sizes) else None

    def time(self, products: tuple[int, ...], sizes: Sizes) -> Time:
        """The predicted time of the program in which these products are calls, in the loop order that its
        lengths select."""
        whole, reordered = self.form(products).whole, self.other(products, sizes) is not None

        def make() -> Callable[[Sizes], Time]:
            if whole is not None and not reordered:
                return self.target.predicted(self.target.finished(whole()))
            return self.target.predicted(self.finished(products, reordered))

        return self.times.made((products, reordered), make)(sizes)

    def with_calls(self, products: tuple[int, ...]) -> Func:
        """The program in which these products are calls."""
        if not products:
            return self.plain
        func, known, first = self.func, self.products, 0
        if products[0] >= len(known) and self.apart is not None:
            func, known, first = self.apart.func, self.apart.products, len(known)
        chosen = [known[k - first] for k in products]
        return self.funcs.made(products, lambda: with_calls(func, chosen, self.target.packs))

    def finished(self, products: tuple[int, ...], reordered: bool) -> Any:
        """The program in which these products are calls after all passes, in one of its loop orders."""
        form = self.form(products)
        func = form.other() if reordered else None
        return self.programs.made((products, reordered), lambda: self.target.finished(func or form.func))

    def form(self, products: tuple[int, ...]) -> Form:
        """Its form for the scheduler."""
        return self.forms.made(products, lambda: self.target.form(self.with_calls(products)))


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
        self.programs: Memo[Known, _Program] = Memo(MOST_KNOWN + 1)  # and the one for any lengths
        self.over_rows: Memo[tuple[Known, Rows], _Program] = Memo(MOST_KNOWN)
        self.kernels: Memo[Configuration, Any] = Memo()
        self.selected: Memo[tuple[int, ...], Any] = Memo()

    def __call__(self, sizes: Sizes, args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results: arrays, or scalars of rank 0."""
        contiguous = into is None or all(b is None or b.flags.c_contiguous for b in into)
        found: list[Any] = (self.at(sizes) if contiguous else self.at(sizes, False))(sizes, args, into)
        return found

    def at(self, sizes: Sizes, contiguous: bool = True) -> Any:
        """The kernel of a call; calls store only `contiguous` results."""
        key = tuple(sizes)
        if contiguous and key in self.selected:
            return self.selected[key]
        configuration = self.select(sizes, contiguous)
        kernel = self.form(configuration).around(self.kernel(configuration))
        if contiguous:
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
        rows = self.program(known).gathered(rounded(sizes))
        products = self.program(known, rows).chosen(sizes) if contiguous else ()
        found = Configuration(known, rows, products)
        found = found._replace(reordered=self.form(found).pays(sizes))
        return found._replace(mode=self.target.mode(self.kernel(found), sizes))

    def program(self, known: Known, rows: Rows = ()) -> _Program:
        """The program for any lengths, or specialised for known ones; with products over `rows`."""
        if rows:
            base = self.program(known)
            return self.over_rows.made((known, rows), lambda: _Program(base.with_rows(rows), self.target))
        make = lambda: _Program(self.optimised(for_lengths(self.func, known)), self.target)  # noqa: E731
        return self.programs.made(known, make)

    def form(self, configuration: Configuration) -> Form:
        """The program for the scheduler."""
        return self.program(configuration.known, configuration.rows).form(configuration.products)

    def kernel(self, configuration: Configuration) -> Any:
        """The kernel of a configuration."""

        def make() -> Any:
            known, rows, products, reordered, mode = configuration
            made = self.program(known, rows).finished(products, reordered)
            plain = self.kernel(configuration._replace(mode=PLAIN)) if mode != PLAIN else None
            return self.target.compiled(made, mode, plain)

        return self.kernels.made(configuration, make)


def kernel_at(executable: Any, sizes: Sizes) -> Any:
    """The kernel of a call with these lengths."""
    return executable.at(sizes) if isinstance(executable, KernelSelector) else executable
