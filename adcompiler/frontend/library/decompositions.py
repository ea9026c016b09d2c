"""Linear algebra beyond solving: `eigh`, `eigvalsh`, `svd`, `qr` and `pinv`.

A matrix is decomposed once by a library routine. Its parts are calls that take the matrix and the
decomposition, and each has its own derivative. So eigenvalues do not need the derivatives of eigenvectors.
"""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.linalg.matrices import matrix
from adcompiler.frontend.linalg.solving import called, column, swapped, symmetric
from adcompiler.frontend.values.builtin_arguments import Builtin, builtins, flag
from adcompiler.frontend.values.operations import ONE, Context
from adcompiler.frontend.values.values import AnyValue, Value, describe, is_number
from adcompiler.ir.nodes import Element, Shape, const
from adcompiler.ir.types import as_float
from adcompiler.ops.build import apply, cast
from adcompiler.ops.library import call


def _part(context: Context, name: str, factor: str, a: Value, ends: Shape, span: Span) -> Value:
    """One part of a decomposition."""
    return called(context, (a,), lambda a: call(name, a, call(factor, a)), ends, span)


# -- symmetric matrices --------------------------------------------------------------------------------


def eigh(context: Context, a: AnyValue, span: Span) -> tuple[Value, Value]:
    """The eigenvalues of (A + Aᵀ) / 2 in ascending order, and its eigenvectors as columns."""
    half = symmetric(context, "eigh", a, span)
    n = context.sizes.find(half.shape[-1])
    values = _part(context, "eigh_values", "eigh", half, (n, ONE), span)
    return column(values), _part(context, "eigh_vectors", "eigh", half, (n, n), span)


def eigvalsh(context: Context, a: AnyValue, span: Span) -> Value:
    """The eigenvalues of (A + Aᵀ) / 2 in ascending order."""
    half = symmetric(context, "eigvalsh", a, span)
    ends = context.sizes.find(half.shape[-1]), ONE
    return column(_part(context, "eigh_values", "eigh", half, ends, span))


# -- matrices with as many rows as columns, or more ------------------------------------------------------


def _tall(context: Context, name: str, a: AnyValue, span: Span) -> Value:
    value = matrix(context, name, a, span)
    rows, columns = (context.sizes.find(n) for n in value.shape[-2:])
    if rows is not columns:
        what = f"{name} of a matrix with fewer rows than columns: the number of rows"
        context.sizes.demand(rows, columns, what, span)
    return value


def qr(context: Context, a: AnyValue, mode: AnyValue, span: Span) -> AnyValue:
    """Q with orthonormal columns and an upper triangular R, Q R = A."""
    if mode not in (None, "reduced", "r"):
        context.fail(ParseError, f"qr has no mode {mode!r}", span, 'the modes are "reduced" and "r"')
    value = _tall(context, "qr", a, span)
    n = context.sizes.find(value.shape[-1])
    triangle = _part(context, "qr_triangle", "qr", value, (n, n), span)
    if mode == "r":
        return triangle
    return _part(context, "qr_columns", "qr", value, value.shape[-2:], span), triangle


def svd(context: Context, a: AnyValue, full_matrices: AnyValue, compute_uv: AnyValue, span: Span) -> AnyValue:
    """U, the singular values in descending order, and Vᵀ, where U diag(s) Vᵀ = A."""
    alone = compute_uv is not None and not flag(context, "compute_uv", compute_uv, span)
    if not alone and full_matrices is not False:
        cause, remedy = (
            "svd with full matrices",
            "write svd(a, full_matrices=False): U has no more columns than A",
        )
        context.fail(ParseError, cause, span, remedy)
    value = _tall(context, "svd", a, span)
    n = context.sizes.find(value.shape[-1])
    wide = Value(value.shape, cast(value.element, "f64"), value.weak)

    def part(name: str, *ends: Element) -> Value:
        found = _part(context, name, "svd", wide, ends, span)
        return Value(found.shape, cast(found.element, as_float(value.dtype)), value.weak)

    found = column(part("svd_values", n, ONE))
    if alone:
        return found
    right, left = part("svd_right", n, n), part("svd_left", *value.shape[-2:])
    return left, found, swapped(context, right, span)


# -- matrices of any shape and rank ----------------------------------------------------------------------


def pinv(context: Context, a: AnyValue, rcond: AnyValue, span: Span) -> Value:
    """The pseudoinverse in float64, treating singular values up to `rcond` times the largest as 0."""
    value = matrix(context, "pinv", a, span)
    ends = context.sizes.find(value.shape[-1]), context.sizes.find(value.shape[-2])
    wide = Value(value.shape, cast(value.element, "f64"), value.weak)
    operands = wide, _smallest(context, value, rcond, span)
    found = called(context, operands, lambda a, c: call("pinv", a, call("pseudoinverse", a, c)), ends, span)
    return Value(found.shape, cast(found.element, as_float(value.dtype)), value.weak)


def _smallest(context: Context, a: Value, rcond: AnyValue, span: Span) -> Value:
    """The fraction of the largest singular value up to which others are treated as 0, as a matrix of one
    element. The default is NumPy's for least squares: the rounding error of a number times the longer
    side."""
    given = rcond if isinstance(rcond, Value) else None
    if not (
        rcond is None or is_number(rcond) or (given is not None and not given.rank and given.dtype != "bool")
    ):
        context.fail(ParseError, f"pinv: rcond must be a number, not {describe(rcond)}", span, "omit rcond")
    if rcond is None or (given is None and rcond < 0):
        longer = apply("maximum", *(context.sizes.find(n) for n in a.shape[-2:]))
        epsilon = const(2.0**-23 if a.dtype == "f32" else 2.0**-52, "f64")
        return Value((ONE, ONE), apply("multiply", epsilon, cast(longer, "f64")))
    return Value((ONE, ONE), const(float(rcond), "f64") if given is None else cast(given.element, "f64"))


DECOMPOSITIONS: Mapping[str, Builtin] = builtins(
    {
        "eigh": (("a",), eigh, 0),
        "eigvalsh": (("a",), eigvalsh, 0),
        "svd": (("a", "full_matrices", "compute_uv"), svd, 2),
        "qr": (("a", "mode"), qr, 1),
        "pinv": (("a", "rcond"), pinv, 1),
    }
)
