"""Cotangents as Variables: the seeds of a backward pass, and the gradients it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import Node, Variable, is_variable
from adcompiler.eager.graph.provenance import begin
from adcompiler.errors import ShapeError


def seed(v: Variable, cotangent: Any) -> Variable:
    """The cotangent that a walk begins with: ones where none is given."""
    if cotangent is None:
        return Node.kind.made(np.ones(v.shape, v.dtype))
    found: Variable = cotangent if is_variable(cotangent) else Node.kind(cotangent)
    if found.shape != v.shape:
        raise ShapeError(
            f"the cotangent of {v.name} has shape {found.shape}, but {v.name} has {v.shape}",
            remedy="a cotangent must have its Variable's shape",
        )
    made: Variable = found.astype(v.dtype)
    return made


def separate(g: Variable, create_graph: bool, outputs: Sequence[Variable]) -> Variable:
    """A gradient of some outputs as a separate Variable: several inputs may have the same one, and values
    are assigned."""
    if create_graph:
        return g if g.entry is not None else g.clone()
    made = Node.kind.made(g.data, g.name)
    begin(made, "create_graph", outputs)
    return made
