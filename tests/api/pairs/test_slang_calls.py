"""SlangPy's calls: lists as vectors, arguments by name, `_result`, pairs in structs, pairs of pairs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adcompiler as adc
from adcompiler import DiffPair

RANDOM = np.random.default_rng(16)
SOURCE = "def quadratic(a, x):\n    return a * x * x"
quadratic = adc.compile(SOURCE, backend="numpy")
polynomial = adc.compile(
    "def polynomial(a, b, c, x):\n    return a * x * x + b * x + c", backend="numpy"
)  # of SlangPy's page on automatic differentiation


@pytest.fixture(params=["numpy", "cpu"])
def f(request):
    return adc.compile(SOURCE, backend=request.param)


class Body(NamedTuple):
    p: object
    v: object


@dataclass
class Ball:
    p: object
    v: object


moved = adc.compile("def moved(s, dt):\n    return s.p + dt * s.v, s.v - dt * s.p**2", backend="numpy")


# ---- Calls as the design notes write them ----


def test_styles_have_a_call_of_their_own(f):
    assert f.forward.call(DiffPair(3, 1), DiffPair(2, 0)).d == 4.0
    assert f.backward.call(3, 2, 1.0) == (4.0, 12.0)
    a, x = DiffPair(3), DiffPair(2)
    f.backward.call(a, x, f.call(a, x))
    assert (a.grad, x.grad) == (48.0, 144.0)
    assert (a.primal, x.primal) == (3, 2)


def test_pairs_numbers_and_lists_in_iteration(f):
    for _ in range(3):
        for a, x, dresult in [(3.0, 2.0, 1.0), (DiffPair(3.0), DiffPair(2.0), 1.0), ([3.0], [2.0], [1.0])]:
            assert_allclose(np.ravel(f.backward(a, x, dresult)), [4, 12])


@pytest.mark.parametrize("dresult", [[1.0], [1], np.ones(1), ([1.0],)])
def test_lists_are_vectors(f, dresult):
    assert_allclose(f.call([3], [2]), [12])
    assert_allclose(f.backward([3], [2], dresult), [[4], [12]])
    a, x = DiffPair([3]), DiffPair([2])
    f.backward(a, x, dresult)
    assert_allclose([a.d, x.d], [[4], [12]])


def test_a_list_and_a_number():
    by_a, by_x = quadratic.backward(3, [1, 2, 3], [1, 1, 1])
    assert by_a == 14.0
    assert_allclose(by_x, [6, 12, 18])


def test_arguments_and_the_cotangent_have_names(f):
    assert f.backward(a=3, x=2, dresult=1.0) == (4.0, 12.0)
    assert f.backward(3, x=DiffPair(2), dresult=1.0) == (None, 12.0)


def test_a_pair_that_needs_no_gradient_is_a_value(f):
    constant = DiffPair(3.0, needs_grad=False)
    assert f.backward(constant, 2.0, 1.0) == (None, 12.0)
    assert f.backward(constant, DiffPair(2.0), 1.0) == (None, 12.0)
    assert constant.d is None


def test_calls_alike_are_answered_alike(f):
    """Answers of the inline caches are those of first calls, for other values, lengths, dtypes and pairs."""
    for scale, n in [(1.0, 3), (2.0, 3), (2.0, 3), (3.0, 5), (1.0, 5)]:
        x, seed = scale * np.arange(1.0, n + 1), np.ones(n)
        for kind in (np.float64, np.float32):
            a, given = DiffPair(3.0), DiffPair(x.astype(kind), accumulator="total")
            both = f.backward(2.0, x.astype(kind), seed)
            assert_allclose(both[0], np.sum(x**2))
            assert_allclose(both[1], 4 * x)
            assert_allclose(f.backward(a, x.astype(kind), seed)[0], np.sum(x**2))
            assert_allclose(f.backward(DiffPair(2.0), given, seed)[1], 4 * np.sum(x))
            assert both[1].dtype == kind
            assert_allclose(a.d, np.sum(x**2))


# ---- A batch into one number ----


@pytest.mark.parametrize("x", [[1, 2, 3], np.arange(6.0).reshape(2, 3), np.zeros(0), 2.0])
def test_total_adds_a_batch_into_one_number(f, x):
    seed = RANDOM.normal(size=np.shape(x))
    pair = DiffPair(x, accumulator="total")
    for times in (1, 2):
        f.backward(3.0, pair, seed)
        assert_allclose(pair.d, times * np.sum(seed * 6 * np.asarray(x)))
    assert np.shape(pair.d) == ()


def test_a_number_does_not_take_a_gradient_of_another_shape():
    with pytest.raises(
        adc.ShapeError, match=r"the pair's d has shape \(\), but its gradient \(3,\)"
    ) as caught:
        quadratic.backward(2, DiffPair([1, 2, 3], 0.0), [1, 1, 1])
    assert 'accumulator="total"' in caught.value.remedy


# ---- _result ----


def test_the_result_is_written_into_what_is_given():
    x, out = np.arange(1.0, 5.0), np.empty(4)
    assert polynomial(a=2, b=8, c=-1, x=x, _result=out) is out
    assert_allclose(out, 2 * x**2 + 8 * x - 1)
    assert polynomial.call(2, 8, -1, DiffPair(-x), _result=out) is out
    assert_allclose(out, 2 * x**2 - 8 * x - 1)
    position, velocity = np.empty(2), np.empty(2)
    moved(Body(np.ones(2), np.zeros(2)), 0.5, _result=(position, velocity))
    assert_allclose((position, velocity), [[1, 1], [-0.5, -0.5]])
    assert isinstance(polynomial(1, 1, 1, 1, _result="numpy"), np.ndarray)
    assert polynomial(1, 1, 1, 1, _result=None) == 3.0


def test_the_pair_of_a_result_brings_the_cotangent():
    """SlangPy's `bwds` reads the gradient of `_result`, and leaves gradients in the arguments."""
    x = DiffPair(np.arange(1.0, 5.0))
    result = polynomial.call(2, 8, -1, x, _result=DiffPair())
    assert_allclose(result.p, 2 * x.p**2 + 8 * x.p - 1)
    result.d = np.ones(4)
    polynomial.backward(a=2, b=8, c=-1, x=x, _result=result)
    assert_allclose(x.d, 4 * x.p + 8)
    polynomial.backward(2, 8, -1, x, result)
    assert_allclose(x.d, 2 * (4 * x.p + 8))


