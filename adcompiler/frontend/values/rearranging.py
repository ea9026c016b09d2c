"""Operations that only move elements: slices, transposes, reshapes, stacking. A value's element is read at
other indices; nothing is copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.exact_lengths import EXACT, LONG
from adcompiler.analysis.intervals import lowest
from adcompiler.analysis.limits import MOST_ELEMENTS
from adcompiler.analysis.mixed_radix import Domain, Product, exact_quotients, product_of, regrouped
from adcompiler.errors import DtypeError, LimitError, OutOfRangeError, ParseError, ShapeError, Span
from adcompiler.frontend.values.operations import ONE, Context, over
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import (
    AnyValue,
    Listed,
    Value,
    as_array,
    describe,
    instead_of,
    is_number,
)
from adcompiler.ir.nodes import (
    Apply,
    Const,
    Element,
    Index,
    Input,
    Map,
    Read,
    Shape,
    Size,
    const,
    is_const,
    select,
)
from adcompiler.ir.walk import is_computed, operands, rewrite, substitute
from adcompiler.ops.build import apply, cast

ZERO = const(0, "i64")
FOLDED = frozenset(("add", "subtract", "multiply", "minimum", "maximum", "floor_divide"))
INNER = "the last axis of the left operand must be as long as the second to last axis of the right one"


def integer(value: int) -> Element:
    """An int64 constant, saturated, so that a length that is too long stays too long."""
    return const(min(max(value, -(2**63)), 2**63 - 1), "i64")


def stepped(distance: Element, step: int) -> Element:
    """A distance over a step, rounded up: by adding the step first, unless that may overflow."""
    if step < 2**31:
        return combine("floor_divide", combine("add", distance, integer(step - 1)), integer(step))
    return combine("add", combine("floor_divide", combine("subtract", distance, ONE), integer(step)), ONE)


def combine(op: str, x: Element, y: Element) -> Element:
    """Arithmetic on sizes, folded if both are constants or one is neutral."""
    if is_const(x) and is_const(y):
        a, b = int(x.value), int(y.value)
        if op in FOLDED and (b or op != "floor_divide"):
            return integer(EXACT[op](a, b))
    if (op in ("add", "subtract") and is_const(y, 0)) or (
        op in ("multiply", "floor_divide") and is_const(y, 1)
    ):
        return x
    if op == "multiply" and (is_const(x, 0) or is_const(y, 0)):
        return ZERO
    if (op == "add" and is_const(x, 0)) or (op == "multiply" and is_const(x, 1)):
        return y
    return apply(op, x, y)


def moved(value: Value, shape: Shape, indices: Sequence[Element]) -> Value:
    """The value whose element at a point of `shape` is that of `value` at `indices`."""
    return Value(shape, substitute(value.element, dict(enumerate(indices))), value.weak)


def axes_of(value: Value) -> list[Element]:
    """The indices of a value's own axes; an axis of length 1 is read at 0."""
    return [ZERO if unit(n) else Index(k) for k, n in enumerate(value.shape)]


def transpose(context: Context, value: Value, axes: tuple[int, ...] | None, span: Span) -> Value:
    """Axis k of the result is axis `axes[k]` of the value; reversed for None."""
    order = tuple(reversed(range(value.rank))) if axes is None else axes
    if sorted(a % value.rank if value.rank else a for a in order) != list(range(value.rank)):
        context.fail(
            OutOfRangeError,
            f"{order} does not contain each of {value.rank} axes once",
            span,
            "give each axis once",
        )
    order = tuple(a % value.rank for a in order) if value.rank else ()
    shape = tuple(value.shape[a] for a in order)
    places = axes_of(Value(shape, value.element))
    return moved(value, shape, [places[order.index(k)] for k in range(value.rank)])


