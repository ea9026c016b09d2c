"""Sparse Jacobians and Hessians against the dense ones, their patterns and how many directions they need."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from programs import programs

import adcompiler as adc

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.uniform(0.5, 1.5, 7), RANDOM.uniform(0.5, 1.5, 7)
A = RANDOM.normal(size=(3, 7))
INDEX = np.array([0, 2, 2, 5, 6, 1])
MANY = 20_000

GATHERS = """
def gathers(x, idx):
    return [x[idx[i]]**2 * x[i] for i in range(len(idx))]
"""
SCATTERED = """
def scattered(x, idx):
    total = 0.0
    for i in range(len(idx) - 1):
        total += sin(x[idx[i]] * x[idx[i + 1]])
    return total
"""
RECURRENCE = """
def recurrence(x, y):
    state = y[0]
    for t in range(1, len(x)):
        state = tanh(state * x[t]) + y[t]
    return state, x[1:] * y[0]
"""
WHILE = """
def halved(x, s):
    while s > 1.0:
        x = x * s
        s = s * 0.5
    return x
"""
CHAIN = """
def chain(x, y):
    state, total = y[0], 0.0
    for t in range(len(x)):
        state = tanh(state * y[t])
        total += state * x[t]**2
    return total
"""
TRIANGLE = """
def triangle(x):
    return [sum(x[j]**2 for j in range(i + 1)) for i in range(len(x))]
