"""Columns of polars and pyarrow as arguments: numbers without labels, of one axis, or of two for tables.

Missing values in them are not NaN; they are refused, because a conversion would hide them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError
from adcompiler.runtime.arguments.adapters import adapter_of, refuse_beside
from adcompiler.runtime.arguments.signature import with_leaves


def call(function: Any, bound: Sequence[Any]) -> Any:
    """A call on the numbers; results are NumPy arrays."""
    return function(*with_leaves(function._parameters, bound, _numbers))


def _numbers(name: str, value: Any) -> Any:
    adapter = adapter_of(type(value))
    if adapter is not None and adapter.call is not call:
        refuse_beside(name, value, "polars or pyarrow")
    return value if adapter is None else plain(f"the argument {name!r}", value)


def plain(name: str, value: Any) -> np.ndarray:
    """The numbers, without a copy if the library allows it.

    Raises DtypeError for columns of other types or with missing values, and for queries that have not run.
    """
    if hasattr(value, "collect"):
        raise DtypeError(f"{name} is a {type(value).__name__}", remedy="run the query: x.collect()")
    if not hasattr(value, "columns"):
        return _of_column(name, value)
    found = [_of_column(f"column {c!r} of {name}", column) for c, column in _columns(value)]
    if len({a.dtype.kind == "b" for a in found}) > 1:
        raise DtypeError(f"{name} has both boolean and numeric columns", remedy="convert them to floats")
    return np.stack(found, axis=1) if found else np.empty((len(value), 0))


def _columns(table: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(table, "iter_columns"):  # polars
        return zip(table.columns, table.iter_columns(), strict=True)
    return zip(table.schema.names, table.columns, strict=True)


def _of_column(name: str, column: Any) -> np.ndarray:
    """The numbers of one column."""
    count = column.null_count
    if count() if callable(count) else count:
        raise DtypeError(
            f"{name} has missing values (null), which are not supported",
            remedy="fill or drop it, x.fill_null(0.0), and pass x.is_null() as another array",
        )
    array = np.asarray(column)
    if array.dtype.kind not in "biufc":
        kind = getattr(column, "dtype", None) or getattr(column, "type", array.dtype)
        raise DtypeError(
            f"{name} has type {kind}, which is not a number", remedy="omit it, or convert it to floats"
        )
    return array
