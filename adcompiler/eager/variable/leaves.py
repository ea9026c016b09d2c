"""Containers of parameters outside programs: their leaves as flat arrays, and containers built from these.

A tree is a `Container` of trees, or a `Leaf`. Containers and differentiable leaves are the same as for a
parameter without an annotation (docs/language.md).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from adcompiler.eager.graph.graph import is_variable
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.ir.types import NUMPY
from adcompiler.pytree.containers import Container
from adcompiler.pytree.trees import shown, tree_of
from adcompiler.runtime.arguments.adapters import agree, as_numpy, is_adapted, like
from adcompiler.runtime.arguments.refused import refuse_masked
from adcompiler.runtime.arguments.signature import DTYPE_OF


class Leaf:
    """A number, an array, or what has no derivative: then `dtype` is None, and `value` stays as it is."""

    __slots__ = ("dtype", "kind", "labelled", "path", "shape", "value")

    def __init__(
        self, path: str, value: Any, dtype: np.dtype | None = None, shape: tuple[int, ...] = ()
    ) -> None:
        self.path, self.value, self.dtype, self.shape = path, value, dtype, shape
        self.kind = type(value)
        self.labelled = value if is_adapted(value) else None  # which has the labels of arrays like it

    @property
    def size(self) -> int:
        """How many floats it has."""
        return 0 if self.dtype is None else int(np.prod(self.shape))

    def flat(self) -> np.ndarray:
        """The floats as an array of one axis."""
        return np.asarray(as_numpy(self.path, self.value), self.dtype).reshape(-1)

    def flat_like(self, value: Any, path: str) -> np.ndarray:
        """Something that belongs to the leaf, such as its gradient, as an array of one axis."""
        found = leaf(path, value)
        if found.dtype is None:
            raise DtypeError(f"{path} is {shown(value)}", remedy=f"pass floats, as {self.path} has")
        if found.shape != self.shape:
            raise ShapeError(
                f"{path} has shape {found.shape}, but {self.path} has {self.shape}",
                remedy="they must have the same shape",
            )
        agree(path, value, self.labelled)
        return np.asarray(as_numpy(path, value), self.dtype).reshape(-1)

    def like(self, flat: np.ndarray) -> Any:
        """An array of one axis in the form of this leaf: a number, a list or an array."""
        if self.kind in (int, float):
            return float(flat[0])
        array = flat.reshape(self.shape)
        if issubclass(self.kind, np.generic):
            return array[()]
        return array.tolist() if self.kind is list else like(self.labelled, array)

    def emptied(self) -> Leaf:
        """The leaf without its floats."""
        made = Leaf(self.path, None if self.dtype else self.value, self.dtype, self.shape)
        made.kind, made.labelled = self.kind, self.labelled
        return made


Tree: TypeAlias = Container | Leaf


def tree(value: Any, path: str) -> Tree:
    """A value as a tree.

    Raises DtypeError for leaves that are not real numbers, LimitError for containers that hold themselves.
    """
    return tree_of(value, path, leaf)


def leaf(path: str, value: Any, integer: bool = False) -> Leaf:
    """A leaf; Python ints, also in lists, are floats unless they are to be integers."""
    if value is None or isinstance(value, str | bool) or (integer and type(value) is int):
        return Leaf(path, value)
    if is_variable(value):
        raise DtypeError(
            f"{path} is a Variable",
            remedy=f"pass its value, {path}.value: this computation is not part of a graph",
        )
    refuse_masked(path, value)
    try:
        array = np.asarray(float(value) if type(value) is int else as_numpy(path, value))
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise DtypeError(f"{path} is not an array: {error}", remedy="pass numbers or arrays") from error
    if array.dtype.kind in "iu" and type(value) is list:
        array = array.astype(float)
    kind = DTYPE_OF.get(array.dtype.char)
    if kind is None:
        dtype = "" if array.dtype == object else f" of dtype {array.dtype}"
        raise DtypeError(
            f"{path} is a {type(value).__name__}{dtype}",
            remedy="pass bool, integer, float32 or float64 values",
        )
    return (
        Leaf(path, value, np.dtype(NUMPY[kind]), array.shape) if kind in ("f32", "f64") else Leaf(path, value)
    )
