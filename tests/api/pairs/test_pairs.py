"""SlangPy's styles: call, forward and backward with pairs of a value and its derivative."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adcompiler as adc
from adcompiler import DiffPair

BACKENDS = ["numpy", "cpu"]
RANDOM = np.random.default_rng(11)
SOURCE = "def quadratic(a, x):\n    return a * x * x"  # myFunc of SlangPy's design notes
quadratic = adc.compile(SOURCE, backend="numpy")


@pytest.fixture(params=BACKENDS)
def f(request):
    return adc.compile(SOURCE, backend=request.param)


# ---- call and forward ----


def test_forward_gives_the_tangent_along_the_pairs(f):
    by_a = f.forward(DiffPair(3, 1), DiffPair(2, 0))
    by_x = f.forward(DiffPair(3, 0), DiffPair(2, 1))
    assert (by_a.p, by_a.d, by_x.d) == (12.0, 4.0, 12.0)
    assert f.forward(3, DiffPair(2, 0.5)).d == 6.0  # no pair, no tangent
    assert f.forward(3, x=DiffPair(2)).d == 0.0
    assert f.forward(3, 2).p == 12.0


def test_forward_gives_a_pair_for_each_result():
    g = adc.compile("def g(p):\n    return p[0] * p[1], (p[0]**2,)", backend="numpy")
    product, (square,) = g.forward(DiffPair((3.0, 2.0), (1.0, None)))
    assert (product.p, product.d, square.p, square.d) == (6.0, 2.0, 9.0, 6.0)


def test_forward_of_a_gradient_is_the_second_derivative():
    x, v = RANDOM.normal(size=4), RANDOM.normal(size=4)
    g = adc.compile("sum(sin(x)**3)", backend="numpy")
    assert_allclose(adc.grad(g).forward(DiffPair(x, v)).d, adc.hvp(g)((x,), v))
    third = adc.grad(adc.compile("a**4", backend="numpy"))
    assert adc.grad(third).forward(DiffPair(2.0, 1.0)).d == 48.0


def test_a_tangent_must_fit():
    with pytest.raises(adc.ShapeError, match=r"the tangent of x is float64 of shape \(2,\)"):
        quadratic.forward(3.0, DiffPair(np.ones(3), np.ones(2)))
    with pytest.raises(adc.DtypeError, match="x is i64"):
        quadratic.forward(3.0, DiffPair(np.arange(3), np.ones(3)))


# ---- backward: what needs a gradient ----


def test_without_pairs_every_argument_has_a_gradient(f):
    assert f.backward(3, 2, 1.0) == (4.0, 12.0)
    assert f.backward(3.0, np.arange(3), 1 + np.arange(3.0))[1] is None  # integers have none


def test_variables_that_require_a_gradient_gather_it(f):
    w = adc.Variable([1.0, 2.0], requires_grad=True)
    constant = adc.Variable(3.0)
    assert f.backward(constant, w, np.ones(2))[0] is None
    f.backward(constant, w, np.ones(2))
    assert_allclose(w.grad.value, 2 * 2 * 3 * np.array([1.0, 2.0]))
    with pytest.raises(adc.GraphError, match="was computed"):
        f.backward(constant, w * 2, np.ones(2))


def test_several_results_have_a_cotangent_each_and_none_is_zero():
    g = adc.compile("def g(a, b):\n    return a * b, a**2", backend="numpy")
    a = DiffPair(3.0)
    assert g.backward(a, 5.0, (1.0, 2.0)) == (17.0, None)
    assert g.backward(3.0, 5.0, (None, 1.0)) == (6.0, None)
    assert g.backward(3.0, 5.0, None) == (None, None)


def test_a_container_gathers_in_its_own_structure():
    g = adc.compile('sum(p["w"] * x) + p["b"]', backend="numpy")
    pair = DiffPair({"w": np.array([1.0, 2.0]), "b": 0.5, "k": np.arange(2)})
    for _ in range(2):
        g.backward(pair, np.array([3.0, 4.0]), 1.0)
    assert_allclose(pair.d["w"], [6, 8])
    assert (pair.d["b"], pair.d["k"]) == (2.0, None)


# ---- backward: accumulators ----


@pytest.mark.parametrize(
    ("source", "shapes", "axes"),
    [
        ("y * x**2", ((3,), (4, 3)), (0,)),
        ("y * x**2", ((4, 1), (4, 3)), (1,)),
        ("exp(y * x)", ((1, 3), (2, 1)), (0,)),
        ("exp(y * x)", ((), (2, 3)), (0, 1)),
        ("y * x", ((2, 3), (3,)), ()),
        ("y * x", ((1,), (1,)), ()),
        ("y * x * sum(x)", ((), (5,)), (0,)),
        ("x**2 + 0 * y", ((), (3,)), (0,)),
        ("x**2 + floor(y)", ((), (3,)), (0,)),
        ("logsumexp(y + x, axis=1)", ((1,), (4, 3)), (0,)),
        ("y", ((3,), (3,)), ()),
    ],
)
def test_contributions_are_the_gradients_of_one_entry_at_a_time(source, shapes, axes):
    g = adc.compile(source, args="y, x", backend="numpy")
    y, x = (RANDOM.uniform(0.5, 1.5, shape) for shape in shapes)
    seed = RANDOM.normal(size=np.shape(g(y, x)))
    want = []
    for case in np.ndindex(*(seed.shape[axis] for axis in axes)):
        chosen = np.zeros_like(seed)
        where = [slice(None)] * seed.ndim
        for axis, k in zip(axes, case, strict=True):
            where[axis] = k
        chosen[tuple(where)] = seed[tuple(where)]
        gradient = adc.vjp(g, y, x, wrt="y")[1](chosen)[0]
        want.append(np.zeros(np.shape(y)) if gradient is None else gradient)
    pair = DiffPair(y, accumulator="push")
    g.backward(pair, x, seed)
    assert len(pair.d) == len(want)
    assert_allclose(pair.d, want, rtol=1e-12)
    summed = DiffPair(y)
    g.backward(summed, x, seed)
    assert_allclose(0 if summed.d is None else summed.d, np.sum(want, axis=0), rtol=1e-12)
    first = DiffPair(y, accumulator="first")
    g.backward(first, x, seed)
    assert_allclose(first.d, want[0])


def test_an_infinite_slope_of_one_entry_stays_with_it(f):
    g = adc.compile("sqrt(a * x)", backend="numpy")
    a = DiffPair(1.0, accumulator="push")
    g.backward(a, np.array([4.0, 0.0, 9.0]), np.ones(3))
    assert a.d[0] == 1.0
    assert a.d[2] == 1.5


@adc.custom_vjp(adc.compile("def rule(a, r, dr):\n    return 0 * a", backend="numpy"), check=False)
def held(a):
    return a**2


@adc.function(backend="numpy")
def by_held(a, x):
    return held(a) * x


@pytest.mark.parametrize(("shape", "count"), [((), 12), ((1, 3), 4), ((4, 1), 3), ((4, 3), 1)])
def test_a_rule_that_gives_zero_contributes_it_for_each_entry(shape, count):
    a = DiffPair(np.ones(shape), accumulator="push")
    by_held.backward(a, np.ones((4, 3)), np.ones((4, 3)))
    assert_allclose(a.d, np.zeros((count, *shape)))


def test_float32_stays_float32():
    a = DiffPair(np.float32(3), accumulator="push")
    quadratic.backward(a, np.ones(2, np.float32), np.ones(2))
    assert [type(c) for c in a.d] == [np.float32] * 2


# ---- What is refused, and what remains a function ----


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: DiffPair(1.0, accumulator="max"), adc.Error, "unknown accumulator 'max'"),
        (lambda: quadratic(DiffPair(1.0), 2.0), adc.DtypeError, "'a' is a DiffPair"),
        (lambda: quadratic.backward(1.0, 2.0), adc.Error, "got 2 arguments"),
        (lambda: quadratic.backward(1.0, np.ones(3), np.ones(2)), adc.ShapeError, "the cotangent of r"),
        (
            lambda: quadratic.backward(DiffPair(1.0, None, "push"), np.ones(3), np.ones(2)),
            adc.ShapeError,
            "the shapes of the arguments do not fit",
        ),
        (
            lambda: quadratic.backward(DiffPair(1.0, None, "push"), np.ones(3), 1.0),
            adc.ShapeError,
            "the result has rank 1",
        ),
        (lambda: quadratic.backward(DiffPair(1.0, np.ones(2)), 1.0, 1.0), adc.ShapeError, "the pair's d"),
        (
            lambda: adc.compile("sum(a * x)", backend="numpy").backward(
                DiffPair(np.ones(3), accumulator="first"), 2.0, 1.0
            ),
            adc.ShapeError,
            "a is not broadcast to the result",
        ),
        (
            lambda: adc.compile("p[0]", backend="numpy").backward(DiffPair((1.0,), None, "push"), 1.0),
            adc.DtypeError,
            "p is a container",
        ),
        (
            lambda: adc.compile("def g(a):\n    return a, a", backend="numpy").backward(
                DiffPair(1.0, None, "push"), (1.0, 1.0)
            ),
            adc.ShapeError,
            'has 2 results: "push" and "first" need one',
        ),
    ],
)
def test_mistakes(mistake, error, message):
    with pytest.raises(error, match=message) as caught:
        mistake()
    assert caught.value.remedy


def test_a_function_still_pickles():
    quadratic.forward(3.0, DiffPair(2.0, 1.0))
    assert pickle.loads(pickle.dumps(quadratic)).forward(3.0, DiffPair(2.0, 1.0)).d == 12.0
