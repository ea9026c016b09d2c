"""The NumPy backend: a plain interpreter of the IR, and the reference for every other backend.

Arrays are computed one by one, in the order of the program. Each element is an array over the domain of
its array, with length 1 along axes that it does not depend on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from adcompiler.interpreter.limits import BLOCK_POINTS, LARGEST_POINTS
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Contraction,
    Element,
    Func,
    Index,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    Size,
    const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import DTYPES, NUMPY, Dtype
from adcompiler.ir.walk import arrays_of, elements_of, lengths_read, postorder, substitute
from adcompiler.lazy import Memo
from adcompiler.ops.build import apply
from adcompiler.ops.library import LIBRARY
from adcompiler.ops.table import TABLE

Values = dict[Array, np.ndarray]


class Arithmetic(NamedTuple):
    """What a program is computed in: NumPy's dtypes for those of the IR, primitives, reductions, and
    routines of the library."""

    dtypes: Mapping[Dtype, np.dtype]
    apply: Callable[[str, Sequence[Any]], Any]
    reduce: Callable[[str, np.ndarray, tuple[int, ...], np.dtype], Any]
    call: Callable[[str, Sequence[Any]], Any]


class Reference:
    """A program ready to be interpreted, in real numbers unless `numbers` says otherwise."""

    def __init__(self, func: Func, numbers: Arithmetic | None = None) -> None:
        self.func, self.numbers = func, numbers or REAL
        self.order = arrays_of(func.roots)

    def __call__(self, sizes: Sequence[int], args: Sequence[Any]) -> list[np.ndarray]:
        """The results for these lengths of the size symbols and these inputs."""
        values: Values = {
            i: np.asarray(a, self.numbers.dtypes[i.dtype])
            for i, a in zip(self.func.inputs, args, strict=True)
        }
        with np.errstate(all="ignore"):
            compute(self.order, values, sizes, self.numbers)
        require(self.func, [values[c.holds] for c in self.func.checks])
        return [values[r] for r in self.func.results]


def require(func: Func, found: Sequence[Any]) -> None:
    """Raise the error of the first check of `func` that does not hold; `found` are their values."""
    for check, holds in zip(func.checks, found, strict=True):
        if not holds:
            raise check.error(check.cause, remedy=check.remedy, source=func.source, span=check.span)


def length(size: Element, sizes: Sequence[int], values: Values | None = None) -> int:
    """The value of a size; `values` where it reads arrays of rank 0."""
    match size:
        case Size(number=number):
            return int(sizes[number])
        case Const():
            return int(size.value)
    with np.errstate(all="ignore"):  # i % 0 is 0
        return int(evaluate((size,), (), values or {}, sizes, REAL)[0])


def extent(shape: Sequence[Element], sizes: Sequence[int], values: Values | None = None) -> tuple[int, ...]:
    """The lengths of a domain: as of a range, none is less than 0."""
    return tuple(max(length(n, sizes, values), 0) for n in shape)


def compute(order: Sequence[Array], values: Values, sizes: Sequence[int], numbers: Arithmetic) -> None:
    """Compute the arrays of `order` that have no value yet."""
    for array in order:
        if array not in values:
            if isinstance(array, Item):
                values.update(zip(array.loop.items, _loop(array.loop, values, sizes, numbers), strict=True))
            elif isinstance(array, Ruled):
                values[array] = values[array.value]
            else:
                values[array] = compute_array(array, values, sizes, numbers)


class Iterations:
    """A loop that is interpreted, one iteration at a time; `count` is how many there are, 0 until a while
    loop has ended."""

    def __init__(self, loop: Loop, values: Values, sizes: Sequence[int], numbers: Arithmetic) -> None:
        self.loop, self.sizes, self.numbers = loop, sizes, numbers
        self.step, *self.slots = loop.slots
        self.order = arrays_of(loop.roots)
        self.tested = [] if loop.test is None else arrays_of((loop.test,))
        self.inits = [values[a] for a in loop.inits]
        self.scanned = [values[a] for a in loop.scanned]
        self.fixed = [values[a] for a in loop.consts]
        (self.count,) = (0,) if loop.length is None else extent((loop.length,), sizes, values)
        # What is carried may have lengths that arrays around the loop give. Other loops have the same slots.
        lengths = (a for slot in self.slots for a in arrays_of(lengths_read(slot)))
        outside = (a for a in lengths if not any(isinstance(b, Slot) for b in arrays_of((a,))))
        self.around = {a: values[a] for a in outside if a in values}

    def order_of_iterations(self) -> Iterable[int]:
        """The numbers of the iterations in the order in which they are done; without end for a while loop."""
        if self.loop.test is not None:
            return itertools.count()
        return range(self.count)[:: -1 if self.loop.backward else 1]

    def begin(self, iteration: int, carried: Sequence[np.ndarray]) -> Values:
        """What the body reads in an iteration."""
        rows = [row_of(a, iteration) for a in self.scanned]
        here: Values = self.around | dict(zip(self.slots, (*carried, *rows, *self.fixed), strict=True))
        here[self.step] = np.asarray(iteration, np.int64)
        return here

    def run(self) -> Iterator[tuple[int, Values]]:
        """Each iteration with the values of its body."""
        carried = self.inits
        for iteration in self.order_of_iterations():
            here = self.begin(iteration, carried)
            if self.loop.test is not None:
                compute(self.tested, here, self.sizes, self.numbers)
                if not here[self.loop.test]:
                    self.count = iteration
                    return
            self.finish(here)
            carried = [here[r] for r in self.loop.results]
            yield iteration, here

    def finish(self, here: Values) -> None:
        """Compute what the body computes."""
        compute(self.order, here, self.sizes, self.numbers)


def outs_of(
    loop: Loop, count: int, values: Values, sizes: Sequence[int], numbers: Arithmetic
) -> list[np.ndarray]:
    """Zeros for the rows that a loop of `count` iterations collects."""
    stacks = loop.items[len(loop.results) :]
    return [
        np.zeros((count, *extent(stack.shape[1:], sizes, values)), numbers.dtypes[o.dtype])
        for stack, o in zip(stacks, loop.outs, strict=False)
    ]


def _loop(loop: Loop, values: Values, sizes: Sequence[int], numbers: Arithmetic) -> list[np.ndarray]:
    """What a loop gives, iteration by iteration."""
    iterations = Iterations(loop, values, sizes, numbers)
    outs = outs_of(loop, iterations.count, values, sizes, numbers)
    carried = iterations.inits
    for iteration, here in iterations.run():
        carried = [here[r] for r in loop.results]
        for out, array in zip(outs, loop.outs, strict=True):
            out[iteration] = here[array]
    return [*carried, *outs, *([np.asarray(iterations.count)] if loop.test is not None else [])]


def row_of(array: np.ndarray, iteration: int) -> np.ndarray:
    """A row of a scanned array; zeros beyond its end."""
    return array[iteration] if iteration < len(array) else np.zeros(array.shape[1:], array.dtype)


def compute_array(array: Array, values: Values, sizes: Sequence[int], numbers: Arithmetic) -> np.ndarray:
    """The value of an array."""
    if isinstance(array, Call):
        return np.asarray(numbers.call(array.op, [values[a] for a in array.operands]))
    domain = extent(array.domain, sizes, values)
    if prod(domain) >= LARGEST_POINTS:
        raise MemoryError
    if prod(domain) > BLOCK_POINTS and domain[0] > 1 and not isinstance(array, Put):
        product = _as_einsum(array, domain, values)
        return _in_blocks(array, domain, values, sizes, numbers) if product is None else product
    return _whole(array, array.elements, domain, values, sizes, numbers)


def _in_blocks(
    array: Array, domain: tuple[int, ...], values: Values, sizes: Sequence[int], numbers: Arithmetic
) -> np.ndarray:
    """An array over a large domain, so many points at a time as memory easily holds."""
    dtype = numbers.dtypes[array.dtype]
    # Asked for as a whole, before any block: where there is no memory for it, nothing is computed.
    total = np.zeros(extent(array.shape, sizes, values), dtype)
    parts = _blocks(array, domain, values, sizes, numbers)
    if isinstance(array, Reduce) and not array.rank:
        return np.asarray(numbers.reduce(array.op, np.stack([part for _, part in parts]), (0,), dtype))
    for start, part in parts:
        if isinstance(array, Accumulate):
            total += part
        else:  # rows of the result
            total[start : start + len(part)] = part
    return total


def _blocks(
    array: Array, domain: tuple[int, ...], values: Values, sizes: Sequence[int], numbers: Arithmetic
) -> Iterator[tuple[int, np.ndarray]]:
    """The blocks of a domain: where each begins, and the array over it alone."""
    step = max(1, BLOCK_POINTS // max(prod(domain[1:]), 1))
    for start in range(0, domain[0], step):
        moved: dict[int, Element] = {0: apply("add", Index(0), const(start, "i64"))}
        elements = tuple(substitute(e, moved) for e in array.elements)
        block = (min(step, domain[0] - start), *domain[1:])
        yield start, _whole(array, elements, block, values, sizes, numbers)


def _whole(
    array: Array,
    elements: Sequence[Element],
    domain: tuple[int, ...],
    values: Values,
    sizes: Sequence[int],
    numbers: Arithmetic,
) -> np.ndarray:
    """An array over a domain."""
    found = evaluate(elements, domain, values, sizes, numbers)
    dtype = numbers.dtypes[array.dtype]
    value = found[0] * found[1] if isinstance(array, Contraction) else found[-1]
    body = np.broadcast_to(np.asarray(value, dtype), domain)
    match array:
        case Contraction(shape=shape):
            return np.asarray(numbers.reduce("sum", body, tuple(range(len(shape), len(domain))), dtype))
        case Map():
            return body.copy()
        case Reduce(op=op, shape=shape):
            return np.asarray(numbers.reduce(op, body, tuple(range(len(shape), len(domain))), dtype))
        case Accumulate(shape=shape):
            total = np.zeros(extent(shape, sizes, values), dtype)
            places = [np.broadcast_to(i, domain) for i in found[:-1]]
            inside = np.ones(domain, bool)
            for place, n in zip(places, total.shape, strict=True):
                inside &= (place >= 0) & (place < n)
            if not places:
                return np.asarray(np.sum(body, dtype=dtype))
            np.add.at(total, tuple(place[inside] for place in places), body[inside])
            return total
        case Put(base=base, op=op):
            return _put(values[base], op, [np.broadcast_to(v, domain) for v in (*found[:-1], body)])
    raise AssertionError(f"unknown array {type(array).__name__}")


def _put(base: np.ndarray, op: str, elements: Sequence[np.ndarray]) -> np.ndarray:
    """An array with values stored at places where a guard holds: indices, the guard and the value."""
    *places, inside, body = elements
    for place, n in zip(places, base.shape, strict=True):
        inside = inside & (place >= 0) & (place < n)
    total, spots = base.copy(), tuple(place[inside] for place in places)
    if op == "add":
        np.add.at(total, spots or (), body[inside].sum(dtype=total.dtype) if not places else body[inside])
    elif places or inside.any():
        total[spots or ()] = body[inside] if places else body[inside][-1]
    return total


def reduce_real(op: str, body: np.ndarray, axes: tuple[int, ...], dtype: np.dtype) -> Any:
    """A reduction over the last axes."""
    if op == "sum":
        return np.sum(body, axis=axes, dtype=dtype)
    if op == "prod":
        return np.prod(body, axis=axes, dtype=dtype)
    if op == "logsumexp":
        return np.logaddexp.reduce(body.reshape(*body.shape[: axes[0]], prod(body.shape[axes[0] :])), axis=-1)
    reducer = np.max if op == "max" else np.min
    return reducer(body, axis=axes, initial=_worst(op, dtype))


def _worst(op: str, dtype: np.dtype) -> Any:
    """The extremum of nothing."""
    if dtype.kind == "f":
        return -np.inf if op == "max" else np.inf
    info = np.iinfo(dtype)
    return info.min if op == "max" else info.max


REAL = Arithmetic(
    NUMPY,
    lambda op, args: TABLE[op].numpy(*args),
    reduce_real,
    lambda op, args: LIBRARY[op].numpy(*args),
)


_orders: Memo[tuple[Element, ...], list[Element]] = Memo()


def _order(roots: tuple[Element, ...]) -> list[Element]:
    """Elements and what they are made of: the bodies of loops are asked for in every iteration."""
    return _orders.made(roots, lambda: elements_of(roots))


def evaluate(
    roots: Sequence[Element],
    domain: tuple[int, ...],
    values: Values,
    sizes: Sequence[int],
    numbers: Arithmetic,
    known: Mapping[Element, Any] = MappingProxyType({}),
) -> list[Any]:
    """The values of elements over a domain; some may be `known`."""
    found = dict(known)
    for element in (
        postorder(roots, lambda e: () if e in known else e.args) if known else _order(tuple(roots))
    ):
        if element in known:
            continue
        args = [found[a] for a in element.args]
        found[element] = _element(element, args, domain, values, sizes, numbers)
    return [found[root] for root in roots]


def _element(
    element: Element,
    args: list[Any],
    domain: tuple[int, ...],
    values: Values,
    sizes: Sequence[int],
    numbers: Arithmetic,
) -> Any:
    match element:
        case Const():
            return numbers.dtypes[element.dtype].type(element.value)
        case Size(number=number):
            return np.int64(sizes[number])
        case Index(axis=axis):
            shape = [1] * len(domain)
            shape[axis] = -1
            return np.arange(domain[axis], dtype=np.int64).reshape(shape)
        case Read(array=Array() as array):
            return _read(values[array], args, element, domain)
        case Select():
            return np.where(args[0], args[1], args[2])
        case Apply(op=op):
            dtype = numbers.dtypes[element.dtype]
            if op in DTYPES:
                value = np.asarray(args[0])
                # An integer does not move with the imaginary part of a complex step.
                moves = value.dtype.kind == "c" and dtype.kind != "c"
                return (value.real if moves else value).astype(dtype)
            return np.asarray(numbers.apply(op, args)).astype(dtype, copy=False)
    raise AssertionError(f"unknown element {type(element).__name__}")


def _read(array: np.ndarray, indices: list[Any], read: Read, domain: tuple[int, ...]) -> np.ndarray:
    """`array[indices]` over the domain; a view where the indices are plain axes, or parts of them.

    Outside the array there is zero: an element under a guard that does not hold may read anywhere.
    """
    if not indices:
        return array.reshape((1,) * len(domain))
    if all(np.size(i) == 1 for i in indices):
        place = tuple(int(i) if isinstance(i, np.generic) else i.item() for i in indices)
        exists = all(0 <= i < n for i, n in zip(place, array.shape, strict=True))
        return np.asarray(array[place] if exists else array.dtype.type(0)).reshape((1,) * len(domain))
    # An index whose value is one number is given: it stands for a point, not for an axis.
    axes = [_axis(i) if np.ndim(v) else None for i, v in zip(read.indices, indices, strict=True)]
    plain = [
        (array.shape[d] == 1 and not np.any(indices[d]))
        if at is None
        else at[1] + domain[at[0]] <= array.shape[d]
        for d, at in enumerate(axes)
    ]
    if all(plain) and len({at[0] for at in axes if at}) == sum(at is not None for at in axes):
        order = sorted((at[0], d) for d, at in enumerate(axes) if at is not None)
        shape = [1] * len(domain)
        for axis, _ in order:
            shape[axis] = domain[axis]
        rest = [d for d, at in enumerate(axes) if at is None]
        part = array[tuple(slice(at[1], at[1] + domain[at[0]]) if at else slice(None) for at in axes)]
        return part.transpose(*(d for _, d in order), *rest).reshape(shape)
    inside = np.asarray(True)
    for index, n in zip(indices, array.shape, strict=True):
        inside = inside & (index >= 0) & (index < n)
    if 0 in array.shape:
        return np.zeros(np.shape(inside), array.dtype)
    clamped = tuple(np.minimum(np.maximum(i, 0), n - 1) for i, n in zip(indices, array.shape, strict=True))
    return np.asarray(np.where(inside, array[clamped], array.dtype.type(0)))


def _axis(index: Element) -> tuple[int, int] | None:
    """The axis and the distance from it, if an index is an axis, or one behind a constant."""
    match index:
        case Index(axis=axis):
            return axis, 0
        case Apply(op="add", args=(Index(axis=axis), Const() as offset)) if offset.value >= 0:
            return axis, int(offset.value)
    return None


def _as_einsum(array: Array, domain: tuple[int, ...], values: Values) -> np.ndarray | None:
    """A sum of products of two arrays at plain axes, as a product of matrices is, by BLAS."""
    match array:
        case Reduce(op="sum", body=Apply(op="multiply", args=(Read() as x, Read() as y))):
            places = [[i.axis for i in read.indices if isinstance(i, Index)] for read in (x, y)]
            whole = all(
                len(set(axes)) == len(axes) == values[read.array].ndim
                and values[read.array].shape == tuple(domain[a] for a in axes)
                for read, axes in zip((x, y), places, strict=True)
            )
            if whole and {*places[0], *places[1]} == set(range(len(domain))):
                kept = list(range(array.rank))
                operands = (values[x.array], places[0], values[y.array], places[1])
                return np.asarray(np.einsum(*operands, kept, optimize=True))
    return None
