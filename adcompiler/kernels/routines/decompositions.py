"""Further library routines for kernels (`library.py`): decompositions of one matrix, and their parts.

The first of the largest entries of each eigenvector or singular vector is positive, as in the NumPy
references in `ops/library.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adcompiler.kernels.routines import library
from adcompiler.kernels.routines.library import _fill, reduce_add

SWEEPS = 60  # six to ten usually suffice
NOT_INLINED = library.NOT_INLINED | {
    "_finite", "_iteration_columns", "_iteration_rows", "_exchange_columns", "_set_sign", "_householder",
    "_jacobi", "_singular_values", "_complete", "_invert_triangle", "_times_triangle", "_by_values",
}  # fmt: skip


def _finite(a: Any) -> bool:
    found = True
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            found = found and abs(a[i, j]) < np.inf
    return found


def _iteration_columns(f: Any, first: int, end: int, p: int, q: int, c: float, s: float) -> None:
    for i in range(first, end):
        x, y = f[i, p], f[i, q]
        f[i, p], f[i, q] = c * x - s * y, s * x + c * y


def _iteration_rows(f: Any, p: int, q: int, n: int, c: float, s: float) -> None:
    for j in range(n):
        x, y = f[p, j], f[q, j]
        f[p, j], f[q, j] = c * x - s * y, s * x + c * y


def _tangent(theta: float) -> float:
    """The tangent of the smaller angle whose double has cotangent `theta`."""
    t = 1 / (abs(theta) + math.sqrt(theta * theta + 1))
    return t if theta >= 0 else -t


def _exchange_columns(f: Any, first: int, end: int, p: int, q: int) -> None:
    for i in range(first, end):
        f[i, p], f[i, q] = f[i, q], f[i, p]


def _set_sign(f: Any, first: int, end: int, j: int, top: int) -> None:
    """Make the first of the largest entries of a column positive, by changing the sign of all rows from `top`
    on."""
    most, found = 0.0, 1.0
    for i in range(first, end):
        most = max(most, abs(f[i, j]))
    for i in range(end - 1, first - 1, -1):
        if abs(f[i, j]) >= 0.999999 * most:
            found = f[i, j]
    if found < 0:
        for i in range(top, end):
            f[i, j] = -f[i, j]


def _part(f: Any, row: int, x: Any) -> None:
    """Copy the rows of the factor from `row` on."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = f[row + i, j]


def library_eigh(a: Any, f: Any) -> None:
    """Jacobi's method: rotations diagonalise the lower matrix, and accumulate the eigenvectors in the upper
    one."""
    n = a.shape[0]
    _fill(f, 0.0)
    if not _finite(a):
        _fill(f, math.nan)
        return
    for i in range(n):
        f[i, i] = 1
        for j in range(n):
            f[n + i, j] = a[i, j]
    for _ in range(SWEEPS):
        rotated = False
        for p in range(n):
            for q in range(p + 1, n):
                x, y, z = f[n + p, p], f[n + q, q], f[n + p, q]
                if abs(z) > 1e-18 * (abs(x) + abs(y)):
                    t = _tangent((y - x) / (2 * z))
                    c = 1 / math.sqrt(t * t + 1)
                    _iteration_columns(f, 0, 2 * n, p, q, c, c * t)
                    _iteration_rows(f, n + p, n + q, n, c, c * t)
                    f[n + p, q], f[n + q, p] = 0, 0
                    rotated = True
        if not rotated:
            break
    for k in range(n):
        f[k, n] = f[n + k, k]
    for k in range(n):
        least = k
        for j in range(k + 1, n):
            if f[j, n] < f[least, n]:
                least = j
        if least != k:
            f[k, n], f[least, n] = f[least, n], f[k, n]
            _exchange_columns(f, 0, n, k, least)
        _set_sign(f, 0, n, k, 0)


def library_eigh_values(a: Any, f: Any, w: Any) -> None:
    """Eigenvalues, from a factorisation."""
    for k in range(a.shape[0]):
        w[k, 0] = f[k, a.shape[0]]


def library_eigh_vectors(a: Any, f: Any, v: Any) -> None:
    """Eigenvectors, from a factorisation."""
    _part(f, 0, v)


def library_qr(a: Any, f: Any) -> None:
    """Q above R, where Q R = A."""
    m, n = a.shape[0], a.shape[1]
    for i in range(m):
        for j in range(n):
            f[i, j] = a[i, j]
    _householder(f, m, n)


