"""Eigenvalues, singular values, QR, least squares and exponentials of matrices against NumPy and SciPy; their
derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from judges.numpy_functions import same

import adcompiler as adc

RANDOM = np.random.default_rng(3)
S, T, STACK, B = (RANDOM.normal(size=n) for n in ((4, 4), (5, 3), (2, 3, 3), (5, 2)))
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "cpu"])

# a program whose value does not depend on signs, its arguments, and what NumPy or SciPy give
VALUES = {
    "eigenvalues": ("eigh(a + a.T)[0]", (S,), lambda a: np.linalg.eigh(a + a.T)[0]),
    "only the symmetric part counts": ("eigvalsh(a)", (S,), lambda a: np.linalg.eigvalsh((a + a.T) / 2)),
    "eigenvectors": (
        "def f(a):\n    w, v = np.linalg.eigh(a)\n    return (v * w) @ v.T", (S,), lambda a: (a + a.T) / 2
    ),
    "a root of a matrix": (
        "def f(a):\n    w, v = eigh(a @ a.T)\n    return (v * sqrt(w)) @ v.T", (S,),
        lambda a: scipy.linalg.sqrtm(a @ a.T).real,
    ),
    "stacks": ("eigh(a)[0]", (STACK,), lambda a: np.linalg.eigvalsh((a + np.swapaxes(a, 1, 2)) / 2)),
    "singular values": ("svd(a, compute_uv=False)", (T,), lambda a: np.linalg.svd(a, compute_uv=False)),
    "singular vectors": (
        "def f(a):\n    u, s, vt = svd(a, full_matrices=False)\n    return (u * s**2) @ vt", (T,),
        lambda a: a @ scipy.linalg.sqrtm(a.T @ a).real,
    ),
    "Q": ("qr(a)[0]", (T,), lambda a: np.linalg.qr(a)[0]),
    "R": ("np.linalg.qr(a)[1]", (T,), lambda a: np.linalg.qr(a)[1]),
    "R of each": ("qr(a, mode='r')", (STACK,), lambda a: np.linalg.qr(a)[1]),
    "a pseudoinverse": ("pinv(a)", (T,), np.linalg.pinv),
    "least squares": ("lstsq(a, b)[0]", (T, B), lambda a, b: np.linalg.lstsq(a, b)[0]),
    "a wide pseudoinverse": ("pinv(a.T)", (T,), lambda a: np.linalg.pinv(a.T)),
    "the shortest solution": (
        "lstsq(a.T, b, rcond=None)[0]", (T, B[:3, 0]), lambda a, b: np.linalg.lstsq(a.T, b)[0]
    ),
    "what least squares leave": ("lstsq(a, b)[1]", (T, B[:, 0]), lambda a, b: np.linalg.lstsq(a, b)[1]),
    "an exponential": ("scipy.linalg.expm(a)", (S,), scipy.linalg.expm),
    "exponentials, of a large matrix too": ("expm(a)", (4 * STACK,), scipy.linalg.expm),
    "one by one": ("eigh(a)[0] + svd(a, False)[1] + qr(a, 'r')[0] + expm(a)[0]", (np.array([[2.0]]),),
                   lambda a: np.array([2 + 2 + 2 + np.exp(2)])),
}  # fmt: skip


@pytest.mark.thinned(5)
@BACKENDS
@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_numpy(name, backend):
    source, args, expected = VALUES[name]
    f = adc.compile(source, backend=backend)
    same(f(*args), expected(*args), rtol=1e-9)
    short = f(*(a.astype(np.float32) for a in args))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, expected(*args), rtol=2e-4, atol=2e-4)


@pytest.mark.thinned(10)
@pytest.mark.parametrize("name", VALUES)
def test_derivatives_to_the_second_order(name):
    source, args, _ = VALUES[name]
    adc.check_grad(adc.compile(source, backend="numpy"), *args, order=2)


PARTS = ["eigh(a + a.T)[1]", "svd(a, full_matrices=False)[0]", "svd(a, full_matrices=False)[2]", "qr(a)[0]"]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("source", PARTS)
def test_vectors_have_signs_and_derivatives_of_their_own(source):
    f, g, s = *(adc.compile(source, backend=b) for b in ("numpy", "cpu")), S[:3, :3]
    same(g(s), f(s), rtol=1e-10)
    adc.check_grad(f, s, order=2)


@pytest.mark.slow
@pytest.mark.parametrize("source", PARTS)
def test_kernels_of_second_derivatives_of_vectors(source):
    total, s = f"sum(sin({source}))", S[:3, :3]
    one, other = (adc.hvp(adc.compile(total, backend=b))((s,), s.T) for b in ("numpy", "cpu"))
    np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-9)


def test_forward_and_reverse_agree():
    for source, args, _ in VALUES.values():
        f = adc.compile(source, backend="numpy")
        rows = adc.jacobian(f, f._parameters[0].name)(*args)
        tangent = adc.jvp(f, args, (args[0], *(None for _ in args[1:])))[1]
        same(tangent, np.tensordot(rows, args[0], args[0].ndim), rtol=1e-8)


@BACKENDS
def test_eigenvalues_that_are_equal(backend):
    """Sums of them have a gradient, which never asks for the distance between two; vectors have none."""
    f = adc.compile("sum(eigvalsh(a)**2)", backend=backend)
    a = np.diag([2.0, 2.0, 5.0])
    same(adc.grad(f)(a), 2 * a)
    vector = adc.grad(adc.compile("sum(sin(eigh(a)[1]))", backend=backend))(a)
    assert np.isnan(vector).any() or np.isinf(vector).any()


@BACKENDS
def test_a_matrix_of_low_rank_has_singular_vectors(backend):
    a = np.outer([1.0, 2.0, 0.0, -1.0], [3.0, 0.0, 1.0])
    u, s, vt = adc.compile("svd(a, full_matrices=False)", backend=backend)(a)
    for found, expected in ((u * s @ vt, a), (u.T @ u, np.eye(3)), (vt @ vt.T, np.eye(3))):
        np.testing.assert_allclose(found, expected, atol=1e-14)
    u, s, vt = adc.compile("svd(a, full_matrices=False)", backend=backend)(np.zeros((3, 2)))
    np.testing.assert_allclose(u.T @ u, np.eye(2), atol=1e-14)


@pytest.mark.thinned(3)
@BACKENDS
@pytest.mark.parametrize("source", ["eigvalsh(a)", "svd(a, compute_uv=False)", "expm(a)", "qr(a)[1]"])
def test_what_is_not_finite_is_nan(source, backend):
    f = adc.compile(source, backend=backend)
    for bad in (np.nan, np.inf):
        with np.errstate(all="ignore"):
            assert np.isnan(f(np.array([[1.0, bad], [bad, 2.0]]))).any()


@BACKENDS
def test_nothing_at_all(backend):
    f = adc.compile(
        "sum(eigvalsh(a)) + sum(qr(a)[1]) + sum(svd(a, compute_uv=False)) + sum(expm(a))", backend=backend
    )
    assert f(np.zeros((0, 0))) == 0


X = np.arange(5.0)
DEPENDENT = {
    "a collinear column": np.column_stack((np.ones(5), X, 2 * X + 1)),
    "a column twice": np.array([[1, 0.8, 0.8], [1, 1.15, 1.15], [1, 1.15, 1.15]]),
    "wide": T[:2].T @ RANDOM.normal(size=(2, 4)),
    "a row twice": T.T[[0, 1, 1]],
    "zeros": np.zeros((3, 2)),
}


@pytest.mark.thinned(10)
@BACKENDS
@pytest.mark.parametrize("case", DEPENDENT)
def test_least_squares_of_low_rank_are_the_shortest(case, backend):
    """Values and derivatives by the right side are NumPy's. A derivative by the matrix, whose rank may change
    with it, is NaN in both modes."""
    a = DEPENDENT[case]
    b, b2 = np.sin(np.arange(len(a)) + 1), np.cos(np.arange(2 * len(a))).reshape(-1, 2)
    f = adc.compile(
        "def f(a, b, c):\n    return sum(sin(lstsq(a, b)[0])) + sum(pinv(a) @ c)", backend=backend
    )

    def expected(b):
        return np.sum(np.sin(np.linalg.lstsq(a, b)[0])) + np.sum(np.linalg.pinv(a) @ b2)

    assert f(a, b, b2) == pytest.approx(expected(b), rel=1e-12)
    by_a, by_b = adc.grad(f, ("a", "b"))(a, b, b2)
    slopes = [(expected(b + h) - expected(b - h)) / 2e-6 for h in 1e-6 * np.eye(len(b))]
    np.testing.assert_allclose(by_b, slopes, rtol=1e-7, atol=1e-8)
    assert np.isnan(by_a).all()
    assert np.isnan(adc.jvp(f, (a, b, b2), (np.ones(a.shape), None, None))[1])
    np.testing.assert_allclose(f(*(x.astype(np.float32) for x in (a, b, b2))), expected(b), rtol=1e-5)


@BACKENDS
def test_singular_values_up_to_rcond_are_left_out(backend):
    """A number, one that is computed, or None; a negative one is the rounding of a number, as in NumPy."""
    b = B[:, 0]
    cases = {"0.4": 0.4, "r[0]": 0.4, "None": None, "-1": -1}
    results = ", ".join(f"lstsq(a, b, rcond={text})[0]" for text in cases)
    f = adc.compile(f"def f(a, b, r):\n    return {results}, pinv(a, 0.4)", backend=backend)
    *solved, inverse = f(T, b, np.array([0.4]))
    for found, rcond in zip(solved, cases.values(), strict=True):
        same(found, np.linalg.lstsq(T, b, rcond=rcond)[0], rtol=1e-12)
    same(inverse, np.linalg.pinv(T, rcond=0.4), rtol=1e-12)
    slope = adc.grad(adc.compile("sum(pinv(a, rcond=0.4))", backend="numpy"))(T)
    assert np.isnan(slope).all()


def test_low_rank_that_does_not_matter_has_no_say():
    """In the branch that is not taken, and of other matrices of a stack."""
    a, b = DEPENDENT["a collinear column"], X**2
    f = adc.compile("def f(a, b, w):\n    return sum(lstsq(a, b)[0] if w > 0 else a[:3, 1])", backend="numpy")
    same(adc.grad(f, "a")(a, b, -1.0), np.outer([1, 1, 1, 0, 0], [0, 1, 0]))
    stack = np.stack((a, T))
    each = "def f(a, b):\n    return sum(sum(lstsq(a[k], b)[0] ** 2) for k in range(2))"
    found = adc.grad(adc.compile(each, backend="numpy"), "a")(stack, b)
    alone = adc.grad(adc.compile("sum(lstsq(a, b)[0] ** 2)", backend="numpy"), "a")(T, b)
    assert np.isnan(found[0]).all()
    same(found[1], alone, rtol=1e-12)


@pytest.mark.slow
def test_least_squares_in_loops():
    loop = "    for k in range(1, 4):\n        x = sin(lstsq(a * k, b + a @ x)[0])\n"
    f = f"def f(a, b):\n    x = zeros(a.shape[1])\n{loop}    return sum(x)"
    adc.check_grad(adc.compile(f, backend="numpy"), T, B[:, 0])
    one, other = (adc.grad(adc.compile(f, backend=b), "a")(T.T, B[:3, 0]) for b in ("cpu", "numpy"))
    same(one, other, rtol=1e-10)


def test_why_there_is_no_derivative():
    f = adc.compile("sum(lstsq(a, b)[0])", backend="numpy")
    told = str(adc.explain_nan(f, DEPENDENT["a collinear column"], X, wrt="a"))
    assert "the derivative of lstsq(a, b) is nan" in told
    assert "its rank may change" in told
    remedy = adc.compile("def f(A, b, eps):\n    return sum(solve(A.T @ A + eps * eye(A.shape[1]), A.T @ b))")
    assert np.isfinite(adc.grad(remedy, "A")(DEPENDENT["a collinear column"], X, 1e-6)).all()


@pytest.mark.slow
def test_in_comprehensions_and_loops():
    f = adc.compile("def f(a):\n    return [eigvalsh(m @ m.T) for m in a]", backend="numpy")
    same(f(STACK), np.linalg.eigvalsh(STACK @ np.swapaxes(STACK, 1, 2)), rtol=1e-9)
    adc.check_grad(f, STACK, order=2)
    loop = "    for k in range(2):\n        q = qr(a @ q)[0]\n"
    power = f"def f(a):\n    q = eye(len(a))\n{loop}    return diag(q.T @ a @ q)"
    adc.check_grad(adc.compile(power, backend="numpy"), S[:3] @ S[:3].T, order=2)
    total = power.replace("diag(q.T @ a @ q)", "sum(sin(q.T @ a @ q))")
    one, other = (adc.grad(adc.compile(total, backend=b))(S[:3] @ S[:3].T) for b in ("cpu", "numpy"))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


MISTAKES = [
    ("qr(a.T)", adc.OutOfRangeError, "fewer rows than columns", None),
    ("pinv(a, rcond=a)", adc.ParseError, "pinv: rcond must be a number, not an array", "omit rcond"),
    ("svd(a)", adc.ParseError, "full matrices", "full_matrices=False"),
    ("qr(a, 'complete')", adc.ParseError, "no mode 'complete'", "reduced"),
    ("eigh(a)", adc.ShapeError, "eigh: the axes", "same length"),
    ("expm(a)", adc.ShapeError, "expm: the axes", "same length"),
    ("eigh(a[0])", adc.ShapeError, "takes a matrix", None),
    ("lstsq(a, a[:3])", adc.ShapeError, "the lengths", None),
]


@pytest.mark.parametrize(("source", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source, kind, cause, remedy):
    with pytest.raises(kind, match=cause) as found:
        adc.compile(source, backend="numpy")(T)
    assert remedy is None or remedy in str(found.value)
