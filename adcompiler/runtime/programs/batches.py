"""Strict batches: the arrays of a call must have one shape; inside, arrays broadcast as usual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.errors import ShapeError
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.runtime.arguments.signature import Parameter


def batches_of(parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """The parameters whose arrays are batches: those without an annotation, which would say what one is."""
    return tuple(k for k, p in enumerate(parameters) if not (p.static or p.integer or p.floating))


def check_batches(f: Any, types: Types, args: Sequence[Any]) -> None:
    """Raise ShapeError that names the arguments and their shapes unless all arrays of a batch have one shape.

    A container's arrays are parts of a struct, not a batch.
    """
    arrays = [k for k in f._batched if isinstance(kind := types[k], ArgType) and kind.ones]
    shapes = [
        (f._parameters[k].name, tuple(getattr(args[k], "shape", None) or np.shape(args[k]))) for k in arrays
    ]
    if len({shape for _, shape in shapes}) < 2:
        return
    closure = f._closure
    raise ShapeError(
        f'{f.__name__}: the arguments of a call must have one shape under broadcasting="strict", but '
        + ", ".join(f"{name} has {shape}" for name, shape in shapes),
        remedy="reshape them, or pass scalars; annotate arrays that are not batches, x: f64[n]; or compile "
        'with broadcasting="numpy"',
        source=closure.source if closure else None,
        span=closure.definition.span if closure else None,
    )
