"""`--size`: lengths of random arguments for parameters without an argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
import typer

from adcompiler.api.function import Function
from adcompiler.cli.errors import UsageError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.annotations import declared
from adcompiler.ir.types import NUMPY

Sizes = Annotated[
    list[str] | None,
    typer.Option(
        "--size", metavar="[NAME=]N", show_default=False,
        help="The length of every named axis of the sample arrays, or of one: n=1000.",
    ),
]  # fmt: skip


def lengths(given: Sequence[str] | None) -> dict[str, int]:
    """The lengths given by `--size`, by name; "" is that of all others."""
    found: dict[str, int] = {}
    for text in given or ():
        parts = re.fullmatch(r"\s*(?:(\w+)\s*=)?\s*(\d[\d_]*(?:\.\d*)?(?:[eE]\+?\d{1,2})?)\s*", text)
        length = Decimal(parts[2]) if parts is not None else Decimal(0)
        if parts is None or not 1 <= length < 2**63 or length % 1:
            raise UsageError(f"--size {text} is not a length", remedy="--size 1000, or --size n=1e6")
        found[parts[1] or ""] = int(length)
    return found


def sampler(f: Function, sizes: Mapping[str, int]) -> Callable[[int], Any]:
    """Makes random arguments between 0.5 and 1.5 by the number of their parameter, shaped as annotated.

    Raises UsageError for a length missing in `sizes`, and for one that no parameter has.
    """
    named = {a.id for k in range(len(f._parameters)) for a in _axes(f, k) if isinstance(a, tree.Name)}
    if unknown := [name for name in sizes if name and name not in named]:
        known = f"{f.__name__} has {', '.join(sorted(named)) or 'none'}"
        raise UsageError(f"--size {unknown[0]}: no axis has this name", remedy=known)
    random = np.random.default_rng(0)

    def sample(k: int) -> Any:
        numbers = random.uniform(0.5, 1.5, tuple(_length(f, k, axis, sizes) for axis in _axes(f, k)))
        parameter = _parameter(f, k)
        kind = declared(parameter) if parameter is not None else None
        return float(numbers) if kind is None else numbers.astype(NUMPY[kind.dtype])[()]

    return sample


def _length(f: Function, k: int, axis: tree.Expression, sizes: Mapping[str, int]) -> int:
    if isinstance(axis, tree.Number):
        return int(axis.value)
    name = axis.id if isinstance(axis, tree.Name) else ""
    found = sizes.get(name, sizes.get(""))
    if found is None:
        parameter = f._parameters[k].name
        remedy = f"--size {name}=100000, or --arg {parameter}=@data.npz:{parameter}"
        raise UsageError(f"the length {name} of {parameter} is missing", remedy=remedy)
    return found


def _parameter(f: Function, k: int) -> tree.Parameter | None:
    return None if f._closure is None else f._closure.definition.parameters[k]


def _axes(f: Function, k: int) -> Sequence[tree.Expression]:
    """The annotated axes of a parameter."""
    parameter = _parameter(f, k)
    annotation = parameter.annotation if parameter is not None else None
    return annotation.indices if isinstance(annotation, tree.Subscript) else ()
