"""Eigenvalues, singular values, QR, least squares and exponentials of matrices against NumPy and SciPy; their
derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from numpys import same

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
    "what least squares leave": ("lstsq(a, b)[1]", (T, B[:, 0]), lambda a, b: np.linalg.lstsq(a, b)[1]),
    "an exponential": ("scipy.linalg.expm(a)", (S,), scipy.linalg.expm),
    "exponentials, of a large matrix too": ("expm(a)", (4 * STACK,), scipy.linalg.expm),
    "one by one": ("eigh(a)[0] + svd(a, False)[1] + qr(a, 'r')[0] + expm(a)[0]", (np.array([[2.0]]),),
                   lambda a: np.array([2 + 2 + 2 + np.exp(2)])),
}  # fmt: skip


@pytest.mark.thinned(2, backend="cpu")
@BACKENDS
@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_numpy(name, backend):
    source, args, expected = VALUES[name]
    f = adc.compile(source, backend=backend)
    same(f(*args), expected(*args), rtol=1e-9)
    short = f(*(a.astype(np.float32) for a in args))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, expected(*args), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", VALUES)
def test_derivatives_to_the_second_order(name):
    source, args, _ = VALUES[name]
    adc.check_grad(adc.compile(source, backend="numpy"), *args, order=2)


PARTS = ["eigh(a + a.T)[1]", "svd(a, full_matrices=False)[0]", "svd(a, full_matrices=False)[2]", "qr(a)[0]"]


@pytest.mark.parametrize("source", PARTS)
def test_vectors_have_signs_and_derivatives_of_their_own(source):
    f, g, s = *(adc.compile(source, backend=b) for b in ("numpy", "cpu")), S[:3, :3]
    same(g(s), f(s), rtol=1e-10)
    adc.check_grad(f, s, order=2)


@pytest.mark.slow_when(lambda source: "svd" in source)
@pytest.mark.parametrize("source", PARTS)
def test_kernels_of_second_derivatives_of_vectors(source):
    total, s = f"sum(sin({source}))", S[:3, :3]
    one, other = (adc.hvp(adc.compile(total, backend=b))((s,), s.T) for b in ("numpy", "cpu"))
    np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-9)


def test_forward_and_reverse_agree():
    for source, args, _ in VALUES.values():
        f = adc.compile(source, backend="numpy")
        rows = adc.jacobian(f, f.parameters[0].name)(*args)
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
    ("qr(a.T)", adc.OutOfRangeError, "less rows than columns", None),
    ("pinv(a.T)", adc.OutOfRangeError, "less rows than columns", None),
    ("svd(a)", adc.ParseError, "full matrices", "full_matrices=False"),
    ("qr(a, 'complete')", adc.ParseError, "no mode 'complete'", "reduced"),
    ("eigh(a)", adc.ShapeError, "eigh: the axes", "equally long"),
    ("expm(a)", adc.ShapeError, "expm: the axes", "equally long"),
    ("eigh(a[0])", adc.ShapeError, "takes a matrix", None),
    ("lstsq(a, a[:3])", adc.ShapeError, "the lengths", None),
]


@pytest.mark.parametrize(("source", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source, kind, cause, remedy):
    with pytest.raises(kind, match=cause) as found:
        adc.compile(source, backend="numpy")(T)
    assert remedy is None or remedy in str(found.value)
