"""Lists of Variables are refused where an array is made of them: NumPy takes their values and no graph."""

from __future__ import annotations

from typing import Any

from adcompiler.eager.graph.graph import is_variable
from adcompiler.errors import GraphError


def refuse_packed(what: str, value: Any) -> None:
    """Raise GraphError for a list that holds a Variable, however deep."""
    if type(value) is not list and type(value) is not tuple:
        return
    for part in value:
        if is_variable(part):
            raise GraphError(
                f"{what} is a list with the Variable {part.name}: as an array it would lose its graph",
                remedy="np.stack([x, y]) and np.concatenate([x, y]) make one Variable of several",
            )
        refuse_packed(what, part)
