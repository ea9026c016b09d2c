"""Arguments of builtins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.grammar.other_languages import BESIDES, KEYWORDS
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue

# Parameters that take several values as one tuple.
TOGETHER = {
    "shape": ": pass the shape as one tuple, such as zeros((2, 3)), and the type as dtype=int",
    "arrays": ": pass the arrays as one tuple, such as hstack((a, b))",
}


class BoundError(Exception):
    """The arguments of a builtin match its parameters: raised if only that is checked (`early_checks.py`)."""


Builtin = Callable[[Context, list[Any], dict[str, Any], Span], AnyValue]


def bind_arguments(
    context: Context,
    name: str,
    params: tuple[str, ...],
    args: list[Any],
    keywords: dict[str, Any],
    span: Span,
    optional: int = 0,
) -> list[Any]:
    """The arguments of a builtin in parameter order; omitted optional ones are None."""
    bound = dict(zip(params, args, strict=False))
    required = params[: len(params) - optional]
    bad = [k for k in keywords if k not in params or k in bound]
    missing = [p for p in required if p not in bound and p not in keywords]
    if len(args) > len(params) or bad or missing:
        shown = ", ".join((*required, *(f"{p}=" for p in params[len(required) :])))
        why = f"it has no argument {bad[0]!r}" if bad else f"missing: {', '.join(missing)}"
        if bad and bad[0] in KEYWORDS:
            why = f"{why}: {KEYWORDS[bad[0]]}"
        more = f": {BESIDES[name]}" if name in BESIDES else TOGETHER.get(params[0], "")
        why += more if bad and name.startswith("norm_") else ""
        remedy = why if bad or missing else f"it got {len(args)}{more}"
        called = {"amax": "max", "amin": "min"}.get(name, name)
        context.fail(ParseError, f"{called} takes ({shown})", span, remedy)
    bound |= keywords
    context.bound(span, bound)
    return [bound.get(p) for p in params]


def builtin(
    name: str, params: tuple[str, ...], operation: Callable[..., AnyValue], optional: int = 0
) -> Builtin:
    """A builtin that calls `operation(context, *arguments, span)`; omitted optional arguments are None."""

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        bound = bind_arguments(context, name, params, args, keywords, span, optional)
        return operation(context, *bound, span)

    return call


def builtins(rows: Mapping[str, tuple[tuple[str, ...], Callable[..., AnyValue], int]]) -> dict[str, Builtin]:
    """Builtins by name, from rows of their parameters, operation and number of optional arguments."""
    return {name: builtin(name, *row) for name, row in rows.items()}


def flag(context: Context, name: str, value: AnyValue, span: Span) -> bool:
    """An argument that must be True or False at compile time."""
    if not (value is None or isinstance(value, bool)):
        context.fail(ParseError, f"{name} must be True or False", span, f"write {name}=True")
    return bool(value)


def known_integer(context: Context, what: str, value: AnyValue, default: int, span: Span) -> int:
    """An argument that must be an integer known at compile time."""
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        context.fail(
            ParseError, f"{what} must be an integer known at compile time", span, f"write {what}={default}"
        )
    return value