"""

# source: arguments, how many entries the blocks have, how many directions are needed
JACOBIANS = {
    "x**2 * y": ((X, Y), [7, 7], 1),
    "(x[2:] - 2 * x[1:-1] + x[:-2])**2": ((X,), [15], 3),
    "x * x[0]": ((X,), [13], 2),
    "x[::2] * 3": ((X,), [4], 1),
    "x[::-1] + x": ((X,), [13], 2),
    "a @ x": ((A, X), [21, 21], 3),
    "sum(a * x, axis=1)": ((A, X), [21, 21], 3),
    "x * sum(y)": ((X, Y), [7, 49], 7),
    "x[:, None] * y": ((X[:3], Y[:2]), [6, 6], 2),
    "where(x > 1, x, y)": ((X, Y), [7, 7], 1),
    "x * max(x)": ((X,), [49], 7),
    "x[argmax(y)] * y": ((X, Y), [49, 7], 7),
    "x * y": ((2.0, 3.0), [1, 1], 1),
    "floor(x) + y": ((X, Y), [0, 7], 1),
    GATHERS: ((X, INDEX), [10], 2),
    TRIANGLE: ((X,), [28], 7),
    RECURRENCE: ((X, Y), [6, 7, 6, 6], 3),
    WHILE: ((X, 5.0), [49, 7], 7),
}
HESSIANS = {
    "sum((x[1:] - x[:-1]**2)**2)": ((X,), [19], 3),
    "sum(x[0] * x[1:]**2) + x[0]**3": ((X,), [19], 2),
    "sum(exp(x * y))": ((X, Y), [7, 7, 7, 7], 2),
    "sum(x * s * s) + s**3": ((X, 2.0), [0, 7, 7, 1], 1),
    "sum(tanh(a @ x))": ((A, X), [147, 147, 147, 49], 14),
    "log(sum(x))": ((X,), [49], 7),
    "sum(3 * x)": ((X,), [0], 0),
    SCATTERED: ((X, INDEX), [13], 4),
    CHAIN: ((X, Y), [7, 28, 28, 49], 8),
    "sum(where(x > 1, x**3, x * y))": ((X, Y), [7, 7, 7, 0], None),
}


def blocks(result) -> list:
    """The matrices of a result, in order."""
    if isinstance(result, tuple):
        return [block for part in result for block in blocks(part)]
    return [result]


def same(sparse, dense) -> None:
    """The blocks of a sparse derivative are those of the dense one, flattened to two dimensions."""
    assert isinstance(sparse, tuple) == isinstance(dense, tuple)
    found, wanted = blocks(sparse), blocks(dense)
    assert len(found) == len(wanted)
    for block, want in zip(found, wanted, strict=True):
        assert isinstance(block, scipy.sparse.csr_array)
        assert block.shape[0] * block.shape[1] == np.size(want)
        np.testing.assert_allclose(block.toarray().ravel(), np.ravel(want), rtol=1e-9, atol=1e-11)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("source", JACOBIANS)
def test_a_sparse_jacobian_is_the_dense_one(source, backend):
    args, entries, directions = JACOBIANS[source]
    f = adc.compile(source, backend=backend)
    sparse = adc.jacobian(f, sparse=True)
    found = sparse(*args)
    same(found, adc.jacobian(f)(*args))
    assert [block.nnz for block in blocks(found)] == entries
    assert sparse.colors(*args) == directions


@pytest.mark.thinned(8)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("source", HESSIANS)
def test_a_sparse_hessian_is_the_dense_one(source, backend):
    args, entries, directions = HESSIANS[source]
    f = adc.compile(source, backend=backend)
    sparse = adc.hessian(f, sparse=True)
    found = sparse(*args)
    same(found, adc.hessian(f)(*args))
    assert entries is None or [block.nnz for block in blocks(found)] == entries
    assert directions is None or sparse.colors(*args) == directions


@pytest.mark.parametrize("source", [RECURRENCE, CHAIN])
def test_the_pattern_of_a_long_loop_holds_too_much_rather_than_too_little(source, monkeypatch):
    f = adc.compile(source, backend="numpy")
    exact = adc.jacobian(f, sparse=True)(X, Y)
    monkeypatch.setattr("adcompiler.interpreter.sparsity.MOST_FOLLOWED", 3)
    found = adc.jacobian(f, sparse=True)(X, Y)
    same(found, adc.jacobian(f)(X, Y))
    assert all(more.nnz >= few.nnz for more, few in zip(blocks(found), blocks(exact), strict=True))


@settings(max_examples=8)
@given(programs())
def test_random_programs_have_the_dense_jacobian(program):
    f, wrt = adc.compile(program.source, backend="numpy"), tuple(range(len(program.args)))
    found, want = adc.jacobian(f, wrt, sparse=True)(*program.args), adc.jacobian(f, wrt)(*program.args)
    same(found, want)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_random_stencils_and_gathers_agree_with_the_dense_derivative(backend):
    f = adc.compile(
        "def f(x, p, q, w):\n"
        "    r = [sin(x[p[i]] * x[q[i]]) * w[p[i] // 2] for i in range(len(p))]\n"
        "    return r[1:] * r[:-1] + x[p[0]], sum(r**2)\n",
        backend=backend,
    )
    sparse, dense = adc.jacobian(f, ("x", "w"), sparse=True), adc.jacobian(f, ("x", "w"))
    for seed in range(6):
        random = np.random.default_rng(seed)
        p, q = random.integers(0, 12, (2, 5 + 3 * seed))
        same(sparse(X.repeat(2)[:12], p, q, Y), dense(X.repeat(2)[:12], p, q, Y))


def test_integers_of_a_call_make_its_pattern_and_floats_do_not():
    f = adc.compile(GATHERS, backend="numpy")
    sparse = adc.jacobian(f, sparse=True)
    first, second = sparse(X, INDEX), sparse(X * 0, INDEX)
    np.testing.assert_array_equal(first.indices, second.indices)
    assert second.nnz == first.nnz
    assert not second.data.any()
    other = INDEX[::-1].copy()
    same(sparse(X, other), adc.jacobian(f)(X, other))
    same(sparse(X[:6], INDEX % 6), adc.jacobian(f)(X[:6], INDEX % 6))
    with pytest.raises(adc.OutOfRangeError):
        sparse(X, INDEX + 5)


def test_float32_stays_float32():
    f = adc.compile("x[1:] * x[:-1], sum(x * y)", backend="numpy")
    single = X.astype(np.float32)
    found = adc.jacobian(f, sparse=True)(single, single)
    same(found, adc.jacobian(f)(single, single))
    assert {block.dtype for block in blocks(found)} == {np.dtype(np.float32)}
    assert adc.hessian(adc.compile("sum(x**3)", backend="numpy"), sparse=True)(single).dtype == np.float32


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_zero_direction_meets_no_infinite_derivative(backend):
    forward = adc.jacobian(adc.compile("sqrt(x[1:]) + x[:-1]", backend=backend), sparse=True)
    found = forward(np.array([1.0, 0.0, 4.0])).toarray()
    np.testing.assert_array_equal(found, [[1, np.inf, 0], [0, 1, 0.25]])
    reverse = adc.jacobian(adc.compile("sqrt(x), x + y + z", backend=backend), sparse=True)
    root, rest = reverse(np.zeros(3), Y[:3], Y[:3])
    np.testing.assert_array_equal(root[0].diagonal(), np.inf)
    np.testing.assert_array_equal(rest[0].diagonal(), 1.0)
    second = adc.hessian(adc.compile("sum(x[1:]**1.5 + x[1:] * x[:-1])", backend=backend), sparse=True)
    found = second(np.array([1.0, 0.0, 4.0])).toarray()
    np.testing.assert_array_equal(found, [[0, 1, 0], [1, np.inf, 1], [0, 1, 0.375]])


def test_containers_nest_as_in_the_dense_derivative():
    source = "def f(p, x):\n    return sum(p['w'] * x**2) * p['b'] + sum(p['w'][0]**3 * x)"
    f, p = adc.compile(source, backend="numpy"), {"w": Y, "b": 2.0}
    found, want = adc.hessian(f, "p", sparse=True)(p, X), adc.hessian(f, "p")(p, X)
    for row in ("w", "b"):
        for column in ("w", "b"):
            same(found[row][column], want[row][column])
    assert found["w"]["w"].nnz == 1


def test_empty_arrays_and_results_without_floats_have_empty_blocks():
    f = adc.compile("def f(x, k):\n    return x * 2, k + 1", backend="numpy")
    first, second = adc.jacobian(f, "x", sparse=True)(np.zeros(0), 3)
    assert (first.shape, second.shape, second.nnz) == ((0, 0), (1, 0), 0)


def test_structures_are_those_of_the_contract():
    f = adc.compile("x * y", backend="numpy")
    assert adc.jacobian(f, "x", sparse=True)(2.0, 3.0).toarray() == 3.0
    assert adc.hessian(f, ("x",), sparse=True)(2.0, 3.0)[0][0].shape == (1, 1)
    assert adc.jacobian(f, (), sparse=True)(2.0, 3.0) == ()
    with pytest.raises(adc.Error, match="no parameter 'z'"):
        adc.jacobian(f, "z", sparse=True)(2.0, 3.0)
    with pytest.raises(adc.ShapeError, match="not a scalar"):
        adc.hessian(f, sparse=True)(X, Y)


def test_a_sparse_derivative_is_pickled_without_its_programs():
    sparse = adc.jacobian(adc.compile("x * x", backend="numpy"), sparse=True)
    want = sparse(X).toarray()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(sparse))(X).toarray(), want)


def test_a_sparse_derivative_is_not_transformed_further():
    sparse = adc.jacobian(adc.compile("x * x", backend="numpy"), sparse=True)
    with pytest.raises(adc.Error, match="is sparse"):
        adc.grad(sparse)(X)
    with pytest.raises(adc.Error, match="is sparse"):
        sparse(adc.Variable(X, requires_grad=True))


def test_what_is_not_sparse_is_refused_before_memory_is_full():
    f = adc.compile("log(sum(x))", backend="numpy")
    with pytest.raises(adc.LimitError, match="not sparse"):
        adc.hessian(f, sparse=True)(np.ones(MANY))


LARGE = {
    "tridiagonal": ("sum((x[1:] - x[:-1]**2)**2)", 3),
    "arrow": ("sum(x[0] * x[1:]**2) + x[0]**3", 2),
    "rosenbrock": ("sum((1 - x[:-1])**2 + 100 * (x[1:] - x[:-1]**2)**2)", 3),
    "pentadiagonal": ("sum((x[2:] - 2 * x[1:-1] + x[:-2])**4)", 5),
}


@pytest.mark.thinned(8)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("name", LARGE)
def test_a_large_hessian_takes_memory_for_its_entries_alone(name, backend):
    source, directions = LARGE[name]
    f, x, v = adc.compile(source, backend=backend), RANDOM.normal(size=MANY), RANDOM.normal(size=MANY)
    sparse = adc.hessian(f, sparse=True)
    tracemalloc.start()
    found = sparse(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000 * MANY  # bytes; a dense Hessian has 8 * MANY**2
    assert sparse.colors(x) == directions
    np.testing.assert_allclose(found @ v, adc.hvp(f)((x,), v), rtol=1e-9, atol=1e-9)


def test_a_large_jacobian_with_a_full_row_asks_for_that_row_alone():
    f = adc.compile("sum(x**2), x[1:] * x[:-1]", backend="cpu")
    x = RANDOM.normal(size=MANY)
    sparse = adc.jacobian(f, sparse=True)
    total, products = sparse(x)
    assert sparse.colors(x) == 3
    np.testing.assert_allclose(total.toarray()[0], 2 * x)
    np.testing.assert_allclose(products.diagonal(0), x[1:])
    np.testing.assert_allclose(products.diagonal(1), x[:-1])


ADJUSTMENT = """
def adjustment(cameras, points, observed, camera, point):
    def residual(k):
        p = points[point[k]]
        c = cameras[camera[k]]
        depth = p[2] + c[2]
        return stack((c[3] * (p[0] + c[0]) / depth, c[3] * (p[1] + c[1]) / depth)) - observed[k]
    return [residual(k) for k in range(len(camera))]