def test_a_parameter_may_be_called_so():
    g = adc.compile("def g(_result, dresult):\n    return _result * dresult", backend="numpy")
    assert g(_result=2.0, dresult=3.0) == 6.0
    assert g.backward(2.0, 3.0, 1.0) == (3.0, 2.0)


# ---- Pairs in structs ----


@pytest.mark.parametrize("kind", [Body, Ball])
def test_fields_that_are_pairs_have_gradients(kind):
    s = kind(DiffPair(np.array([1.0, 0.5])), np.array([0.0, 1.0]))
    for times in (1, 2):
        found, none = moved.backward(s, 0.1, (np.ones(2), np.ones(2)))
        assert_allclose(found.p, 1 - 0.2 * s.p.p)
        assert_allclose(s.p.d, times * found.p)
        assert (found.v, none, type(found)) == (None, None, kind)
    value, _ = moved.call(s, 0.1)
    assert_allclose(value, [1.0, 0.6])
    assert isinstance(s.p, DiffPair)  # the struct itself is as it was


def test_pairs_in_dicts_lists_and_structs_in_structs():
    g = adc.compile('def g(d):\n    return sum(d["w"] * d["s"].p) * d["k"][0] + d["s"].v', backend="numpy")
    w, p, k, v = DiffPair([1, 2]), DiffPair(np.array([3.0, 4.0])), DiffPair(2), adc.Variable(1.0, True)
    found = g.backward({"w": w, "s": Body(p, v), "k": [k, 7]}, 1.0)[0]
    assert_allclose(w.d, [6, 8])
    assert_allclose(p.d, [2, 4])
    assert (k.d, v.grad.item(), found["k"][1]) == (11.0, 1.0, None)


