"""Cofactors of one matrix, for derivatives of its determinant: finite where it is singular (`library.py`).

P A Q = L D U with ones on the diagonals of L and U, so the cofactors of A are those of D, which are products,
times inverses of L and U and permutations. Nothing is divided by an element of D.
"""

from __future__ import annotations

from typing import Any

from adcompiler.kernels.routines import decompositions
from adcompiler.kernels.routines.decompositions import _exchange_columns
from adcompiler.kernels.routines.library import _exchange

GROWTH = 1e8  # elements of a row over its pivot from which pivots are chosen among all elements
NOT_INLINED = decompositions.NOT_INLINED | {
    "_has_small_pivot",
    "_eliminate",
    "_inward",
    "_outward",
    "_transpose",
}


def _exchange_both(c: Any, k: int, row: int, column: int, n: int) -> None:
    """Exchange row k and another row, and column k and another column."""
    if row != k:
        _exchange(c, k, row, n)
    if column != k:
        _exchange_columns(c, 0, n, k, column)


def _has_small_pivot(f: Any, n: int) -> bool:
    """Whether a pivot of a factor is 0 or much smaller than another element of its row."""
    found = False
    for k in range(n):
        most = 0.0
        for j in range(k + 1, n):
            most = max(most, abs(f[k, j]))
        found = found or f[k, k] == 0 or most > GROWTH * abs(f[k, k])
    return found


def _eliminate(p: Any, n: int) -> None:
    """L below the diagonal, D U on it and above it, by complete pivoting."""
    for k in range(n):
        row, column, most = k, k, abs(p[k, k])
        for i in range(k, n):
            for j in range(k, n):
                here = abs(p[i, j])
                if here > most or (here != here and most == most):
                    row, column, most = i, j, here
        p[n, k], p[n + 1, k] = row, column
        _exchange_both(p, k, row, column, n)
        if p[k, k] != 0:
            for i in range(k + 1, n):
                factor = p[i, k] / p[k, k]
                p[i, k] = factor
                for j in range(k + 1, n):
                    p[i, j] -= factor * p[k, j]


def library_pivoted(a: Any, f: Any, p: Any) -> None:
    """L, D and U from the factor of A, or by complete pivoting if that has a small pivot; below them the rows
    and the columns that were exchanged."""
    n = a.shape[0]
    small = _has_small_pivot(f, n)
    for i in range(n):
        for j in range(n):
            p[i, j] = a[i, j] if small else f[i, j]
        p[n, i], p[n + 1, i] = f[i, n], i
    if small:
        _eliminate(p, n)
    for k in range(n):
        for j in range(k + 1, n):
            p[k, j] = p[k, j] / p[k, k] if p[k, k] != 0 else 0.0


def _parity_of_both(p: Any, n: int) -> float:
    """The sign of the exchanges of rows and columns."""
    sign = 1.0
    for k in range(n):
        if p[n, k] != k:
            sign = -sign
        if p[n + 1, k] != k:
            sign = -sign
    return sign


def _transpose(c: Any, n: int) -> None:
    for i in range(n):
        for j in range(i):
            c[i, j], c[j, i] = c[j, i], c[i, j]


def _outward(p: Any, c: Any, n: int, is_diagonal: bool) -> None:
    """C = Pᵀ L⁻ᵀ C U⁻ᵀ Qᵀ, with the sign of P and Q: row by row, Cᵀ = U⁻¹ Cᵀ L⁻¹."""
    _transpose(c, n)
    for i in range(n):
        last = i if is_diagonal else n - 1
        for k in range(last, 0, -1):
            factor = c[i, k]
            for j in range(k):
                c[i, j] -= factor * p[k, j]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            factor = p[i, k]
            for j in range(n):
                c[i, j] -= factor * c[k, j]
    _transpose(c, n)
    sign = _parity_of_both(p, n)
    for i in range(n):
        for j in range(n):
            c[i, j] = sign * c[i, j]
    for k in range(n - 1, -1, -1):
        _exchange_both(c, k, int(p[n, k]), int(p[n + 1, k]), n)


def _inward(p: Any, c: Any, n: int) -> None:
    """C = L⁻¹ P C Q U⁻¹."""
    for k in range(n):
        _exchange_both(c, k, int(p[n, k]), int(p[n + 1, k]), n)
    for i in range(n):
        for k in range(i):
            factor = p[i, k]
            for j in range(n):
                c[i, j] -= factor * c[k, j]
    for i in range(n):
        for k in range(n):
            factor = c[i, k]
            for j in range(k + 1, n):
                c[i, j] -= factor * p[k, j]


def _product_without(p: Any, n: int, first: int, second: int) -> float:
    """The product of D without two of its elements, which may be the same."""
    product = 1.0
    for k in range(n):
        if k != first and k != second:
            product *= p[k, k]
    return product


def library_cofactors(a: Any, f: Any, p: Any, c: Any) -> None:
    """The matrix of the cofactors of A, from its factors."""
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            c[i, j] = 0.0
        c[i, i] = _product_without(p, n, i, i)
    _outward(p, c, n, True)


def library_cofactors_along(a: Any, f: Any, p: Any, g: Any, c: Any) -> None:
    """The derivative of the cofactors of A along G, from its factors."""
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            c[i, j] = g[i, j]
    _inward(p, c, n)
    for i in range(n):
        for j in range(i):
            product = -_product_without(p, n, i, j)
            c[i, j], c[j, i] = product * c[j, i], product * c[i, j]
    # On the diagonal, the sum over k of c[k, k] times the product of D without i and k: the sum over k below
    # i is `before` times the product `above`, and so on.
    below, before = 1.0, 0.0
    for i in range(n):
        above, after = 1.0, 0.0
        for k in range(n - 1, i, -1):
            after = after * p[k, k] + c[k, k] * above
            above *= p[k, k]
        given = c[i, i]
        c[i, i] = before * above + below * after
        before = before * p[i, i] + given * below
        below *= p[i, i]
    _outward(p, c, n, False)