"""


@pytest.mark.parametrize("size", [5, 20_000])
def test_bundle_adjustment(size):
    """Each residual is that of one camera and one point: seven entries a row at most."""
    random = np.random.default_rng(3)
    cameras, points = random.uniform(1, 2, (size // 4 + 1, 4)), random.uniform(1, 2, (size, 3))
    camera, point = random.integers(0, len(cameras), 3 * size), random.integers(0, size, 3 * size)
    args = (cameras, points, random.normal(size=(3 * size, 2)), camera, point)
    f = adc.compile(ADJUSTMENT, backend="numpy")
    sparse = adc.jacobian(f, ("cameras", "points"), sparse=True)
    by_camera, by_point = sparse(*args)
    assert (by_camera.nnz, by_point.nnz) == (3 * 6 * size, 2 * 6 * size)
    assert sparse.colors(*args) < 40
    d = random.normal(size=cameras.shape), random.normal(size=points.shape)
    tangent = adc.jvp(f, args, (*d, None, None, None))[1]
    product = by_camera @ d[0].ravel() + by_point @ d[1].ravel()
    np.testing.assert_allclose(product, tangent.ravel(), rtol=1e-9, atol=1e-9)


# -- routines ------------------------------------------------------------------------------------------

ROUTINES = (
    "solve(m, x[:3])", "inv(m)[0]", "x[:3] * det(m)", "slogdet(m)[1] * x[:3]", "cholesky(m @ m.T)[2]",
    "eigvalsh(m)", "eigh(m)[1][0]", "qr(m)[1][0]", "svd(m, compute_uv=False)", "pinv(m) @ x[:3]",
    "lstsq(m, x[:3])[0]", "sort(x)", "median(x) * x", "quantile(x, 0.3) * x", "cummax(x)",
    "interp(x, sort(y), y**2)", "interp(y, sort(x), x)", "x[argsort(x)]", "searchsorted(sort(x), 1.0) * x",
    "solve_triangular(m, x[:3], lower=True)",
)  # fmt: skip


@pytest.mark.thinned(8)
@pytest.mark.parametrize("routine", ROUTINES)
def test_routines_have_patterns(routine):
    """Sparse Jacobians and Hessians are the dense ones."""
    head = "def f(x, y):\n    m = outer(x[:3], y[:3]) + diag(x[1:4] + 2)\n"
    f = adc.compile(f"{head}    return {routine}", backend="numpy")
    dense = adc.jacobian(f, "x")(X, Y)
    np.testing.assert_allclose(
        adc.jacobian(f, "x", sparse=True)(X, Y).toarray(), dense, rtol=1e-9, atol=1e-12
    )
    total = adc.compile(f"{head}    return sum(({routine})**2)", backend="numpy")
    dense = adc.hessian(total, "x")(X, Y)
    np.testing.assert_allclose(
        adc.hessian(total, "x", sparse=True)(X, Y).toarray(), dense, rtol=1e-8, atol=1e-10
    )


def test_a_case_of_a_routine_depends_on_what_it_is_given():
    """Of a stack of systems each is a block, and columns of other results are none of its business."""
    f = adc.compile("def f(a, b):\n    return [solve(a[k], b[k]) for k in range(len(a))]", backend="numpy")
    a, b = RANDOM.normal(size=(4, 3, 3)) + 3 * np.eye(3), RANDOM.normal(size=(4, 3))
    by_a, by_b = (adc.jacobian(f, wrt, sparse=True)(a, b) for wrt in ("a", "b"))
    assert (by_a.nnz, by_b.nnz) == (4 * 3 * 9, 4 * 3 * 3)
    np.testing.assert_allclose(by_b.toarray()[:3, :3], np.linalg.inv(a[0]))
    shared = adc.compile("def f(a, b):\n    return [solve(a, v) for v in b]", backend="numpy")
    assert adc.jacobian(shared, "b", sparse=True)(a[0], b).nnz == 4 * 3 * 3
    assert adc.jacobian(shared, "a", sparse=True)(a[0], b).nnz == 4 * 3 * 9


def test_a_pattern_that_floats_decide_is_refused():
    """How often the reverse loop runs follows from values."""
    f = adc.compile("sum(expm(outer(x, y)))", args=["x", "y"], backend="numpy")
    with pytest.raises(adc.LimitError, match="sparse=False"):
        adc.hessian(f, "x", sparse=True)(X, Y)
