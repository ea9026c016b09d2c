"""The two kinds of nodes of the intermediate representation, dual to each other.

An *array* is closed: an input, or a domain of axes with a scalar body. An *element* is a scalar
expression that is open in the axes of its array: `Index(k)` is the position along
axis k of that array's domain. Elements never nest domains, so an axis is named by its position
alone, and equal bodies of different arrays are one object.

Nodes are immutable and interned: two nodes are equal exactly if they are the same object. Names
and source spans live in side tables of the program (`Func`), never in a node.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from threading import RLock
from typing import Any, ClassVar, Self, TypeGuard
from weakref import WeakValueDictionary

import numpy as np

from adcompiler.errors import Error, OutOfRangeError, Source, Span
from adcompiler.fork import Locked
from adcompiler.ir.naming import distinct
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.lazy_dataclass import dataclass

_table: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
_references = _table.data  # type: ignore[attr-defined]  # for look-ups in one call: most nodes are there
_LOCK = Locked(RLock)


class Node:
    """An interned node; a subclass lists its fields in `fields` and derives the rest in `_derive`."""

    __slots__ = ("__weakref__", "dtype")
    fields: ClassVar[tuple[str, ...]] = ()
    dtype: Dtype

    def __new__(cls, *values: Any) -> Self:
        key = (cls, *values)
        known = _references.get(key)
        node: Self | None = None if known is None else known()
        if node is not None:
            return node
        with _LOCK.lock:
            node = _table.get(key)
            if node is None:
                node = super().__new__(cls)
                for name, value in zip(cls.fields, values, strict=True):
                    setattr(node, name, value)
                node._derive()
                _table[key] = node
            return node

    def _derive(self) -> None:
        """Compute what follows from the fields."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self.fields)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


NO_AXES: frozenset[int] = frozenset()


class Element(Node):
    """A scalar expression; `axes` are the axes of the domain that it depends on."""

    __slots__ = ("args", "axes", "below")
    args: tuple[Element, ...]
    axes: frozenset[int]
    below: tuple[Element, ...] | None  # the elements below one with arguments, once somebody asked

    def _derive(self) -> None:
        self.axes = NO_AXES.union(*(a.axes for a in self.args)) if self.args else NO_AXES
        self.below = None


class Const(Element):
    """A constant, keyed by type and bits, so that -0.0 and every NaN stay themselves."""

    __slots__ = ("bits",)
    fields = ("dtype", "bits")
    bits: bytes

    def _derive(self) -> None:
        self.args, self.axes = (), NO_AXES

    @property
    def value(self) -> int | float | bool:
        """The constant as a Python number."""
        number: int | float | bool = struct.unpack(_FORMATS[self.dtype], self.bits)[0]
        return number


_FORMATS: dict[Dtype, str] = {"bool": "<?", "i64": "<q", "f32": "<f", "f64": "<d"}


def const(value: int | float | bool, dtype: Dtype) -> Const:
    """A constant of `dtype`, rounded or wrapped as NumPy converts it."""
    if dtype == "i64" and isinstance(value, int):
        if (known := _SMALL.get(value)) is not None:
            return known
        value = (value + 2**63) % 2**64 - 2**63
    try:
        return Const(dtype, struct.pack(_FORMATS[dtype], value))
    except (struct.error, OverflowError):  # a float for an int, or beyond the type: as NumPy converts
        number = value if isinstance(value, float) else math.copysign(math.inf, value > 0 or -1)
        with np.errstate(all="ignore"):
            return Const(dtype, np.asarray(number).astype(NUMPY[dtype].newbyteorder("<")).tobytes())


_SMALL = {n: Const("i64", struct.pack("<q", n)) for n in (-1, 0, 1, 2)}  # most constants are one of these


class Index(Element):
    """The position along axis `axis` of the domain, from 0 (int64)."""

    __slots__ = ("axis",)
    fields = ("axis",)
    axis: int

    def _derive(self) -> None:
        self.dtype, self.args, self.axes = "i64", (), frozenset((self.axis,))


class Size(Element):
    """The program's size symbol number `number` (int64): one length that is known at the call."""

    __slots__ = ("number",)
    fields = ("number",)
    number: int

    def _derive(self) -> None:
        self.dtype, self.args, self.axes = "i64", (), NO_AXES


class Read(Element):
    """`array[indices]`; the indices are elements of type int64, one for each axis of the array."""

    __slots__ = ("array",)
    fields = ("array", "args")
    array: Array

    def _derive(self) -> None:
        super()._derive()
        self.dtype = self.array.dtype

    @property
    def indices(self) -> tuple[Element, ...]:
        """Where it reads."""
        return self.args


class Apply(Element):
    """The primitive named `op` of the rule table, applied to elements."""

    __slots__ = ("op",)
    fields = ("op", "args", "dtype")
    op: str


