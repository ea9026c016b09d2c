"""`pad`: an array with more elements at the ends of its axes, read at indices that its mode says."""

from __future__ import annotations

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.rearranging import ZERO, combine
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import AnyValue, Value, is_number
from adcompiler.ir.nodes import Element, Index, const, is_const, select
from adcompiler.ops.build import apply, cast

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
WIDTHS = "write pad(x, 1), pad(x, (before, after)) or one such pair for each axis"
Widths = tuple[Element, Element]


def pad(
    context: Context, x: AnyValue, pad_width: AnyValue, mode: AnyValue, constant_values: AnyValue, span: Span
) -> Value:
    """The array with `pad_width` elements before and behind each axis."""
    value = rearranging.array(context, "pad", x, span)
    mode = "constant" if mode is None else mode
    if mode not in MODES:
        context.fail(ParseError, f"pad has no mode {mode!r}", span, f"the modes are {', '.join(MODES)}")
    if constant_values is not None and mode != "constant":
        cause = f"pad: constant_values with the mode {mode!r}"
        context.fail(ParseError, cause, span, 'leave it out, or write mode="constant"')
    fill = 0 if constant_values is None else constant_values
    if not is_number(fill) and not (isinstance(fill, Value) and not fill.rank):
        context.fail(ParseError, "constant_values must be one number", span, "concatenate for several")
    for axis, width in enumerate(_widths(context, value.rank, pad_width, span)):
        if not all(is_const(n, 0) for n in width):
            value = _along(context, value, axis, width, mode, fill, span)
    return value


def _widths(context: Context, rank: int, given: AnyValue, span: Span) -> list[Widths]:
    """A width before and one behind for each axis, as NumPy broadcasts what is given."""
    pairs = given if isinstance(given, tuple) else (given,)
    if not any(isinstance(one, tuple) for one in pairs):
        pairs = (tuple(pairs),)
    pairs = tuple(
        tuple(one) * (2 if len(one) == 1 else 1) if isinstance(one, tuple) else (one, one) for one in pairs
    )
    pairs = pairs * rank if len(pairs) == 1 else pairs
    if len(pairs) != rank or any(len(one) != 2 for one in pairs):
        context.fail(ShapeError, f"pad: these widths do not fit {rank} axes", span, WIDTHS)
    before, behind = ([rearranging.axis_length(context, one[k], span) for one in pairs] for k in (0, 1))
    return list(zip(before, behind, strict=True))


def _along(
    context: Context, x: Value, axis: int, width: Widths, mode: str, fill: AnyValue, span: Span
) -> Value:
    """The array padded along one axis."""
    n = context.sizes.find(x.shape[axis])
    length = combine("add", combine("add", n, width[0]), width[1])
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    if mode != "constant" and not is_const(n):
        context.sizes.demand(n, ONE, f"pad with {mode!r} of an empty axis", span)
    at = combine("subtract", ZERO if unit(length) else Index(axis), width[0])

    def read(index: Element) -> Element:
        places = rearranging.axes_of(Value(shape, x.element))
        places[axis] = ZERO if unit(n) else index
        return rearranging.moved(x, shape, places).element

    if mode == "constant":
        dtype, weak = context.meet((x, fill))
        dtype = x.dtype if not x.weak else dtype
        filled = cast(fill.element, dtype) if isinstance(fill, Value) else const(fill, dtype)
        inside = apply("logical_and", apply("greater_equal", at, ZERO), apply("less", at, n))
        return Value(shape, select(inside, cast(read(at), dtype), filled), x.weak and weak)
    if mode == "edge":
        last = combine("subtract", n, ONE)
        element = select(apply("less", at, n), read(at), read(last))
        return Value(shape, select(apply("less", at, ZERO), read(ZERO), element), x.weak)
    return Value(shape, read(_folded(mode, at, n)), x.weak)


def _folded(mode: str, at: Element, n: Element) -> Element:
    """The index that an index outside stands for, where the array goes on to and fro, or again and again."""
    if mode == "wrap":
        return apply("remainder", at, n)
    ends = 1 if mode == "symmetric" else 0  # whether the last element comes twice
    period = combine(
        "subtract", combine("multiply", n, rearranging.integer(2)), rearranging.integer(2 - 2 * ends)
    )
    period = combine("maximum", period, ONE)
    place = apply("remainder", at, period)
    back = combine("subtract", combine("subtract", period, rearranging.integer(ends)), place)
    return select(apply("less", place, n), place, back)
