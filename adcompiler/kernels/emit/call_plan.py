"""How a kernel is called: its parameters in order, what a caller allocates, and where the results are.

    run(*sizes, *inputs, *buffers, *blocks) -> returned values

Every caller reads this one description: Python, the inline cache, numba's wrapper, XLA's handler and C.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum
from itertools import accumulate
from math import prod

from adcompiler.ir.nodes import Array, Const, Element, Func, Input, Shape, const
from adcompiler.ir.types import Dtype
from adcompiler.kernels.limits import SMALL_ROW
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

Shapes = Sequence[Sequence[int]]


class Kind(Enum):
    """Where a result is: in a buffer; in a number that the kernel returns; in an array that the kernel
    allocates, because it computes the lengths; or among the inputs."""

    BUFFER, SCALAR, COMPUTED, INPUT = range(4)


@dataclass(frozen=True)
class Result:
    """A result of a program: the `number` of the buffer, returned value or input that has it."""

    kind: Kind
    number: int
    dtype: Dtype


@dataclass(frozen=True)
class Buffer:
    """An array that the caller of a kernel allocates: a result, a temporary, partial sums or rows."""

    name: str
    dtype: Dtype
    shape: Shape
    nest: int | None = None  # the nest whose number of blocks is an additional leading length

    @property
    def is_small(self) -> bool:
        """Whether it may fit in registers."""
        return all(isinstance(n, Const) for n in self.shape) and prod(self.lengths) <= SMALL_ROW

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths, all of them constant."""
        return tuple(map(_value, self.shape))


def _value(length: Element) -> int:
    assert isinstance(length, Const)
    return int(length.value)


@dataclass(frozen=True)
class CallPlan:
    """The description of a call.

    sizes     the names of the lengths, which are the first parameters
    inputs    the names of the inputs
    buffers   the arrays that the caller allocates
    nests     the number of nests; each has two parameters, its blocks and the iterations of a block
    returned  the returned values: numbers, and arrays whose lengths the kernel computes
    stamps    the timestamps that are returned after these
    results   where the results of the program are, in order
    checks    the numbers of the returned values that must not be zero
    """

    func: Func
    sizes: tuple[str, ...]
    inputs: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    nests: int
    returned: tuple[Array, ...]
    stamps: int
    results: tuple[Result, ...]
    checks: tuple[int, ...]

    @staticmethod
    def of(
        func: Func,
        sizes: tuple[str, ...],
        names: dict[Array, str],
        buffers: tuple[Buffer, ...],
        nests: int,
        returned: tuple[Array, ...],
        stamps: int,
    ) -> CallPlan:
        """The description of a kernel with these buffers and returned values; arrays have these names."""
        stored = {b.name: k for k, b in enumerate(buffers)}

        def found(result: Array) -> Result:
            if isinstance(result, Input):
                return Result(Kind.INPUT, result.position, result.dtype)
            if result in returned:
                kind = Kind.COMPUTED if result.rank else Kind.SCALAR
                return Result(kind, returned.index(result), result.dtype)
            return Result(Kind.BUFFER, stored[names[result]], result.dtype)

        inputs = tuple(names[i] for i in func.inputs)
        results = tuple(map(found, func.results))
        checks = tuple(returned.index(c.holds) for c in func.checks)
        return CallPlan(func, sizes, inputs, buffers, nests, returned, stamps, results, checks)

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """The names of the last parameters."""
        return tuple(f"{what}{k}" for k in range(self.nests) for what in ("blocks", "rows"))

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The names of all parameters."""
        return (*self.sizes, *self.inputs, *(b.name for b in self.buffers), *self.blocks)

    @cached_property
    def temporaries(self) -> tuple[int, ...]:
        """The numbers of the buffers that are no result."""
        direct = {r.number for r in self.results if r.kind is Kind.BUFFER}
        return tuple(k for k in range(len(self.buffers)) if k not in direct)

    @cached_property
    def computed(self) -> tuple[int, ...]:
        """The numbers of the returned values that are arrays."""
        return tuple(k for k, value in enumerate(self.returned) if value.rank)

    @cached_property
    def is_scalar(self) -> bool:
        """Whether results are selected from returned numbers, without loops over arrays or buffers."""
        alone = not (self.nests or self.buffers or self.computed)
        return alone and all(r.kind is Kind.SCALAR for r in self.results)

    def widened(self, rows: Collection[str], lanes: int) -> CallPlan:
        """The same with space for vectors in some buffers: the last length is that many times as long."""

        def wide(buffer: Buffer) -> Buffer:
            *others, last = buffer.shape
            if isinstance(last, Const):
                return replace(buffer, shape=(*others, const(last.value * lanes, "i64")))
            return replace(buffer, shape=(*others, apply("multiply", last, const(lanes, "i64"))))

        return replace(self, buffers=tuple(wide(b) if b.name in rows else b for b in self.buffers))

    # -- calls in words ------------------------------------------------------------------------
    # Machine code takes a call as 64-bit words: of an array its address and its lengths. The returned values
    # follow the parameters.

    @cached_property
    def words(self) -> Words:
        """The first word of each input, buffer, check and returned value."""
        ranks = [0] * len(self.sizes) + [i.rank for i in self.func.inputs]
        ranks += [len(b.shape) + (b.nest is not None) for b in self.buffers]
        ranks += [0] * len(self.blocks) + [v.rank for v in self.returned] + [0] * self.stamps
        places = [0, *accumulate(1 + rank for rank in ranks)]
        inputs = len(self.sizes) + len(self.func.inputs)
        buffers = inputs + len(self.buffers)
        first = len(self.params)
        return Words(
            inputs=tuple(places[len(self.sizes) : inputs]),
            buffers=tuple(places[inputs:buffers]),
            blocks=places[buffers],
            returned=tuple(places[first : first + len(self.returned)]),
            count=places[-1],
        )

    def frame(
        self, sizes: Sequence[int], inputs: Shapes, buffers: Shapes, blocks: Sequence[int]
    ) -> list[int]:
        """The words of a call with arrays of these shapes; addresses, numbers and returned values are 0."""
        arrays = [word for shape in (*inputs, *buffers) for word in (0, *shape)]
        known = [*sizes, *arrays, *blocks]
        return known + [0] * (self.words.count - len(known))


@dataclass(frozen=True)
class Words:
    """The numbers of the first words of inputs, buffers and returned values, and of the first number of
    blocks; and how many words there are."""

    inputs: tuple[int, ...]
    buffers: tuple[int, ...]
    blocks: int
    returned: tuple[int, ...]
    count: int
