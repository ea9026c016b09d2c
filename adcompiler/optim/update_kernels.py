"""The kernel of an update: written in the language for the current options, and compiled once for each type.

One kernel reads parameter, gradient and state, and writes the new values, in a single pass over memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from adcompiler.api.compile import compile
from adcompiler.api.function import Function


def run(name: str, arrays: Sequence[str], lines: Sequence[str], results: Sequence[str], **values: Any) -> Any:
    """The results, as a list, of an update of arrays of one axis: `values` holds them, and numbers.

    The arrays that are given stay as they are.
    """
    numbers = tuple(key for key in values if key not in arrays)
    first = values[arrays[0]]
    if not first.size:
        return [first.copy() for _ in results]
    f = _kernel(name, (*arrays, *numbers), tuple(lines), tuple(results), (first.dtype.char, first.size == 1))
    found = f(*[values[key] for key in arrays], *[float(values[key]) for key in numbers])
    return list(found) if len(results) > 1 else [found]


@cache
def _kernel(
    name: str, parameters: tuple[str, ...], lines: tuple[str, ...], results: tuple[str, ...], types: Any
) -> Function:
    """A separate function for each dtype: calls of a function that change types take longer."""
    body = "".join(f"    {line}\n" for line in (*lines, f"return {', '.join(results)}"))
    return compile(f"def {name}({', '.join(parameters)}):\n{body}")


def sign_and_decay(maximize: bool, decays: bool) -> list[str]:
    """What optimisers do to a gradient first: with no decay, as in PyTorch, 0 * inf is nowhere."""
    return ["g = -g"] * maximize + ["g = g + decay * p"] * decays


def zeros(like: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """A state's array; zeros where there is none yet."""
    return np.zeros_like(like) if given is None else given
