"""The library: routines on whole matrices that are not loops over a domain, and their calls.

Each is one entry: parameters, the shape of its result for one case, and a NumPy reference that takes stacks
of matrices. The kernels' own routines are in `kernels/routines/library.py`, the derivatives in
`ad/library.py`.

A matrix is factorised once: `lu` returns a packed factor, and solves take the matrix and its factor.
Derivatives flow to the matrix, never to the factor. A singular matrix, or one that is not positive definite,
is not an error: the solution or the factor is NaN. Products are calls only in kernels
(`passes/order/gemm.py`), where nothing is differentiated any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from adcompiler.ir.nodes import Array, Call, Element, Shape, const, is_const
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

# -- decompositions ----------------------------------------------------------------------------------
# The decompositions of the library, by NumPy, in the conventions of the kernels' routines.
#
# Each is one routine that gives all its parts in one matrix, and has no derivative; routines that take
# the matrix and that give its parts (`ad/library.py` has their derivatives).


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


@dataclass(frozen=True, slots=True)
class Routine:
    """One entry: `shape(*operands)` is the shape of the result for operands of such lengths, and
    `numpy(*operands)` its value."""

    params: tuple[str, ...]
    shape: Callable[..., Shape]
    numpy: Callable[..., Any]
    doc: str


FOUR = const(4, "i64")


def _each(operation: Callable[..., Any], *operands: Any) -> Any:
    """An operation of NumPy on a stack; NaN for the matrices of which it says that they are singular."""
    try:
        return operation(*operands)
    except np.linalg.LinAlgError:
        cases = np.broadcast_shapes(*(a.shape[:-2] for a in operands))
        if not cases:
            return np.full_like(operands[-1], np.nan)
        wide = [np.broadcast_to(a, (*cases, *a.shape[-2:])) for a in operands]
        rows = [_each(operation, *(a[k] for a in wide)) for k in range(cases[0])]
        return np.stack(rows)


def _lu(a: Any) -> Any:
    """The factors of Crout and Doolittle in one matrix, and a column of the rows that were exchanged."""
    n = a.shape[-1]
    f = np.concatenate([a, np.zeros_like(a[..., :1])], axis=-1).reshape(prod(a.shape[:-2]), n, n + 1)
    case = np.arange(len(f))
    for k in range(n):
        pivot = k + np.argmax(np.abs(f[:, k:, k]), axis=1)
        rows = f[case, pivot, :n].copy()
        f[case, pivot, :n], f[:, k, :n] = f[:, k, :n].copy(), rows
        f[:, k, n] = pivot
        nonzero = np.where(f[:, k, k] == 0, 1, f[:, k, k])
        f[:, k + 1 :, k] /= nonzero[:, None]
        f[:, k + 1 :, k + 1 : n] -= f[:, k + 1 :, k, None] * f[:, k, None, k + 1 : n]
    return f.reshape(*a.shape[:-1], n + 1)


def _solve(a: Any, f: Any, b: Any) -> Any:
    return _each(np.linalg.solve, a, b)


def _solve_transposed(a: Any, f: Any, b: Any) -> Any:
    return _each(np.linalg.solve, np.swapaxes(a, -1, -2), b)


def _triangular(l: Any, b: Any) -> Any:  # noqa: E741 (its name in the literature)
    return _each(np.linalg.solve, np.tril(l), b)


def _triangular_transposed(l: Any, b: Any) -> Any:  # noqa: E741
    return _each(np.linalg.solve, np.swapaxes(np.tril(l), -1, -2), b)


def _det(a: Any, f: Any) -> Any:
    return np.linalg.det(a)[..., None]


def _slogdet(a: Any, f: Any) -> Any:
    sign, logarithm = np.linalg.slogdet(a)
    if np.iscomplexobj(sign):  # a complex step: the logarithm of a complex determinant is one
        side = np.where(sign.real < 0, -1.0, 1.0)
        sign, logarithm = np.sign(sign.real), logarithm + 1j * np.angle(sign * side)
    return np.stack([sign, logarithm], axis=-1)


def _pivoted(a: Any, f: Any) -> Any:
    """What a kernel makes cofactors of; the NumPy references take the matrix."""
    return np.zeros((*a.shape[:-2], a.shape[-1] + 2, a.shape[-1]), a.dtype)


def _minors(columns: Any) -> Any:
    """The signed determinants of a stack without row i and column j, at [..., i, j]."""
    n = columns.shape[-1]
    signs = np.where(np.indices((n, n)).sum(axis=0) % 2, -1.0, 1.0).astype(columns.real.dtype)
    found = np.empty_like(columns)
    for i, j in np.ndindex(n, n):
        found[..., i, j] = np.linalg.det(np.delete(np.delete(columns, i, -2), j, -1))
    return found * signs


def _cofactors(a: Any, f: Any, p: Any) -> Any:
    determinant = np.linalg.det(a)[..., None, None]
    inverse = _each(np.linalg.inv, a)
    found = determinant * np.swapaxes(inverse, -1, -2)
    singular = ~(np.isfinite(found) & (determinant != 0)).all(axis=(-1, -2)) & np.isfinite(a).all(
        axis=(-1, -2)
    )
    if singular.any():
        found[singular] = _minors(a[singular])
    return found


def _cofactors_along(a: Any, f: Any, p: Any, g: Any) -> Any:
    """The derivative of determinants without a row and a column: each other column in turn is that of G."""
    cases, n = np.broadcast_shapes(a.shape[:-2], g.shape[:-2]), a.shape[-1]
    wide, way = (np.broadcast_to(x, (*cases, n, n)) for x in (a, g))
    total = np.zeros_like(wide)
    for k in range(n):
        changed = wide.copy()
        changed[..., k] = way[..., k]
        part = _minors(changed)
        part[..., k] = 0  # the column that is left out is not the one that changes
        total = total + part
    return total


def _argsort(x: Any) -> Any:
    """The order of rows, the rows in that order, and both again in the place of what a kernel works with."""
    order = np.argsort(x, axis=-1, kind="stable")
    both = [order.astype(x.dtype), np.take_along_axis(x, order, axis=-1)]
    return np.concatenate(both * 2, axis=-2)


def _search(side: Literal["left", "right"]) -> Callable[..., Any]:
    def found(a: Any, v: Any) -> Any:
        """Where the numbers of each case would stand in its sorted row."""
        if a.ndim == 2:
            return np.searchsorted(a[0], v, side).astype(v.dtype)
        cases = np.broadcast_shapes(a.shape[:-2], v.shape[:-2])
        rows, wanted = (np.broadcast_to(x, (*cases, *x.shape[-2:])) for x in (a, v))
        places = [np.searchsorted(rows[c][0], wanted[c], side) for c in np.ndindex(cases)]
        return np.array(places, v.dtype).reshape(wanted.shape)

    return found


SEARCHES = ("search_left", "search_right")
# Routines whose results say which, not how much: they have no derivative.
CONSTANT = frozenset(("lu", "pivoted", "argsort", *SEARCHES, "eigh", "qr", "svd", "pseudoinverse"))
LIBRARY: Mapping[str, Routine] = MappingProxyType(
    {
        "lu": Routine(
            ("a",), lambda a: (a[0], _longer(a[0])), _lu,
            "P A = L U by partial pivoting: L below the diagonal (ones on it), U above, and in the last "
            "column, for each row in turn, the row that it was exchanged with",
        ),
        "solve": Routine(("a", "f", "b"), lambda a, f, b: b, _solve, "A X = B, where f = lu(A)"),
        "solve_transposed": Routine(
            ("a", "f", "b"), lambda a, f, b: b, _solve_transposed, "Aᵀ X = B, where f = lu(A)"
        ),
        "triangular": Routine(("l", "b"), lambda _, b: b, _triangular, "L X = B for a lower triangle L"),
        "triangular_transposed": Routine(
            ("l", "b"), lambda _, b: b, _triangular_transposed, "Lᵀ X = B for a lower triangle L"
        ),
        "det": Routine(("a", "f"), lambda a, f: (ONE,), _det, "the determinant of A, where f = lu(A)"),
        "pivoted": Routine(
            ("a", "f"), lambda a, f: (_plus(a[0], TWO), a[0]), _pivoted,
            "P A Q = L D U from f = lu(A), or where that has a small pivot by pivots among all elements",
        ),
        "cofactors": Routine(
            ("a", "f", "p"), lambda a, f, p: a, _cofactors,
            "the cofactors of A, where f = lu(A) and p = pivoted(A, f)",
        ),
        "cofactors_along": Routine(
            ("a", "f", "p", "g"), lambda a, f, p, g: a, _cofactors_along,
            "the derivative of the cofactors of A along G, where f = lu(A) and p = pivoted(A, f)",
        ),
        "slogdet": Routine(
            ("a", "f"), lambda a, f: (TWO,), _slogdet,
            "the sign of the determinant, and the logarithm of its magnitude, where f = lu(A)",
        ),
        "matmul": Routine(("a", "b"), lambda a, b: (a[0], b[1]), lambda a, b: a @ b, "A B"),
        "matmul_nt": Routine(
            ("a", "b"), lambda a, b: (a[0], b[0]), lambda a, b: a @ np.swapaxes(b, -1, -2), "A Bᵀ"
        ),
        "matmul_tn": Routine(
            ("a", "b"), lambda a, b: (a[1], b[1]), lambda a, b: np.swapaxes(a, -1, -2) @ b, "Aᵀ B"
        ),
        "cholesky": Routine(
            ("a",), lambda a: a, lambda a: _each(np.linalg.cholesky, a),
            "the lower triangle L with L Lᵀ = A, for a symmetric A",
        ),
        "argsort": Routine(
            ("x",), lambda x: (FOUR, x[1]), _argsort,
            "a row's order, as numbers; the row in that order, equal numbers in theirs and NaN last; and as "
            "much again to work with",
        ),
        "search_left": Routine(
            ("a", "v"), lambda a, v: v, _search("left"),
            "how many numbers of a sorted row are less than each v",
        ),
        "search_right": Routine(
            ("a", "v"), lambda a, v: v, _search("right"),
            "how many numbers of a sorted row are not greater than each v",
        ),
        **{name: Routine(*entry) for name, entry in DECOMPOSITIONS.items()},
    }
)  # fmt: skip


def _longer(n: Any) -> Any:
    return const(int(n.value) + 1, "i64") if is_const(n) else apply("add", n, ONE)


def call(op: str, *operands: Array) -> Call:
    """The routine `op` on matrices, or on stacks of them, of one dtype."""
    cases = max((a.shape[:-2] for a in operands), key=len)
    shape = LIBRARY[op].shape(*(a.shape[-2:] for a in operands))
    return Call(op, operands, operands[0].dtype, cases + shape)
