"""The lengths of a call: how the sizes of a program follow from its arguments, and what must hold of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from adcompiler.analysis.exact_lengths import Lengths
from adcompiler.errors import OutOfRangeError, ShapeError
from adcompiler.frontend.values.sizes import NOT_NEGATIVE, Constraint
from adcompiler.interpreter.reference import length
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Const, Element, Func, Reduce, Size, is_const
from adcompiler.ir.walk import arrays_of, elements_of, is_computed, rewrite
from adcompiler.lazy import Memo, cached_property
from adcompiler.ops.costs import NOMINAL_LENGTH
from adcompiler.ops.decisions import is_extremum
from adcompiler.passes.known_lengths import Known, short
from adcompiler.passes.limits import LEAST_POINTS

Owner = tuple[str, int, int]  # the name of an input, its axis, and the length


def nominal(sizes: Sequence[int] | None) -> Callable[[Element], int]:
    """The lengths that decisions about costs assume, for the values of the size symbols in one call; None if
    there was none."""

    def value(size: Element) -> int:
        unknown = sizes is None and any(isinstance(e, Size) for e in elements_of((size,)))
        return NOMINAL_LENGTH if unknown or is_computed(size) else length(size, sizes or ())

    return value


def in_symbols(func: Func, constraints: Iterable[Constraint]) -> list[Constraint]:
    """Constraints with the size symbols of a program: those of axes that are equal are one."""
    axes = [n for i in func.inputs for n in i.shape if not is_const(n, 1)]
    axes += [Size(number) for number, _ in func.counts]

    def symbol(element: Element) -> Element:
        return axes[element.number] if isinstance(element, Size) else element

    found = []
    for c in constraints:
        left, right = rewrite((c.left, c.right), symbol)
        reach = None if c.reach is None else rewrite((c.reach,), symbol)[0]
        found.append(replace(c, left=left, right=right, reach=reach))
    return found


class CallLengths:
    """The rules for the lengths of a program's arguments."""

    def __init__(self, func: Func, constraints: Sequence[Constraint]) -> None:
        self.func, self.constraints = func, constraints
        axes = [(n, k, axis) for k, i in enumerate(func.inputs) for axis, n in enumerate(i.shape)]
        self.sources = [(n.number, k, axis) for n, k, axis in axes if isinstance(n, Size)]
        self.fixed = [(n, k, axis) for n, k, axis in axes if not isinstance(n, Size)]
        self.axes = frozenset(number for number, _, _ in self.sources)  # no number of iterations among them
        self.demands = [c for c in constraints if not c.merged]
        self.exact = Lengths(func)
        self.met: Memo[tuple[int, ...], bool] = Memo()  # lengths that fit them
        self.computed: Memo[tuple[Any, ...], int] = Memo()  # by a length and size symbols

    def known(self, sizes: Sequence[int]) -> Known:
        """What a kernel for these lengths knows of them: short axes are written out beside long ones, where
        that pays."""
        few = short(sizes, self.axes - self.cases)
        if few and max(sizes) < LEAST_POINTS:
            few = tuple(pair for pair in few if pair[0] in self.compared)
            many = few and max(self.points(sizes, dict(few))) >= LEAST_POINTS
            few = few if many else ()
        return Known(few, self.equal(sizes))

    @cached_property
    def cases(self) -> frozenset[int]:
        """The numbers of lengths of leading axes of stacks of matrices over which alone no sum goes, as those
        of batches: written out, everything would be there for each case."""
        stacked = {i.shape[0].number for i in self.func.inputs if i.rank > 2 and isinstance(i.shape[0], Size)}
        alone = (a.reduced for a in self.arrays if isinstance(a, Reduce) and len(a.reduced) == 1)
        return frozenset(stacked) - {n.number for (n,) in alone if isinstance(n, Size)}

    @cached_property
    def arrays(self) -> list[Array]:
        """The arrays of the program, those in loops as well."""
        found, loops = list(arrays_of(self.func.roots)), set()
        for array in found:
            if isinstance(array, Item) and array.loop not in loops:
                loops.add(array.loop)
                found += arrays_of(array.loop.roots)
        return found

    @cached_property
    def compared(self) -> frozenset[int]:
        """The numbers of lengths over which extrema are taken, as in softmax: these axes are reduced several
        times. A sum alone may be part of a product, which needs its axes."""
        extrema = (a for a in self.arrays if isinstance(a, Reduce) and is_extremum(a))
        return frozenset(n.number for a in extrema for n in a.reduced if isinstance(n, Size))

    def points(self, sizes: Sequence[int], few: Mapping[int, int]) -> list[int]:
        """The number of points of each argument, without the axes of a `few` elements."""
        axes = [[n for n in i.shape if isinstance(n, Size) and n.number not in few] for i in self.func.inputs]
        return [prod(sizes[n.number] for n in of) for of in axes]

    def all_known(self, sizes: Sequence[int]) -> Known:
        """What a program for these lengths alone may assume. A library makes its operation for the lengths of
        a call anyway."""
        return Known(short(sizes), self.equal(sizes))

    @cached_property
    def likely_equal(self) -> list[tuple[int, int]]:
        """The numbers of lengths one of which must be no less than the other: if nothing else is known, what
        reads an element asks whether it is there."""
        return [
            (c.left.number, c.right.number)
            for c in in_symbols(self.func, self.demands)
            if c.at_least and isinstance(c.left, Size) and isinstance(c.right, Size) and c.left is not c.right
        ]

    def equal(self, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
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
            if not is_computed(size):
                self.computed[key] = found
        return found

    def check_once(self, sizes: Sequence[int], args: Sequence[Any]) -> None:
        """Check what is demanded of lengths, unless it has been for these."""
        key = tuple(sizes)
        if key in self.met:
            return
        self.check(self.demands, args)
        self.exact.check(sizes)
        self.met[key] = True

    def values(self, args: Sequence[Any]) -> dict[Array, np.ndarray]:
        """The integers that lengths may be computed from."""
        pairs = zip(self.func.inputs, args, strict=True)
        return {i: np.asarray(a) for i, a in pairs if i.dtype == "i64"}

    def mismatch(self, args: Sequence[Any]) -> None:
        """Raise the error for the first equality of sizes that these arguments violate."""
        self.check(self.constraints, args)
        raise ShapeError("the shapes of the arguments do not fit", remedy=self.shapes(args))

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
                remedy=f"{self.shapes(args)}; {NOT_NEGATIVE}",
                source=self.func.source,
                span=constraint.span,
            )
        if constraint.at_least:
            raise OutOfRangeError(
                f"{constraint.what}: the axis has length {x}, but at least {y} is needed",
                remedy=f"{self.shapes(args)}; {constraint.remedy}",
                source=self.func.source,
                span=constraint.span,
            )
        raise ShapeError(
            f"{constraint.what}: the lengths {x} and {y} differ",
            remedy=f"{self.shapes(args)}; {constraint.remedy}",
            source=self.func.source,
            span=constraint.span,
        )

    def shapes(self, args: Sequence[Any]) -> str:
        """The shapes of arguments in words."""
        shown = ", ".join(f"{n}: {np.shape(a)}" for n, a in zip(self.func.input_names, args, strict=True))
        return f"the arguments have shapes {shown}"
