"""`ravel`: a container of arrays as one vector, as SciPy's solvers take it, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adcompiler.api.hessian_blocks import UnravelMatrix, matrix_of, rows_of, unravel_of
from adcompiler.eager.graph.graph import is_variable
from adcompiler.eager.variable.leaves import Leaf, Tree, built, leaf, leaves, mapped, tree
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.frames import public


@public
def ravel(params: Any) -> tuple[np.ndarray, Unravel | UnravelMatrix]:
    """All floats of a container as one vector, and the function that makes such a container of a vector.

    params  arrays and numbers, or dicts, lists, tuples, named tuples and dataclasses of them, nested

    The vector has the leaves in order, each in C order; it is float32 if all leaves are, else float64, and a
    copy. unravel(vector) gives each leaf the class, shape and dtype that it had; integers, truth values,
    texts and None, which have no derivative, are no part of the vector and stay as they were. A Python int
    counts as a float, as in calls of compiled functions.

    What adc.hessian gives for such a container, a container of containers of blocks, is a symmetric matrix,
    whose rows and columns are in the order of that vector; unravel(matrix) gives blocks again.

    Raises DtypeError for leaves that are no real numbers, and for Variables.
    """
    found = tree(params, "params")
    rows = rows_of(found)
    if rows is not None:
        return matrix_of(rows), unravel_of(found, rows)
    flats = [one.flat() for one in leaves(found) if one.dtype is not None]
    vector = np.concatenate(flats) if flats else np.empty(0)
    return vector, Unravel(mapped(Leaf.emptied, found), vector.size)


@dataclass(frozen=True, slots=True, repr=False)
class Unravel:
    """A vector as a container like the one that `ravel` was given; its arrays are copies."""

    structure: Tree
    size: int

    @public
    def __call__(self, vector: Any) -> Any:
        """Raises ShapeError for another length, DtypeError for what is no vector of real numbers."""
        flat = _vector(vector)
        if flat.shape != (self.size,):
            raise ShapeError(
                f"unravel is given an array of shape {flat.shape}", remedy=f"it takes a vector of {self.size}"
            )
        values, start = [], 0
        for one in leaves(self.structure):
            part = flat[start : start + one.size]
            values.append(one.value if one.dtype is None else one.like(part.astype(one.dtype)))
            start += one.size
        return built(self.structure, iter(values))

    def __repr__(self) -> str:
        return f"<unravel of a vector of {self.size}>"


def _vector(value: Any) -> np.ndarray:
    if is_variable(value):
        raise DtypeError(
            "unravel is given a Variable, whose graph would be lost", remedy="pass its value: v.value"
        )
    found = leaf("the vector", value)
    if found.dtype is None and np.asarray(value).dtype.kind not in "iu":
        raise DtypeError(f"unravel is given a {type(value).__name__}", remedy="pass a vector of floats")
    return np.asarray(value)
