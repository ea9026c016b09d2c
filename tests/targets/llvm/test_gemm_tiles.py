"""Tiles of matrix products, in vectors of each width."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

from adcompiler.kernels.routines.library import TERMS, TILE
from adcompiler.targets.llvm.blas import symbol
from adcompiler.targets.llvm.runtime.gemm import gemm
from adcompiler.targets.llvm.runtime.jit import linked

# Rows, columns and terms.
LENGTHS = (
    *((1, 1, 1), (5, 7, 3), (3, 20, 9), (10, 34, 4)),
    *((8, 27, 32), (17, 33, 65), (TILE, TILE, TERMS)),
)
PARAMS = (*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, ctypes.c_bool)


@cache
def library(kind: str, bits: int) -> Any:
    return linked(gemm(kind, bits))


def function(kind: str, bits: int, side: str) -> Any:
    """The function for a type and for factors that are transposed or not."""
    name = symbol(kind, *(how == "t" for how in side))
    return ctypes.CFUNCTYPE(None, *PARAMS)(library(kind, bits)[name])


KINDS = {"double": np.float64, "float": np.float32}


@pytest.mark.parametrize("side", ["nn", "nt", "tn"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_tiles_are_stored_or_added_and_nothing_beside_them_changes(bits: int, kind: str, side: str) -> None:
    dtype = KINDS[kind]
    multiply = function(kind, bits, side)
    rng = np.random.default_rng(0)
    close = {"rtol": 1e-12, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-4}
    for m, n, k in LENGTHS:
        left, right = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        a, b = (
            np.ascontiguousarray(x.T if how == "t" else x, dtype)
            for x, how in zip((left, right), side, strict=True)
        )
        c = np.full((m + 1, n + 3), 7, dtype)
        lengths = m, n, k, c.shape[1], a.shape[1], b.shape[1]
        for times in (1, 2):
            multiply(c.ctypes.data, a.ctypes.data, b.ctypes.data, *lengths, times > 1)
            np.testing.assert_allclose(c[:m, :n], times * (left @ right), **close)
            assert (c[m:] == 7).all()
            assert (c[:, n:] == 7).all()


def test_what_is_not_finite_stays_in_its_row_and_column() -> None:
    multiply = function("double", 256, "nn")
    a, b, c = np.ones((7, 5)), np.ones((5, 9)), np.zeros((7, 9))
    a[6, 2], b[1, 8] = np.inf, np.nan
    multiply(c.ctypes.data, a.ctypes.data, b.ctypes.data, 7, 9, 5, 9, 5, 9, False)
    assert np.isfinite(c[:6, :8]).all()
    assert (c[6, :8] == np.inf).all()
    assert np.isnan(c[:, 8]).all()
