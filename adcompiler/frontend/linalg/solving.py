"""Linear algebra by library routines: `solve`, `det`, `slogdet`, `cholesky`, `solve_triangular`.

They take matrices or stacks of matrices, whose leading axes broadcast. A matrix that is singular, or not
positive definite, gives NaN (a determinant of 0), where NumPy raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from adcompiler.errors import ShapeError, Span
from adcompiler.frontend.linalg.matrices import index, matrix
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtins, flag
from adcompiler.frontend.values.open_axes import open_axes
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Array, Read, Shape, closed, const, identity, select
from adcompiler.ir.types import as_float
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply
from adcompiler.ops.library import call

SQUARE = "the last two axes of a square matrix must have the same length"
ROWS = "the right side must have a row for each row of the matrix"


def called(
    context: Context, operands: Sequence[Value], make: Callable[..., Array], ends: Shape, span: Span
) -> Value:
    """Call `make` on the operands as arrays. The result's last axes are `ends`, after those of the stacks. An
    operand that is shared by a whole stack, or by all open axes, is computed once."""
    dtype, weak = context.meet(operands)
    stacks = [Value(v.shape[:-2], const(0, "i64")) for v in operands]
    cases = context.broadcast("the stacks", stacks, span)
    lead = context.binders.opened(*(v.element for v in operands))
    arrays = []
    for value in operands:
        is_open = bool(open_axes(value.element))
        own = cases if is_open or value.rank > 2 else ()
        shape = own + value.shape[-2:]
        element = over(value, shape, as_float(dtype))
        if is_open:
            shape, element = lead.lengths + shape, lead.closed(element)
        arrays.append(closed(shape, element))
    made = make(*arrays)
    context.place(made, span)
    missing = made.rank - len(ends) - len(cases)
    shape = cases + ends
    return Value(shape, Read(made, lead.indices[len(lead.axes) - missing :] + identity(shape)), weak)


def square(context: Context, name: str, x: AnyValue, span: Span) -> Value:
    """An argument as a square matrix, or a stack of square matrices."""
    value = matrix(context, name, x, span)
    require_equal(context, f"{name}: the axes of {context.operand(value)}", value.shape[-2:], span, SQUARE)
    return value


def swapped(context: Context, x: Value, span: Span) -> Value:
    """The transpose of each matrix."""
    return rearranging.transpose(context, x, (*range(x.rank - 2), x.rank - 1, x.rank - 2), span)


def symmetric(context: Context, name: str, a: AnyValue, span: Span) -> Value:
    """The symmetric part of an argument that is a square matrix."""
    value = square(context, name, a, span)
    both = context.elementwise("add", (value, swapped(context, value, span)), span)
    half: Value = context.elementwise("multiply", (both, 0.5), span)
    return half


def column(found: Value) -> Value:
    """A matrix of one column as a vector."""
    return Value(found.shape[:-1], found.element, found.weak)


def require_equal(context: Context, what: str, pair: Shape, span: Span, remedy: str) -> None:
    """Require that two lengths are equal."""
    left, right = pair
    fits = context.sizes.fits(left, right)
    if not fits or not context.sizes.merge(left, right, what, span, remedy):
        lengths = " and ".join(context.sizes.describe(n) for n in pair)
        context.fail(ShapeError, f"{what}: the lengths {lengths} differ", span, remedy)


def _right_side(context: Context, name: str, a: Value, b: AnyValue, span: Span) -> tuple[Value, bool]:
    """The right side as a matrix, and whether it was given as a vector."""
    value = rearranging.array(context, name, b, span)
    if not value.rank:
        context.fail(ShapeError, f"{name}: the right side is a scalar", span, ROWS)
    vector = value.rank == 1
    if vector:
        value = Value((*value.shape, const(1, "i64")), value.element, value.weak)
    require_equal(context, f"{name}: the rows of both", (a.shape[-1], value.shape[-2]), span, ROWS)
    return value, vector


def _solved(
    context: Context, name: str, a: Value, b: AnyValue, make: Callable[[Array, Array], Array], span: Span
) -> Value:
    right, vector = _right_side(context, name, a, b, span)
    found = called(context, (a, right), make, right.shape[-2:], span)
    return column(found) if vector else found


def solve(context: Context, a: AnyValue, b: AnyValue, span: Span) -> Value:
    """The solution x of a @ x = b."""
    return _solved(
        context, "solve", square(context, "solve", a, span), b,
        lambda a, b: call("solve", a, call("lu", a), b), span,
    )  # fmt: skip


def det(context: Context, a: AnyValue, span: Span) -> Value:
    """The determinant."""
    found = called(
        context, (square(context, "det", a, span),), lambda a: call("det", a, call("lu", a)),
        (const(1, "i64"),), span,
    )  # fmt: skip
    return column(found)


def slogdet(context: Context, a: AnyValue, span: Span) -> tuple[Value, Value]:
    """The sign and the log magnitude of the determinant."""
    found = called(
        context, (square(context, "slogdet", a, span),), lambda a: call("slogdet", a, call("lu", a)),
        (const(2, "i64"),), span,
    )  # fmt: skip
    shape = found.shape[:-1]

    def part(k: int) -> Value:
        return Value(shape, substitute(found.element, {len(shape): const(k, "i64")}), found.weak)

    return part(0), part(1)


def cholesky(context: Context, a: AnyValue, span: Span) -> Value:
    """The lower triangular L with L Lᵀ = (A + Aᵀ) / 2: only the symmetric part of A is used."""
    half = symmetric(context, "cholesky", a, span)
    return called(context, (half,), lambda a: call("cholesky", a), half.shape[-2:], span)


def solve_triangular(context: Context, a: AnyValue, b: AnyValue, lower: AnyValue, span: Span) -> Value:
    """The solution x of a @ x = b, using only the upper triangle of a (the lower one for lower=True)."""
    below = flag(context, "lower", lower, span)
    value = square(context, "solve_triangular", a, span)
    value = value if below else swapped(context, value, span)
    routine = "triangular" if below else "triangular_transposed"
    kept = apply("less_equal", index(value, -1), index(value, -2))
    zero = const(0, value.dtype)
    triangle = Value(value.shape, select(kept, value.element, zero), value.weak)
    return _solved(context, "solve_triangular", triangle, b, lambda a, b: call(routine, a, b), span)


LINALG: Mapping[str, Builtin] = builtins(
    {
        "solve": (("a", "b"), solve, 0),
        "det": (("a",), det, 0),
        "slogdet": (("a",), slogdet, 0),
        "cholesky": (("a",), cholesky, 0),
        "solve_triangular": (("a", "b", "lower"), solve_triangular, 1),
    }
)
