"""What tests of `adc.dask` share: arguments, chunks, and how results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adcompiler as adc

dask = pytest.importorskip("dask", reason="needs dask[array]")
da = pytest.importorskip("dask.array", reason="needs dask[array]")

rng = np.random.default_rng(7)
X, w, x = rng.random((33, 3)), rng.random(3), rng.random(33)
labels, places = np.where(rng.random(33) < 0.5, -1.0, 1.0), rng.integers(0, 3, 33)
matrices, sides = rng.random((33, 3, 3)), rng.random((33, 3, 1))


def chunked(args: tuple[Any, ...], rows: int = 7) -> list[Any]:
    """The arrays that have as many rows as the data, in chunks."""
    return [da.from_array(a, (rows, *a.shape[1:])) if np.ndim(a) and len(a) in (33, 20) else a for a in args]


def interpreted(source: str) -> adc.Function:
    """A function whose blocks are interpreted, for tests of how programs decompose."""
    return adc.compile(source, backend="numpy")


def computed(lazy: Any) -> Any:
    return dask.compute(lazy, scheduler="sync")[0]


def leaves(value: Any) -> list[np.ndarray]:
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


def assert_near(found: Any, expected: Any, dtype: Any = np.float64) -> None:
    """To the rounding of sums in another order: relative to the largest element."""
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert a.dtype == b.dtype == dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=200 * np.finfo(dtype).eps * abs(b).max(initial=0))


def bits(value: Any) -> list[bytes]:
    return [leaf.tobytes() for leaf in leaves(value)]
