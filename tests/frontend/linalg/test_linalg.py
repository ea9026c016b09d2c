"""Linear algebra against NumPy and SciPy, and its derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from numba import njit

import adcompiler as adc

RANDOM = np.random.default_rng(7)


def square(*stack):
    """Matrices far from singular."""
    return RANDOM.normal(size=(*stack, 3, 3)) + 3 * np.eye(3)


A, AS, WIDE = square(), square(4), square(2, 4)
B, BS, V = RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(4, 3, 2)), RANDOM.normal(size=3)
S, SS = A @ A.T, AS @ np.swapaxes(AS, -1, -2)
lower = {"lower": True}

# the program, its arguments, and what NumPy or SciPy give
ROUTINES = {
    "a vector": ("solve(a, b)", (A, V), np.linalg.solve),
    "a matrix": ("np.linalg.solve(a, b)", (A, B), np.linalg.solve),
    "stacks": ("solve(a, b)", (AS, BS), np.linalg.solve),
    "one matrix, many right sides": ("solve(a, b)", (A, BS), np.linalg.solve),
    "many matrices, one right side": ("solve(a, b)", (AS, B), np.linalg.solve),
    "many matrices, one vector": ("solve(a, b)", (AS, V), np.linalg.solve),
    "inverse": ("linalg.inv(a)", (A,), np.linalg.inv),
    "inverses": ("inv(a)", (WIDE,), np.linalg.inv),
    "determinant": ("det(a)", (A,), np.linalg.det),
    "determinants": ("det(a)", (WIDE,), np.linalg.det),
    "logarithm of the determinant": ("slogdet(a)", (A[[1, 0, 2]],), lambda a: tuple(np.linalg.slogdet(a))),
    "logarithms": ("slogdet(a)", (AS,), lambda a: tuple(np.linalg.slogdet(a))),
    "cholesky": ("cholesky(a)", (S,), np.linalg.cholesky),
    "factors": ("cholesky(a)", (SS,), np.linalg.cholesky),
    "lower triangle": (
        "solve_triangular(a, b, lower=True)", (A, V),
        lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True),
    ),
    "upper triangle": ("solve_triangular(a, b)", (A, B), scipy.linalg.solve_triangular),
    "one by one": ("solve(a, b) + det(a)", (np.array([[4.0]]), np.array([2.0])), lambda a, b: b / 4 + 4),
    "none at all": ("sum(solve(a, b)) + det(a)", (np.ones((0, 0)), np.ones(0)), lambda a, b: 1.0),
}  # fmt: skip

# a program with several routines, open axes and loops
PROGRAMS = {
    "a comprehension over matrices": (
        "def f(a, x, b):\n    return [solve(a * x[i], b)[0] for i in range(len(x))]", (A, V + 4, V),
        lambda a, x, b: np.array([np.linalg.solve(a * s, b)[0] for s in x]),
    ),
    "a comprehension over right sides": (
        "def f(a, x, b):\n    return [solve(a, b * x[i])[0] for i in range(len(x))]", (A, V + 4, V),
        lambda a, x, b: np.array([np.linalg.solve(a, b * s)[0] for s in x]),
    ),
    "two open axes": (
        "def f(a, x):\n    return [[det(a * x[i] + x[j]) for j in range(len(x))] for i in range(len(x))]",
        (A, V + 4), lambda a, x: np.array([[np.linalg.det(a * s + t) for t in x] for s in x]),
    ),
    "a loop": (
        "def f(a, b):\n    x = b\n    for k in range(6):\n        x = solve(a, x * x + b)\n    return x",
        (A, V), lambda a, b: repeated(lambda x, k: np.linalg.solve(a, x * x + b), b, 6),
    ),
    "a loop over matrices": (
        "def f(a, b):\n    x = b\n    for k in range(len(a)):\n        x = solve(a[k], x)\n    return x",
        (AS, V), lambda a, b: repeated(lambda x, k: np.linalg.solve(a[k], x), b, len(a)),
    ),
    "a normal density": (
        "def f(s, x):\n    c = cholesky(s)\n    z = solve_triangular(c, x, lower=True)\n"
        "    return sum(z * z) / 2 + sum(log(diag(c)))", (S, V),
        lambda s, x: x @ np.linalg.solve(s, x) / 2 + np.linalg.slogdet(s)[1] / 2,
    ),
}  # fmt: skip
ALL = ROUTINES | PROGRAMS


def repeated(iteration, x, count):
    for k in range(count):
        x = iteration(x, k)
    return x


def parts(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.thinned(4, backend="cpu")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_values_are_those_of_numpy(name, backend):
    source, args, expected = ALL[name]
    found = parts(adc.compile(source, backend=backend)(*args))
    for one, other in zip(found, parts(expected(*args)), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", [n for n in ALL if n != "none at all"])
def test_derivatives_to_the_second_order(name):
    source, args, _ = ALL[name]
    adc.check_grad(adc.compile(source, backend="numpy"), *args, order=2)


@pytest.mark.thinned(2)
@pytest.mark.slow_when(lambda name: name in ("stacks", "determinants"))
@pytest.mark.parametrize("name", ["stacks", "determinants", "factors", "a loop"])
def test_kernels_give_the_same_derivatives(name):
    source, args, _ = ALL[name]
    for of in (adc.jvp, curvature):
        found = [of(adc.compile(total(source), backend=b), args, args) for b in ("cpu", "numpy")]
        for one, other in zip(*map(flat, found), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


def total(source):
    """The sum of the squares of the program's last result."""
    if not source.startswith("def "):
        names = [p.name for p in adc.compile(source)._parameters]
        source = f"def f({', '.join(names)}):\n    return {source}"
    names = [p.name for p in adc.compile(source)._parameters]
    last = "[1]" if "slogdet" in source else ""
    return f"{source}\n\ndef g({', '.join(names)}):\n    return sum(f({', '.join(names)}){last}**2)\n"


