"""Selections by masks of truth values, `x[mask]`, which reductions read: against NumPy, and derivatives by
finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from judges.numpy_functions import VALUES, kernels_agree, means_what_it_means_in_numpy
from oracle import evaluate, gradient

import adcompiler as adc

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "cpu"])
SOURCES = [
    "sum(v[v > 0])",
    "mean(v[v > 0] ** 2)",
    "prod(v[v < 1])",
    "max(v[v < 0.3])",
    "np.min(m[m > 0] * 2)",
    "var(m[m > 0])",
    "std(m[m > 0], ddof=1)",
    "sum(m[m[:, 0] > 0], axis=0)",
    "mean(m[m[:, 0] > 0], axis=0, keepdims=True)",
    "std(m[abs(m[:, 0]) > 0.1], axis=0)",
    "sum(m[m[:, 0] > 0] - w)",
    "sum(m[m[:, 0] > 0, 1] * m[m[:, 0] > 0, 2])",
    "sum(m[m[:, 0] > 0, None] ** 2, axis=2).sum()",
    "sum(sum(m[m[:, 0] > 0] ** 2, axis=1) ** 2)",
    "sum(c[c > 1] ** 3)",
    "max(s[s[:, :, 0] > 1.05], axis=0)",
    "mean(c[c[:, :, 0] > 1], axis=0, keepdims=True)",
    "sum(np.where(v[v > 0] > 0.5, 1.0, v[v > 0]))",
    "v[v > 0] @ v[v > 0] ** 2",
    "v[v > 0].max() * m[m > 0].min() + v[v > 0].std(ddof=1)",
    "sum(m[m[:, 0] > 0][:, 1] ** 2 * m[m[:, 0] > 0][:, 0])",
    "sum(m[m[:, 0] > 0] @ w)",
    "v[v > 0].sum() / len(v[v > 0]) + m[m > 0].size + m[m[:, 0] > 0].size",
    "v[0] if any(v[v > 0] > 1) else v[1]",
    "v[0] if all(v[v > 0] < 5) else v[1]",
    "sum(v[:4][i > 0])",
]


@pytest.mark.thinned(6)
@pytest.mark.parametrize("source", SOURCES)
def test_a_selection_means_what_it_means_in_numpy(source):
    means_what_it_means_in_numpy(source)


@pytest.mark.slow
def test_kernels_give_the_same():
    kernels_agree(SOURCES)


ASSIGNED = {
    "a number": "x[x < 0] = 0.5",
    "a change": "x[v > 0.2] += 1",
    "a selection": "x[v > 0] = v[v > 0] ** 2 - x[v > 0]",
    "under a condition": "if v[0] > -9:\n        x[x < 0] = -x[x < 0]",
    "in a loop": "for k in range(3):\n        x[x < k] *= 0.5 + v[k] * x[x < k]",
}


@pytest.mark.thinned(3)
@BACKENDS
@pytest.mark.parametrize("name", ASSIGNED)
def test_what_a_mask_selects_is_assigned(name, backend):
    source = f"def f(v):\n    x = 1.0 * v\n    {ASSIGNED[name]}\n    return x"
    f, scope = adc.compile(source, backend=backend), {}
    exec(source, scope)
    np.testing.assert_allclose(f(VALUES["v"]), scope["f"](VALUES["v"]), rtol=1e-13)
    adc.check_grad(f, VALUES["v"], order=2)


@BACKENDS
def test_rows_are_assigned(backend):
    source = "def f(m, w):\n    x = 1.0 * m\n    x[m[:, 0] > 0] = w\n    x[x < -1] = 0\n    return x"
    f, scope = adc.compile(source, backend=backend), {}
    exec(source, scope)
    args = VALUES["m"], VALUES["w"]
    np.testing.assert_array_equal(f(*args), scope["f"](*args))
    adc.check_grad(f, *args, order=2)


GROUPS = """
def f(x, k):
    return [mean(x[k == g]) * sum(v**2 for v in x[k == g] if v < 1) for g in range(3)]
"""


@BACKENDS
def test_groups_in_a_comprehension(backend):
    f = adc.compile(GROUPS, backend=backend)
    x, k = np.array([0.5, -1.0, 2.0, 0.2, 0.7]), np.array([0, 2, 1, 0, 2])
    expected = [np.mean(x[k == g]) * sum(v**2 for v in x[k == g] if v < 1) for g in range(3)]
    np.testing.assert_allclose(f(x, k), expected)
    adc.check_grad(f, x, k, order=2)


LEFT = """
def f(x):
    s = 0.5
    for v in x[x > 0]:
        if v > 5:
            break
        if v < 0.3:
            continue
        s = sin(s) * v + v
    return s
