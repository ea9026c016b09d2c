"""The library: routines on whole matrices that no loop over a domain says, and how they are called.

Each is one entry: parameters, the shape of its result for one case, and a NumPy reference that takes stacks
of matrices. The kernels' own routines are in `kernels/routines/library.py`, the derivatives in
`ad/library.py`.

A matrix is factorised once: `lu` gives a packed factor, and what is solved with it takes the matrix and its
factor. Derivatives flow to the matrix, never to the factor. A singular matrix, or one that is not positive
definite, is no error: the solution, or the factor, is NaN. Products are calls only in kernels
(`passes/order/gemm.py`), where nothing is differentiated any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from adcompiler.ir.call import Call
from adcompiler.ir.nodes import Array, Shape, const, is_const
from adcompiler.ops.build import apply
from adcompiler.ops.decompositions import DECOMPOSITIONS


@dataclass(frozen=True, slots=True)
class Routine:
    """One entry: `shape(*operands)` is the shape of the result for operands of such lengths, and
    `numpy(*operands)` its value."""

    params: tuple[str, ...]
    shape: Callable[..., Shape]
    numpy: Callable[..., Any]
    doc: str


ONE, TWO, FOUR = (const(k, "i64") for k in (1, 2, 4))


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


# Routines whose results say which, not how much: they have no derivative.
CONSTANT = frozenset(("lu", "argsort", "search_left", "search_right", "eigh", "qr", "svd", "pseudoinverse"))
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