def reshape(context: Context, value: Value, shape: Sequence[AnyValue], span: Span) -> Value:
    """The same elements in row-major order over another shape; one length may be -1."""
    lengths = [integer(-1) if n == -1 else axis_length(context, n, span) for n in shape]
    total = _product(value.shape)
    unknown = [k for k, n in enumerate(lengths) if is_const(n, -1)]
    known = _product(n for k, n in enumerate(lengths) if k not in unknown)
    if len(unknown) > 1:
        context.fail(ShapeError, "only one length of reshape can be -1", span, "give the other lengths")
    if unknown:
        parts = combine("maximum", known, ONE) if is_computed(known) else known
        whole = None if is_computed(known) else _quotient(total, known)
        lengths[unknown[0]] = combine("floor_divide", total, parts) if whole is None else whole
        known = total if whole is not None else combine("multiply", known, lengths[unknown[0]])
    if not context.sizes.merge(
        known, total, "reshape: the number of elements", span, "keep the number of elements"
    ):
        context.fail(
            ShapeError,
            f"reshape: {context.sizes.describe(total)} elements do not fill {context.sizes.describe(known)}",
            span,
            "keep the number of elements",
        )
    if sum(map(is_computed, lengths)) > 1:
        cause = "reshape: the number of elements: two lengths differ"
        no_overflow(context, lengths, total, cause, "keep the number of elements", span)
    new = context.ranked(tuple(lengths), span)
    found, old = map(context.sizes.found, (new, value.shape))
    places = regrouped(axes_of(Value(new, value.element)), found, old)
    element = substitute(value.element, dict(enumerate(places)))
    domain = Domain(found, exact_quotients(found, old), old)
    return Value(new, domain.simplified((element,))[0], value.weak)


def _quotient(total: Element, part: Element) -> Element | None:
    """A length over a part of it, if that is a product; what the length clamps at 0 remains clamped."""
    found = product_of(total).over(product_of(part))
    clamps: dict[Element, Element] = {}
    factors = operands(total, "multiply")
    for factor in factors:
        match factor:
            case Apply(op="maximum", args=(x, zero)) if is_const(zero, 0):
                inner = operands(x, "multiply")
                clamps |= {f: apply("maximum", f, ZERO) for f in inner if not isinstance(f, Const | Size)}
                factors += inner
    if found is None:
        return None
    return Product(found.number, {clamps.get(f, f): power for f, power in found.powers.items()}).element()


def no_overflow(
    context: Context, lengths: Sequence[Element], total: Element, cause: str, remedy: str, span: Span
) -> None:
    """Require that the product of computed lengths is `total`, not only modulo 2^64."""
    if any(map(is_computed, lengths)):
        product = reduce(partial(apply, "multiply"), (cast(n, "f64") for n in lengths))
        context.binders.check(
            apply("equal", product, cast(total, "f64")), (), cause, remedy, span, ShapeError
        )


def _product(lengths: Iterable[Element]) -> Element:
    product: Element = ONE
    for n in lengths:
        product = combine("multiply", product, n)
    return product


def length_of(context: Context, value: AnyValue, span: Span, clamps: bool = True) -> Element:
    """A length given by the program: an integer, or arithmetic on sizes."""
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return integer(value)
    if isinstance(value, Value) and not value.rank and value.dtype == "i64" and not value.element.axes:
        return context.sizes.find(numbered(counted(context, value.element, span, clamps)))
    if isinstance(value, Value) and not value.rank and value.dtype == "i64":
        cause = "this length differs between elements of an array or sum"
        remedy = "write a for loop, whose lengths may differ, or sum(... for j in range(n - i))"
        context.fail(LimitError, cause, span, remedy)
    cause = f"a length must be an integer or a size, not {describe(value)}"
    context.fail(ParseError, cause, span, "use len(x) or x.shape[k]")


def counted(context: Context, element: Element, span: Span, clamps: bool = False) -> Element:
    """`element` with integer arguments as sizes. A size is nonnegative, so the call checks the argument,
    unless negative values of `element` all mean 0 (it `clamps`)."""
    given: dict[Input, None] = {}

    def of_input(part: Element) -> Element:
        size = context.sizes.of_input(part)
        if size is not part and isinstance(part, Read) and isinstance(part.array, Input):
            given[part.array] = None
        return size

    (found,) = rewrite((element,), of_input)
    for argument in () if clamps and isinstance(element, Read) else given:
        cause = f"the argument {context.sizes.whole[argument]} is negative, but used as a length or bound"
        remedy = "pass 0 or more; to count from the end write x[-k:]"
        context.binders.check(apply("greater_equal", Read(argument, ()), ZERO), (), cause, remedy, span)
    return found


def numbered(element: Element) -> Element:
    """An integer whose reads of elements are separate scalars: lengths read only scalars, so that a loop
    whose body has the length captures the scalar."""
    return rewrite((element,), _number)[0]


def _number(element: Element) -> Element:
    one = isinstance(element, Read) and element.args and not element.axes
    return Read(Map((), element), ()) if one else element