def curvature(f, args, v):
    return adc.hvp(f)(args, v if len(v) > 1 else v[0])


def flat(value):
    return [part for v in parts(value) for part in (flat(v) if isinstance(v, tuple) else [v])]


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_float32_stays_float32(backend):
    f = adc.compile("def f(a, b):\n    return solve(a, b), cholesky(a @ a.T), slogdet(a)[1]", backend=backend)
    single = f(A.astype(np.float32), V.astype(np.float32))
    for one, other in zip(single, f(A, V), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_singular_matrix_gives_nan_and_no_error(backend):
    zero, both = np.zeros((3, 3)), np.stack([A, np.zeros((3, 3))])

    def of(source, *args):
        return adc.compile(source, backend=backend)(*args)

    assert np.all(np.isnan(of("solve(a, b)", zero, V)))
    inverses = of("inv(a)", both)
    np.testing.assert_allclose(inverses[0], np.linalg.inv(A))
    assert np.all(np.isnan(inverses[1]))
    assert np.all(np.isnan(of("cholesky(a)", -S)))
    assert of("det(a)", zero) == 0
    assert of("slogdet(a)", zero) == (0, -np.inf)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_branch_that_is_not_taken_hands_on_nothing(backend):
    f = adc.compile("where(det(a) > 0, solve(a, b), 2 * b)", backend=backend)
    _, pullback = adc.vjp(f, np.zeros((3, 3)), V)
    da, db = pullback(np.ones(3))
    np.testing.assert_array_equal(da, np.zeros((3, 3)))
    np.testing.assert_array_equal(db, np.full(3, 2.0))
    np.testing.assert_array_equal(adc.jvp(f, (np.zeros((3, 3)), V), (A, V))[1], 2 * V)


def test_a_large_matrix_is_solved_as_by_lapack():
    n = 203  # several blocks of columns, and a rest
    a, b = RANDOM.normal(size=(n, n)), RANDOM.normal(size=(n, 3))
    f = adc.compile("solve(a, b)")
    np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(adc.compile("slogdet(a)")(a), np.linalg.slogdet(a), rtol=1e-10)
    s = a @ a.T + np.eye(n)
    np.testing.assert_allclose(adc.compile("cholesky(s)")(s), np.linalg.cholesky(s), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_many_cases_share_what_they_can(backend):
    f = adc.compile("solve(a, b)", backend=backend)
    both = adc.vmap(adc.vmap(f, (None, 0)), (0, None))(np.stack([A, 2 * A]), BS[:, :, 0])
    np.testing.assert_allclose(both[1, 2], np.linalg.solve(2 * A, BS[2, :, 0]))
    np.testing.assert_allclose(adc.jacobian(f, wrt="b")(A, V), np.linalg.inv(A))


def test_a_split_saves_the_factor_and_the_solution():
    f = adc.compile("def f(a, b):\n    return sum(solve(a * a, b)**2) + slogdet(a)[1]")
    split = f.split()
    _, saved = split.forward(A, V)
    for one, other in zip(split.propagate(saved, 1.0), adc.grad(f)(A, V), strict=True):
        np.testing.assert_allclose(one, other)
    a = adc.Variable(A, requires_grad=True)
    f(a, V).backward()
    np.testing.assert_allclose(a.grad, adc.grad(f, "a")(A, V))


@pytest.mark.slow
def test_kernels_are_called_from_numba():
    slope = adc.grad(adc.compile("sum(solve(a, b)**2)"), "b").jitted

    @njit
    def twice(a, b):
        return 2 * slope(a, b)

    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(twice(A, V), 4 * inverse.T @ inverse @ V)


@pytest.mark.parametrize(
    ("source", "args", "cause"),
    [
        ("solve(a, b)", (B, V), r"solve: the axes of a \(rank 2\): the lengths 3 .* 2"),
        ("solve(a, b)", (A, V[:2]), r"solve: the rows of both: the lengths 3 .* 2"),
        ("solve(a, b)", (A, 1.0), "the right side is a scalar"),
        ("inv(a)", (V,), "inv takes a matrix"),
        ("cholesky(a)", (B,), "cholesky: the axes of a"),
        ("solve(a, b)", (AS, BS[:3]), "the stacks: axis -1"),
    ],
)
def test_shapes_that_do_not_fit(source, args, cause):
    with pytest.raises(adc.ShapeError, match=cause):
        adc.compile(source, backend="numpy")(*args)