def test_a_list_of_pairs_is_a_list_of_numbers():
    g = adc.compile("v[0] * v[1]**2", backend="numpy")
    pair = DiffPair(3)
    assert g.backward([pair, 2], 1.0) == ([4.0, None],)
    assert g.forward([DiffPair(3, 1), 2]).d == 4.0
    assert g.call([pair, 2]) == 12.0


def test_forward_along_fields():
    p, v = np.array([1.0, 0.5]), np.array([0.0, 1.0])
    position, velocity = moved.forward(Body(DiffPair(p, np.ones(2)), v), DiffPair(0.1, 1.0))
    assert_allclose(position.d, 1 + v)
    assert_allclose(velocity.d, -0.2 * p - p**2)


def test_accumulators_of_fields():
    g = adc.compile("def g(s):\n    return s.p * s.v", backend="numpy")
    pushed, first = DiffPair(2.0, accumulator="push"), DiffPair(2.0, accumulator="first")
    v = DiffPair(np.array([1.0, 2.0]), accumulator="total")
    g.backward(Body(pushed, v), np.ones(2))
    g.backward(Body(first, v), np.ones(2))
    assert (pushed.d, first.d, v.d) == ([1.0, 2.0], 1.0, 8.0)


# ---- Pairs of pairs: derivatives of higher order ----


def test_forward_of_pairs_of_pairs_is_the_second_derivative(f):
    found = f.forward(3.0, DiffPair(DiffPair(2.0, 1.0), DiffPair(1.0, 0.0)))
    assert (found.p.p, found.p.d, found.d.p, found.d.d) == (12.0, 12.0, 12.0, 6.0)
    third = adc.compile("x**4", backend="numpy").forward(DiffPair(DiffPair(DiffPair(2.0, 1.0), 1.0), 1.0))
    assert third.d.d.d == 48.0


def test_parts_need_not_nest_equally_deep(f):
    """The mixed derivative: a has a tangent in the inner pair, x in the outer one."""
    assert f.forward(DiffPair(DiffPair(3.0, 1.0)), DiffPair(2.0, 1.0)).d.d == 4.0
    assert f.forward(3.0, DiffPair(DiffPair(2.0), DiffPair(1.0, 5.0))).d.d == 60.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [4, 1, 0])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_the_gradient_of_a_pair_of_a_pair_is_a_pair(n, dtype, backend):
    """Of the gradient, and of its derivative along the tangent: the Hessian times it."""
    g = adc.compile("sum(sin(x)**3) * sum(x)", backend=backend)
    x, v = RANDOM.normal(size=(2, n)).astype(dtype)
    pair = DiffPair(DiffPair(x, v))
    for times in (1, 2):
        g.backward(pair, 1.0)
        assert_allclose(pair.d.p, times * adc.grad(g)(x), rtol=1e-5)
        assert_allclose(pair.d.d, times * adc.hvp(g)((x,), v), rtol=1e-4, atol=1e-6)
    assert pair.d.p.dtype == pair.d.d.dtype == dtype


def test_cotangents_may_be_dual_too(f):
    """(c x^2)' along c' = 10 and x' = 1, where c = 1, x = 2: 10 x^2 + 2 x."""
    a, x = DiffPair(3.0), DiffPair(DiffPair(2.0, 1.0))
    found = f.backward(a, x, DiffPair(1.0, 10.0))
    assert (found[0].p, found[0].d) == (4.0, 44.0)
    assert (a.d.p, a.d.d) == (4.0, 44.0)  # a is no pair of a pair: its gradient depends on x
    assert (x.d.p, x.d.d) == (12.0, 126.0)


def test_backward_of_deeper_pairs_is_the_third_derivative():
    pair = DiffPair(DiffPair(DiffPair(2.0, 1.0), 1.0))
    adc.compile("x**4", backend="numpy").backward(pair, 1.0)
    assert (pair.d.p.p, pair.d.d.p, pair.d.d.d) == (32.0, 48.0, 48.0)


def test_a_tangent_alone():
    """A pair of a pair that needs no gradient gives the others theirs, with a derivative."""
    x = DiffPair(2.0)
    quadratic.backward(DiffPair(DiffPair(3.0, 1.0), needs_grad=False), x, 1.0)
    assert (x.d.p, x.d.d) == (12.0, 4.0)


