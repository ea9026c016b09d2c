"""What a loop carries: the values of names, nested as they are, as a flat list of arrays with their types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adcompiler.analysis.affine import linear
from adcompiler.errors import DtypeError, ShapeError, Span
from adcompiler.frontend.values.open_axes import ZERO, open_axes
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import RESULT, AnyValue, Held, Value, as_array, describe, is_number
from adcompiler.ir.bodies import fresh
from adcompiler.ir.nodes import Array, Element, Index, Map, Read, Shape, closed, const
from adcompiler.ir.types import Dtype, is_float
from adcompiler.ir.walk import arrays_of, arrays_read, read_by, substitute

KEEP = "let it keep its shape"
LENGTH = "let it keep its length, and store in a part of it: v[:k] = ..."
Scope = dict[str, AnyValue]


@dataclass(frozen=True, slots=True)
class CarriedType:
    """What an iteration is lowered on: the type of one carried scalar or array, open in the axes `lead`."""

    dtype: Dtype
    shape: Shape
    lead: tuple[int, ...]
    weak: bool


class Carries:
    """The carried names of one loop, as a flat list of arrays and how they nest."""

    def __init__(self, context: Context, names: Sequence[str], scope: Scope, span: Span) -> None:
        self.context, self.names, self.span = context, names, span
        self.before = {name: scope[name] for name in names}
        self.inits: list[AnyValue] = []
        self.labels: list[str] = []
        for name in names:
            self.collect(name, self.before[name])
        self.types = [self.type_of(v) for v in self.inits]
        self.held: list[Held | None] = [self.holds(v) for v in self.inits]

    def collect(self, name: str, value: AnyValue) -> None:
        """The numbers and arrays of a value, in order."""
        value = as_array(value)
        if isinstance(value, tuple):
            for part in value:
                self.collect(name, part)
        elif isinstance(value, Value) or is_number(value):
            self.inits.append(value)
            self.labels.append(name)

    def nested(self, value: AnyValue, leaves: list[Value]) -> AnyValue:
        """A value with its numbers and arrays replaced, first to last."""
        value = as_array(value)
        if isinstance(value, tuple):
            return tuple(self.nested(part, leaves) for part in value)
        return leaves.pop(0) if isinstance(value, Value) or is_number(value) else value

    def bind(self, scope: Scope, leaves: Sequence[Value]) -> None:
        """Give the names their values."""
        rest = list(leaves)
        for name in self.names:
            scope[name] = self.nested(self.before[name], rest)

    def type_of(self, value: AnyValue) -> CarriedType:
        if not isinstance(value, Value):
            return CarriedType(self.context.meet((value,))[0], (), (), True)
        return CarriedType(value.dtype, value.shape, tuple(open_axes(value.element)), value.weak)

    def holds(self, value: AnyValue) -> Held:
        """The elements of a value, told apart from those of others that are the same."""
        held = value.held if isinstance(value, Value) else None
        return self.context.aliases.fresh() if held is None else Held(held.storage, held.store, origin=held)

    # -- the arrays ------------------------------------------------------------------------------

    def slots(self) -> list[Array]:
        """Placeholders in the types of the carried values."""
        return [fresh(t.dtype, self.whole_shape(t)) for t in self.types]

    def whole_shape(self, kind: CarriedType) -> Shape:
        return tuple(self.context.binders.lengths[a] for a in kind.lead) + kind.shape

    def values(self, arrays: Sequence[Array]) -> list[Value]:
        """The carried values, read from arrays that have their open axes first."""
        return [
            Value(t.shape, Read(a, self.lead(t) + _behind(t)), t.weak, held if t.shape else None)
            for t, a, held in zip(self.types, arrays, self.held, strict=True)
        ]

    def lead(self, kind: CarriedType) -> tuple[Element, ...]:
        lengths = self.context.binders.lengths
        return tuple(ZERO if unit(lengths[a]) else Index(a) for a in kind.lead)

    def array(self, value: AnyValue, kind: CarriedType) -> Array:
        """The array of a value in a type that it fits."""
        count = len(kind.lead)
        element = over(value, kind.shape, kind.dtype)
        moved: dict[int, Element] = {k: Index(k + count) for k in element.axes if k >= 0}
        moved |= {a: Index(p) for p, a in enumerate(kind.lead)}
        return closed(self.whole_shape(kind), substitute(element, moved))

    # -- an iteration ----------------------------------------------------------------------------------

    def after(self, scope: Scope) -> list[AnyValue]:
        """The numbers and arrays of the names after an iteration."""
        found: list[AnyValue] = []
        for name in self.names:
            self.match(name, self.before[name], scope[name], found)
        return found

    def match(self, name: str, before: AnyValue, now: AnyValue, found: list[AnyValue]) -> None:
        """Collect the parts of a value after an iteration; it must nest as it did before."""
        before, now = as_array(before), as_array(now)
        if isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now):
            for one, other in zip(before, now, strict=True):
                self.match(name, one, other, found)
        elif (isinstance(before, Value) or is_number(before)) and (isinstance(now, Value) or is_number(now)):
            found.append(now)
        elif before is not now:
            if name == RESULT:
                kind = describe(now) if isinstance(now, tuple) else "what is no number or array"
                cause = f"a loop of the program cannot return {kind} here"
                remedy = (
                    "give names their values before the loop, assign them, break, and return them after it"
                )
                self.context.fail(DtypeError, cause, self.span, remedy)
            self.context.fail(
                DtypeError,
                f"{name} is {describe(before)} before the loop and {describe(now)} after an iteration",
                self.span, "let it be one kind of value",
            )  # fmt: skip

    def keep_shapes(self, results: Sequence[AnyValue]) -> None:
        """Demand that no array is a smaller one after an iteration."""
        for name, kind, result in zip(self.labels, self.types, results, strict=True):
            shape = result.shape if isinstance(result, Value) else ()
            if len(shape) < len(kind.shape):
                self.changed(name, len(kind.shape), len(shape))
            for k, n in enumerate(kind.shape):
                if not unit(self.context.sizes.find(n)) and unit(self.context.sizes.find(shape[k])):
                    cause = f"axis {k} of {name} has length 1 after an iteration, and another before the loop"
                    self.context.fail(ShapeError, cause, self.span, KEEP)

    def same_length(self, name: str, before: Shape, after: Shape) -> None:
        """Refuse an array that each iteration makes longer, or shorter, by the same number of elements."""
        for one, other in zip(before, after, strict=False):
            lengths = self.context.sizes.find(one), self.context.sizes.find(other)
            more = linear(lengths[1]) - linear(lengths[0])
            if len(before) == len(after) and more.constant and not any(map(unit, lengths)):
                cause = f"{name} has another length after an iteration: {abs(more.constant)} elements "
                cause += "more" if more.constant > 0 else "less"
                self.context.fail(ShapeError, cause, self.span, LENGTH)

    def changed(self, name: str, before: int, after: int) -> None:
        cause = f"{name} has rank {before} before the loop and {after} after an iteration"
        self.context.fail(ShapeError, cause, self.span, KEEP)

    def spread_evenly(self, slots: Sequence[Array], results: Sequence[AnyValue]) -> None:
        """Demand that what is larger after an iteration than before the loop is only used element by element:
        in the first iteration it is not yet so large, and a sum of it would not be the same."""
        for name, kind, init, slot in zip(self.labels, self.types, self.inits, slots, strict=True):
            start = self.type_of(init).shape
            same = [*map(self.context.sizes.find, start)] == [*map(self.context.sizes.find, kind.shape)]
            if same or name == RESULT:  # a loop does not use what it returns
                continue
            behind = {slot}
            for array in arrays_of(_arrays_in(results)):
                if any(a in behind for a in arrays_read(array)):
                    behind.add(array)
                    if not isinstance(array, Map):
                        cause = f"{name} is {_ranked(start)} before the loop and {_ranked(kind.shape)} after"
                        remedy = f"start it in the shape that it has later: {name} = zeros(...)"
                        self.context.fail(ShapeError, cause, self.span, remedy)

    def widen(self, results: Sequence[AnyValue]) -> bool:
        """Widen the types to take the results of an iteration; whether any had to be."""
        wider = [self.join(*pair) for pair in zip(self.labels, self.types, results, self.inits, strict=True)]
        changed, self.types = wider != self.types, wider
        return changed

    def join(self, name: str, kind: CarriedType, result: AnyValue, init: AnyValue) -> CarriedType:
        """The type that takes both."""
        other = self.type_of(result)
        here = Value(kind.shape, const(0, kind.dtype), kind.weak)
        there = Value(other.shape, const(0, other.dtype), other.weak)
        dtype, weak = self.context.meet((here, there))
        if not is_float(kind.dtype) and kind.weak and not other.weak:
            dtype, weak = other.dtype if dtype == other.dtype else dtype, False
        self.same_length(name, here.shape, there.shape)
        shape = self.context.broadcast(f"{name}, which the loop carries", (here, there), self.span)
        start = self.type_of(init)
        if start.shape and len(start.shape) != len(shape):
            self.changed(name, len(start.shape), len(shape))
        lead = tuple(sorted({*kind.lead, *other.lead}, reverse=True))
        return CarriedType(dtype, shape, lead, weak)


def _arrays_in(values: Sequence[AnyValue]) -> tuple[Array, ...]:
    """The arrays that values read."""
    return read_by(v.element for v in values if isinstance(v, Value))


def _ranked(shape: Shape) -> str:
    return f"an array of rank {len(shape)}" if shape else "a scalar"


def _behind(kind: CarriedType) -> tuple[Element, ...]:
    """A value's own axes as it reads them."""
    return tuple(ZERO if unit(n) else Index(k) for k, n in enumerate(kind.shape))