def longest(context: Context, distance: Linear, iterations: Element, step: int) -> Element:
    """The maximum number of iterations of a range, where `iterations`, `distance` over the step, depends on
    enclosing indices or on values."""
    if not is_computed(iterations):
        low = lowest(distance * -1, context.binders.ranges)
        if low is not None:
            high = low * -1 + linear_constant(step - 1)
            symbols = {a: f for a, f in high.terms.items() if a is not None}
            for size in symbols:
                if symbols == {size: 1} and step == 1 and high.terms.get(None, 0) <= 0:
                    return size  # n for n - 1, a length that others share
            most = combine("floor_divide", high.element(), const(step, "i64"))
            return most if is_const(most) else combine("maximum", most, ZERO)
    lead = context.binders.opened(iterations)
    return combine("maximum", lead.greatest(iterations), ZERO) if lead.axes else iterations


def axis_length(context: Context, value: AnyValue, span: Span) -> Element:
    """The length of an axis given by the program, which must not be negative."""
    if isinstance(value, int) and not 0 <= value < 2**63:
        context.fail(ShapeError, f"a length of {value}", span, "lengths must be at least 0 and below 2**63")
    length = length_of(context, value, span)
    if not is_const(length) and not context.binders.sure(linear(length)):
        context.sizes.demand(length, ZERO, "a length", span)
        if is_computed(length):  # lengths checked at run time are used before the check raises
            fits = apply("less_equal", length, integer(MOST_ELEMENTS))
            context.binders.check(
                fits, (), f"a length takes {LONG}", "pass a smaller length", span, ShapeError
            )
            return combine("maximum", length, ZERO)
    return length


def no_selection(context: Context, name: str, values: Sequence[AnyValue], span: Span) -> None:
    """Refuse selections and ragged rows where arrays are joined."""
    for value in values:
        if (remedy := instead_of(value, None)) is not None:
            context.fail(DtypeError, f"{name} takes arrays, not {describe(value)}", span, remedy)


def join(context: Context, values: Sequence[AnyValue], axis: int, span: Span) -> Value:
    """`concatenate`: values joined along an axis; the other lengths are equal."""
    values = [as_array(v) for v in values]
    no_selection(context, "concatenate", values, span)
    parts = [v for v in values if isinstance(v, Value)]
    if len(parts) < len(values) or not parts or len({v.rank for v in parts}) > 1 or not parts[0].rank:
        context.fail(
            ShapeError, "concatenate takes arrays of the same rank, at least 1", span, "reshape them first"
        )
    (axis,) = context.normalise((axis,), parts[0].rank, span)
    dtype, weak = context.meet(parts)
    shape = list(parts[0].shape)
    for part in parts[1:]:
        for k, n in enumerate(part.shape):
            if k != axis and not context.sizes.merge(
                shape[k], n, f"concatenate: axis {k}", span, "make them equal"
            ):
                context.fail(
                    ShapeError, f"concatenate: axis {k} has different lengths", span, "make them equal"
                )
    ends: list[Element] = []
    for part in parts:
        n = context.sizes.find(part.shape[axis])
        ends.append(combine("add", ends[-1], n) if ends else n)
    shape[axis] = ends[-1]
    element: Element | None = None
    whole = axes_of(Value(tuple(shape), parts[0].element))
    place = whole[axis]
    for k in reversed(range(len(parts))):
        start = ends[k - 1] if k else ZERO
        places = list(whole)
        places[axis] = ZERO if unit(parts[k].shape[axis]) else combine("subtract", place, start)
        here = cast(substitute(parts[k].element, dict(enumerate(places))), dtype)
        element = here if element is None else select(apply("less", place, ends[k]), here, element)
    assert element is not None
    return Value(tuple(shape), element, weak)


def listed(context: Context, items: Sequence[AnyValue], span: Span) -> Listed:
    """A list display: an array if its items are numbers, or arrays of one shape."""
    parts = [as_array(item) for item in items]
    found = Listed(parts)
    found.written = items
    ranks = {v.rank if isinstance(v, Value) else 0 for v in parts}
    if parts and len(ranks) == 1 and all(isinstance(v, Value) or is_number(v) for v in parts):
        shapes = [v.shape if isinstance(v, Value) else () for v in parts]
        if all(_same(context, shape, shapes[0]) for shape in shapes):
            found.array = stack(context, parts, 0, span)
    return found


def _same(context: Context, left: Shape, right: Shape) -> bool:
    return all(context.sizes.same(a, b) for a, b in zip(left, right, strict=True))


