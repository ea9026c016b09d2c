"""Derivatives of determinants at singular matrices are cofactors and minors, which are finite."""

import numpy as np
import pytest

import adcompiler as adc

BACKENDS = ["cpu", "numpy"]
DET = "def f(a):\n    return det(a)"


def cofactors(a: np.ndarray) -> np.ndarray:
    """The determinants without one row and one column each."""
    found = np.zeros(a.shape)
    for i, j in np.ndindex(a.shape):
        found[i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    return found


def along(a: np.ndarray, way: np.ndarray) -> np.ndarray:
    """The derivative of the cofactors, by differences that are exact for polynomials up to degree 4."""
    near, far = (cofactors(a + h * way) - cofactors(a - h * way) for h in (0.5, 1.0))
    return (8 * near - far) / 6


def matrices(n: int, rank: int) -> list[np.ndarray]:
    """Matrices of integers of a rank, some with zeros on the diagonal, and one whose rank is rounded."""
    noise = np.random.default_rng(10 * n + rank)
    plain = np.diag([2.0] * rank + [0.0] * (n - rank))
    shuffled = plain[noise.permutation(n)][:, noise.permutation(n)]
    mixed = noise.integers(-3, 4, (n, rank)) @ noise.integers(-3, 4, (rank, n)).astype(float)
    return [plain, shuffled, mixed, noise.normal(size=(n, rank)) @ noise.normal(size=(rank, n))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_are_cofactors_and_hessians_minors(dtype, backend):
    f = adc.compile(DET, backend=backend)
    gradient, product = adc.grad(f), adc.hvp(f)
    rtol = 1e-11 if dtype == np.float64 else 3e-5
    for n in (2, 3, 4, 5):
        for rank in range(max(n - 3, 0), n + 1):
            for a in matrices(n, rank):
                way = np.random.default_rng(n).normal(size=(n, n))
                scale = (1 + np.abs(a).max()) ** (n - 1) * n
                found = gradient(a.astype(dtype))
                assert found.dtype == dtype
                np.testing.assert_allclose(found, cofactors(a), atol=rtol * scale)
                second = product((a.astype(dtype),), way.astype(dtype))
                np.testing.assert_allclose(second, along(a, way), atol=10 * rtol * scale)


@pytest.mark.parametrize("backend", BACKENDS)
def test_they_are_exactly_zero_at_smaller_ranks(backend):
    f = adc.compile(DET, backend=backend)
    for n in (2, 3, 4):
        plain, shuffled, _, _ = matrices(n, n - 2)
        for a in (plain, shuffled):
            np.testing.assert_array_equal(adc.grad(f)(a), 0)
    np.testing.assert_array_equal(adc.hessian(f)(np.zeros((3, 3))), 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_matrices_of_no_row_and_of_one(backend):
    f = adc.compile(DET, backend=backend)
    assert adc.grad(f)(np.zeros((0, 0))).shape == (0, 0)
    for value in (0.0, 3.0):
        np.testing.assert_array_equal(adc.grad(f)(np.full((1, 1), value)), [[1.0]])
        np.testing.assert_array_equal(adc.hessian(f)(np.full((1, 1), value)), [[[[0.0]]]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stack_of_regular_and_singular_matrices(backend):
    f = adc.compile("def f(a, w):\n    return sum(w * det(a))", backend=backend)
    stack = np.array(
        [np.eye(3), np.ones((3, 3)), np.diag([1.0, 0.0, 2.0]), np.arange(9.0).reshape(3, 3), np.zeros((3, 3))]
    )
    weights = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
    expected = np.array([w * cofactors(a) for w, a in zip(weights, stack, strict=True)])
    np.testing.assert_allclose(adc.grad(f, "a")(stack, weights), expected, atol=1e-12)
    way = np.random.default_rng(2).normal(size=stack.shape)
    pushed = adc.jvp(f, (stack, weights), (way, None))[1]
    np.testing.assert_allclose(pushed, np.sum(expected * way), atol=1e-12)
    second = np.array([w * along(a, v) for w, a, v in zip(weights, stack, way, strict=True)])
    np.testing.assert_allclose(adc.hvp(f, "a")((stack, weights), way), second, atol=1e-10)
    one = adc.vmap(adc.grad(adc.compile(DET, backend=backend)), (0,))(stack)
    np.testing.assert_allclose(one, [cofactors(a) for a in stack], atol=1e-12)


def test_determinants_that_underflow_have_a_gradient():
    f = adc.compile(DET)
    for a in (1e-200 * np.eye(2), np.diag([1e-170, 1e-170, 1e300])):
        expected = cofactors(a)
        np.testing.assert_allclose(adc.grad(f)(a), expected, rtol=1e-12)


def test_a_matrix_with_a_nan_has_a_gradient_of_nan():
    a = np.diag([1.0, 0.0, np.nan])
    assert np.isnan(adc.grad(adc.compile(DET))(a)).any()


def test_in_loops_and_in_derivatives_inside_the_language():
    f = adc.compile("""
def f(t):
    total = 0.0
    for k in range(3):
        a = array([[t, 1.0 * k], [k * t, t * t]])
        total += det(a)
    return total
""")
    for t in (0.0, 1.5):  # 3 t**3 - 5 t
        assert adc.grad(f)(t) == pytest.approx(9 * t * t - 5)
        assert adc.hessian(f)(t) == pytest.approx(18 * t)
    g = adc.compile("def d(a):\n    return det(a)\n\ndef f(a):\n    return sum(grad(d)(a))", backend="numpy")
    np.testing.assert_allclose(adc.grad(g)(np.zeros((2, 2))), [[1, -1], [-1, 1]])


THIRD = """
def d(a):
    return det(a)

def f(a, w):
    def g(a):
        return sum(w * grad(d)(a))
    return sum(w * grad(g)(a))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_third_derivatives_of_a_regular_matrix_and_none_of_a_singular_one(backend):
    f = adc.compile(DET, backend=backend)
    noise = np.random.default_rng(4)
    a, way = noise.normal(size=(2, 4, 4))
    points = np.arange(-3, 4) / 2
    polynomial = np.polyfit(points, [np.linalg.det(a + t * way) for t in points], 4)
    np.testing.assert_allclose(adc.taylor(f, (a,), (way,), 3)[3], 6 * polynomial[1], rtol=1e-9)
    pulled = adc.grad(adc.compile(THIRD, backend=backend), "a")
    np.testing.assert_allclose(np.sum(pulled(a, way) * way), 6 * polynomial[1], rtol=1e-9)
    assert np.isnan(adc.taylor(f, (np.ones((3, 3)),), (np.eye(3),), 3)[3])


def test_the_logarithm_of_a_determinant_of_zero_stays_infinite():
    f = adc.compile("def f(a):\n    return slogdet(a)[1]")
    assert f(np.ones((2, 2))) == -np.inf
    assert np.isnan(adc.grad(f)(np.ones((2, 2)))).all()
