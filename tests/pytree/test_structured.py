"""NumPy's structured arrays are arrays of structs: fields by name, and gradients of the same dtype."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import adcompiler as adc
from adcompiler import DiffPair

BACKENDS = ["numpy", "cpu"]
STATE = np.dtype([("p", "f8"), ("v", "f8")])
BODY = np.dtype([("x", "f4", (2,)), ("m", "f4"), ("id", "i8"), ("spin", [("a", "f8"), ("b", "f8")])])
RANDOM = np.random.default_rng(5)

energy = adc.compile("def energy(s, k):\n    return sum(k * s.p**2 + s['v']**2)", backend="numpy")
force = adc.compile("def force(s):\n    return s.p**2 * s.v", backend="numpy")


def states(n: int) -> np.ndarray:
    made = np.zeros(n, STATE)
    made["p"], made["v"] = RANDOM.normal(size=(2, n))
    return made


def bodies(n: int) -> np.ndarray:
    made = np.zeros(n, BODY)
    made["x"], made["m"], made["id"] = RANDOM.normal(size=(n, 2)), RANDOM.uniform(1, 2, n), np.arange(n)
    made["spin"]["a"] = 1.5
    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [3, 1, 0])
def test_fields_are_read_by_name_and_the_gradient_is_such_an_array(backend, n):
    f = adc.compile("def f(s, k):\n    return sum(k * s.p**2 + s['v']**2)", backend=backend)
    s = states(n)
    for _ in range(2):
        assert_allclose(f(s, 0.5), np.sum(0.5 * s["p"] ** 2 + s["v"] ** 2))
        gradient = adc.grad(f, "s")(s, 0.5)
        assert (gradient.dtype, gradient.shape) == (STATE, (n,))
        assert_allclose(gradient["p"], s["p"])
        assert_allclose(gradient["v"], 2 * s["v"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_fields_of_several_axes_of_float32_of_integers_and_structs(backend):
    f = adc.compile("sum(b.m * sum(b.x**2, axis=1)) + sum(b['spin'].a**2)", backend=backend)
    b = bodies(4)
    gradient = adc.grad(f)(b)
    assert gradient.dtype == BODY
    assert_allclose(gradient["x"], 2 * b["m"][:, None] * b["x"], rtol=1e-6)
    assert_allclose(gradient["spin"]["a"], 2 * b["spin"]["a"])
    assert_array_equal(gradient["id"], 0)  # integers have no derivative
    assert_array_equal(gradient["spin"]["b"], 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_element_is_a_struct(backend):
    f = adc.compile(
        "def f(b):\n    return sum([b[i].m * b[i].x[1]**3 for i in range(len(b))])", backend=backend
    )
    b = bodies(3)
    assert_allclose(f(b), np.sum(b["m"] * b["x"][:, 1] ** 3), rtol=1e-5)
    assert_allclose(adc.grad(f)(b)["x"][:, 1], 3 * b["m"] * b["x"][:, 1] ** 2, rtol=1e-5)
    g = adc.compile("sum([q.m * q.x[1]**3 for q in b]) + sum([p.m * q.x[0] for p, q in zip(b, b[1:])])")
    h = adc.compile(
        "def h(b):\n    e = 0.0\n    for q in b:\n        e = e + q.m * q.x[1]**3\n    return e",
        backend=backend,
    )
    shifted = np.sum(b["m"][:-1] * b["x"][1:, 0])
    assert_allclose(g(b) - shifted, f(b), rtol=1e-5)
    assert_allclose(h(b), f(b), rtol=1e-5)
    assert_allclose(adc.grad(h)(b)["x"], adc.grad(f)(b)["x"], rtol=1e-5)
    one = states(2)[1]
    assert_allclose(force(one), one["p"] ** 2 * one["v"])
    assert_allclose(adc.grad(force)(one)["p"], 2 * one["p"] * one["v"])


@pytest.mark.parametrize("n", [3, 20])
def test_a_list_of_its_elements_is_a_list_of_structs(n):
    f = adc.compile("sum([p.p**2 * p.v for p in ps])", backend="numpy")
    s = states(n)
    assert_allclose(f(list(s)), np.sum(force(s)))
    gradient = adc.grad(f)(list(s))
    assert gradient[1].dtype == STATE
    assert_allclose([g["p"] for g in gradient], 2 * s["p"] * s["v"])


def test_any_view_of_one():
    s = states(6)
    for view in (s[::2], s[::-1], s.reshape(2, 3), s.view(np.recarray)):
        assert_allclose(force(view), np.asarray(view["p"]) ** 2 * np.asarray(view["v"]))
    packed = np.zeros(3, np.dtype([("flag", "?"), ("p", "f8"), ("v", "f8")]))  # p is not aligned
    packed["p"] = packed["v"] = 2.0
    assert_allclose(force(packed), 8.0)


def test_results_are_structured_too():
    same = adc.compile("def same(s):\n    return s", backend="numpy")
    s, out = states(3), np.zeros(3, STATE)
    assert_array_equal(same(s), s)
    assert same(s, _result=out) is out
    assert_array_equal(out, s)
    assert_array_equal(adc.compile("def one(s):\n    return s[1]", backend="numpy")(s), s[1])
    force(s, _result=out["p"])
    assert_allclose(out["p"], force(s))


# ---- Derivatives of every kind ----


def test_pairs_gather_structured_arrays():
    s = states(3)
    pair = DiffPair(s)
    for times in (1, 2):
        energy.backward(pair, 0.5, 1.0)
        assert pair.d.dtype == STATE
        assert_allclose(pair.d["p"], times * s["p"])
    assert_allclose(force.forward(DiffPair(s, s)).d, 3 * force(s))


def test_second_order():
    s, v = states(3), states(3)
    adc.check_grad(energy, s, 0.5, order=2)
    assert_allclose(adc.hvp(energy, "s")((s, 0.5), v)["v"], 2 * v["v"])
    pair = DiffPair(DiffPair(s, v))
    energy.backward(pair, 0.5, 1.0)
    assert pair.d.d.dtype == STATE
    assert_allclose(pair.d.d["p"], v["p"])
    assert_allclose(adc.hessian(energy, "s")(s, 0.5)["v"]["v"], 2 * np.eye(3))
    assert_allclose(adc.jacobian(force)(s)["v"], np.diag(s["p"] ** 2))


def test_tangents_say_nothing_of_integers():
    f = adc.compile("sum(b.m * b.x[:, 0])", backend="numpy")
    b, v = bodies(3), bodies(3)
    want = np.sum(v["m"] * b["x"][:, 0] + b["m"] * v["x"][:, 0])
    assert_allclose(adc.jvp(f, (b,), (v,))[1], want, rtol=1e-5)
    assert_allclose(f.forward(DiffPair(b, v)).d, want, rtol=1e-5)


def test_what_was_saved_is_a_copy_and_pickles():
    s = states(3)
    split = energy.split("s")
    _, saved = split.forward(s, 0.5)
    s["p"] = 0.0
    (gradient,) = split.propagate(pickle.loads(pickle.dumps(saved)), 1.0)
    assert gradient.dtype == STATE
    assert np.all(gradient["p"] != 0)


# ---- What is refused ----


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (
            lambda: force(np.zeros(2, [("p", "f8"), ("q", "f8")])),
            adc.ParseError,
            "array of p, q has no field 'v'",
        ),
        (lambda: force(np.zeros(2, [("p", "f2"), ("v", "f8")])), adc.DtypeError, "'s.p' has dtype float16"),
        (lambda: force(np.zeros(2, [("p", "U3"), ("v", "f8")])), adc.DtypeError, "'s.p' has dtype <U3"),
        (
            lambda: adc.compile("b[0, 1].x")(bodies(2)),
            adc.OutOfRangeError,
            "2 indices for a structured array of rank 1",
        ),
        (lambda: adc.compile("len(b)")(bodies(2)[0]), adc.DtypeError, "len of"),
        (lambda: adc.compile("sum([q.x for q in b])")(bodies(2)[0]), adc.DtypeError, "cannot iterate over"),
        (lambda: adc.Variable(states(2)), adc.DtypeError, "cannot hold"),
        (
            lambda: force.forward(DiffPair(states(2), states(3))),
            adc.ShapeError,
            r"the tangent of s.p is float64 of shape \(3,\)",
        ),
        (
            lambda: force.forward(DiffPair(states(2), np.ones(2))),
            adc.ShapeError,
            "s is a structured array of p, v, but got a ndarray",
        ),
    ],
)
def test_mistakes(mistake, error, message):
    with pytest.raises(error, match=message) as caught:
        mistake()
    assert caught.value.remedy