def array(context: Context, name: str, x: AnyValue, span: Span) -> Value:
    """An argument as an array or scalar of the program; a tuple is a row."""
    x = as_array(listed(context, x, span) if isinstance(x, tuple) and not isinstance(x, Listed) else x)
    if is_number(x):
        return Value((), const(x, context.meet((x,))[0]), weak=True)
    if not isinstance(x, Value):
        remedy = instead_of(x, "pass an array")
        context.fail(DtypeError, f"{name} takes an array, not {describe(x)}", span, remedy)
    return x


def stack(context: Context, values: Sequence[AnyValue], axis: int, span: Span) -> Value:
    """Values of one shape along a new axis."""
    values = [as_array(v) for v in values]
    no_selection(context, "stack", values, span)
    if not values or not all(isinstance(v, Value) or is_number(v) for v in values):
        context.fail(DtypeError, "stack takes numbers and arrays", span, "pass a tuple of arrays")
    dtype, weak = context.meet(values)
    shape = context.broadcast("stack", values, span)
    if any((isinstance(v, Value) and v.rank != len(shape)) or (is_number(v) and shape) for v in values):
        context.fail(ShapeError, "stack takes arrays of one shape", span, "reshape or broadcast them first")
    if not -len(shape) - 1 <= axis <= len(shape):
        context.fail(OutOfRangeError, f"axis {axis} is out of range", span, f"use 0 to {len(shape)}")
    axis %= len(shape) + 1
    linear_constant = context.ranked((*shape[:axis], integer(len(values)), *shape[axis:]), span)
    element: Element | None = None
    for k in reversed(range(len(values))):
        own = over(values[k], shape, dtype)
        here = substitute(own, {p: Index(p + (p >= axis)) for p in range(len(shape))})
        index = ZERO if len(values) == 1 else Index(axis)
        element = here if element is None else select(apply("equal", index, integer(k)), here, element)
    assert element is not None
    return Value(linear_constant, element, weak)


def matmul(context: Context, left: AnyValue, right: AnyValue, span: Span) -> AnyValue:
    """`left @ right`, as in NumPy for ranks of at least 1."""
    left, right = as_array(left), as_array(right)
    if not (isinstance(left, Value) and isinstance(right, Value) and left.rank and right.rank):
        context.fail(ShapeError, "@ takes arrays of rank 1 or more", span, "write * for scalars")
    inner = left.shape[-1], right.shape[-2 if right.rank > 1 else -1]
    fits = context.sizes.fits(*inner)
    if not fits or not context.sizes.merge(*inner, "@: the inner axes", span, INNER):
        lengths = " and ".join(context.sizes.describe(n) for n in inner)
        context.fail(
            ShapeError, f"@ of {context.operands((left, right))}: the inner lengths {lengths}", span, INNER
        )
    a = left if left.rank > 1 else Value((ONE, *left.shape), behind(left.element, 1), left.weak)
    b = right if right.rank > 1 else Value((*right.shape, ONE), right.element, right.weak)
    a = Value((*a.shape[:-1], ONE, a.shape[-1]), _before_last(a), a.weak)
    b = Value((*b.shape[:-2], ONE, b.shape[-1], b.shape[-2]), _swapped(b), b.weak)
    product = context.elementwise("multiply", (a, b), span)
    total = context.contract(product, (-1,), span)
    if left.rank == 1:
        total = _dropped(total, total.rank - 2)
    return _dropped(total, total.rank - 1) if right.rank == 1 else total


def own_index(length: Element, axis: int) -> Element:
    """The index along an axis; 0 along one of length 1."""
    return ZERO if unit(length) else Index(axis)


def behind(element: Element, count: int) -> Element:
    """The element of an array after `count` additional axes."""
    return substitute(element, {k: Index(k + count) for k in element.axes if k >= 0})


def _before_last(value: Value) -> Element:
    """A new axis before the last one."""
    last = value.rank - 1
    return substitute(value.element, {last: Index(last + 1)})


def _swapped(value: Value) -> Element:
    """Swap the last two axes, after inserting an axis before them."""
    last = value.rank - 1
    return substitute(value.element, {last: Index(last), last - 1: Index(last + 1)})


def _dropped(value: Value, axis: int) -> Value:
    """Drop an axis of length 1."""
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return Value(
        shape, substitute(value.element, {k: Index(k - 1) for k in range(axis + 1, value.rank)}), value.weak
    )
