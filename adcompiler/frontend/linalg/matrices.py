"""Matrices defined by indices: diagonals, sums over pairs of axes, and Kronecker products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.linalg.einsum import contracted
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtins, known_integer
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import ZERO, combine
from adcompiler.frontend.values.sizes import unit
from adcompiler.frontend.values.values import AnyValue, Value, as_written, describe
from adcompiler.ir.nodes import Element, Index, const, is_const, select
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply

PAIRS = "write axes=1, or axes=((1,), (0,))"


def matrix(context: Context, name: str, x: AnyValue, span: Span) -> Value:
    """An argument as a matrix or a stack of matrices."""
    value = rearranging.array(context, name, x, span)
    if value.rank < 2:
        context.fail(
            ShapeError,
            f"{name} takes a matrix, not {describe(value)}",
            span,
            "pass an array of rank 2 or more",
        )
    return value


def index(value: Value, axis: int) -> Element:
    """The index along an axis; 0 along one of length 1."""
    axis %= value.rank
    return ZERO if unit(value.shape[axis]) else Index(axis)


def shifted(element: Element, by: int) -> Element:
    """An element plus a number."""
    return combine("add" if by >= 0 else "subtract", element, const(abs(by), "i64"))


def _on_diagonal(rows: Element, columns: Element, k: int, element: Element, weak: bool) -> Value:
    """A matrix that is `element` on diagonal `k`, and zero elsewhere."""
    whole = Value((rows, columns), element)
    here = apply("equal", shifted(index(whole, 0), k), index(whole, 1))
    return Value(whole.shape, select(here, element, const(0, element.dtype)), weak)


def diag(context: Context, x: AnyValue, k: AnyValue, span: Span) -> Value:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector."""
    value, offset = rearranging.array(context, "diag", x, span), known_integer(context, "k", k, 0, span)
    if value.rank == 2:
        return diagonal(context, value, offset, span)
    if value.rank != 1:
        context.fail(
            ShapeError,
            f"diag takes a vector or a matrix, not {describe(value)}",
            span,
            "write diagonal(x) for stacks",
        )
    n = shifted(context.sizes.find(value.shape[0]), abs(offset))
    place = shifted(Index(0), -max(-offset, 0)) if not unit(n) else ZERO
    element = substitute(value.element, {0: place})
    if offset < 0 and not unit(value.shape[0]):
        element = select(apply("greater_equal", place, ZERO), element, const(0, element.dtype))
    return _on_diagonal(n, n, offset, element, value.weak)


def diagonal(context: Context, x: AnyValue, k: AnyValue, span: Span) -> Value:
    """Diagonal number `k` of the last two axes."""
    value = matrix(context, "diagonal", x, span)
    offset = known_integer(context, "k", k, 0, span)
    down, right = max(-offset, 0), max(offset, 0)
    rows, columns = (context.sizes.find(n) for n in value.shape[-2:])
    rows, columns = shifted(rows, -down), shifted(columns, -right)
    n = rows if rows is columns else combine("minimum", rows, columns)
    n = n if offset == 0 else combine("maximum", n, ZERO)
    at = Value((*value.shape[:-2], n), value.element)
    place = index(at, -1)
    moved = [index(value, d) for d in range(value.rank - 2)]
    return rearranging.moved(value, at.shape, [*moved, shifted(place, down), shifted(place, right)])


def tensordot(context: Context, x: AnyValue, y: AnyValue, axes: AnyValue, span: Span) -> AnyValue:
    """The sum over the last `axes` axes of x and the first of y, or over the axes named by two tuples."""
    x, y = rearranging.array(context, "tensordot", x, span), rearranging.array(context, "tensordot", y, span)
    axes = as_written(2 if axes is None else axes)
    if isinstance(axes, int) and axes <= min(x.rank, y.rank):
        left, right = tuple(range(x.rank - axes, x.rank)), tuple(range(axes))
    elif isinstance(axes, Sequence) and not isinstance(axes, str) and len(axes) == 2:
        left, right = (_axes_of(context, a, v.rank, span) for a, v in zip(axes, (x, y), strict=True))
    else:
        left = right = ()
        what = describe(axes) if isinstance(axes, Value) else repr(axes)
        context.fail(ShapeError, f"tensordot over {what} axes", span, PAIRS)
    if len(left) != len(right):
        context.fail(ShapeError, "tensordot: unequal numbers of axes", span, "list them in pairs")
    names = [f"x{k}" for k in range(x.rank)]
    others = [names[left[right.index(k)]] if k in right else f"y{k}" for k in range(y.rank)]
    kept = [n for k, n in enumerate(names) if k not in left]
    kept += [n for k, n in enumerate(others) if k not in right]
    return contracted(context, "tensordot", [(x, names), (y, others)], kept, span)


def _axes_of(context: Context, given: AnyValue, rank: int, span: Span) -> tuple[int, ...]:
    """The axes named by one of two tuples, counted from 0."""
    given = as_written(given)
    axes = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not all(isinstance(a, int) and not isinstance(a, bool) for a in axes):
        context.fail(ParseError, "tensordot: axes must be integers known at compile time", span, PAIRS)
    context.normalise(axes, rank, span)
    return tuple(a % rank for a in axes)


def kron(context: Context, x: AnyValue, y: AnyValue, span: Span) -> AnyValue:
    """The Kronecker product: blocks of y, each times an element of x."""
    x, y = rearranging.array(context, "kron", x, span), rearranging.array(context, "kron", y, span)
    rank, one = max(x.rank, y.rank), const(1, "i64")
    x, y = (_padded(v, rank) for v in (x, y))
    left = rearranging.moved(x, tuple(n for pair in zip(x.shape, (one,) * rank, strict=True) for n in pair),
                        [rearranging.own_index(n, 2 * k) for k, n in enumerate(x.shape)])  # fmt: skip
    right = rearranging.moved(y, tuple(n for pair in zip((one,) * rank, y.shape, strict=True) for n in pair),
                         [rearranging.own_index(n, 2 * k + 1) for k, n in enumerate(y.shape)])  # fmt: skip
    blocks = context.elementwise("multiply", (left, right), span)
    sizes = [(context.sizes.find(a), context.sizes.find(b)) for a, b in zip(x.shape, y.shape, strict=True)]
    lengths = [Value((), combine("multiply", a, b), weak=True) for a, b in sizes]
    whole = [int(v.element.value) if is_const(v.element) else v for v in lengths]
    return rearranging.reshape(context, blocks, whole, span)


def _padded(value: Value, rank: int) -> Value:
    """Add leading axes of length 1, up to a rank."""
    more = rank - value.rank
    moved: dict[int, Element] = {k: Index(k + more) for k in range(value.rank)}
    return Value((const(1, "i64"),) * more + value.shape, substitute(value.element, moved), value.weak)


MATRICES: Mapping[str, Builtin] = builtins(
    {
        "diag": (("x", "k"), diag, 1),
        "diagonal": (("x", "k"), diagonal, 1),
        "tensordot": (("x", "y", "axes"), tensordot, 1),
        "kron": (("x", "y"), kron, 0),
    }
)