def _householder(f: Any, m: int, n: int) -> None:
    """Apply Householder reflections to the columns of m rows, then form their product in the rows of Q."""
    for i in range(m, m + n):
        for j in range(n):
            f[i, j] = 0
    for k in range(min(m, n)):
        below, x = 0.0, f[k, k]
        for i in range(k + 1, m):
            below += f[i, k] * f[i, k]
        if below != 0:
            y = -math.sqrt(x * x + below) if x >= 0 else math.sqrt(x * x + below)
            for i in range(k + 1, m):
                f[i, k] /= x - y
            _reflect(f, m, n, k, (y - x) / y)
            f[k, k] = y
    for k in range(n):
        for j in range(n):
            f[m + k, j] = f[k, j] if j >= k and k < m else 0.0
    for k in range(min(m, n) - 1, -1, -1):
        below, by = 0.0, 0.0
        for i in range(k + 1, m):
            below += f[i, k] * f[i, k]
        if below != 0:
            by = 2 / (1 + below)
        for j in range(k + 1, n):
            f[k, j] = 0
        _reflect(f, m, n, k, by)
        for i in range(k + 1, m):
            f[i, k] *= -by
        f[k, k] = 1 - by


def _reflect(f: Any, m: int, n: int, k: int, by: float) -> None:
    """Reflect the columns after k with the vector below its diagonal."""
    for j in range(k + 1, n):
        total = f[k, j]
        for i in range(k + 1, m):
            total += f[i, k] * f[i, j]
        total *= by
        f[k, j] -= total
        for i in range(k + 1, m):
            f[i, j] -= total * f[i, k]


def library_qr_columns(a: Any, f: Any, q: Any) -> None:
    """The orthonormal columns, from a factorisation."""
    _part(f, 0, q)


def library_qr_triangle(a: Any, f: Any, r: Any) -> None:
    """The triangle, from a factorisation."""
    _part(f, a.shape[0], r)


def library_svd(a: Any, f: Any) -> None:
    """U above V above a row of singular values, where U diag(s) Vᵀ = A."""
    m, n = a.shape[0], a.shape[1]
    _fill(f, 0.0)
    if not _finite(a):
        _fill(f, math.nan)
        return
    for i in range(m):
        for j in range(n):
            f[i, j] = a[i, j]
    _jacobi(f, 0, m, n)
    _singular_values(f, 0, m, n)


def _jacobi(f: Any, top: int, m: int, n: int) -> None:
    """Hestenes' method: rotations from the right orthogonalise the columns of the m rows from `top` on. The
    rows below accumulate their product."""
    last = top + m
    for j in range(n):
        f[last + j, j] = 1
    for _ in range(SWEEPS):
        rotated = False
        for p in range(n):
            for q in range(p + 1, n):
                x, y, z = 0.0, 0.0, 0.0
                for i in range(top, last):
                    x += f[i, p] * f[i, p]
                    y += f[i, q] * f[i, q]
                    z += f[i, p] * f[i, q]
                if abs(z) > 1e-15 * math.sqrt(x) * math.sqrt(y) and min(x, y) > 1e-31 * max(x, y):
                    t = _tangent((y - x) / (2 * z))
                    c = 1 / math.sqrt(t * t + 1)
                    _iteration_columns(f, top, last + n, p, q, c, c * t)
                    rotated = True
        if not rotated:
            break


def _singular_values(f: Any, top: int, m: int, n: int) -> None:
    """The norms of the columns of m rows, in descending order; the columns are divided by them."""
    last, values = top + m, top + m + n
    for j in range(n):
        total = 0.0
        for i in range(top, last):
            total += f[i, j] * f[i, j]
        f[values, j] = math.sqrt(total)
    for k in range(n):
        most = k
        for j in range(k + 1, n):
            if f[values, j] > f[values, most]:
                most = j
        if most != k:
            _exchange_columns(f, top, values + 1, k, most)
        if f[values, k] > 2.2e-16 * m * f[values, 0]:
            for i in range(top, last):
                f[i, k] /= f[values, k]
        else:
            _complete(f, top, last, k)
        _set_sign(f, last, values, k, top)


