"""Library routines for kernels: one matrix each, on buffers that the kernel provides.

Matrices are row-major, results are written completely, and operands do not alias results. The routines are
plain Python and the only source: `targets/llvm/python_functions.py` reads them, and numba compiles them
(`special.py`, and `targets/cuda/device/device_library.py` for a device).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Functions that run once per matrix or block, or rarely: they are compiled once and called, not inlined.
NOT_INLINED = frozenset(
    {"_copy", "_exchange", "_merge", "_fill", "_is_singular", "_minus", "_panel", "_parity"}
)
BLOCK = 48  # columns that are eliminated before the rest of the matrix is
LARGE = 2**27  # terms from which a product is one call of BLAS, with its own threads
TILE = 64  # rows and columns of a tile of a product, the part of it that one thread computes at a time
# Columns of a tile whose factors are packed: windows are cut less often; packed factors must fit the stack.
WIDE = 112
TERMS = 128  # terms that are added to a tile at a time: the factors stay in the caches of levels 1 and 2


def reduce_add(total: Any, value: Any) -> Any:
    """A sum that a compiler may reassociate; compilers replace this function."""
    return total + value


def _exchange(f: Any, i: int, k: int, n: int) -> None:
    for j in range(n):
        f[i, j], f[k, j] = f[k, j], f[i, j]


def _panel(f: Any, first: int, last: int, n: int) -> None:
    """Eliminate the columns from `first` to `last` below the diagonal, with partial pivoting."""
    for k in range(first, last):
        pivot, most = k, abs(f[k, k])
        for i in range(k + 1, n):
            here = abs(f[i, k])
            if here > most or (here != here and most == most):
                pivot, most = i, here
        f[k, n] = pivot
        if pivot != k:
            _exchange(f, k, pivot, n)
        if f[k, k] != 0:
            for i in range(k + 1, n):
                factor = f[i, k] / f[k, k]
                f[i, k] = factor
                for j in range(k + 1, last):
                    f[i, j] -= factor * f[k, j]


def _minus(f: Any, rows: int, top: int, first: int, last: int, end: int) -> None:
    """f[i, j] -= Σ f[i, k] f[k, j] for rows from `rows` to `end`, k from `first` to `last`, and j from `last`
    on. Four k at a time reduce the reads of each row."""
    for i in range(rows, end):
        k = first
        while k + 4 <= last:
            a, b, c, d = f[i, k], f[i, k + 1], f[i, k + 2], f[i, k + 3]
            for j in range(last, top):
                f[i, j] -= a * f[k, j] + b * f[k + 1, j] + c * f[k + 2, j] + d * f[k + 3, j]
            k += 4
        while k < last:
            a = f[i, k]
            for j in range(last, top):
                f[i, j] -= a * f[k, j]
            k += 1


def library_lu(a: Any, f: Any) -> None:
    """P A = L U with partial pivoting, packed into n columns, and a column of the rows exchanged."""
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            f[i, j] = a[i, j]
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        _panel(f, first, last, n)
        for k in range(first, last):
            for i in range(k + 1, last):
                factor = f[i, k]
                for j in range(last, n):
                    f[i, j] -= factor * f[k, j]
        _minus(f, last, n, first, last, n)


def _is_singular(f: Any, n: int) -> bool:
    found = False
    for k in range(n):
        found = found or f[k, k] == 0
    return found


def _copy(b: Any, x: Any) -> None:
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            x[i, j] = b[i, j]


def _fill(x: Any, value: float) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = value


def _take_rows(f: Any, x: Any, i: int, first: int, last: int) -> None:
    """x[i] -= Σ f[i, k] x[k] for k from `first` to `last`."""
    if x.shape[1] == 1:
        total = x[i, 0]
        for k in range(first, last):
            total -= f[i, k] * x[k, 0]  # in order: vectors would make short rows slower
        x[i, 0] = total
    else:
        for k in range(first, last):
            factor = f[i, k]
            for j in range(x.shape[1]):
                x[i, j] -= factor * x[k, j]


def _take_row(f: Any, x: Any, k: int, first: int, last: int) -> None:
    """x[i] -= f[k, i] x[k] for i from `first` to `last`."""
    if x.shape[1] == 1:
        one = x[k, 0]
        for i in range(first, last):
            x[i, 0] -= f[k, i] * one
    else:
        for i in range(first, last):
            factor = f[k, i]
            for j in range(x.shape[1]):
                x[i, j] -= factor * x[k, j]


def _divide(x: Any, i: int, by: Any) -> None:
    for j in range(x.shape[1]):
        x[i, j] /= by


def library_solve(a: Any, f: Any, b: Any, x: Any) -> None:
    """A X = B from the factor of A; NaN if it is singular."""
    n = f.shape[0]
    if _is_singular(f, n):
        _fill(x, math.nan)
        return
    _copy(b, x)
    for k in range(n):
        pivot = int(f[k, n])
        if pivot != k:
            _exchange(x, k, pivot, x.shape[1])
    for i in range(n):
        _take_rows(f, x, i, 0, i)
    for i in range(n - 1, -1, -1):
        _take_rows(f, x, i, i + 1, n)
        _divide(x, i, f[i, i])


def library_solve_transposed(a: Any, f: Any, b: Any, x: Any) -> None:
    """Aᵀ X = B from the factor of A; NaN if it is singular."""
    n = f.shape[0]
    if _is_singular(f, n):
        _fill(x, math.nan)
        return
    _copy(b, x)
    for k in range(n):
        _divide(x, k, f[k, k])
        _take_row(f, x, k, k + 1, n)
    for k in range(n - 1, -1, -1):
        _take_row(f, x, k, 0, k)
    for k in range(n - 1, -1, -1):
        pivot = int(f[k, n])
        if pivot != k:
            _exchange(x, k, pivot, x.shape[1])


def library_triangular(l: Any, b: Any, x: Any) -> None:  # noqa: E741 (its name in the literature)
    """L X = B for a lower triangle L; NaN if it is singular."""
    n = l.shape[0]
    if _is_singular(l, n):
        _fill(x, math.nan)
        return
    _copy(b, x)
    for i in range(n):
        _take_rows(l, x, i, 0, i)
        _divide(x, i, l[i, i])


def library_triangular_transposed(l: Any, b: Any, x: Any) -> None:  # noqa: E741
    """Lᵀ X = B for a lower triangle L; NaN if it is singular."""
    n = l.shape[0]
    if _is_singular(l, n):
        _fill(x, math.nan)
        return
    _copy(b, x)
    for k in range(n - 1, -1, -1):
        _divide(x, k, l[k, k])
        _take_row(l, x, k, 0, k)


def _parity(f: Any, n: int) -> int:
    """The sign of the exchanges."""
    sign = 1
    for k in range(n):
        if f[k, n] != k:
            sign = -sign
    return sign


def library_det(a: Any, f: Any, d: Any) -> None:
    """The determinant from the factor."""
    n = f.shape[0]
    d[0] = _parity(f, n)
    for k in range(n):
        d[0] *= f[k, k]


def library_slogdet(a: Any, f: Any, d: Any) -> None:
    """The sign and the log magnitude of the determinant, from the factor."""
    n = f.shape[0]
    d[0] = _parity(f, n)
    d[1] = 0
    for k in range(n):
        d[0] *= np.sign(f[k, k])
        d[1] += math.log(abs(f[k, k]))


def _multiply(a: Any, b: Any, c: Any, i: int, j: int, k: int) -> None:
    """C[i:, j:] += A[i:, k:] B[k:, j:], one tile of each; the first terms initialise C. In machine code this
    is our own function (`targets/llvm/runtime/gemm.py`), with numba BLAS."""
    left, right = a[i : i + TILE, k : k + TERMS], b[k : k + TERMS, j : j + TILE]
    part = np.dot(np.ascontiguousarray(left), np.ascontiguousarray(right))
    if k == 0:
        c[i : i + TILE, j : j + TILE] = part
    else:
        c[i : i + TILE, j : j + TILE] += part


def library_matmul(a: Any, b: Any, c: Any, start: int, stop: int) -> None:
    """The tiles of C = A B from `start` to `stop`, numbered row by row."""
    if c.shape[0] * c.shape[1] * a.shape[1] >= LARGE:
        if start == 0:
            np.dot(a, b, c)
        return
    columns = (c.shape[1] + TILE - 1) // TILE
    for tile in range(start, stop):
        i = tile // columns
        for k in range(0, a.shape[1], TERMS):
            _multiply(a, b, c, TILE * i, TILE * (tile - columns * i), k)


def library_matmul_nt(a: Any, b: Any, c: Any, start: int, stop: int) -> None:
    """The same for C = A Bᵀ."""
    if c.shape[0] * c.shape[1] * a.shape[1] >= LARGE:
        if start == 0:
            np.dot(a, b.T, c)
        return
    columns = (c.shape[1] + TILE - 1) // TILE
    for tile in range(start, stop):
        i = tile // columns
        for k in range(0, a.shape[1], TERMS):
            _multiply(a, b.T, c, TILE * i, TILE * (tile - columns * i), k)


def library_matmul_tn(a: Any, b: Any, c: Any, start: int, stop: int) -> None:
    """The same for C = Aᵀ B."""
    if c.shape[0] * c.shape[1] * a.shape[0] >= LARGE:
        if start == 0:
            np.dot(a.T, b, c)
        return
    columns = (c.shape[1] + TILE - 1) // TILE
    for tile in range(start, stop):
        i = tile // columns
        for k in range(0, a.shape[0], TERMS):
            _multiply(a.T, b, c, TILE * i, TILE * (tile - columns * i), k)


def _add_product(a: Any, b: Any, c: Any, rows: int, columns: int, terms: int, first: int) -> None:
    """C += A B, of the leading rows, columns and terms; the `first` terms, 0, initialise C. In machine code
    this is our own function, as for `_multiply`."""
    left, right = np.ascontiguousarray(a[:rows, :terms]), np.ascontiguousarray(b[:terms, :columns])
    if first == 0:
        c[:rows, :columns] = np.dot(left, right)
    else:
        c[:rows, :columns] += np.dot(left, right)


def library_tile(a: Any, b: Any, c: Any, rows: int, columns: int, terms: int, first: int) -> None:
    """Add a product of packed factors to a tile (`kernels/emit/contraction.py`)."""
    _add_product(a, b, c, rows, columns, terms, first)


def library_tile_nt(a: Any, b: Any, c: Any, rows: int, columns: int, terms: int, first: int) -> None:
    """The same for a transposed right factor."""
    _add_product(a, b.T, c, rows, columns, terms, first)


def library_tile_tn(a: Any, b: Any, c: Any, rows: int, columns: int, terms: int, first: int) -> None:
    """The same for a transposed left factor."""
    _add_product(a.T, b, c, rows, columns, terms, first)


def library_tile_tt(a: Any, b: Any, c: Any, rows: int, columns: int, terms: int, first: int) -> None:
    """The same for two transposed factors."""
    _add_product(a.T, b.T, c, rows, columns, terms, first)


def library_cholesky(a: Any, l: Any) -> None:  # noqa: E741
    """L Lᵀ = A; NaN if A is not positive definite."""
    n = a.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total = reduce_add(total, -l[i, k] * l[j, k])
            if i > j:
                l[i, j] = total / l[j, j]
            elif total > 0:
                l[i, i] = math.sqrt(total)
            else:
                _fill(l, math.nan)
                return
        for j in range(i + 1, n):
            l[i, j] = 0


def _merge(p: Any, source: int, target: int, left: int, middle: int, end: int) -> None:
    """Merge two sorted runs of the rows from `source` on into the rows from `target` on; NaN sorts last."""
    i, j, k = left, middle, left
    while i < middle and j < end:
        x, y = p[source + 1, i], p[source + 1, j]
        if x <= y or y != y:
            p[target, k], p[target + 1, k] = p[source, i], x
            i += 1
        else:
            p[target, k], p[target + 1, k] = p[source, j], y
            j += 1
        k += 1
    while i < middle:
        p[target, k], p[target + 1, k] = p[source, i], p[source + 1, i]
        i += 1
        k += 1
    while j < end:
        p[target, k], p[target + 1, k] = p[source, j], p[source + 1, j]
        j += 1
        k += 1


def library_argsort(x: Any, p: Any) -> None:
    """The sorting permutation of a row and the sorted row, by merging between two pairs of rows."""
    n = x.shape[1]
    for i in range(n):
        p[0, i], p[1, i], p[2, i], p[3, i] = i, x[0, i], i, x[0, i]
    source, width = 0, 1
    while width < n:
        for left in range(0, n, 2 * width):
            _merge(p, source, 2 - source, left, min(left + width, n), min(left + 2 * width, n))
        source, width = 2 - source, 2 * width
    if source == 2:
        for i in range(n):
            p[0, i], p[1, i] = p[2, i], p[3, i]


def _search(a: Any, v: Any, k: Any, right: Any) -> None:
    """How many numbers of a sorted row are less than each of v, and if `right`, equal; NaN is the greatest.

    What is left of the row is halved whatever a comparison says, for many numbers in turn: no branch depends
    on a number, and no step waits for the last one.
    """
    for i in range(v.shape[0]):
        for first in range(0, v.shape[1], 128):
            stop, left = min(first + 128, v.shape[1]), a.shape[1]
            for j in range(first, stop):
                k[i, j] = 0.0
            while left > 0:
                half = (left + 1) // 2
                for j in range(first, stop):
                    y, x = a[0, int(k[i, j]) + half - 1], v[i, j]
                    same = y == x or (x != x and y != y)
                    k[i, j] += half if y < x or (x != x and y == y) or (right and same) else 0
                left -= half


def library_search_left(a: Any, v: Any, k: Any) -> None:
    """How many numbers of a sorted row are less than each of v; NaN is the greatest."""
    _search(a, v, k, False)


def library_search_right(a: Any, v: Any, k: Any) -> None:
    """How many numbers of a sorted row are not greater than each of v; NaN is the greatest."""
    _search(a, v, k, True)