class Select(Element):
    """`then` where `guard` holds, else `otherwise`; the branch not taken has no effect at all."""

    __slots__ = ()
    fields = ("args",)

    def _derive(self) -> None:
        super()._derive()
        self.dtype = self.args[1].dtype

    @property
    def guard(self) -> Element:
        """The condition."""
        return self.args[0]

    @property
    def then(self) -> Element:
        """The value where the condition holds."""
        return self.args[1]

    @property
    def otherwise(self) -> Element:
        """The value elsewhere."""
        return self.args[2]


def select(guard: Element, then: Element, otherwise: Element) -> Select:
    """The element that is `then` where `guard` holds."""
    return Select((guard, then, otherwise))


Shape = tuple[Element, ...]


class Array(Node):
    """A closed array. `shape` and `domain` are sizes: elements of type int64 without axes.

    The domain's axes are those of the shape (kept axes) followed by the reduced ones, except for
    `Accumulate` and `Put`, whose domains are their own.
    """

    __slots__ = ("reads", "shape")
    shape: Shape
    reads: tuple[Array, ...] | None  # the arrays that it reads, once somebody asked

    def _derive(self) -> None:
        self.reads = None

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def domain(self) -> Shape:
        """The lengths of the axes of its body."""
        return self.shape

    @property
    def elements(self) -> tuple[Element, ...]:
        """The elements that stand in the domain (not the sizes)."""
        return ()


class Input(Array):
    """The program's argument number `position`."""

    __slots__ = ("position",)
    fields = ("position", "dtype", "shape")
    position: int


class Map(Array):
    """`array (i < n, j < m) { body }`: one element for each point of the domain."""

    __slots__ = ("body",)
    fields: ClassVar[tuple[str, ...]] = ("shape", "body")
    body: Element

    def _derive(self) -> None:
        super()._derive()
        self.dtype = self.body.dtype

    @property
    def elements(self) -> tuple[Element, ...]:
        return (self.body,)

    def changed(self, shape: Shape, body: Element) -> Map:
        """The same map with another shape and body."""
        return Map(shape, body)


REDUCERS = ("sum", "prod", "min", "max", "logsumexp")


def neutral(op: str, dtype: Dtype) -> Const:
    """The value of an empty reduction."""
    if op in ("sum", "prod"):
        return const(op == "prod", dtype)
    if dtype == "i64":
        return const(2**63 - 1 if op == "min" else -(2**63), dtype)
    return const(math.inf if op == "min" else -math.inf, dtype)


class Reduce(Array):
    """`reduce op (i < n | k < d) { body }`: over the reduced axes, behind the bar; kept ones before."""

    __slots__ = ("body", "op", "reduced")
    fields = ("op", "shape", "reduced", "body")
    op: str
    reduced: Shape
    body: Element

    def _derive(self) -> None:
        super()._derive()
        self.dtype = self.body.dtype

    @property
    def domain(self) -> Shape:
        """The kept axes, then the reduced ones."""
        return self.shape + self.reduced

    @property
    def elements(self) -> tuple[Element, ...]:
        return (self.body,)


class Accumulate(Array):
    """`accumulate [n] (i < m) { [indices] += body }`: zeros, then one addition a point, in order."""

    __slots__ = ("_domain", "body", "indices")
    fields = ("shape", "_domain", "indices", "body")
    _domain: Shape
    indices: tuple[Element, ...]
    body: Element

    def _derive(self) -> None:
        super()._derive()
        self.dtype = self.body.dtype

    @property
    def domain(self) -> Shape:
        """The axes of what is added."""
        return self._domain

    @property
    def elements(self) -> tuple[Element, ...]:
        return (*self.indices, self.body)


class Put(Array):
    """`%base with (i < m) { [indices] = value if guard }`: an array with some elements set to others, or with
    `+=` added to: one element for each point of the domain at which the guard holds, in order.

    A point whose place lies outside the array stores nothing. No two points set the same element.
    """

    __slots__ = ("_domain", "base", "guard", "indices", "op", "value")
    fields = ("base", "op", "_domain", "indices", "guard", "value")
    base: Array
    op: str
    _domain: Shape
    indices: tuple[Element, ...]
    guard: Element
    value: Element

    def _derive(self) -> None:
        super()._derive()
        self.dtype, self.shape = self.base.dtype, self.base.shape

    @property
    def domain(self) -> Shape:
        """The axes of what is stored."""
        return self._domain

    @property
    def elements(self) -> tuple[Element, ...]:
        return (*self.indices, self.guard, self.value)

    @property
    def operands(self) -> tuple[Array, ...]:
        """The array that it changes."""
        return (self.base,)


PUTS = ("set", "add")


