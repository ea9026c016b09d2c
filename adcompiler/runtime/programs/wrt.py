"""The parameters, and inputs of a program, to differentiate with respect to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError, Error
from adcompiler.ir.types import is_float
from adcompiler.pytree.kinds import ArgType, Kind, Static, Types
from adcompiler.pytree.structures import arrays_in
from adcompiler.pytree.trees import leaves_by_path

WORDS = ("an integer array", "an integer"), ("a boolean array", "a boolean")


class ArgumentNameError(Error, ValueError):
    """A parameter is named that the function does not have."""


def positions(name: str, parameters: Sequence[str], wrt: Any, types: Types) -> tuple[int, ...]:
    """The parameters that `wrt` names: names or positions, or None for all that can be differentiated.

    Raises DtypeError for one that cannot: static, bool or integer.
    """
    if wrt is None:
        found = tuple(k for k, t in enumerate(types) if _has_floats(t))
        if not found:
            _refuse_integers(name, parameters, types)
        return found
    asked = wrt if isinstance(wrt, tuple | list) else (wrt,)
    found = tuple(_position(name, parameters, one, types) for one in asked)
    if len(set(found)) < len(found):
        raise ArgumentNameError("wrt contains a parameter twice", remedy="give each once")
    return found


def canonical(parameters: Sequence[str], wrt: Any) -> Any:
    """`wrt` with positions in the place of names, so that a parameter is meant in one way; what names none
    stays, for the error of a call."""
    if isinstance(wrt, tuple | list):
        return tuple(canonical(parameters, one) for one in wrt)
    k = parameters.index(wrt) if wrt in parameters else wrt
    is_position = isinstance(k, int | np.integer) and not isinstance(k, bool)
    return int(k) % len(parameters) if is_position and -len(parameters) <= k < len(parameters) else wrt


def _position(name: str, parameters: Sequence[str], one: Any, types: Types) -> int:
    k: int = canonical(parameters, one)
    if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < len(parameters):
        raise ArgumentNameError(
            f"{name} has no parameter {one!r}", remedy=f"it takes ({', '.join(parameters)})"
        )
    kind = types[k]
    if not _has_floats(kind):
        what = "static" if isinstance(kind, Static) else getattr(kind, "dtype", "without floats")
        raise DtypeError(
            f"{parameters[k]} is {what}: there is no derivative with respect to it",
            remedy=f"{_convert(parameters[k], kind)}, or omit it from wrt",
        )
    return k


def _refuse_integers(name: str, parameters: Sequence[str], types: Types) -> None:
    """Refuse to differentiate if only integers or booleans were given, perhaps meant as floats."""
    for parameter, kind in zip(parameters, types, strict=True):
        for path, leaf in leaves_by_path(parameter, kind):
            if isinstance(leaf, ArgType) and not is_float(leaf.dtype):
                what = WORDS[leaf.dtype == "bool"][not leaf.ones]
                raise DtypeError(
                    f"{path} is {what}, which has no derivative, and {name} has no floats",
                    remedy=_convert(path, leaf),
                )


def _convert(name: str, kind: Kind) -> str:
    """What to write for an argument that has no derivative."""
    return f"pass floats: {name}.astype(float)" if getattr(kind, "ones", ()) else "pass floats"


def _has_floats(kind: Kind) -> bool:
    return any(is_float(a.dtype) for a in arrays_in((kind,)))


def inputs_of(positions: Sequence[int], types: Types) -> tuple[int, ...]:
    """The inputs of the program to differentiate for parameters: one for each float of a container."""
    inputs = chain(*([k] * len(arrays_in((t,))) for k, t in enumerate(types)))
    floats = [
        (k, n) for n, (k, a) in enumerate(zip(inputs, arrays_in(types), strict=True)) if is_float(a.dtype)
    ]
    return tuple(n for position in positions for k, n in floats if k == position)
