"""Derivatives of library routines, as programs of arrays and of other calls.

After M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), and I. Murray, "Differentiation of the Cholesky decomposition" (2016):

    A X = B     dX = A⁻¹ (dB - dA X)              B̄ = A⁻ᵀ X̄,  Ā = -B̄ Xᵀ
    Aᵀ X = B    dX = A⁻ᵀ (dB - dAᵀ X)             B̄ = A⁻¹ X̄,  Ā = -X B̄ᵀ
    d = |A|     dd = tr(Cᵀ dA)                     Ā = d̄ C,  C the cofactors of A
    L Lᵀ = A    dL = L Φ(L⁻¹ dA L⁻ᵀ)              Ā = ½ L⁻ᵀ (P + Pᵀ) L⁻¹,  P = Φ(Lᵀ L̄)

where Φ takes the lower triangle and half of the diagonal. A factor has no derivative of its own: calls
that read it pass theirs on to the matrix.

C is finite at a singular matrix too, and its derivative along G is C'(G) = tr(Wᵀ G) C - W Gᵀ C for W = A⁻ᵀ,
where A has one. Both are routines that do not divide by a determinant. The derivative of the second one by A
is written with W, so the third derivative of a determinant is NaN where A is singular up to rounding.

Of decompositions:

    A V = V diag(w)       dw = diag(M), dV = V (F ∘ M)                    M = Vᵀ dA V,  F_ij = 1 / (w_j - w_i)
                          Ā = V (diag(w̄) + F ∘ Vᵀ V̄) Vᵀ
    A = Q R               dR = (C - Ω) R, dQ = dA R⁻¹ - Q (C - Ω)         C = Qᵀ dA R⁻¹,  Ω = L - Lᵀ
                          Ā = (Q̄ + Q copy(R R̄ᵀ - Q̄ᵀ Q)) R⁻ᵀ             L below the diagonal of C
    A = U diag(s) Vᵀ      ds = diag(P), dU = U (F ∘ (P S + S Pᵀ)) + (dA V - U P) S⁻¹
                          dV = V (F ∘ (S P + Pᵀ S))                     P = Uᵀ dA V,  F_ij = 1 / (s_j² - s_i²)

    P = A⁺                dP = G dAᵀ - (G (dAᵀ A) + P dA) P + W - P (A W)      G = P Pᵀ,  W = (dAᵀ Pᵀ) P
                          Ā = B - A (P B) - Pᵀ (P̄ Pᵀ) + N - N (P A)         B = P̄ᵀ G,  N = Pᵀ (P P̄ᵀ)

with zeros on the diagonal of F; copy(M) has the lower triangle of M on both sides. Where eigenvalues are
equal F is infinite, and eigenvectors have no derivative. Neither has a pseudoinverse that omits singular
values, because a small change can change their number; its derivative is NaN. (G. Golub and V. Pereyra, "The
differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate", 1973; J.
Townsend, "Differentiating the singular value decomposition", 2016; S. Walter and L. Lehmann, "Algorithmic
differentiation of the QR decomposition", 2010.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from adcompiler.ad.guards import TRUE, Guarded, Tangent, either, mask, masked
from adcompiler.ad.matrices import (
    ZERO,
    at,
    axes,
    difference,
    lower,
    matrix,
    negative,
    product,
    scaled,
    summed,
    symmetric,
    transposed,
    unit_matrix,
)
from adcompiler.ir.nodes import (
    Array,
    Call,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    Shape,
    closed,
    const,
    element_of,
    identity,
    is_const,
    select,
)
from adcompiler.ir.types import NUMPY
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply
from adcompiler.ops.library import CONSTANT, LIBRARY, call

DECOMPOSITIONS: Mapping[str, tuple[str, ...]] = {
    "eigh": ("eigh_values", "eigh_vectors"), "qr": ("qr_columns", "qr_triangle"),
    "svd": ("svd_left", "svd_right", "svd_values"), "pinv": ("pinv",),
}  # fmt: skip


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
    """F ∘ X: each element divided by the difference of the values of its column and its row."""
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


# -- reverse mode --------------------------------------------------------------------------------------

Pulled = Iterator[tuple[Array, Array]]


def _pull_solve(made: Call, given: Array) -> Pulled:
    a, f, b = made.operands
    behind = call("solve_transposed" if made.op == "solve" else "solve", a, f, given)
    yield b, behind
    yield (
        a,
        negative(
            product(behind, made, right="t") if made.op == "solve" else product(made, behind, right="t")
        ),
    )


def _pull_triangular(made: Call, given: Array) -> Pulled:
    triangle, b = made.operands
    direct = made.op == "triangular"
    behind = call("triangular_transposed" if direct else "triangular", triangle, given)
    yield b, behind
    outer = product(behind, made, right="t") if direct else product(made, behind, right="t")
    yield triangle, lower(negative(outer))


def _pull_slogdet(made: Call, given: Array) -> Pulled:
    a, f = made.operands
    yield a, scaled(call("solve_transposed", a, f, unit_matrix(a)), given, const(1, "i64"))


def _pull_det(made: Call, given: Array) -> Pulled:
    yield made.operands[0], scaled(_cofactors(*made.operands), given, ZERO)


def _cofactors(a: Array, f: Array) -> Array:
    return call("cofactors", a, f, call("pivoted", a, f))


def _pull_cofactors(made: Call, given: Array) -> Pulled:
    yield made.operands[0], call("cofactors_along", *made.operands, given)


def _pull_cofactors_along(made: Call, given: Array) -> Pulled:
    a, f, p, g = made.operands
    yield g, call("cofactors_along", a, f, p, given)
    inverse, cofactors = call("solve_transposed", a, f, unit_matrix(a)), call("cofactors", a, f, p)
    turned = product(inverse, g, right="t")
    direct = scaled(call("cofactors_along", a, f, p, given), _inner(inverse, g), ZERO)
    across = call("cofactors_along", a, f, p, product(product(g, inverse, right="t"), given))
    outer = scaled(product(turned, inverse), _inner(cofactors, given), ZERO)
    both = product(product(turned, cofactors), product(given, inverse, left="t"))
    yield a, _of_regular(difference(_sum(direct, both), _sum(outer, across)), f)


def _of_regular(x: Array, f: Array) -> Array:
    """X, but NaN where the smallest pivot of a matrix is a rounding error of the largest."""
    cases, n = f.shape[:-2], f.shape[-2]
    place = ZERO if is_const(n, 1) else Index(len(cases))
    pivot = apply("abs", at(f, cases, place, place))
    one = closed(cases, pivot) if is_const(n, 1) else None
    smallest, largest = (element_of(one or Reduce(op, cases, (n,), pivot)) for op in ("min", "max"))
    rounding = apply("multiply", const(8 * np.finfo(NUMPY[x.dtype]).eps, x.dtype), largest)
    nan = select(apply("less_equal", smallest, rounding), const(np.nan, x.dtype), const(0, x.dtype))
    doubt = closed(cases, nan)

    def of(i: Element, j: Element) -> Element:
        lead = identity(x.shape[:-2])[x.rank - 2 - len(cases) :]
        return apply("add", at(x, x.shape[:-2], i, j), Read(doubt, lead))

    return matrix(x.shape[:-2], x.shape[-2:], of)


def _inner(x: Array, y: Array) -> Array:
    """The sum of products of elements, as a row of one number."""
    cases, one = max(x.shape[:-2], y.shape[:-2], key=len), const(1, "i64")
    n, m = x.shape[-2:]
    i, j = (ZERO if is_const(k, 1) else e for k, e in zip((n, m), axes(cases), strict=True))
    body = apply("multiply", at(x, cases, i, j), at(y, cases, i, j))
    total = closed(cases, body) if is_const(n, 1) else Reduce("sum", cases, (n, m), body)
    return Map((*cases, one), Read(total, identity(cases)))


def _pull_cholesky(made: Call, given: Array) -> Pulled:
    part = lower(product(made, given, left="t"), 0.5)
    left = call("triangular_transposed", made, symmetric(part))
    yield made.operands[0], transposed(call("triangular_transposed", made, transposed(left)))


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
    """The lower triangle, mirrored to the upper one."""
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
    """X, but NaN where the factor of a pseudoinverse omits singular values."""
    cases = max(x.shape[:-2], f.shape[:-2], key=len)
    last = apply("subtract", f.shape[-2], const(1, "i64"))
    full = apply("subtract", const(1, x.dtype), at(f, cases, last, ZERO))
    nan = apply("divide", const(0, x.dtype), full)
    return matrix(cases, x.shape[-2:], lambda i, j: apply("add", at(x, cases, i, j), nan))


# -- forward mode --------------------------------------------------------------------------------------


_PULL = {"eigh": _pull_eigh, "qr": _pull_qr, "svd": _pull_svd, "pinv": _pull_pinv}
PULL: Mapping[str, Callable[[Call, Array], Pulled]] = {
    "solve": _pull_solve,
    "solve_transposed": _pull_solve,
    "triangular": _pull_triangular,
    "triangular_transposed": _pull_triangular,
    "det": _pull_det,
    "slogdet": _pull_slogdet,
    "cofactors": _pull_cofactors,
    "cofactors_along": _pull_cofactors_along,
    "cholesky": _pull_cholesky,
    **{part: _PULL[name] for name, parts in DECOMPOSITIONS.items() for part in parts},
}


def pull(made: Call, total: Guarded, active: set[Array]) -> Iterator[tuple[Array, Guarded]]:
    """The contributions of a call to the cotangents of its operands, from the cotangent of its result.

    A case whose elements are all outside the guard contributes nothing: its matrix may be singular.
    """
    if made.op in CONSTANT:
        return
    guard = TRUE if total.guard is TRUE else _any_in_case(made.shape, len(made.cases), total.guard)
    for operand, found in PULL[made.op](made, closed(made.shape, mask(total.value, total.guard))):
        if operand in active and found.rank == operand.rank:
            yield operand, Guarded(guard, element_of(found))
        elif operand in active:
            whole = closed(found.shape, mask(element_of(found), guard))
            yield operand, Guarded(TRUE, Read(summed(whole, operand), identity(operand.shape)))


def _any_in_case(shape: Shape, count: int, guard: Element) -> Element:
    """Whether a guard holds for any element of a case, in an array of this shape; its first `count` axes are
    those of cases."""
    bits = select(guard, const(1, "i64"), ZERO)
    ones = {k: ZERO for k, n in enumerate(shape) if is_const(n, 1)}
    over = sorted(k for k in guard.axes if k >= count and k not in ones)
    if not over:
        return substitute(guard, ones)
    body = substitute(bits, ones | {k: Index(count + p) for p, k in enumerate(over)})
    some = Reduce("max", shape[:count], tuple(shape[k] for k in over), body)
    return apply("greater", Read(some, identity(shape[:count])), ZERO)


# -- forward mode --------------------------------------------------------------------------------------

Pushed = Array | None


def _right_side(db: Pushed, da: Pushed, turned: str, made: Array) -> Array:
    """dB - dA X, without the terms that are zero."""
    if da is None:
        assert db is not None
        return db
    moved = product(da, made, left=turned)
    return negative(moved) if db is None else difference(db, moved)


def _push_solve(made: Call, tangents: list[Pushed]) -> Pushed:
    a, f, _ = made.operands
    turned = "n" if made.op == "solve" else "t"
    return call(made.op, a, f, _right_side(tangents[2], tangents[0], turned, made))


def _push_triangular(made: Call, tangents: list[Pushed]) -> Pushed:
    turned = "n" if made.op == "triangular" else "t"
    moved = None if tangents[0] is None else lower(tangents[0])
    return call(made.op, made.operands[0], _right_side(tangents[1], moved, turned, made))


def _push_det(made: Call, tangents: list[Pushed]) -> Pushed:
    assert tangents[0] is not None
    return _inner(_cofactors(*made.operands), tangents[0])


def _push_slogdet(made: Call, tangents: list[Pushed]) -> Pushed:
    (a, f), tangent = made.operands, tangents[0]
    assert tangent is not None
    trace = _inner(call("solve_transposed", a, f, unit_matrix(a)), tangent)
    cases = made.shape[:-1]
    sign = apply("equal", Index(len(cases)), ZERO)
    return Map(made.shape, select(sign, const(0, made.dtype), Read(trace, (*identity(cases), ZERO))))


def _push_cofactors(made: Call, tangents: list[Pushed]) -> Pushed:
    assert tangents[0] is not None
    return call("cofactors_along", *made.operands, tangents[0])


def _push_cofactors_along(made: Call, tangents: list[Pushed]) -> Pushed:
    a, f, p, g = made.operands
    da, dg = tangents[0], tangents[3]
    along = None if dg is None else call("cofactors_along", a, f, p, dg)
    if da is None:
        return along
    inverse, cofactors = call("solve_transposed", a, f, unit_matrix(a)), call("cofactors", a, f, p)
    moved = negative(product(product(inverse, da, right="t"), inverse))
    changed = call("cofactors_along", a, f, p, da)
    grown = _sum(scaled(cofactors, _inner(moved, g), ZERO), scaled(changed, _inner(inverse, g), ZERO))
    turned = _sum(product(product(moved, g, right="t"), cofactors),
                  product(product(inverse, g, right="t"), changed))  # fmt: skip
    found = _of_regular(difference(grown, turned), f)
    return found if along is None else _sum(found, along)


def _push_cholesky(made: Call, tangents: list[Pushed]) -> Pushed:
    assert tangents[0] is not None
    left = call("triangular", made, tangents[0])
    both = call("triangular", made, transposed(left))
    return product(made, lower(transposed(both), 0.5))


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


_PUSH = {"eigh": _push_eigh, "qr": _push_qr, "svd": _push_svd, "pinv": _push_pinv}
PUSH: Mapping[str, Callable[[Call, list[Pushed]], Pushed]] = {
    "solve": _push_solve,
    "solve_transposed": _push_solve,
    "triangular": _push_triangular,
    "triangular_transposed": _push_triangular,
    "det": _push_det,
    "slogdet": _push_slogdet,
    "cofactors": _push_cofactors,
    "cofactors_along": _push_cofactors_along,
    "cholesky": _push_cholesky,
    **{part: _PUSH[name] for name, parts in DECOMPOSITIONS.items() for part in parts},
}


def push(made: Call, tangents: list[Tangent | None]) -> Tangent | None:
    """The tangent of a call, from those of its operands; None where it is known to be zero.

    A case is guarded where no element of its operands has a tangent: its derivative may be infinite.
    """
    pairs = zip(tangents, LIBRARY[made.op].params, made.operands, strict=True)
    guards = [
        _any_in_case(a.shape, a.rank - 2, t.guard) for t, name, a in pairs if t is not None and name != "f"
    ]
    if made.op in CONSTANT or not guards:
        return None
    ways = [t and masked(t, a) for t, a in zip(tangents, made.operands, strict=True)]
    found = PUSH[made.op](made, ways)
    return None if found is None else Tangent(either(guards), found)
