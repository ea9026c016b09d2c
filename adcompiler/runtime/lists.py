"""Lists of whole numbers as arguments: floats, unless the program needs them as integers (indices, bounds).

A call describes such a list as a weak array of integers. Which type it has follows from the program, by
lowering it: with floats, and where that is refused, with as few integers as are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from adcompiler.errors import Error
from adcompiler.ir.types import Dtype
from adcompiler.runtime.specialise import Types
from adcompiler.syntax.containers import Container
from adcompiler.syntax.structures import arrays_in
from adcompiler.syntax.values import ArgType

FLOATS: Dtype = "f64"
INTEGERS: Dtype = "i64"


def whole_lists(types: Types) -> frozenset[int]:
    """Which of the arrays among some arguments are lists of whole numbers."""
    return frozenset(k for k, t in enumerate(arrays_in(types)) if t.weak and t.ones)


def typed(types: Types, integers: frozenset[int]) -> Types:
    """The types of arguments in which the lists `integers` hold integers, and all others floats."""
    number = count()

    def one(kind: Any) -> Any:
        if isinstance(kind, Container):
            return kind.map(one)
        if not isinstance(kind, ArgType):
            return kind
        k = next(number)
        if not (kind.weak and kind.ones):
            return kind
        return replace(kind, dtype=INTEGERS if k in integers else FLOATS, weak=False)

    return tuple(map(one, types))


def settled(types: Types, lower: Callable[[Types], Any]) -> Types:
    """The types for which `lower` takes the arguments, with as many floats as that allows."""
    lists = whole_lists(types)

    def fits(integers: frozenset[int]) -> Error | None:
        try:
            lower(typed(types, integers))
        except Error as error:
            return error
        return None

    refused = fits(frozenset())
    if refused is None:
        return typed(types, frozenset())
    if fits(lists) is not None:
        for k in sorted(lists):
            if fits(frozenset({k})) is None:
                return typed(types, frozenset({k}))
        raise refused
    integers = lists
    for k in sorted(lists):
        if fits(integers - {k}) is None:
            integers -= {k}
    return typed(types, integers)


def converted(values: Sequence[Any], types: Types) -> list[Any]:
    """The values of arguments in the types that were found for their lists."""
    pairs = zip(values, arrays_in(types), strict=True)
    return [v.astype(float) if t.dtype == FLOATS and _holds_integers(v) else v for v, t in pairs]


def _holds_integers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "i"