"""


@pytest.mark.thinned(2)
@BACKENDS
def test_a_loop_over_a_selection_that_is_left(backend):
    """An element that is not selected does not end it."""
    f, scope = adc.compile(LEFT, backend=backend), {"sin": np.sin}
    exec(LEFT, scope)
    for x in ([1.0, -2.0, 3.0, 0.1, -1.0, 2.0, 7.0, 1.0], [-1.0, 2.0, -3.0], [7.0, 1.0], []):
        assert f(np.array(x)) == pytest.approx(scope["f"](np.array(x)))
        adc.check_grad(f, np.array(x), order=2)


def test_the_oracle_agrees():
    """The oracle gives the selection to NumPy."""
    source = "def f(v, w):\n    y = v * w[0]\n    return sum(y[v > 0] ** 2) / len(y[v > 0]) + max(y[y < 1])"
    f, args = adc.compile(source, backend="numpy"), (VALUES["v"], VALUES["w"])
    np.testing.assert_allclose(f(*args), evaluate(source, *args), rtol=1e-14)
    for found, expected in zip(adc.grad(f)(*args), gradient(source, args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@BACKENDS
def test_nothing_is_selected(backend):
    f = adc.compile("sum(x[m]), prod(x[m]), max(x[m]), len(x[m]), mean(x[m])", args="x, m", backend=backend)
    for x in (np.ones(3), np.zeros(0)):
        with np.errstate(all="ignore"):
            total, product, largest, count, average = f(x, np.zeros(len(x), bool))
        assert (total, product, largest, count) == (0, 1, -np.inf, 0)
        assert np.isnan(average)


@BACKENDS
def test_what_is_not_selected_has_no_share_in_derivatives(backend):
    """Not even where its derivative is infinite."""
    f = adc.compile("sum(sqrt(x[x > 0])) + std(log(x[x > 0]))", backend=backend)
    x = np.array([-1.0, 0.0, 4.0, 1.0])
    np.testing.assert_allclose(adc.grad(f)(x), [0, 0, 0.25 + 0.125, 0.5 - 0.5])
    assert np.isfinite(adc.hessian(f)(x)).all()


def test_integers_and_truth_values():
    f = adc.compile("max(k[k < 3]), min(k[b]), sum(b[k > 1]), any(b[k > 1])", args="k, b", backend="numpy")
    k, b = np.array([1, 5, 2]), np.array([False, True, True])
    assert f(k, b) == (2, 2, 2, True)
    assert f(k[:0], b[:0])[:2] == (-(2**63), 2**63 - 1)


def test_nothing_is_stored_for_a_selection():
    """One reduction, and no array: the mask is a condition in its loop."""
    f = adc.compile("sum(x[x > 0] ** 2 * y[x > 0])")
    f(np.ones(3), np.ones(3))
    assert f.show("ir").count("reduce") == 1
    assert "array" not in f.show("ir")


MISTAKES = [
    ("x[x > 0]", adc.DtypeError, "the result is x\\[mask\\]", "sum\\(x\\[mask\\]\\)"),
    ("[v for v in x[x > 0]]", adc.ShapeError, "depends on values", "reduce it"),
    ("sort(x[x > 0])[0]", adc.DtypeError, "sort takes an array", "where\\(mask, x, 0\\)"),
    ("x[x > 0][0]", adc.DtypeError, "cannot index x", "reduce it"),
    ("sum(x[x > 0] * y)", adc.ShapeError, "whose length depends on values", "x\\[mask\\] \\* y\\[mask\\]"),
    ("sum(x[x > 0] * y[y > 0])", adc.ShapeError, "two different masks", "the same mask"),
    ("sum(a[x > 0] * x[x > 0])", adc.ShapeError, "rows and elements", "x\\[mask, None\\]"),
    ("sum(a[:, x > 0])", adc.ParseError, "a mask must be the first index", "moveaxis"),
    ("sum(x[a > 0])", adc.ShapeError, "a mask of rank 2", "or per row"),
    ("sum(x[z > 0])", adc.ShapeError, "lengths", "as long as"),
    ("concatenate((x[x > 0], x))", adc.DtypeError, "concatenate takes arrays", "reduce it"),
    ("x[x > 0].shape", adc.ParseError, "no attribute 'shape'", "len\\(x\\[mask\\]\\)"),
    ("argmax(x[x > 0])", adc.ParseError, "argmax of", "where\\(mask, x, -inf\\)"),
    ("sum(a.T @ x[x > 0])", adc.DtypeError, "and x\\[mask\\]", "where\\(mask, y, 0\\)"),
    ("sum(x[x > 0], axis=1)", adc.OutOfRangeError, "axis 1", "axis"),
]


@pytest.mark.parametrize(("source", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source, kind, cause, remedy):
    f = adc.compile(source, args="x, y, z, a", backend="numpy")
    with pytest.raises(kind, match=cause) as found:
        f(np.ones(3), np.ones(3), np.ones((1,)), np.ones((3, 2)))
    with pytest.raises(kind, match=remedy):
        raise found.value


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("x[x > 0] = y", "stored with a mask"),
        ("x[x > 0] = y[y > 0]", "has another mask"),
        ("k[k > 0] = 0.5", "a float"),
    ],
)
def test_mistakes_in_assignments_are_named(line, cause):
    source = f"def f(x: f64[n], y: f64[n], k: i64[n]):\n    {line}\n    return sum(x)"
    with pytest.raises(adc.Error, match=cause):
        adc.compile(source, backend="numpy")(np.ones(3), np.ones(3), np.ones(3, int))