def _complete(f: Any, top: int, last: int, k: int) -> None:
    """Replace a column of rounding errors by a unit vector orthogonal to the first k columns."""
    for start in range(top, last):
        for i in range(top, last):
            f[i, k] = 1.0 if i == start else 0.0
        for _ in range(2):
            for j in range(k):
                total = 0.0
                for i in range(top, last):
                    total += f[i, j] * f[i, k]
                for i in range(top, last):
                    f[i, k] -= total * f[i, j]
        length = 0.0
        for i in range(top, last):
            length += f[i, k] * f[i, k]
        if length * (last - top) > 0.5:
            for i in range(top, last):
                f[i, k] /= math.sqrt(length)
            return


def library_svd_left(a: Any, f: Any, u: Any) -> None:
    """Left singular vectors, from a factorisation."""
    _part(f, 0, u)


def library_svd_right(a: Any, f: Any, v: Any) -> None:
    """Right singular vectors, from a factorisation."""
    _part(f, a.shape[0], v)


def library_svd_values(a: Any, f: Any, s: Any) -> None:
    """Singular values, from a factorisation."""
    for j in range(s.shape[0]):
        s[j, 0] = f[f.shape[0] - 1, j]


# -- the pseudoinverse ---------------------------------------------------------------------------------


def library_pseudoinverse(a: Any, c: Any, f: Any) -> None:
    """The transposed pseudoinverse of the taller of A and Aᵀ, above its workspace. The last row is 1 if
    singular values up to c times the largest were left out."""
    m, n, last = max(a.shape[0], a.shape[1]), min(a.shape[0], a.shape[1]), f.shape[0] - 1
    _fill(f, 0.0)
    if not _finite(a):
        _fill(f, math.nan)
        return
    for i in range(m):
        for j in range(n):
            f[i, j] = a[i, j] if a.shape[0] >= a.shape[1] else a[j, i]
    _householder(f, m, n)
    if _invert_triangle(f, m, n) * c[0, 0] < 1:
        _times_triangle(f, m, n)
    else:
        _by_values(f, m, n, c[0, 0], last)


def _invert_triangle(f: Any, m: int, n: int) -> float:
    """R⁻¹ below R, and the product of their norms, an upper bound of the condition number."""
    square, inverse = 0.0, 0.0
    for i in range(n):
        if f[m + i, i] == 0:
            return np.inf
    for i in range(n - 1, -1, -1):
        for j in range(i, n):
            total = 1.0 if i == j else 0.0
            for k in range(i + 1, j + 1):
                total -= f[m + i, k] * f[m + n + k, j]
            f[m + n + i, j] = total / f[m + i, i]
            square += f[m + i, j] * f[m + i, j]
            inverse += f[m + n + i, j] * f[m + n + i, j]
    return math.sqrt(square) * math.sqrt(inverse)


def _times_triangle(f: Any, m: int, n: int) -> None:
    """Q R⁻ᵀ in the place of Q."""
    for i in range(m):
        for j in range(n):
            total = 0.0
            for k in range(j, n):
                total = reduce_add(total, f[m + n + j, k] * f[i, k])
            f[i, j] = total


def _by_values(f: Any, m: int, n: int, c: float, last: int) -> None:
    """Q U diag(s)⁺ Vᵀ in the place of Q, where U diag(s) Vᵀ = R."""
    top, right, values, rank = m + n, m + 2 * n, m + 3 * n, 0
    for i in range(n):
        for j in range(n):
            f[top + i, j], f[right + i, j] = f[m + i, j], 0
    _jacobi(f, top, n, n)
    _singular_values(f, top, n, n)
    for k in range(n):
        if f[values, k] > c * f[values, 0]:
            rank += 1
    for i in range(n):  # U diag(s)⁺ Vᵀ where R was
        for j in range(n):
            total = 0.0
            for k in range(rank):
                total += f[top + i, k] / f[values, k] * f[right + j, k]
            f[m + i, j] = total
    for i in range(m):
        for j in range(n):
            f[last, j] = f[i, j]
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += f[last, k] * f[m + k, j]
            f[i, j] = total
    for j in range(n):
        f[last, j] = 1 if rank < n else 0


def library_pinv(a: Any, f: Any, p: Any) -> None:
    """A⁺ from its factor."""
    for i in range(a.shape[1]):
        for j in range(a.shape[0]):
            p[i, j] = f[j, i] if a.shape[0] >= a.shape[1] else f[i, j]
