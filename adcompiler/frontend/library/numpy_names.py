"""Functions that differ with a NumPy prefix: `np.diff`, `np.max(x, 0)`, `np.trace`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.library.builtins import BUILTINS, DIFFERENCES
from adcompiler.frontend.library.moving import moveaxis
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin
from adcompiler.frontend.values.operations import Context
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
PREFIXED: Mapping[tuple[str, str], Builtin] = {
    (prefix, name): builtin for prefix, (name, builtin) in product(("np", "numpy"), _OWN.items())
}