class Contraction(Array):
    """`contract (i < n, j < m | k < d) { left * right }`: a sum of products of two factors, as tiles of a
    matrix product (`kernels/emit/contraction.py`). Passes see the factors, but no product."""

    __slots__ = ("left", "reduced", "right")
    fields = ("shape", "reduced", "left", "right")
    reduced: Shape
    left: Element
    right: Element

    def _derive(self) -> None:
        super()._derive()
        self.dtype = self.left.dtype

    @property
    def domain(self) -> Shape:
        """The kept axes, then the reduced ones."""
        return self.shape + self.reduced

    @property
    def elements(self) -> tuple[Element, ...]:
        return (self.left, self.right)


def is_const(element: Element, value: int | float | None = None) -> TypeGuard[Const]:
    """Whether `element` is a constant, and equal to `value` when one is given (0 matches -0.0)."""
    return isinstance(element, Const) and (value is None or element.value == value)


def identity(shape: Shape) -> tuple[Element, ...]:
    """The indices that read an array of `shape` point by point; an axis of length 1 is read at 0."""
    return tuple(const(0, "i64") if is_const(n, 1) else Index(k) for k, n in enumerate(shape))


def element_of(array: Array) -> Read:
    """The element of an array: the expression that reads it point by point."""
    return Read(array, identity(array.shape))


def read_whole(shape: Shape, element: Element) -> Array | None:
    """The array whose element at each point is an element over `shape`; None if it is none."""
    whole = isinstance(element, Read) and element.array.shape == shape and element.args == identity(shape)
    return element.array if isinstance(element, Read) and whole else None


def closed(shape: Shape, element: Element) -> Array:
    """The array of an element over `shape`; an array that is read whole is itself."""
    whole = read_whole(shape, element)
    return Map(shape, element) if whole is None else whole


def zeros_like(array: Array) -> Map:
    """Zeros in the shape and dtype of an array."""
    return Map(array.shape, const(0, array.dtype))


@dataclass(frozen=True)
class Check:
    """`holds`, an int64 of rank 0, is 0 if something is wrong that only the values of a call can tell, and
    `error` is what is raised then."""

    holds: Array
    cause: str
    remedy: str
    span: Span | None = field(default=None, compare=False)
    error: type[Error] = OutOfRangeError


@dataclass(frozen=True)
class Func:
    """A program: named inputs, named results, checks of a call, and side tables of names and places.

    `counts` are pairs of a size symbol and an int64 input of rank 0 whose value it is; `interchanged` are the
    sums with interchanged loops (`passes/order/interchange.py`); `across` has
    the axes of the innermost loops over some arrays (`passes/order/triangles.py`). `adding` are the numbers
    of results, all of them accumulations, that kernels add to what stands in their buffers
    (`targets/cpu/adding.py`).
    """

    name: str
    inputs: tuple[Input, ...]
    input_names: tuple[str, ...]
    results: tuple[Array, ...]
    result_names: tuple[str, ...]
    size_names: tuple[str, ...] = ()
    names: Mapping[Node, str] = field(default_factory=dict, compare=False)
    spans: Mapping[Node, Span] = field(default_factory=dict, compare=False)
    source: Source | None = field(default=None, compare=False)
    checks: tuple[Check, ...] = ()
    counts: tuple[tuple[int, int], ...] = ()
    interchanged: frozenset[Array] = frozenset()
    across: Mapping[Array, int] = field(default_factory=dict)
    adding: frozenset[int] = frozenset()

    @property
    def roots(self) -> tuple[Array, ...]:
        """The arrays that the program is there to compute: its results and what its checks read."""
        return (*self.results, *(check.holds for check in self.checks))

    def with_(self, **changes: Any) -> Func:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def extended(
        self,
        name: str,
        inputs: Sequence[Input],
        names: Iterable[str],
        results: Sequence[Array],
        labels: Iterable[str],
    ) -> Func:
        """A program that takes more inputs, behind its own, and has other results; names become distinct."""
        given = distinct((*self.input_names, *names))
        return self.with_(
            name=name,
            inputs=(*self.inputs, *inputs),
            input_names=given,
            results=tuple(results),
            result_names=distinct(labels, given),
        )


class Call(Array):
    """`call op(%a, %b)`: a routine of the library (`ops/library.py`) on whole arrays.

    Operands are matrices, or stacks of them: their last two axes are the routine's. Of the leading axes of
    the call, its *cases*, each operand has the last ones or none; one that has fewer is shared by the rest.
    """

    __slots__ = ("op", "operands")
    fields = ("op", "operands", "dtype", "shape")
    op: str
    operands: tuple[Array, ...]
    dtype: Dtype

    @property
    def cases(self) -> Shape:
        """The leading axes: one application of the routine for each of their points."""
        return max((a.shape[:-2] for a in self.operands), key=len)
