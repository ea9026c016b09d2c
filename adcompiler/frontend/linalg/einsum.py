"""Sums of products by the letters of their axes: `einsum("ij,jk->ik", x, y)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import ZERO
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Element, Index

Axes = list[str]  # one name per axis; those of an ellipsis are "...2", "...1", "...0", in axis order
Operand = tuple[Value, Axes]


def einsum(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """The builtin: a specification, then its operands."""
    keywords = {name: value for name, value in keywords.items() if name != "optimize"}
    if len(args) > 1 and not keywords and not isinstance(args[0], str):
        context.bound(span)
    if len(args) > 1 and not isinstance(args[0], str):
        args = _of_lists(args)
    if keywords or len(args) < 2 or not isinstance(args[0], str):
        context.fail(
            ParseError, "einsum takes a specification and arrays", span, 'write einsum("ij,jk->ik", x, y)'
        )
    spec = args[0].replace(" ", "")
    given, arrow, output = spec.partition("->")
    texts = given.split(",")
    if len(texts) != len(args) - 1:
        cause = f"einsum: {len(texts)} operands in {args[0]!r}, and {len(args) - 1} arrays"
        context.fail(ParseError, cause, span, "write one group of letters for each array")
    context.bound(span)
    values = [rearranging.array(context, "einsum", x, span) for x in args[1:]]
    operands = [(v, _letters(context, t, v.rank, span)) for t, v in zip(texts, values, strict=True)]
    return contracted(
        context, "einsum", operands, _output(context, output if arrow else None, operands, span), span
    )


def _of_lists(args: list[Any]) -> list[Any]:
    """`einsum(x, [0, 1], y, [1, 2], [0, 2])` as a specification in letters and the operands; other arguments
    unchanged."""
    lists = [*args[1::2], *(args[-1:] if len(args) % 2 else [])]
    if not all(isinstance(axes, tuple) and all(map(_is_axis, axes)) for axes in lists):
        return args
    texts = ["".join(chr(ord("a") + k) for k in axes) for axes in lists]
    output = f"->{texts.pop()}" if len(args) % 2 else ""
    return [",".join(texts) + output, *args[: 2 * len(texts) : 2]]


def _is_axis(number: Any) -> bool:
    return isinstance(number, int) and 0 <= number < 26


def _letters(context: Context, text: str, rank: int, span: Span) -> Axes:
    """The axes named by a group of letters, for an array of a rank."""
    before, dots, behind = text.partition("...")
    letters = before + behind
    if letters and not letters.isalpha():
        context.fail(ParseError, f"einsum: {text!r} is not a group of letters", span, "use letters only")
    hidden = rank - len(letters)
    if hidden < 0 or (hidden and not dots):
        cause = f"einsum: {text!r} names {len(letters)} axes of an array of rank {rank}"
        context.fail(ShapeError, cause, span, "write one letter for each axis, or ... for some")
    return [*before, *(f"...{k}" for k in reversed(range(hidden))), *behind]


def _output(context: Context, text: str | None, operands: Sequence[Operand], span: Span) -> Axes:
    """The axes of the result; by default the letters that occur once, in alphabetical order."""
    named = [a for _, axes in operands for a in axes]
    hidden = sorted({a for a in named if a.startswith("...")}, key=lambda a: -int(a[3:]))
    if text is None:
        return [*hidden, *sorted(a for a in set(named) if named.count(a) == 1 and a not in hidden)]
    before, dots, behind = text.partition("...")
    found = [*before, *(hidden if dots else ()), *behind]
    unknown = [a for a in found if a not in named]
    if unknown or len(set(found)) < len(found):
        what = f"{unknown[0]!r}, no operand's axis" if unknown else "an axis twice"
        cause = f"einsum: {text!r} names {what}"
        context.fail(ParseError, cause, span, "use each axis of the result once")
    return found


def contracted(context: Context, what: str, operands: Sequence[Operand], kept: Axes, span: Span) -> AnyValue:
    """The sum over all axes that are not kept, operand by operand: each axis is summed as soon as no other
    operand has it."""
    lengths: dict[str, Element] = {}
    for value, axes in operands:
        for axis, n in zip(axes, value.shape, strict=True):
            _meet(context, what, lengths, axis, context.sizes.find(n), span)
    first, *rest = (_diagonal(*operand) for operand in operands)
    total, axes = first
    for k in range(len(rest) + 1):
        needed = set(kept).union(*(names for _, names in rest[k:]))
        gone = tuple(p for p, a in enumerate(axes) if a not in needed)
        total = context.contract(total, gone, span) if gone else total
        axes = [a for a in axes if a in needed]
        if k < len(rest):
            value, names = rest[k]
            both = [*axes, *(n for n in names if n not in axes)]
            pair = _spread(total, axes, both), _spread(value, names, both)
            total, axes = context.elementwise("multiply", pair, span), both
    return _spread(total, axes, kept)


def _meet(
    context: Context, what: str, lengths: dict[str, Element], axis: str, n: Element, span: Span
) -> None:
    """Add a length of an axis: it must equal the known one, unless one of them is 1."""
    known = lengths.get(axis)
    if known is None or unit(known):
        lengths[axis] = n
    elif not unit(n) and not context.sizes.merge(known, n, f"{what}: the axis {axis}", span):
        sizes = " and ".join(context.sizes.describe(s) for s in (known, n))
        context.fail(
            ShapeError, f"{what}: the axis {axis} has the lengths {sizes}", span, "lengths must be equal or 1"
        )


def _diagonal(value: Value, axes: Axes) -> Operand:
    """A value with distinct axis names: a repeated name selects a diagonal."""
    names = list(dict.fromkeys(axes))
    longest = {
        a: max((n for a_, n in zip(axes, value.shape, strict=True) if a_ == a), key=lambda n: not unit(n))
        for a in names
    }
    places = [ZERO if unit(n) else Index(names.index(a)) for a, n in zip(axes, value.shape, strict=True)]
    return rearranging.moved(value, tuple(longest[a] for a in names), places), names


def _spread(value: Value, axes: Axes, order: Axes) -> Value:
    """A value with axes in another order; missing axes have length 1."""
    shape = tuple(value.shape[axes.index(a)] if a in axes else ONE for a in order)
    places = [ZERO if unit(n) else Index(order.index(a)) for a, n in zip(axes, value.shape, strict=True)]
    return rearranging.moved(value, shape, places)


EINSUM: Mapping[str, Builtin] = {"einsum": einsum}
