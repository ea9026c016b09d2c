"""Derivatives of the parts of decompositions, as programs of arrays and of other calls.

    A V = V diag(w)       dw = diag(M), dV = V (F ∘ M)                    M = Vᵀ dA V,  F_ij = 1 / (w_j - w_i)
                          Ā = V (diag(w̄) + F ∘ Vᵀ V̄) Vᵀ
    A = Q R               dR = (C - Ω) R, dQ = dA R⁻¹ - Q (C - Ω)         C = Qᵀ dA R⁻¹,  Ω = L - Lᵀ
                          Ā = (Q̄ + Q copy(R R̄ᵀ - Q̄ᵀ Q)) R⁻ᵀ             L below the diagonal of C
    A = U diag(s) Vᵀ      ds = diag(P), dU = U (F ∘ (P S + S Pᵀ)) + (dA V - U P) S⁻¹
                          dV = V (F ∘ (S P + Pᵀ S))                     P = Uᵀ dA V,  F_ij = 1 / (s_j² - s_i²)

    P = A⁺               dP = G dAᵀ - (G (dAᵀ A) + P dA) P + W - P (A W)      G = P Pᵀ,  W = (dAᵀ Pᵀ) P
                          Ā = B - A (P B) - Pᵀ (P̄ Pᵀ) + N - N (P A)         B = P̄ᵀ G,  N = Pᵀ (P P̄ᵀ)

with zeros on the diagonal of F; copy(M) has the lower triangle of M on both sides. Where eigenvalues are
equal F is infinite: eigenvectors have no derivative there. Nor has a pseudoinverse that leaves singular
values out, for the next matrix may have none to leave out: there it is NaN. (G. Golub and V. Pereyra, "The
differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate", 1973; J.
Townsend, "Differentiating the singular value decomposition", 2016; S. Walter and L. Lehmann, "Algorithmic
differentiation of the QR decomposition", 2010.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from adcompiler.ad.matrices import ZERO, at, difference, lower, matrix, product, transposed
from adcompiler.ir.call import Call
from adcompiler.ir.nodes import Array, Element, const, select
from adcompiler.ops.build import apply
from adcompiler.ops.library import call

Pulled = Iterator[tuple[Array, Array]]
Pushed = Array | None


def _part(made: Call, name: str) -> Array:
    """Another part of the same decomposition."""
    return call(name, *made.operands)


def _sum(x: Array, y: Array) -> Array:
    cases = max(x.shape[:-2], y.shape[:-2], key=len)
    return matrix(cases, x.shape[-2:], lambda i, j: apply("add", at(x, cases, i, j), at(y, cases, i, j)))


def _columns_times(x: Array, s: Array, op: str = "multiply") -> Array:
    """X diag(s), or X diag(s)⁻¹."""
    cases = x.shape[:-2]
    return matrix(cases, x.shape[-2:], lambda i, j: apply(op, at(x, cases, i, j), at(s, cases, j, ZERO)))


def _rows_times(s: Array, x: Array) -> Array:
    """diag(s) X."""
    cases = x.shape[:-2]
    return matrix(
        cases, x.shape[-2:], lambda i, j: apply("multiply", at(s, cases, i, ZERO), at(x, cases, i, j))
    )


def _diagonal(x: Array) -> Array:
    """The diagonal as a column."""
    cases = x.shape[:-2]
    return matrix(cases, (x.shape[-1], const(1, "i64")), lambda i, j: at(x, cases, i, i))


def _over_gaps(x: Array, w: Array, squared: bool) -> Array:
    """F ∘ X: each element by the distance between the values of its column and of its row."""
    cases = x.shape[:-2]

    def value(k: Element) -> Element:
        found = at(w, cases, k, ZERO)
        return apply("square", found) if squared else found

    def of(i: Element, j: Element) -> Element:
        gap = apply("subtract", value(j), value(i))
        return select(apply("equal", i, j), const(0, x.dtype), apply("divide", at(x, cases, i, j), gap))

    return matrix(cases, x.shape[-2:], of)


def _strictly_lower(x: Array) -> Array:
    return lower(x, 0.0)


# -- reverse mode --------------------------------------------------------------------------------------


def _pull_eigh(made: Call, given: Array) -> Pulled:
    vectors, values = _part(made, "eigh_vectors"), _part(made, "eigh_values")
    if made.op == "eigh_values":
        inner = _columns_times(vectors, given)
    else:
        inner = product(vectors, _over_gaps(product(vectors, given, left="t"), values, False))
    yield made.operands[0], product(inner, vectors, right="t")


def _by_triangle(x: Array, triangle: Array) -> Array:
    """X R⁻ᵀ."""
    return transposed(call("triangular_transposed", transposed(triangle), transposed(x)))


def _mirrored(x: Array) -> Array:
    """The lower triangle on both sides."""
    part = _strictly_lower(x)
    return _sum(lower(x), transposed(part))


def _pull_qr(made: Call, given: Array) -> Pulled:
    columns, triangle = _part(made, "qr_columns"), _part(made, "qr_triangle")
    if made.op == "qr_triangle":
        inner = product(columns, _mirrored(product(triangle, given, right="t")))
    else:
        inner = difference(given, product(columns, _mirrored(product(given, columns, left="t"))))
    yield made.operands[0], _by_triangle(inner, triangle)


def _pull_svd(made: Call, given: Array) -> Pulled:
    left, right, values = (_part(made, f"svd_{name}") for name in ("left", "right", "values"))
    if made.op == "svd_values":
        inner = _columns_times(left, given)
    elif made.op == "svd_right":
        turned = product(right, given, left="t")
        gaps = _over_gaps(difference(turned, transposed(turned)), values, True)
        inner = product(left, _rows_times(values, gaps))
    else:
        turned = product(left, given, left="t")
        gaps = _over_gaps(difference(turned, transposed(turned)), values, True)
        across = _columns_times(difference(given, product(left, turned)), values, "divide")
        inner = _sum(product(left, _columns_times(gaps, values)), across)
    yield made.operands[0], product(inner, right, right="t")


def _pull_pinv(made: Call, given: Array) -> Pulled:
    (a, f), p = made.operands, made
    b = product(given, product(p, p, right="t"), left="t")
    n = product(p, product(p, given, right="t"), left="t")
    whole = _sum(difference(b, product(a, product(p, b))), difference(n, product(n, product(p, a))))
    yield a, _of_full_rank(difference(whole, product(p, product(given, p, right="t"), left="t")), f)


def _of_full_rank(x: Array, f: Array) -> Array:
    """X, but NaN where the factor of a pseudoinverse says that singular values were left out."""
    cases = max(x.shape[:-2], f.shape[:-2], key=len)
    last = apply("subtract", f.shape[-2], const(1, "i64"))
    full = apply("subtract", const(1, x.dtype), at(f, cases, last, ZERO))
    nan = apply("divide", const(0, x.dtype), full)
    return matrix(cases, x.shape[-2:], lambda i, j: apply("add", at(x, cases, i, j), nan))


# -- forward mode --------------------------------------------------------------------------------------


def _push_eigh(made: Call, tangents: list[Pushed]) -> Pushed:
    assert tangents[0] is not None
    vectors, values = _part(made, "eigh_vectors"), _part(made, "eigh_values")
    turned = product(product(vectors, tangents[0], left="t"), vectors)
    if made.op == "eigh_values":
        return _diagonal(turned)
    return product(vectors, _over_gaps(turned, values, False))


def _push_qr(made: Call, tangents: list[Pushed]) -> Pushed:
    assert tangents[0] is not None
    columns, triangle = _part(made, "qr_columns"), _part(made, "qr_triangle")
    over = transposed(call("triangular", transposed(triangle), transposed(tangents[0])))  # dA R⁻¹
    turned = product(columns, over, left="t")
    below = _strictly_lower(turned)
    upper = difference(turned, difference(below, transposed(below)))
    if made.op == "qr_triangle":
        return product(upper, triangle)
    return difference(over, product(columns, upper))


def _push_svd(made: Call, tangents: list[Pushed]) -> Pushed:
    assert tangents[0] is not None
    left, right, values = (_part(made, f"svd_{name}") for name in ("left", "right", "values"))
    moved = product(tangents[0], right)
    turned = product(left, moved, left="t")
    if made.op == "svd_values":
        return _diagonal(turned)
    other = transposed(turned)
    if made.op == "svd_right":
        return product(
            right, _over_gaps(_sum(_rows_times(values, turned), _columns_times(other, values)), values, True)
        )
    gaps = _over_gaps(_sum(_columns_times(turned, values), _rows_times(values, other)), values, True)
    across = _columns_times(difference(moved, product(left, turned)), values, "divide")
    return _sum(product(left, gaps), across)


def _push_pinv(made: Call, tangents: list[Pushed]) -> Pushed:
    (a, f), da, p = made.operands, tangents[0], made
    assert da is not None
    g, w = product(p, p, right="t"), product(product(da, p, left="t", right="t"), p)
    inner = _sum(product(g, product(da, a, left="t")), product(p, da))
    rows = difference(product(g, da, right="t"), product(inner, p))
    return _of_full_rank(_sum(rows, difference(w, product(p, product(a, w)))), f)


NAMES: Mapping[str, tuple[str, ...]] = {
    "eigh": ("eigh_values", "eigh_vectors"), "qr": ("qr_columns", "qr_triangle"),
    "svd": ("svd_left", "svd_right", "svd_values"), "pinv": ("pinv",),
}  # fmt: skip
_PULL = {"eigh": _pull_eigh, "qr": _pull_qr, "svd": _pull_svd, "pinv": _pull_pinv}
_PUSH = {"eigh": _push_eigh, "qr": _push_qr, "svd": _push_svd, "pinv": _push_pinv}
PULL: Mapping[str, Callable[[Call, Array], Pulled]] = {n: _PULL[k] for k, ns in NAMES.items() for n in ns}
PUSH: Mapping[str, Callable[[Call, list[Pushed]], Pushed]] = {
    n: _PUSH[k] for k, ns in NAMES.items() for n in ns
}
