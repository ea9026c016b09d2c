"""The values of names during lowering."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from adcompiler.errors import Source, Span
from adcompiler.frontend.grammar.tree import Def
from adcompiler.ir.nodes import Array, Element, Index, Shape, const, element_of
from adcompiler.ir.types import Dtype
from adcompiler.ir.walk import substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import Container

RESULT = "the returned value"  # the name of a loop's returned value; no variable can have it


def plain(name: str) -> str:
    """A name without the place that distinguishes the flags of loops (`loop_exits.py`)."""
    return name.partition(":")[0]


@dataclass(slots=True, eq=False)
class Storage:
    """The elements of an array in memory, as in NumPy (`aliases.py`): the time of creation, the type that
    stores convert to (None if the array has none of its own), possible aliases, and the last store."""

    born: int
    dtype: Dtype | None = None
    others: set[Storage] = field(default_factory=set)
    store: Store | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """A change of elements: through which name, where, and when."""

    name: str
    span: Span
    source: Source | None
    time: int

    @property
    def text(self) -> str:
        """The source line of the store."""
        return "" if self.source is None else self.source.text.split("\n")[self.span.line - 1].strip()


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Elements in the state after a store; `root` is what the store was made through, possibly the `row` of
    an iteration. `origin` are the same elements as held around an iteration."""

    storage: Storage
    store: Store | None = None
    root: Held | None = None
    origin: Held | None = None
    row: bool = False

    def ways(self) -> Iterator[Held]:
        """The elements as held here, and around."""
        held: Held | None = self
        while held is not None:
            yield held
            held = held.origin


@dataclass(frozen=True, slots=True)
class Value:
    """`element` at each point of `shape`: axis k of the shape is `Index(k)` of the element.

    An element never depends on an axis of length 1, which is read at 0. `held` tracks the other values that
    NumPy would change with it.
    """

    shape: Shape
    element: Element
    weak: bool = False
    held: Held | None = field(default=None, compare=False, repr=False)

    @property
    def dtype(self) -> Dtype:
        """The type of its elements."""
        return self.element.dtype

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return len(self.shape)


class Frame(Mapping[str, Any]):
    """The current names of a call being lowered: `scope` is that of the current statement, also in branches
    and iterations. A nested definition sees these names when it is called."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope

    def __getitem__(self, name: str) -> Any:
        return self.scope[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scope)

    def __len__(self) -> int:
        return len(self.scope)


@dataclass(frozen=True, slots=True)
class Closure:
    """A definition with the names visible to it."""

    definition: Def
    scope: Mapping[str, Any]
    source: Source
    rule: Closure | None = None  # the derivative that the user gives: (arguments, result, cotangent)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of optional parameters
    core: tuple[int, ...] | None = None  # for a ufunc: axes of each argument that the body takes
    results: int = 1  # for a ufunc
    stores: tuple[str, ...] = ()  # of a function that returns what it stores in these parameters
    filling: Closure | None = None  # as it returns its result and what it stores in its parameters, if both
    counts: bool = False  # whether Python ints are integers as arguments, as for functions of numba

    @property
    def name(self) -> str:
        """The name of the definition."""
        return self.definition.name


@dataclass(frozen=True, slots=True, eq=False)
class FunctionValue:
    """A function that is not a definition: a builtin used as a value (of the `library`), or a derivative."""

    name: str
    parameters: tuple[str, ...]
    call: Callable[..., Any]
    library: bool = False
    home: Callable[[], FunctionValue] | None = None  # gives this very function, in another process too

    def __reduce__(self) -> Any:
        state = (self.name, self.parameters, self.call, self.library)
        return (FunctionValue, state) if self.home is None else (self.home, ())


@dataclass(frozen=True, slots=True)
class Foreign:
    """A name of the surrounding Python program that the language does not support."""

    what: str
    remedy: str


LOCAL = Foreign("assigned only inside a loop", "give it a value before the loop")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is not known before the first call (an `array`: that of a number or array)."""

    array: bool = False


REFUSED = FunctionValue("refused", (), lambda *_: Unknown())  # a function with errors, in those that call it


@dataclass(frozen=True, slots=True)
class Tally:
    """A quantity of a print statement: its number, its kind (`min`, `max`, `sum`, `whole`, `line`), and an
    array."""

    number: int
    kind: str
    array: Array
    line: Any = None


class Unset(int):
    """Stands for a number or array that a name gets later, and that is not read before: it has any type."""


UNSET = Unset()


