"""Iterables of `for`, in comprehensions and loops: ranges, arrays, and enumerate and zip of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.errors import DtypeError, ParseError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing import ragged
from adcompiler.frontend.indexing.struct_rows import axes_of_items, entries, length_of_items
from adcompiler.frontend.values.modules import part_of
from adcompiler.frontend.values.open_axes import ONE, ZERO, open_axes
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import (
    array,
    combine,
    counted,
    integer,
    longest,
    numbered,
    stepped,
)
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.frontend.values.values import (
    AnyValue,
    FunctionValue,
    Held,
    Masked,
    RaggedRows,
    Value,
    describe,
)
from adcompiler.ir.nodes import Element, Index, Input, Read, Size, const, is_const
from adcompiler.ir.walk import is_computed, substitute
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply
from adcompiler.pytree.containers import Container, Rows

ITERATORS = ("range", "enumerate", "zip")
PRANGE = "prange"


def _only_iterated(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    context.fail(ParseError, "prange belongs after `in`", span, "write for i in prange(n)")


def _range() -> FunctionValue:
    return RANGE


RANGE = FunctionValue("range", ("stop",), _only_iterated, home=_range)  # numba's prange, under any name
ITERATE = "iterate over range(n), an array, a tuple, or enumerate and zip of them"
Steps = Generator[Any, AnyValue, AnyValue]
FIT = "write as many names as there are elements"


@dataclass(frozen=True, slots=True)
class Iterable:
    """`at(index)` for index < `length`, where `guard(index)` holds; `step * index` is at most `last`."""

    length: Element
    last: Linear
    at: Callable[[Element], AnyValue]
    step: int = 1
    guard: Callable[[Element], Element] | None = None
    filtered: bool = False  # whether the guard depends on values
    over: tuple[Held, ...] = ()  # the arrays whose elements are items


def iterable(
    context: Context, node: tree.Expression, scope: Mapping[str, AnyValue], unordered: bool = False
) -> Generator[Any, AnyValue, Iterable | tuple[Any, ...]]:
    """The iterable of an expression after `in`; a tuple if known at compile time. With `unordered` it does
    not matter which index an item has."""
    name = called(node, scope)
    if name is not None:
        assert isinstance(node, tree.Call)
        if node.keywords or not node.arguments:
            context.fail(ParseError, f"{name} takes its arguments by position", node.span, ITERATE)
        if name == "range":
            bounds = []
            for argument in node.arguments:
                bounds.append((yield argument, scope))
            return spanned(context, bounds, node.span, unordered)
        parts = []
        for argument in node.arguments:
            parts.append((yield from iterable(context, argument, scope)))
        return (_zipped if name == "zip" else _numbered)(context, parts, node.span)
    value = yield node, scope
    if isinstance(value, tuple):
        return tuple(value)
    if isinstance(value, Container) and axes_of_items(value):
        return items(context, value)
    if isinstance(value, RaggedRows):
        return _ragged(context, value)
    if isinstance(value, Masked) and value.mask.rank == 1:
        return _selected(context, value)
    if not isinstance(value, Value) or not value.rank:
        context.fail(DtypeError, f"cannot iterate over {describe(value)}", node.span, ITERATE)
    return rows(context, value)


def called(node: tree.Expression, scope: Mapping[str, AnyValue]) -> str | None:
    """The function among range, enumerate and zip that an expression calls; numba's `prange` counts as
    `range`."""
    match node:
        case tree.Call(function=tree.Name(id=name)) if scope.get(name) is RANGE:
            return "range"
        case tree.Call(function=tree.Name(id=name)) if name in (*ITERATORS, PRANGE) and name not in scope:
            return "range" if name == PRANGE else name
        case tree.Call(function=tree.Attribute() as function) if part_of(function, scope) is RANGE:
            return "range"
        case tree.Call(function=tree.Attribute(value=tree.Name(id="numba" | "nb" as library), name=name)):
            return "range" if name == PRANGE and library not in scope else None
    return None


def rows(context: Context, value: Value) -> Iterable:
    """The elements or rows of an array."""
    length = context.sizes.find(value.shape[0])

    def at(index: Element) -> Value:
        places: dict[int, Element] = {k: Index(k - 1) for k in range(1, value.rank)}
        held = value.held if value.rank > 1 else None
        return Value(value.shape[1:], substitute(value.element, {**places, 0: index}), value.weak, held)

    over = () if value.held is None or value.rank > 1 else (value.held,)
    return Iterable(length, linear(length) - linear_constant(1), at, over=over)


def _ragged(context: Context, value: RaggedRows) -> Iterable:
    """The rows of a list of arrays of different lengths."""
    length = ragged.length(context, value)
    return Iterable(length, linear(length) - linear_constant(1), lambda index: ragged.row(value, index))


def _selected(context: Context, value: Masked) -> Iterable:
    """The elements or rows selected by a mask: all of them, guarded by the mask."""
    found, mask = rows(context, value.value), rows(context, value.mask)
    return replace(found, guard=lambda index: mask.at(index).element, filtered=True)


def items(context: Context, value: Container) -> Iterable:
    """The items of a list of equal containers, or of a structured array."""
    length = length_of_items(context, value)
    part = value.part if isinstance(value, Rows) else value

    def at(index: Element) -> AnyValue:
        return entries(part, lambda leaf: rows(context, leaf).at(index))

    return Iterable(length, linear(length) - linear_constant(1), at)


def _numbered(
    context: Context, parts: Sequence[Iterable | tuple[Any, ...]], span: Span
) -> Iterable | tuple[Any, ...]:
    """`enumerate(items)`."""
    if len(parts) != 1:
        context.fail(ParseError, "enumerate takes one argument", span, "add the start to the index")
    (part,) = parts
    if isinstance(part, tuple):
        return tuple(enumerate(part))
    return Iterable(
        part.length,
        part.last,
        lambda i: (Value((), i, weak=True), part.at(i)),
        part.step,
        part.guard,
        over=part.over,
    )


def _zipped(
    context: Context, parts: Sequence[Iterable | tuple[Any, ...]], span: Span
) -> Iterable | tuple[Any, ...]:
    """`zip(a, b, ...)`, as long as the shortest iterable."""
    if all(isinstance(p, tuple) for p in parts):
        return tuple(zip(*parts, strict=False))
    fixed = [rows(context, array(context, "zip", p, span)) if isinstance(p, tuple) else p for p in parts]
    length = fixed[0].length
    for part in fixed[1:]:
        if part.length is not length:
            length = combine("minimum", length, part.length)
    guards = [p.guard for p in fixed if p.guard is not None]

    def guard(index: Element) -> Element:
        holds = guards[0](index)
        for other in guards[1:]:
            holds = apply("logical_and", holds, other(index))
        return holds

    return Iterable(
        length,
        fixed[0].last if length is fixed[0].length else linear(length) - linear_constant(1),
        lambda i: tuple(p.at(i) for p in fixed),
        1,
        guard if guards else None,
        over=tuple(held for p in fixed for held in p.over),
    )


def literal(item: AnyValue) -> AnyValue:
    """An item of a range with bounds known at compile time, as a number."""
    if isinstance(item, tuple):
        return tuple(literal(part) for part in item)
    if isinstance(item, Value) and item.weak and not item.rank and is_const(item.element):
        return item.element.value
    return item


# -- ranges --------------------------------------------------------------------------------------------


def spanned(context: Context, bounds: Sequence[AnyValue], span: Span, unordered: bool = False) -> Iterable:
    """`range(stop)`, `range(start, stop)` or `range(start, stop, step)`; the step is a constant."""
    if not 1 <= len(bounds) <= 3:
        context.fail(ParseError, "range takes (stop), (start, stop) or (start, stop, step)", span)
    start, stop = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    step = bounds[2] if len(bounds) == 3 else 1
    if not isinstance(step, int) or isinstance(step, bool) or step == 0:
        context.fail(ParseError, "the step of range must be a nonzero constant", span, "write range(0, n, 2)")
    # A range from 0 or more up to a negative number is empty, as up to 0; likewise downwards.
    up, down = step > 0 and _is_natural(start), step < 0 and _is_natural(stop)
    first, end = _bound(context, start, span, clamps=down), _bound(context, stop, span, clamps=up)
    distance = linear(end) - linear(first) if step > 0 else linear(first) - linear(end)
    iterations = _iterations(context, distance, abs(step))
    fixed = not open_axes(iterations) and not is_computed(iterations)
    if unordered and step == 1 and not fixed and _is_upper_part(context, first, end):
        return _upper_part(context, first, end)
    length = iterations if fixed else longest(context, distance, iterations, abs(step))

    def at(index: Element) -> Value:
        return Value((), (linear(first) + linear(index) * step).element(), weak=True)

    guard = None if length is iterations else (lambda index: apply("less", index, iterations))
    return Iterable(length, distance - linear_constant(1), at, abs(step), guard)


def _is_natural(value: AnyValue) -> bool:
    """Whether a bound is at least 0: a number, a length, or an argument, since calls with negative ones are
    refused."""
    if isinstance(value, Value):
        return isinstance(value.element, Size) or (
            isinstance(value.element, Read) and isinstance(value.element.array, Input)
        )
    return isinstance(value, int) and value >= 0


def _is_upper_part(context: Context, first: Element, end: Element) -> bool:
    """Whether a range is a part of range(end), from a start that depends on other indices."""
    return not (open_axes(end) or is_computed(end) or is_computed(first)) and context.binders.sure(
        linear(first)
    )


def _upper_part(context: Context, first: Element, end: Element) -> Iterable:
    """range(first, end) as range(end) with a condition. An index is then the axis itself, and reads at it
    become sums in reverse mode, not scatters."""
    length = end if context.binders.sure(linear(end)) else combine("maximum", end, ZERO)

    def at(index: Element) -> Value:
        return Value((), index, weak=True)

    return Iterable(
        length, linear(end) - linear_constant(1), at, 1, lambda index: apply("greater_equal", index, first)
    )


def _bound(context: Context, value: AnyValue, span: Span, clamps: bool = False) -> Element:
    """A bound of a range: an integer, or an integer scalar; an integer argument is a size."""
    if isinstance(value, Element):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return const(value, "i64")
    if not isinstance(value, Value) or value.rank or value.dtype != "i64":
        remedy = "pass an integer: annotate the parameter as i64, make it static, or divide with //"
        kind = f" of {value.dtype}" if isinstance(value, Value) else ""
        context.fail(DtypeError, f"range of {describe(value)}{kind}", span, remedy)
    return numbered(counted(context, value.element, span, clamps))


def _iterations(context: Context, distance: Linear, step: int) -> Element:
    """The number of iterations of a range: the distance over the step, rounded up, and at least 0."""
    known = distance.constant
    if known is not None:
        return integer(max(-(-known // step), 0))
    if step < 2**31:
        rounded = (distance + linear_constant(step - 1)).element()
        iterations = combine("floor_divide", rounded, const(step, "i64"))
    else:
        iterations = stepped(distance.element(), step)
    if context.binders.sure(distance) or (is_const(iterations) and iterations.value >= 0):
        return iterations
    return combine("maximum", iterations, ZERO)


def unpacked(context: Context, value: AnyValue, count: int, span: Span) -> tuple[AnyValue, ...]:
    """`count` parts of a value. The length of an array is known, or required of the call."""
    if isinstance(value, Container) and value.sequence:
        value = value.parts
    if isinstance(value, Value) and value.rank:
        value = _rows(context, value, count, span)
    if not isinstance(value, tuple):
        context.fail(ParseError, f"cannot unpack {describe(value)}", span, "assign it to one name")
    if len(value) != count:
        cause = f"{len(value)} values for {count} names"
        context.fail(ParseError, cause, span, f"write {len(value)} names")
    return value


def _rows(context: Context, value: Value, count: int, span: Span) -> tuple[AnyValue, ...]:
    """The elements or rows of an array."""
    sizes, length = context.sizes, context.sizes.find(value.shape[0])
    what = f"unpacking into {count} names"
    if is_const(length):
        count = int(length.value)
    elif count == 1:
        sizes.require(Constraint(length, ONE, what, span, FIT, merged=False))
    else:
        sizes.merge(const(count, "i64"), length, what, span, FIT)
    return tuple(context.aliases.rows([rows(context, value).at(const(k, "i64")) for k in range(count)]))
