"""Derivatives of library routines, as programs of arrays and of other calls.

After M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), and I. Murray, "Differentiation of the Cholesky decomposition" (2016):

    A X = B     dX = A⁻¹ (dB - dA X)              B̄ = A⁻ᵀ X̄,  Ā = -B̄ Xᵀ
    Aᵀ X = B    dX = A⁻ᵀ (dB - dAᵀ X)             B̄ = A⁻¹ X̄,  Ā = -X B̄ᵀ
    d = |A|     dd = d tr(A⁻¹ dA)                  Ā = d̄ d A⁻ᵀ
    L Lᵀ = A    dL = L Φ(L⁻¹ dA L⁻ᵀ)              Ā = ½ L⁻ᵀ (P + Pᵀ) L⁻¹,  P = Φ(Lᵀ L̄)

where Φ takes the lower triangle and half of the diagonal. A factor has no derivative: what reads it hands
its own on to the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from adcompiler.ad import decompositions
from adcompiler.ad.guards import TRUE, Guarded, mask
from adcompiler.ad.matrices import (
    ZERO,
    at,
    axes,
    difference,
    lower,
    negative,
    product,
    scaled,
    summed,
    symmetric,
    transposed,
    unit_matrix,
)
from adcompiler.ir.call import Call
from adcompiler.ir.nodes import (
    Array,
    Element,
    Index,
    Map,
    Read,
    Reduce,
    closed,
    const,
    identity,
    is_const,
    select,
)
from adcompiler.ir.walk import substitute
from adcompiler.ops.build import apply
from adcompiler.ops.library import CONSTANT, LIBRARY, call

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


def _pull_det(made: Call, given: Array) -> Pulled:
    a, f = made.operands
    inverse = call("solve_transposed", a, f, unit_matrix(a))
    if made.op == "det":
        at_one = Read(given, identity(given.shape)), Read(made, identity(made.shape))
        given = Map(made.shape, apply("multiply", *at_one))
    yield a, scaled(inverse, given, ZERO if made.op == "det" else const(1, "i64"))


def _pull_cholesky(made: Call, given: Array) -> Pulled:
    part = lower(product(made, given, left="t"), 0.5)
    left = call("triangular_transposed", made, symmetric(part))
    yield made.operands[0], transposed(call("triangular_transposed", made, transposed(left)))


PULL: Mapping[str, Callable[[Call, Array], Pulled]] = {
    "solve": _pull_solve,
    "solve_transposed": _pull_solve,
    "triangular": _pull_triangular,
    "triangular_transposed": _pull_triangular,
    "det": _pull_det,
    "slogdet": _pull_det,
    "cholesky": _pull_cholesky,
    **decompositions.PULL,
}


def pull(made: Call, total: Guarded, active: set[Array]) -> Iterator[tuple[Array, Guarded]]:
    """The contributions of a call to the cotangents of its operands, from the cotangent of its result.

    A case none of whose elements means anything hands on nothing: its matrix may be singular.
    """
    if made.op in CONSTANT:
        return
    guard = TRUE if total.guard is TRUE else _anywhere(made, total.guard)
    for operand, found in PULL[made.op](made, closed(made.shape, mask(total.value, total.guard))):
        if operand in active and found.rank == operand.rank:
            yield operand, Guarded(guard, Read(found, identity(found.shape)))
        elif operand in active:
            whole = closed(found.shape, mask(Read(found, identity(found.shape)), guard))
            yield operand, Guarded(TRUE, Read(summed(whole, operand), identity(operand.shape)))


def _anywhere(made: Call, guard: Element) -> Element:
    """Whether a guard holds for any element of a case."""
    bits = select(guard, const(1, "i64"), ZERO)
    count = len(made.cases)
    ones = {k: ZERO for k, n in enumerate(made.shape) if is_const(n, 1)}
    over = sorted(k for k in guard.axes if k >= count and k not in ones)
    if not over:
        return substitute(guard, ones)
    body = substitute(bits, ones | {k: Index(count + p) for p, k in enumerate(over)})
    some = Reduce("max", made.cases, tuple(made.shape[k] for k in over), body)
    return apply("greater", Read(some, identity(made.cases)), ZERO)


# -- forward mode --------------------------------------------------------------------------------------

Pushed = Array | None


def _right_side(db: Pushed, da: Pushed, turned: str, made: Array) -> Array:
    """dB - dA X, or what of it is not zero."""
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
    (a, f), tangent = made.operands, tangents[0]
    assert tangent is not None
    inverse = call("solve_transposed", a, f, unit_matrix(a))
    cases, (n, _) = a.shape[:-2], a.shape[-2:]
    i, j = (ZERO if is_const(n, 1) else e for e in axes(cases))
    body = apply("multiply", at(inverse, cases, i, j), at(tangent, cases, i, j))
    trace = closed(cases, body) if is_const(n, 1) else Reduce("sum", cases, (n, n), body)
    read = Read(trace, identity(cases))
    if made.op == "det":
        return Map(made.shape, apply("multiply", Read(made, identity(made.shape)), read))
    sign = apply("equal", Index(len(cases)), ZERO)
    return Map(made.shape, select(sign, const(0, made.dtype), read))


def _push_cholesky(made: Call, tangents: list[Pushed]) -> Pushed:
    assert tangents[0] is not None
    left = call("triangular", made, tangents[0])
    both = call("triangular", made, transposed(left))
    return product(made, lower(transposed(both), 0.5))


PUSH: Mapping[str, Callable[[Call, list[Pushed]], Pushed]] = {
    "solve": _push_solve,
    "solve_transposed": _push_solve,
    "triangular": _push_triangular,
    "triangular_transposed": _push_triangular,
    "det": _push_det,
    "slogdet": _push_det,
    "cholesky": _push_cholesky,
    **decompositions.PUSH,
}


def push(made: Call, tangents: list[Pushed]) -> Pushed:
    """The tangent of a call, from those of its operands; None where it is known to be zero."""
    derived = (t for t, name in zip(tangents, LIBRARY[made.op].params, strict=True) if name != "f")
    if made.op in CONSTANT or all(t is None for t in derived):
        return None
    return PUSH[made.op](made, tangents)
