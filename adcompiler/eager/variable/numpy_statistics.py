"""NumPy's median, average and cross product of Variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import is_variable
from adcompiler.eager.variable import numpy_functions
from adcompiler.errors import Error, ShapeError

Axis = int | Sequence[int] | None


def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The element in the middle, or the mean of the two there, along axes; NaN if an element is.

    A gradient goes to the elements that were taken, in equal parts.
    """
    axes, kept = _axes(x, axis)
    count = int(np.prod([x.shape[k] for k in axes]))
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes)
    if not count:
        return x.mean(axes, keepdims)
    rows = numpy_functions.moved(np.transpose, x, (*kept, *axes)) if x.ndim > 1 else x
    ordered = numpy_functions.sort(rows.reshape(*(x.shape[k] for k in kept), count), -1)
    middle = ordered[..., count // 2]
    if count % 2 == 0:
        middle = ordered[..., count // 2 - 1] * 0.5 + middle * 0.5
    last = ordered[..., -1]  # of a sort NaN is the largest
    unknown = np.isnan(last.data)
    return (np.where(unknown, last, middle) if unknown.any() else middle).reshape(shape)


def average(
    x: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean weighted by `weights`, of x's shape or of that of the axes; with `returned` also their sum.

    Raises ShapeError where shapes do not fit, and Error where weights sum to zero.
    """
    x = x if is_variable(x) else np.asarray(x)
    if weights is None:
        found = x.mean(axis, keepdims=keepdims)
        total: Any = np.full(found.shape, x.size / max(found.size, 1))
    else:
        weights = _spread(x, weights if is_variable(weights) else np.asarray(weights), axis)
        total = weights.sum(axis, keepdims=keepdims)
        if np.any(_plain(total) == 0):
            raise Error(
                "the weights sum to zero: there is no average", remedy="write (x * weights).sum(axis)"
            )
        found = (x * weights).sum(axis, keepdims=keepdims) / total
    if not returned:
        return found
    return found, np.broadcast_to(total, found.shape) if found.shape != total.shape else total


def _spread(x: Any, weights: Any, axis: Axis) -> Any:
    """Weights along some axes in the rank of `x`."""
    if weights.shape == x.shape:
        return weights
    axes = () if axis is None else tuple(k % x.ndim for k in np.atleast_1d(axis).tolist())
    if not axes or weights.shape != tuple(x.shape[k] for k in axes):
        raise ShapeError(
            f"weights of shape {weights.shape} do not fit {x.shape}",
            remedy="pass weights of x's shape, or axis= and one weight per position along it",
        )
    order = np.argsort(axes)
    if list(order) != list(range(len(axes))):
        weights = weights.transpose(*order.tolist())
    return weights.reshape(tuple(n if k in axes else 1 for k, n in enumerate(x.shape)))


def cross(x: Any, y: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The cross products of vectors in three dimensions, which lie along an axis of each."""
    first, second, last = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = _vectors(x, first), _vectors(y, second)
    parts = []
    for i, j in ((1, 2), (2, 0), (0, 1)):
        places = [", ".join([*[":"] * (v.ndim - 1), "{}"]) for v in (a, b)]
        (ai, aj), (bi, bj) = ([f"x{k}[{p.format(n)}]" for n in (i, j)] for k, p in enumerate(places))
        parts.append(f"{ai} * {bj} - {aj} * {bi}")
    rank = max(a.ndim, b.ndim)
    found = numpy_functions.call("cross", f"stack(({', '.join(parts)}), axis={rank - 1})", a, b)
    return found if last % rank == rank - 1 else numpy_functions.moved(np.moveaxis, found, -1, last)


def _vectors(x: Any, axis: int) -> Any:
    """Vectors of three elements along the last axis."""
    v = x if is_variable(x) else np.asarray(x, None if np.asarray(x).dtype.kind == "f" else float)
    if not v.ndim or v.shape[axis] != 3:
        raise ShapeError(
            f"cross of vectors of shape {v.shape}: the cross product needs three dimensions",
            remedy="in two dimensions write x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]",
        )
    if axis % v.ndim == v.ndim - 1:
        return v
    return numpy_functions.moved(np.moveaxis, v, axis, -1) if is_variable(v) else np.moveaxis(v, axis, -1)


def _plain(x: Any) -> Any:
    return x.data if is_variable(x) else x


def _axes(x: Any, axis: Axis) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that are named, and the others. Raises OutOfRangeError for one that is none."""
    given = range(x.ndim) if axis is None else np.atleast_1d(axis).tolist()
    axes = tuple(numpy_functions.one_axis(x, k) for k in given)
    return axes, tuple(k for k in range(x.ndim) if k not in axes)


NUMPY: Mapping[Callable[..., Any], Callable[..., Any]] = {
    np.median: median,
    np.average: average,
    np.cross: cross,
}
