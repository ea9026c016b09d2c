"""`--types`: types of parameters, and a note about those without."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from adcompiler.api.compile import compile
from adcompiler.api.function import Function, SourceFunction
from adcompiler.cli.errors import UsageError
from adcompiler.frontend.values.values import Closure
from adcompiler.runtime.programs.options import Options

Types = Annotated[
    str | None,
    typer.Option(
        metavar="TYPES", show_default=False,
        help='The types of the parameters, as in "f64[n], f64"; otherwise as annotated, or scalars.',
    ),
]  # fmt: skip


def typed(f: Function, types: str | None) -> Function:
    """`f` with annotated parameters, as a definition that calls it."""
    if types is None:
        return f
    texts = _split(types)
    names = f._names
    if not isinstance(f, SourceFunction):
        cause = f"--types apply to a definition, but {f.__name__} comes from another function"
        raise UsageError(cause, remedy="use that function, or pass arguments: --arg x=[1,2,3]")
    if len(texts) != len(names):
        cause = f"--types has {len(texts)} types for the parameters {', '.join(names)}"
        raise UsageError(cause, remedy='write one for each, as in "f64[n], f64"')
    params = ", ".join(f"{n}: {t}" for n, t in zip(names, texts, strict=True))
    stub = compile(f"def {f.__name__}({params}):\n    return {f.__name__}({', '.join(names)})")._closure
    assert stub is not None
    closure = Closure(stub.definition, {**f._closure.scope, f.__name__: f._closure}, stub.source)
    return SourceFunction(closure, (), Options(backend=f._backend))


def untyped(f: Function, given: frozenset[str] = frozenset()) -> list[str]:
    """The parameters without a type, except for those `given`."""
    if f._closure is None:
        return []
    definition = f._closure.definition
    free = {p.name for p in f._parameters if not p.static} - given
    return [p.name for p in definition.parameters if p.annotation is None and p.name in free]


def note(names: list[str], what: str) -> None:
    """Note on stderr that parameters without a type count as numbers."""
    if names:
        be = "has no type and is a number" if len(names) == 1 else "have no types and are numbers"
        remedy = f'for an array write {names[0]}: f64[n], or pass --types "f64[n], ..."'
        print(f"note: {', '.join(names)} {be} {what}; {remedy}", file=sys.stderr)


def _split(types: str) -> list[str]:
    """The types between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in types:
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]
