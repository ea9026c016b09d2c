"""`*` and `+` of lists and tuples, as in Python; refused where Python and NumPy differ."""

from __future__ import annotations

from collections.abc import Container
from typing import NoReturn

from adcompiler.analysis.affine import linear
from adcompiler.errors import DtypeError, LimitError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.limits import MOST_ITEMS
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import ZERO, combine, length_of, moved
from adcompiler.frontend.values.values import AnyValue, Listed, Value, as_array, describe
from adcompiler.ir.nodes import Index, is_const
from adcompiler.ops.build import apply


def is_display(node: tree.Expression, repeated: Container[tree.Expression]) -> bool:
    """Whether an expression is a list display, or known to be a `repeated` one: operands are lowered first,
    so that chains of products are not walked again for each."""
    return node in repeated or (isinstance(node, tree.Sequence | tree.Comprehension) and node.kind == "list")


def combined(
    context: Context, op: str, left: AnyValue, right: AnyValue, displays: tuple[bool, bool], span: Span
) -> AnyValue | None:
    """`left op right` with Python's meaning for sequences; None if it is arithmetic.

    `displays` marks operands that are list displays: these are always lists. A list with a name is an array.
    """
    if all(displays) and op in ("*", "+"):
        _refuse_lists(context, op, span)
    if op == "*":
        for value, count, display in ((left, right, displays[0]), (right, left, displays[1])):
            if display or isinstance(value, tuple):
                return _times(context, value, count, display, span)
    lists = [d or isinstance(v, Listed) for d, v in zip(displays, (left, right), strict=True)]
    if op == "+" and all(lists):
        _refuse_lists(context, op, span)
    tuples = [isinstance(v, tuple) for v in (left, right)]
    if op == "+" and any(lists) and any(t and not d for t, d in zip(tuples, lists, strict=True)):
        remedy = "write both as tuples, (a, b) + (c,), or join lists: concatenate((a, b))"
        context.fail(DtypeError, "+ of a tuple and a list", span, remedy)
    if op == "+" and all(tuples):
        return _joined(context, left, right, span)
    return None


def _refuse_lists(context: Context, op: str, span: Span) -> NoReturn:
    """Python has no product of lists, and concatenates them with +."""
    if op == "*":
        context.fail(DtypeError, "a list times a list", span, "to multiply elements, name the lists: a * b")
    cause = "+ of lists: Python joins two lists, NumPy adds their elements"
    remedy = "to join them write concatenate((a, b)); to add elements, name the lists: 1.0 * a + b"
    context.fail(DtypeError, cause, span, remedy)


def _times(context: Context, value: AnyValue, count: AnyValue, display: bool, span: Span) -> AnyValue | None:
    """A sequence times a number: repeated if that is an integer; None if elements are multiplied."""
    whole = count.dtype == "i64" and not count.rank if isinstance(count, Value) else isinstance(count, int)
    if display or not isinstance(value, Listed):
        array = isinstance(as_array(count), Value) and not whole and as_array(count).rank
        return None if array else _repeated(context, value, count, whole, span)
    if whole:
        context.fail(
            DtypeError,
            "a list times an integer: Python repeats the list, NumPy multiplies the elements",
            span,
            "write 2.0 * v to multiply the elements, or [0.0] * 2 with the list literal to repeat it",
        )
    return None


def _repeated(context: Context, value: AnyValue, count: AnyValue, whole: bool, span: Span) -> AnyValue:
    if not whole:
        remedy = "to multiply its elements, name the list, v = [...]; to repeat it, annotate n: i64"
        cause = f"{describe(value)} can be repeated by an integer, not by {describe(count)}"
        context.fail(DtypeError, cause, span, remedy)
    array = as_array(value)
    if isinstance(count, Value):
        if not isinstance(array, Value):
            cause = f"{describe(value)} times an integer that is not known at compile time"
            context.fail(
                DtypeError, cause, span, "repeat a list of numbers, [0.0] * n, or make the integer static"
            )
        return _tiled(context, array, count, span)
    count = max(int(count), 0)
    if isinstance(value, Value) or (isinstance(array, Value) and count * len(value) > MOST_ITEMS):
        return _tiled(context, array, count, span)
    found = _sized(context, value, count, span)
    if isinstance(value, Listed) and isinstance(array, Value):
        found.array = _tiled(context, array, count, span)
    return found


def _sized(context: Context, value: tuple[AnyValue, ...], count: int, span: Span) -> AnyValue:
    if count * len(value) > MOST_ITEMS:
        context.fail(LimitError, f"a sequence of {count * len(value)} items", span, "use an array: zeros(n)")
    kind = Listed if isinstance(value, Listed) else tuple
    return kind(tuple(value) * count)


def _tiled(context: Context, array: Value, count: AnyValue, span: Span) -> Value:
    """An array repeated along its first axis."""
    times, own = length_of(context, count, span), context.sizes.find(array.shape[0])
    if not is_const(times) and not context.binders.sure(linear(times)):
        times = combine("maximum", times, ZERO)
    shape = (combine("multiply", times, own), *array.shape[1:])
    if is_const(own, 1):
        return Value(shape, array.element, array.weak)
    places = [Index(k) for k in range(array.rank)]
    return moved(array, shape, [apply("remainder", Index(0), own), *places[1:]])


def _joined(
    context: Context, left: tuple[AnyValue, ...], right: tuple[AnyValue, ...], span: Span
) -> AnyValue:
    """Tuples concatenated."""
    if len(left) + len(right) > MOST_ITEMS:
        context.fail(LimitError, f"a tuple of {len(left) + len(right)} items", span, "use an array")
    return (*left, *right)


def refuse_comparison(
    context: Context, left: AnyValue, right: AnyValue, displays: tuple[bool, bool], span: Span
) -> None:
    """Python compares two lists as wholes, NumPy element by element."""
    if all(d or isinstance(v, Listed) for d, v in zip(displays, (left, right), strict=True)):
        cause = "a comparison of two lists: Python compares whole lists, NumPy their elements"
        context.fail(DtypeError, cause, span, "write all(1.0 * a == b), or 1.0 * a == b for each element")
