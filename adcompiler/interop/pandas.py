"""Series and DataFrames of pandas as arguments: with one axis and two axes, labelled by index and columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from adcompiler.errors import DtypeError
from adcompiler.interop import labels
from adcompiler.interop.labels import Along, Coordinates

NAMES = "index", "columns"
FILL = "fill or drop missing values, x.fillna(0.0), and pass their mask as another array"


def plain(name: str, value: Any) -> np.ndarray:
    """The numbers, without a copy if all columns have one dtype and are stored together.

    Raises DtypeError for columns of other types, and for missing values other than NaN.
    """
    if isinstance(value, pd.DataFrame):
        one = set(value.dtypes)
        if len(one) == 1 and isinstance(dtype := one.pop(), np.dtype) and dtype.kind in "biufc":
            return np.asarray(value.to_numpy())
        kinds = {_numeric(f"column {c!r} of {name}", column) for c, column in value.items()}
        if len({k.kind == "b" for k in kinds}) > 1:
            raise DtypeError(f"{name} has both boolean and numeric columns", remedy="x.astype(float)")
        return np.asarray(value.to_numpy(dtype=np.result_type(*kinds) if kinds else float))
    return np.asarray(value.to_numpy(dtype=_numeric(name, value)))


def _numeric(name: str, column: Any) -> np.dtype[Any]:
    """The dtype of a column's numbers."""
    dtype = column.dtype
    kind = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", None)
    if isinstance(dtype, pd.SparseDtype):
        raise DtypeError(f"{name} is sparse", remedy="x.sparse.to_dense()")
    if kind is None or kind.kind not in "biufc":
        raise DtypeError(f"{name} has dtype {dtype}, which is not a number", remedy=_convert(dtype))
    if kind is not dtype and column.isna().any():
        raise DtypeError(f"{name} has missing values (NA), which are not supported", remedy=FILL)
    return np.dtype(kind)


def _convert(dtype: Any) -> str:
    if dtype.kind in "mM":
        return f'pass numbers: {"t" if dtype.kind == "m" else "(t - t.iloc[0])"} / pd.Timedelta("1s")'
    convert = "x.cat.codes" if isinstance(dtype, pd.CategoricalDtype) else "x.astype(float)"
    return f'omit it: x.select_dtypes("number"), or convert it: {convert}'


def coordinates(value: Any) -> Coordinates | None:
    """The index, and the columns."""
    if isinstance(value, pd.DataFrame):
        return Coordinates(None, (value.index, value.columns), value.shape)
    return Coordinates(value.name, (value.index,), value.shape) if isinstance(value, pd.Series) else None


def like(value: Any, array: np.ndarray) -> Any:
    """An array with the labels of a value of its shape, if that has labels."""
    own = coordinates(value)
    return array if own is None else labelled(array, own.axes(), own.name)


def differ(one: Any, other: Any) -> str | None:
    """The difference of two indexes: their labels or the order of these. Of a longer index only the first
    labels are paired and compared; but an index of one label is not broadcast."""
    if one is other or one.equals(other):
        return None
    if len(one) != len(other):
        n = min(len(one), len(other))
        if n == 1:
            return f"one has the label {(one if len(one) == 1 else other)[0]!r} only: no broadcasting"
        return differ(one[:n], other[:n])
    lacking = [*one.difference(other, sort=False)[:1], *other.difference(one, sort=False)[:1]]
    return f"their labels differ: one has {lacking[0]!r}" if lacking else "their labels are in another order"


def remedy(first: str, axis: int, second: str, other: int) -> str:
    """Alignment is left to the user, because it drops or fills elements."""
    labels, which = f"{first}.{NAMES[axis]}", "columns={}" if other else "{}"
    return (
        f"order them in the same way, {second} = {second}.reindex({which.format(labels)}), "
        f"or pass {second}.to_numpy() to pair by position"
    )


def labelled(array: np.ndarray, along: Sequence[Sequence[Along]], name: Any) -> Any:
    """A Series or a DataFrame on the array's memory; an array with more axes stays an array."""
    found = [axes[0][0].labels[axes[0][1]] if axes else None for axes in along]
    if array.ndim == 1:
        return pd.Series(array, index=found[0], name=name, copy=False)
    if array.ndim == 2:
        return pd.DataFrame(array, index=found[0], columns=found[1], copy=False)
    return array


_this: Any = sys.modules[__name__]
call, wrapper, agree = (partial(f, _this) for f in (labels.call, labels.wrapper, labels.agree))