def test_pairs_of_structs_and_structs_of_pairs():
    p, v, dp = RANDOM.normal(size=(3, 2))
    seeds = np.ones(2), np.ones(2)
    outside = DiffPair(DiffPair(Body(p, v), Body(dp, None)))
    moved.backward(outside, 0.1, seeds)
    inside = DiffPair(Body(DiffPair(p, dp), v))
    moved.backward(inside, 0.1, seeds)
    for found in (outside.d.d.p, inside.d.p.d):
        assert_allclose(found, -0.2 * dp)
    assert_allclose(outside.d.p.p, inside.d.p.p)


def test_total_of_dual_numbers():
    x = DiffPair(DiffPair([1.0, 2.0], [1.0, 1.0]), accumulator="total")
    quadratic.backward(3.0, x, [1, 1])
    assert (x.d.p, x.d.d) == (18.0, 12.0)


# ---- What is refused ----


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: quadratic.backward(3, x=2), adc.Error, "got x by name, but no cotangent"),
        (lambda: quadratic.backward(3, 2, dresult=1, _result=DiffPair(1, 1)), adc.Error, "both dresult and"),
        (lambda: quadratic.backward(3, 2, DiffPair(12.0)), adc.ShapeError, "a pair without a derivative"),
        (lambda: quadratic.backward(3, 2, _result=12.0), adc.ShapeError, "the result of backward is a float"),
        (lambda: quadratic(3, 2, _result=np.empty(2)), adc.ShapeError, r"the buffer for r has shape \(2,\)"),
        (lambda: quadratic(3, 2, _result=np.empty((), "f")), adc.DtypeError, "has dtype float32"),
        (lambda: quadratic(3, 2, _result=[0.0]), adc.DtypeError, "must be a writable NumPy array"),
        (
            lambda: quadratic(3, adc.Variable(2), _result=np.empty(())),
            adc.GraphError,
            "cannot be part of a graph",
        ),
        (
            lambda: moved.backward(Body(DiffPair(np.arange(2)), np.ones(2)), 0.1, None),
            adc.DtypeError,
            "s.p is i64",
        ),
        (
            lambda: moved.forward(Body(DiffPair(np.ones(2), np.ones(3)), np.ones(2)), 0.1),
            adc.ShapeError,
            r"the tangent of s.p is float64 of shape \(3,\)",
        ),
        (
            lambda: quadratic.backward(DiffPair(DiffPair(1.0, np.ones(2))), 2.0, 1.0),
            adc.ShapeError,
            "the tangent of a",
        ),
        (
            lambda: quadratic.backward(DiffPair(DiffPair(1.0, 1.0), accumulator="push"), 2.0, 1.0),
            adc.DtypeError,
            'accumulator="push": a is among pairs of pairs',
        ),
        (
            lambda: quadratic.backward(DiffPair(DiffPair(1.0, 1.0)), adc.Variable(2.0, True), 1.0),
            adc.GraphError,
            "x is a Variable among pairs of pairs",
        ),
        (lambda: quadratic.forward(_deep(7), 1.0), adc.LimitError, "pairs are nested 7 deep; the limit is 6"),
        (
            lambda: moved.backward(Body(np.ones(2), np.ones(2)), 0.1, (np.ones(3), None)),
            adc.ShapeError,
            "cotang",
        ),
    ],
)
def test_mistakes(mistake, error, message):
    with pytest.raises(error, match=message) as caught:
        mistake()
    assert caught.value.remedy


def _deep(n):
    return DiffPair(_deep(n - 1), 1.0) if n else 1.0


def test_a_function_with_styles_still_pickles(f):
    f.backward(DiffPair(3.0), 2.0, 1.0)
    f.backward(3.0, 2.0, 1.0)
    assert pickle.loads(pickle.dumps(f)).backward(3.0, 2.0, 1.0) == (4.0, 12.0)
    assert pickle.loads(pickle.dumps(f.backward))(3.0, 2.0, 1.0) == (4.0, 12.0)