class Listed(tuple[Any, ...]):
    """A list display: a tuple that acts as `array` wherever an array is needed (None if it cannot)."""

    array: Value | None = None
    written: Sequence[Any] = ()  # its items as written; in the tuple, lists among them are arrays
    grown = False  # whether it was appended to
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class AppendedList:
    """A list that loops append to: an array under the name `key` in the scope, with `count` rows so far.

    depth the number of conditions around the appending iteration around the enclosing loops that append to
    it; none if the list is complete per the number of elements an iteration of each loop appends, by the
    loop's span kept the elements held by the appended arrays buffer the array, if an element is read
    """

    key: str
    count: Element
    depth: int
    around: tuple[Any, ...]
    per: Mapping[Span, Element]
    kept: list[Held] = field(default_factory=list)
    buffer: Value | None = None


@dataclass(slots=True, eq=False)
class AppendProbe:
    """A list in a loop lowered to find out what it appends: `kinds` by statement."""

    depth: int
    first: Value | None  # an element of the type before the loop
    around: tuple[Any, ...] = ()
    kinds: dict[Any, Value] = field(default_factory=dict)
    count: Element = field(default_factory=lambda: const(0, "i64"))
    per: dict[Span, Element] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GeneratorValue:
    """The values of a generator: `value` for each point of the open `axes` where `guard` holds."""

    axes: tuple[int, ...]
    lengths: Shape
    guard: Element | None
    value: Value

    def value_of(self, element: Element, own: bool = True) -> Value:
        """An element of the family as an array: the family's axes first, then the value's own."""
        count = len(self.axes)
        moved: dict[int, Element] = {k: Index(k + count) for k in element.axes if k >= 0}
        moved |= {a: Index(p) for p, a in enumerate(self.axes)}
        shape = self.value.shape if own else (const(1, "i64"),) * self.value.rank
        return Value(self.lengths + shape, substitute(element, moved), self.value.weak and own)


@dataclass(frozen=True, slots=True)
class Masked:
    """`x[mask]`: the elements or rows of `value` where the `mask` over its leading axes holds."""

    value: Value
    mask: Value


@dataclass(frozen=True, slots=True)
class Row(Masked):
    """One row of a list of arrays of different lengths: the first `length` elements of `value`."""

    length: Element


@dataclass(frozen=True, slots=True)
class RaggedRows:
    """A list of arrays of different lengths: all elements, and the start and length of each array."""

    values: Value
    starts: Value
    lengths: Value


REDUCE = "reduce it: sum(x[mask]), mean(x[mask]), len(x[mask]); to keep the length, write where(mask, x, 0)"

REDUCE_ROWS = "reduce each row: [sum(row) for row in x]; for all elements in order write concatenate(x)"


PARTS = "use its parts, or pass an array"


def instead_of(value: AnyValue, otherwise: str | None) -> str | None:
    """A suggestion where an array is needed."""
    if isinstance(value, Row | RaggedRows):
        return REDUCE_ROWS
    return REDUCE if isinstance(value, Masked) else otherwise


# A Value, a function, a tuple or Container of values, or a constant known at compile time: a number, a
# string, None.
AnyValue: TypeAlias = Any


def value_of_array(array: Array, weak: bool = False) -> Value:
    """The value that is all of `array`."""
    return Value(array.shape, element_of(array), weak)


def as_array(value: AnyValue) -> AnyValue:
    """A list as the array that it represents; other values unchanged."""
    return value.array if isinstance(value, Listed) and value.array is not None else value


def as_written(value: AnyValue) -> AnyValue:
    """The items of a list display; any other value as it is."""
    return value.written if isinstance(value, Listed) and value.written else value


def is_number(value: AnyValue) -> bool:
    """Whether a value is a number known at compile time."""
    return isinstance(value, int | float)


def describe(value: AnyValue) -> str:
    """The kind of a value, for messages."""
    match value:
        case Value(shape=shape):
            return f"an array of rank {len(shape)}" if shape else "a scalar"
        case bool() | int() | float():
            return f"the number {value!r}" if math.isfinite(value) else f"the constant {value}"
        case Listed():
            return f"a list of {len(value)}"
        case AppendedList() | AppendProbe():
            return "a list that a loop appends to"
        case GeneratorValue():
            return "a generator"
        case Row():
            return "a row, whose length differs from those of other rows"
        case RaggedRows():
            return "a list of arrays of different lengths"
        case Masked():
            return "x[mask], whose length depends on values"
        case tuple():
            return f"a tuple of {len(value)}"
        case str():
            return "a string"
        case None:
            return "None"
        case Foreign(what=what):
            return what
        case Container():
            return value.what
    return f"the function {getattr(value, 'name', '?')!r}"
