"""One program for arguments of given types, ready to be called on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from adcompiler.analysis.exact_lengths import Lengths
from adcompiler.errors import Error, LimitError, OutOfRangeError, ShapeError
from adcompiler.fork import Locked
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import NOT_NEGATIVE, Constraint
from adcompiler.interpreter.reference import Reference, length
from adcompiler.ir.loop import Item, Slot
from adcompiler.ir.nodes import Array, Const, Element, Func, Size, is_const
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import NUMPY
from adcompiler.ir.walk import arrays_of, is_computed
from adcompiler.lazy import cached_property
from adcompiler.passes.arrays.copy_aliased import copy_aliased
from adcompiler.passes.known_lengths import LEAST_LONGEST_LENGTH, Known, short
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.progress import compiling
from adcompiler.pytree.kinds import Kind
from adcompiler.targets.buffers import Into, put
from adcompiler.targets.cpu.kernels import KernelSelector
from adcompiler.targets.cpu.threads import checked

Types = tuple[Kind, ...]
Owner = tuple[str, int, int]  # the name of an input, its axis, and the length


class Traceable(Protocol):
    """The interface of functions that splitting and showing need."""

    backend: str

    def trace(self, types: Types) -> Lowered: ...
    def seen(self, types: Types) -> None: ...
    def describe(self, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[Types, list[Any], bool]: ...
    def positions(self, wrt: Any, types: Types) -> tuple[int, ...]: ...
    def inputs_of(self, positions: Sequence[int], types: Types) -> tuple[int, ...]: ...


class Executable(Protocol):
    """A program compiled by a backend."""

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]: ...


def closed(func: Func) -> Func:
    """A program, if no loop in it needs what only an iteration of the loop around it knows."""
    if any(isinstance(a, Slot) for a in arrays_of(func.roots)):
        raise LimitError(
            "an inner loop carries an array whose length the outer loop computes",
            remedy="take the length from the shape of an argument, or from an integer argument",
            source=func.source,
        )
    return func


def _optimised(func: Func) -> Func:
    return closed(run(OPTIMISE, func))


class _Interpreted:
    """The NumPy backend; results are copied into given buffers."""

    def __init__(self, func: Func, **_: Any) -> None:
        self.reference = Reference(copy_aliased(func))

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        found = self.reference(sizes, args)
        for k, result in enumerate(self.reference.func.results):
            if isinstance(result, Item | Ruled):  # a loop that did nothing gives what it began with
                others = (*args, *found[:k], *found[k + 1 :])
                if any(np.may_share_memory(found[k], a) for a in others if isinstance(a, np.ndarray)):
                    found[k] = found[k].copy()
        return put(found, into)


class Backend(Protocol):
    """A compiler of programs; `alternatives` are those of `Kernels`."""

    def __call__(self, func: Func, **alternatives: Any) -> Executable: ...


def _cpu(func: Func, precise: bool = False, threads: int | None = None, **alternatives: Any) -> Executable:
    from adcompiler.targets.cpu.targets import Cpu

    return KernelSelector(Cpu(precise, threads), func, **alternatives)


def _numba(func: Func, **alternatives: Any) -> Executable:
    from adcompiler.targets.cpu.targets import Cpu

    return KernelSelector(Cpu(precise=True, threads=1, by_numba=True), func, **alternatives)


def _cuda(func: Func, atomics: bool = False, fast: bool = False, **alternatives: Any) -> Executable:
    from adcompiler.targets.cpu.targets import Cuda

    return KernelSelector(Cuda(atomics, fast), func, **alternatives)


BACKENDS: dict[str, Backend] = {
    "cpu": _cpu, "cpu-precise": partial(_cpu, precise=True), "numba": _numba, "cuda": _cuda,
    "cuda-atomics": partial(_cuda, atomics=True), "cuda-fast": partial(_cuda, fast=True),
    "numpy": _Interpreted,
}  # fmt: skip


def backend_of(name: str, precise: bool, threads: int | None = None) -> str:
    """The backend that does the same without vectorised mathematics, if `precise`, and on so many `threads`:
    "cpu:2"."""
    exact = f"{name}-precise"
    chosen = exact if precise and exact in BACKENDS else name
    count = "" if threads is None else f":{checked(threads)}"
    return f"{chosen}{count}" if chosen in ("cpu", "cpu-precise") else name


def maker(backend: str) -> Backend:
    """The compiler of a backend; Error for an unknown name."""
    name, _, threads = backend.partition(":") if isinstance(backend, str) else ("", "", "")
    if name not in BACKENDS or (threads and not name.startswith("cpu")):
        raise Error(f"unknown backend {backend!r}", remedy=f"use one of {', '.join(BACKENDS)}")
    if not threads:
        return BACKENDS[name]
    count = checked(int(threads) if threads.isdecimal() else threads)
    return partial(_cpu, precise=name != "cpu", threads=count)


MOST_MET = 1000  # calls' lengths that are remembered to fit
MOST_FAST_PATHS = 100


class Specialisation:
    """A program, its executable (compiled when first called), and how its sizes follow from a call."""

    def __init__(self, lowered: Lowered, backend: str) -> None:
        self.lowered, self.backend = lowered, backend
        self.func = lowered.func
        self.making = Locked()
        self._executable: Executable | None = None
        self.sources = [
            (size.number, k, axis)
            for k, i in enumerate(self.func.inputs)
            for axis, size in enumerate(i.shape)
            if isinstance(size, Size)
        ]
        self.fixed = [
            (size, k, axis)
            for k, i in enumerate(self.func.inputs)
            for axis, size in enumerate(i.shape)
            if not isinstance(size, Size)
        ]

        self.scalars = [(k, NUMPY[r.dtype].type) for k, r in enumerate(self.func.results) if not r.rank]
        self.demands = [c for c in lowered.constraints if not c.merged]
        self.exact = Lengths(self.func)
        self.met: set[tuple[int, ...]] = set()  # lengths that fit them
        self.computed: dict[tuple[Any, ...], int] = {}  # by a length and the values of size symbols
        self.axes = frozenset(
            number for number, _, _ in self.sources
        )  # no number of iterations is among them
        self.fast_paths: dict[tuple[Any, ...], Callable[..., Any]] = {}  # by general way, lengths, classes

    @property
    def executable(self) -> Executable:
        """The program compiled for its backend."""
        if self._executable is None:
            with self.making.lock:
                if self._executable is None:
                    with compiling(self.func.name):
                        self._executable = self._compiled()
        return self._executable

    def use(self, executable: Executable) -> None:
        """Run an executable made elsewhere."""
        self._executable = executable

    def _compiled(self) -> Executable:
        """The program, and one for each of those that lengths choose."""
        make = maker(self.backend)
        if self.backend == "numpy":
            return make(_optimised(self.func))
        return make(self.func, known=self.known, optimised=_optimised)

    def known(self, sizes: Sequence[int]) -> Known:
        """What a kernel for these lengths knows of them: short axes are written out beside long ones, where
        that pays."""
        equal = tuple(self.equal_lengths(sizes))
        return Known(short(sizes, self.axes) if max(sizes, default=0) >= LEAST_LONGEST_LENGTH else (), equal)

    @cached_property
    def likely_equal(self) -> list[tuple[int, int]]:
        """The numbers of lengths one of which must be no less than the other: if nothing else is known, what
        reads an element asks whether it is there."""
        pairs = []
        axes = [n for i in self.func.inputs for n in i.shape if not is_const(n, 1)]
        axes += [Size(number) for number, _ in self.func.counts]
        for c in self.demands:
            if c.at_least and isinstance(c.left, Size) and isinstance(c.right, Size):
                left, right = axes[c.left.number], axes[c.right.number]
                if isinstance(left, Size) and isinstance(right, Size) and left is not right:
                    pairs.append((left.number, right.number))
        return pairs

    def equal_lengths(self, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Those of them that are equal for the lengths of a call."""
        return tuple((a, b) for a, b in self.likely_equal if sizes[a] == sizes[b])

    def sizes(self, args: Sequence[Any], given: Sequence[int] | None = None) -> list[int]:
        """The lengths of the size symbols; `given` where the inputs do not tell them all.

        Raises ShapeError that names the operands whose lengths do not fit.
        """
        sizes = [-1] * len(self.func.size_names) if given is None else list(given)
        for number, k in self.func.counts:
            sizes[number] = max(int(args[k]), 0)
        for number, k, axis in self.sources:
            found = args[k].shape[axis]
            if sizes[number] == -1:
                sizes[number] = found
            elif sizes[number] != found:
                self.mismatch(args)
        for size, k, axis in self.fixed:
            if args[k].shape[axis] != (
                size.value if isinstance(size, Const) else self._length(size, sizes, args)
            ):
                self.mismatch(args)
        if self.demands or max(sizes, default=0) > self.exact.bound:
            self.check_once(sizes, args)
        return sizes

    def _length(self, size: Element, sizes: Sequence[int], args: Sequence[Any]) -> int:
        """The value of a length; remembered unless it reads an argument."""
        key = (size, *sizes)
        found = self.computed.get(key)
        if found is None:
            found = length(size, sizes, self.values(args))
            if len(self.computed) < MOST_MET and not is_computed(size):
                self.computed[key] = found
        return found

    def check_once(self, sizes: Sequence[int], args: Sequence[Any]) -> None:
        """Check what is demanded of lengths, unless it has been for these."""
        key = tuple(sizes)
        if key in self.met:
            return
        self.check(self.demands, args)
        self.exact.check(sizes)
        if len(self.met) < MOST_MET:
            self.met.add(key)

    def values(self, args: Sequence[Any]) -> dict[Array, np.ndarray]:
        """The integers that lengths may be computed from."""
        pairs = zip(self.func.inputs, args, strict=True)
        return {i: np.asarray(a) for i, a in pairs if i.dtype == "i64"}

    def mismatch(self, args: Sequence[Any]) -> None:
        """Raise the error for the first equality of sizes that these arguments violate."""
        self.check(self.lowered.constraints, args)
        raise ShapeError("the shapes of the arguments do not fit", remedy=self._shapes(args))

    def check(self, constraints: Iterable[Constraint], args: Sequence[Any]) -> None:
        """Raise the error for the first of `constraints` that these arguments violate."""
        owners = [
            (self.func.input_names[k], axis, n)
            for k, arg in enumerate(args)
            for axis, n in enumerate(np.shape(arg))
            if n != 1
        ]
        lengths = [n for _, _, n in owners] + [max(int(args[k]), 0) for _, k in self.func.counts]
        for constraint in constraints:
            left, right = (length(size, lengths) for size in (constraint.left, constraint.right))
            if constraint.reach is not None and length(constraint.reach, lengths) <= 0:
                continue  # what demands it is never evaluated
            if left < right if constraint.at_least else left != right:
                self._raise(constraint, left, right, owners, args)

    def _raise(
        self, constraint: Constraint, left: int, right: int, owners: Sequence[Owner], args: Sequence[Any]
    ) -> None:
        sides = (constraint.left, left), (constraint.right, right)
        x, y = (
            f"{n} (axis {owners[size.number][1]} of {owners[size.number][0]})"
            if isinstance(size, Size) and size.number < len(owners)
            else str(n)
            for size, n in sides
        )
        if constraint.at_least and is_const(constraint.right, 0):
            raise ShapeError(
                f"{constraint.what} of {left}",
                remedy=f"{self._shapes(args)}; {NOT_NEGATIVE}",
                source=self.func.source,
                span=constraint.span,
            )
        if constraint.at_least:
            raise OutOfRangeError(
                f"{constraint.what}: the axis has length {x}, but at least {y} is needed",
                remedy=f"{self._shapes(args)}; {constraint.remedy}",
                source=self.func.source,
                span=constraint.span,
            )
        raise ShapeError(
            f"{constraint.what}: the lengths {x} and {y} differ",
            remedy=f"{self._shapes(args)}; {constraint.remedy}",
            source=self.func.source,
            span=constraint.span,
        )

    def _shapes(self, args: Sequence[Any]) -> str:
        shown = ", ".join(f"{n}: {np.shape(a)}" for n, a in zip(self.func.input_names, args, strict=True))
        return f"the arguments have shapes {shown}"

    def fast_path(
        self,
        lengths: Sequence[int],
        types: Types,
        args: Sequence[Any],
        plain: bool,
        general: Callable[..., Any],
    ) -> Callable[..., Any]:
        """What answers calls like that with `args`: a function that does so at once, or `general`, where
        arguments must be converted or looked into."""
        from adcompiler.targets.cpu.inline_cache import fast_path, fits

        if self.func.counts or not all(map(fits, types, args)):
            return general
        key = (general, *lengths, *map(type, args))  # pairs and numbers go other general ways
        if key not in self.fast_paths and len(self.fast_paths) < MOST_FAST_PATHS:
            made = fast_path(self.executable, lengths, types, args, self.lowered.structure, plain, general)
            self.fast_paths[key] = made or general
        return self.fast_paths.get(key, general)

    def __call__(
        self, args: Sequence[Any], plain: bool, sizes: Sequence[int] | None = None, into: Into = None
    ) -> list[Any]:
        """The results as a flat list; `plain` makes those of rank 0 Python numbers."""
        return self.run(self.sizes(args, sizes), args, plain, into)

    def run(self, lengths: Sequence[int], args: Sequence[Any], plain: bool, into: Into = None) -> list[Any]:
        """The results for lengths that fit."""
        try:
            found = self.executable(lengths, args, into)
        except MemoryError as error:
            raise LimitError(
                f"{self.func.name} needs more memory than available", remedy=self._shapes(args)
            ) from error
        for k, kind in self.scalars:
            value = found[k]
            if not plain or kind is np.float32:
                found[k] = kind(value)
            elif type(value) is not float and hasattr(value, "item"):
                found[k] = value.item()
        return found
