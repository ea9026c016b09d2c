"""Functions that differ with a prefix of NumPy or SciPy: `np.max(x, 0)`, `scipy.linalg.cholesky`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.library.builtins import BUILTINS, DIFFERENCES, PREFIXES
from adcompiler.frontend.library.moving import matrix_transpose, moveaxis
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin, flag
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.operators import OTHERWISE
from adcompiler.frontend.values.values import AnyValue


def _extremum(name: str) -> Builtin:
    """`np.max(x, axis)`; without prefix, `max(a, b)` is Python's."""

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        if len(args) > 1 and not (args[1] is None or isinstance(args[1], int | tuple)):
            remedy = f"it reduces one array; for two arrays write {name}imum(x, y)"
            context.fail(ParseError, f"np.{name} takes (x, axis=, keepdims=)", span, remedy)
        return BUILTINS[f"a{name}"](context, args, keywords, span)

    return call


def _of_first_axes(name: str) -> Builtin:
    """NumPy functions that treat the first two axes of an array of higher rank as a matrix; ours use the last
    two."""

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        if args:
            x = rearranging.array(context, name, args[0], span)
            first = moveaxis(context, x, (0, 1), (-2, -1), span) if x.rank > 2 else x
            args = [first, *args[1:]]
        return BUILTINS[name](context, args, keywords, span)

    return call


_OWN: dict[str, Builtin] = {
    "diff": DIFFERENCES,
    "around": BUILTINS["round"],
    "max": _extremum("max"),
    "min": _extremum("min"),
    "trace": _of_first_axes("trace"),
    "diagonal": _of_first_axes("diagonal"),
}


def _cholesky(context: Context, a: AnyValue, lower: AnyValue, span: Span) -> AnyValue:
    """SciPy's factor: the upper triangular one, unless `lower` is true."""
    factor = context.invoke(BUILTINS["cholesky"], [a], {}, span)
    return factor if flag(context, "lower", lower, span) else matrix_transpose(context, factor, span)


def _qr(context: Context, a: AnyValue, mode: AnyValue, span: Span) -> AnyValue:
    """SciPy's decomposition, whose Q is square unless the mode is economic."""
    if mode != "economic":
        remedy = 'write scipy.linalg.qr(a, mode="economic"), or np.linalg.qr(a)'
        context.fail(ParseError, "scipy.linalg.qr with a square Q", span, remedy)
    return context.invoke(BUILTINS["qr"], [a], {}, span)


def _solve_triangular(
    context: Context, a: AnyValue, b: AnyValue, trans: AnyValue, lower: AnyValue, span: Span
) -> AnyValue:
    """SciPy's solution of a triangular system, or with `trans` that of the transposed matrix."""
    if trans not in (None, 0, "N", 1, "T", 2, "C"):
        context.fail(ParseError, "trans must be 0, 1, 2, N, T or C", span, "write trans=1 or trans=0")
    below = flag(context, "lower", lower, span)
    if trans not in (None, 0, "N"):
        a = matrix_transpose(context, rearranging.array(context, "solve_triangular", a, span), span)
        below = not below
    return context.invoke(BUILTINS["solve_triangular"], [a, b], {"lower": below}, span)


_OF_SCIPY: dict[str, Builtin] = {
    "cholesky": builtin("cholesky", ("a", "lower"), _cholesky, 1),
    "qr": builtin("qr", ("a", "mode"), _qr, 1),
    "solve_triangular": builtin("solve_triangular", ("a", "b", "trans", "lower"), _solve_triangular, 2),
}
PREFIXED: Mapping[tuple[str, str], Builtin] = {
    (prefix, name): function for prefix, (name, function) in product(("np", "numpy"), _OWN.items())
} | {("scipy.linalg", name): function for name, function in _OF_SCIPY.items()}


def function_of(prefix: str, name: str) -> Builtin | None:
    """The function that a name is behind a prefix, such as `np` or `scipy.special`; None for others."""
    if prefix not in PREFIXES or (prefix, name) in OTHERWISE:
        return None
    return PREFIXED.get((prefix, name)) or BUILTINS.get(PREFIXES[prefix] + name)
