"""`ravel`: a container of arrays as one vector, as SciPy's solvers take it, and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import is_variable
from adcompiler.eager.variable.leaves import Leaf, Tree, leaf, tree
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.frames import public
from adcompiler.lazy_dataclass import dataclass
from adcompiler.public_types import Values
from adcompiler.pytree.containers import Container
from adcompiler.pytree.trees import built, leaves, map_leaves

Nesting = tuple[Any, ...] | None  # how a container nests; None for a leaf


@public
def ravel(params: Values) -> tuple[np.ndarray, Unravel | UnravelMatrix]:
    """All floats of a container as one vector, and the function that turns a vector into such a container.

    params  arrays and numbers, or dicts, lists, tuples, named tuples and dataclasses of them, nested

    The vector has the leaves in order, each in C order; it is float32 if all leaves are, else float64, and a
    copy. unravel(vector) restores the class, shape and dtype of each leaf. Integers, booleans, strings and
    None, which have no derivative, are not part of the vector and stay unchanged. A Python int
    counts as a float, as in calls of compiled functions.

    The result of adc.hessian for such a container, a container of containers of blocks, becomes a symmetric
    matrix, whose rows and columns are in the order of that vector; unravel(matrix) returns blocks again.

    Raises DtypeError for leaves that are not real numbers, and for Variables.
    """
    found = tree(params, "params")
    rows = rows_of(found)
    if rows is not None:
        return matrix_of(rows), unravel_of(found, rows)
    flats = [one.flat() for one in leaves(found) if one.dtype is not None]
    vector = np.concatenate(flats) if flats else np.empty(0)
    return vector, Unravel(map_leaves(Leaf.emptied, found), vector.size)


@dataclass(frozen=True, slots=True, repr=False)
class Unravel:
    """A vector as a container like the one passed to `ravel`; its arrays are copies."""

    structure: Tree
    size: int

    @public
    def __call__(self, vector: Any) -> Any:
        """Raises ShapeError for another length, DtypeError if it is not a vector of real numbers."""
        flat = _vector(vector)
        if flat.shape != (self.size,):
            raise ShapeError(
                f"unravel got an array of shape {flat.shape}", remedy=f"it takes a vector of {self.size}"
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
            "unravel got a Variable, whose graph would be lost", remedy="pass its value: v.value"
        )
    found = leaf("the vector", value)
    if found.dtype is None and np.asarray(value).dtype.kind not in "iu":
        raise DtypeError(f"unravel got a {type(value).__name__}", remedy="pass a vector of floats")
    return np.asarray(value)


def rows_of(found: Tree) -> list[list[Leaf]] | None:
    """The blocks of a Hessian, row by row; None if it is not a Hessian of several leaves with arrays.

    What `hessian` gives for `params` nests like `params` twice: at the place of each leaf stands a container
    like `params`, whose leaves are blocks in the shapes of both leaves. For several arguments there is a
    tuple for each.
    """
    rows = _nested_twice(found)
    if rows is None and isinstance(found, Container) and found.sequence:
        rows = _of_arguments(found.parts)
    if rows is None or len(rows) < 2 or any(len(row) != len(rows) for row in rows):
        return None
    shapes = [row[k].shape[: len(row[k].shape) // 2] for k, row in enumerate(rows)]
    fits = all(
        block.dtype is not None and block.shape == shapes[i] + shapes[j]
        for i, row in enumerate(rows)
        for j, block in enumerate(row)
    )
    return rows if fits and any(shapes) else None


def _nested_twice(found: Tree) -> list[list[Leaf]] | None:
    """The leaves of the containers at the places of leaves, if all nest like what is around them."""
    inner = _inner(found)
    parts = None if inner is None else _parts(found, inner)
    return None if parts is None else [list(leaves(part)) for part in parts]


def _of_arguments(rows: Sequence[Tree]) -> list[list[Leaf]] | None:
    """The blocks of a tuple for each argument of tuples."""
    if not all(isinstance(row, Container) and len(row.parts) == len(rows) for row in rows):
        return None
    blocks = [row.parts for row in rows if isinstance(row, Container)]
    made: list[list[Leaf]] = []
    for row in blocks:
        parts = [_parts(block, _inner(blocks[j][j])) for j, block in enumerate(row)]
        known = [p for p in parts if p is not None]
        if len(known) < len(row) or len({len(p) for p in known}) > 1:
            return None
        made += [list(chain.from_iterable(map(leaves, several))) for several in zip(*known, strict=True)]
    return made


def _inner(block: Tree) -> Nesting:
    """How the argument nests of which a tree is the Hessian; None for an array, or if there is none."""
    first = block
    while isinstance(first, Container) and first.parts:
        first = first.parts[0]
        nesting = _nesting(first)
        if nesting is not None and _parts(block, nesting) is not None and _nesting(block, nesting) == nesting:
            return nesting
    return None


def _nesting(found: Tree, leaf: Nesting = None) -> Nesting:
    """How a tree nests; what nests like `leaf` counts as a leaf."""
    if isinstance(found, Leaf):
        return None
    whole = (found.kind, tuple(found.keys), *map(_nesting, found.parts))
    if whole == leaf:
        return None
    return (found.kind, tuple(found.keys), *(_nesting(part, leaf) for part in found.parts))


def _parts(found: Tree, inner: Nesting) -> list[Tree] | None:
    """The trees that nest like `inner`, of which a tree is made; None if there are others."""
    if _nesting(found) == inner:
        return [found]
    if isinstance(found, Leaf):
        return None
    parts = [_parts(part, inner) for part in found.parts]
    known = [p for p in parts if p is not None]
    return list(chain.from_iterable(known)) if len(known) == len(parts) else None


def matrix_of(rows: Sequence[Sequence[Leaf]]) -> np.ndarray:
    """The matrix of blocks."""
    sizes = _sizes(rows)
    whole = [
        [block.flat().reshape(n, m) for block, m in zip(row, sizes, strict=True)]
        for row, n in zip(rows, sizes, strict=True)
    ]
    return np.block(whole)


def _sizes(rows: Sequence[Sequence[Leaf]]) -> list[int]:
    """How many rows of the matrix belong to each leaf."""
    return [int(np.prod(row[k].shape[: len(row[k].shape) // 2])) for k, row in enumerate(rows)]


@dataclass(frozen=True, slots=True, repr=False)
class UnravelMatrix:
    """A matrix as a Hessian like the one passed to `ravel`; its blocks are copies."""

    structure: Tree
    starts: tuple[int, ...]
    places: tuple[tuple[int, int], ...]

    @public
    def __call__(self, matrix: Any) -> Any:
        """Raises ShapeError for another shape."""
        whole, size = np.asarray(matrix), self.starts[-1]
        if whole.shape != (size, size):
            remedy = f"it takes a matrix with {size} rows and columns"
            raise ShapeError(f"unravel got an array of shape {whole.shape}", remedy=remedy)
        values = []
        for one, (i, j) in zip(leaves(self.structure), self.places, strict=True):
            block = whole[self.starts[i] : self.starts[i + 1], self.starts[j] : self.starts[j + 1]]
            values.append(one.like(block.astype(one.dtype).reshape(-1)))
        return built(self.structure, iter(values))

    def __repr__(self) -> str:
        return f"<unravel of a matrix of {self.starts[-1]} rows and columns>"


def unravel_of(found: Tree, rows: Sequence[Sequence[Leaf]]) -> UnravelMatrix:
    """The function that goes back."""
    starts = (0, *(int(n) for n in np.cumsum(_sizes(rows))))
    places = {id(block): (i, j) for i, row in enumerate(rows) for j, block in enumerate(row)}
    return UnravelMatrix(
        map_leaves(Leaf.emptied, found), starts, tuple(places[id(one)] for one in leaves(found))
    )
