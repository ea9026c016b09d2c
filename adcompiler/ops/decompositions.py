"""The decompositions of the library, by NumPy, in the conventions of the kernels' routines.

Each is one routine that gives all its parts in one matrix, and has no derivative; routines that take the
matrix and that give its parts (`ad/decompositions.py` has their derivatives).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from adcompiler.ir.nodes import Element, Shape, const, is_const
from adcompiler.ops.build import apply


def _plus(*lengths: Any) -> Element:
    """The sum of lengths."""
    known = sum(int(n.value) for n in lengths if is_const(n))
    total: Any = None
    for n in (*(n for n in lengths if not is_const(n)), *((const(known, "i64"),) if known else ())):
        total = n if total is None else apply("add", total, n)
    return const(0, "i64") if total is None else total


def _signed(vectors: Any) -> Any:
    """Signs such that the first of the largest entries of each column is positive."""
    if not vectors.size:
        return 1.0
    size = np.abs(vectors)
    first = np.argmax(size >= 0.999999 * size.max(axis=-2, keepdims=True), axis=-2)
    found = np.take_along_axis(vectors, first[..., None, :], axis=-2)
    return np.where(found < 0, -1.0, 1.0)


def _tried(operation: Callable[[Any], Any], a: Any) -> Any:
    """An operation of NumPy on a stack, matrix by matrix; NaN for one that is not finite."""
    rows = [operation(np.where(np.isfinite(m).all(), m, 0)) * np.where(np.isfinite(m).all(), 1, np.nan)
            for m in a.reshape(prod(a.shape[:-2]), *a.shape[-2:])]  # fmt: skip
    empty = operation(np.zeros(a.shape[-2:], a.dtype))
    return np.array(rows, a.dtype).reshape(*a.shape[:-2], *empty.shape)


def _eigh(a: Any) -> Any:
    """Eigenvectors, a column of eigenvalues, and below it what a kernel works with."""
    values, vectors = np.linalg.eigh(a)
    both = np.concatenate([vectors * _signed(vectors), values[..., None]], axis=-1)
    return np.concatenate([both, np.zeros_like(both)], axis=-2)


def _qr(a: Any) -> Any:
    """Q above R."""
    return np.concatenate(np.linalg.qr(a), axis=-2)


def _svd(a: Any) -> Any:
    """U above V above a row of singular values."""
    left, values, right = np.linalg.svd(a, full_matrices=False)
    right = np.swapaxes(right, -1, -2)
    signs = _signed(right)
    return np.concatenate([left * signs, right * signs, values[..., None, :]], axis=-2)


def _pseudoinverse(a: Any, c: Any) -> Any:
    """The transposed pseudoinverse of the taller of A and Aᵀ, above what a kernel works with; in the last row
    whether singular values were left out."""
    cases = np.broadcast_shapes(a.shape[:-2], c.shape[:-2])
    matrices, least = (np.broadcast_to(x, (*cases, *x.shape[-2:])) for x in (a, c))
    longer, n = max(a.shape[-2:]), min(a.shape[-2:])
    found = np.zeros((*cases, longer + 3 * n + 2, n), a.dtype)
    for case in np.ndindex(cases):
        taller = matrices[case] if a.shape[-2] == longer else matrices[case].T
        if not np.isfinite(taller).all():
            found[case] = np.nan
            continue
        left, values, right = np.linalg.svd(taller, full_matrices=False)
        kept = values > least[case][0, 0] * values.max(initial=0)
        found[case][:longer] = left / np.where(kept, values, np.inf) @ right
        found[case][-1] = not kept.all()
    return found


def _pinv(a: Any, f: Any) -> Any:
    """A⁺ by its factor."""
    found = f[..., : max(a.shape[-2:]), :]
    return np.swapaxes(found, -1, -2) if a.shape[-2] >= a.shape[-1] else found


def _sides(a: Any) -> tuple[Element, Element]:
    """The longer and the shorter side of a matrix."""
    if a[0] is a[1]:
        return a[0], a[0]
    if all(map(is_const, a)):
        shorter, longer = sorted(a, key=lambda n: int(n.value))
        return longer, shorter
    return apply("maximum", *a), apply("minimum", *a)


def _worked(a: Any) -> Shape:
    """The shape of the factor of a pseudoinverse."""
    longer, shorter = _sides(a)
    return _plus(longer, shorter, shorter, shorter, TWO), shorter


Entry = tuple[tuple[str, ...], Callable[..., Shape], Callable[..., Any], str]
ONE, TWO, AF = const(1, "i64"), const(2, "i64"), ("a", "f")
DECOMPOSITIONS: Mapping[str, Entry] = {
    "eigh": (
        ("a",), lambda a: (_plus(a[0], a[0]), _plus(a[0], ONE)), lambda a: _tried(_eigh, a),
        "eigenvectors of a symmetric A, beside them a column of eigenvalues, and as much to work with",
    ),
    "eigh_values": (
        AF, lambda a, f: (a[0], ONE), lambda a, f: f[..., : a.shape[-1], -1:],
        "the eigenvalues of A, where f = eigh(A)",
    ),
    "eigh_vectors": (
        AF, lambda a, f: a, lambda a, f: f[..., : a.shape[-1], :-1],
        "the eigenvectors of A, where f = eigh(A)",
    ),
    "qr": (("a",), lambda a: (_plus(a[0], a[1]), a[1]), lambda a: _tried(_qr, a), "Q above R, where Q R = A"),
    "qr_columns": (AF, lambda a, f: a, lambda a, f: f[..., : a.shape[-2], :], "Q, where f = qr(A)"),
    "qr_triangle": (
        AF, lambda a, f: (a[1], a[1]), lambda a, f: f[..., a.shape[-2] :, :], "R, where f = qr(A)"
    ),
    "svd": (
        ("a",), lambda a: (_plus(a[0], a[1], ONE), a[1]), lambda a: _tried(_svd, a),
        "U above V above a row of singular values, where U diag(s) Vᵀ = A",
    ),
    "pseudoinverse": (
        ("a", "c"), lambda a, c: _worked(a), _pseudoinverse,
        "what A⁺ is made of, and whether there are singular values up to c times the largest",
    ),
    "pinv": (
        AF, lambda a, f: (a[1], a[0]), _pinv, "A⁺ by other singular values, where f = pseudoinverse(A, c)",
    ),
    "svd_left": (AF, lambda a, f: a, lambda a, f: f[..., : a.shape[-2], :], "U, where f = svd(A)"),
    "svd_right": (
        AF, lambda a, f: (a[1], a[1]), lambda a, f: f[..., a.shape[-2] : -1, :], "V, where f = svd(A)"
    ),
    "svd_values": (
        AF, lambda a, f: (a[1], ONE), lambda a, f: f[..., -1, :, None],
        "the singular values of A, where f = svd(A)",
    ),
}  # fmt: skip
