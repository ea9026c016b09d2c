"""DataArrays of xarray as arguments: their axes have names, and coordinates as labels."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adcompiler.errors import DtypeError
from adcompiler.interop import labels
from adcompiler.interop.labels import Along, Coordinates
from adcompiler.interop.pandas import differ as indexes_differ


class Dimension(NamedTuple):
    """The name of an axis, and its index where it has coordinates."""

    name: Hashable
    index: Any


def plain(name: str, value: Any) -> np.ndarray:
    """The numbers. DtypeError for chunked arrays, which would have to be gathered, and for other kinds of
    arrays."""
    if isinstance(value, xr.Dataset):
        raise DtypeError(
            f"{name} is a Dataset", remedy="pass one of its variables, x['name'], or all: dict(x.data_vars)"
        )
    if getattr(value, "chunks", None) is not None:
        raise DtypeError(f"{name} is chunked", remedy="load it, x.compute(), or use adc.dask on x.data")
    data = value.data
    if not isinstance(data, np.ndarray):
        raise DtypeError(f"{name} holds a {type(data).__name__}", remedy="convert it: x.as_numpy()")
    return data


def coordinates(value: Any) -> Coordinates:
    """The dimensions, and all coordinates."""
    value = value if isinstance(value, xr.DataArray) else xr.DataArray(value)
    found = (Dimension(d, value.indexes.get(d)) for d in value.dims)
    return Coordinates(value.name, tuple(found), value.shape, value.coords)


def like(value: Any, array: np.ndarray) -> Any:
    """An array with the labels of a value of its shape."""
    return value.copy(data=array).drop_attrs()


def differ(one: Dimension, other: Dimension) -> str | None:
    """The difference: in the name, or in the coordinates if both have some."""
    if one.name != other.name:
        return f"they are the dimensions {one.name!r} and {other.name!r}"
    if one.index is None or other.index is None or indexes_differ(one.index, other.index) is None:
        return None
    return f"their coordinates along {one.name!r} differ"


def remedy(first: str, axis: int, second: str, other: int) -> str:
    """Alignment is left to the user, because it drops or fills elements."""
    return (
        f"order their dimensions with transpose, and their coordinates with {first}, {second} = "
        f'xr.align({first}, {second}, join="inner"); or pass {second}.to_numpy() to pair by position'
    )


def labelled(array: np.ndarray, along: Sequence[Sequence[Along]], name: Any) -> xr.DataArray:
    """A DataArray on the array's memory, with the arguments' coordinates along its axes.

    A dimension that a result has twice, as in Hessians, is called `x_2` the second time, with its index.
    """
    dims = list(_names(along))
    made = xr.DataArray(array, dims=dims, name=name)
    for source, own in _sources(along, dims):
        made = made.assign_coords(_coordinates_along(source.more, own, made.coords))
    for dim, axes in zip(dims, along, strict=True):
        index = next((m.labels[a].index for m, a in axes if m.labels[a].index is not None), None)
        if dim not in made.indexes and index is not None and index.nlevels == 1:
            made = made.assign_coords({dim: (dim, index)})
    return made


def _names(along: Sequence[Sequence[Along]]) -> Iterator[Hashable]:
    """The names of the dimensions: dim_0, ... where no argument has one, as in xarray."""
    wanted = [p[0][0].labels[p[0][1]].name if p else f"dim_{k}" for k, p in enumerate(along)]
    seen: set[Hashable] = set()
    for name in wanted:
        if name in seen:
            fresh = (f"{name}_{number}" for number in count(2))
            name = next(n for n in fresh if n not in seen and n not in wanted)
        seen.add(name)
        yield name


def _sources(
    along: Sequence[Sequence[Along]], dims: Sequence[Hashable]
) -> Iterator[tuple[Coordinates, set[Hashable]]]:
    """The labelled arguments, each with those of its dimensions that the result has."""
    found: dict[int, tuple[Coordinates, set[Hashable]]] = {}
    for dim, axes in zip(dims, along, strict=True):
        for source, axis in axes:
            own = found.setdefault(id(source), (source, set()))[1]
            own |= {dim} & {source.labels[axis].name}
    yield from found.values()


def _coordinates_along(coords: Any, dims: set[Hashable], taken: Any) -> Any:
    """The coordinates along some dimensions that are not taken yet."""
    drop = [n for n, c in coords.items() if not set(c.dims) <= dims or n in taken]
    return coords.to_dataset().drop_vars(drop).coords


_this: Any = sys.modules[__name__]
call, wrapper, agree = (partial(f, _this) for f in (labels.call, labels.wrapper, labels.agree))
