"""Containers as arguments: dicts, tuples, lists, named tuples and dataclasses of arrays, nested."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose

import adcompiler as adc

BACKENDS = ["numpy", "cpu"]
BOTH = [("numpy", form) for form in ("dict", "tuple", "list", "named tuple", "nested")] + [("cpu", "nested")]
RANDOM = np.random.default_rng(7)
X, Y = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=5)


@dataclass
class Layer:
    w: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Model:
    first: Layer
    scale: Any
    width: int = 2
    kind: str = "tanh"

    def __post_init__(self):
        if self.scale is None or self.scale <= 0:
            raise ValueError("scale must be positive")


class Point(NamedTuple):
    x: Any
    y: Any


W1, B1, W2 = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=4), RANDOM.normal(size=4)
MLP = """
def loss(p, x, y):
    h = tanh(x @ {w1} + {b1})
    return sum((h @ {w2} - y)**2)
"""
FLAT = "def loss(w1, b1, w2, x, y):\n    h = tanh(x @ w1 + b1)\n    return sum((h @ w2 - y)**2)"
Weights = namedtuple("Weights", "w1 b1 w2")
FORMS = {  # how the three weights are held: the source's words for them, and the container
    "dict": (('p["w1"]', 'p["b1"]', 'p["w2"]'), lambda w, b, v: {"w1": w, "b1": b, "w2": v}),
    "tuple": (("p[0]", "p[1]", "p[-1]"), lambda w, b, v: (w, b, v)),
    "list": (("p[0]", "p[1]", "p[2]"), lambda w, b, v: [w, b, v]),
    "named tuple": (("p.w1", "p[1]", "p.w2"), Weights),
    "nested": (("p[0].w", "p[0].b", 'p[1]["out"][0]'), lambda w, b, v: (Layer(w, b), {"out": [v]})),
}


def leaves(value: Any) -> list[Any]:
    """The leaves of a container, in order."""
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    return leaves([value.w, value.b]) if isinstance(value, Layer) else [value]


def same_structure(one: Any, other: Any) -> bool:
    """Whether two containers have the same classes and keys all the way down."""
    if type(one) is not type(other) or isinstance(one, np.ndarray | float):
        return type(one) is type(other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_structure(one[k], other[k]) for k in one)
    parts = [(v.w, v.b) if isinstance(v, Layer) else v for v in (one, other)]
    return all(same_structure(a, b) for a, b in zip(*parts, strict=True))


def held(form: str, backend: str = "numpy") -> tuple[adc.Function, Any]:
    """The loss with its weights held in some way, and the container."""
    words, make = FORMS[form]
    source = MLP.format(**dict(zip(("w1", "b1", "w2"), words, strict=True)))
    return adc.compile(source, backend=backend), make(W1, B1, W2)


flat = adc.compile(FLAT, backend="numpy")


# ---- Every transform, for every way to hold the parameters ----


@pytest.mark.parametrize(("backend", "form"), BOTH)
def test_a_gradient_has_the_containers_own_structure(form, backend):
    f, p = held(form, backend)
    assert_allclose(f(p, X, Y), flat(W1, B1, W2, X, Y))
    found = adc.grad(f, "p")(p, X, Y)
    assert same_structure(found, p)
    for got, want in zip(leaves(found), adc.grad(flat)(W1, B1, W2, X, Y)[:3], strict=True):
        assert_allclose(got, want, rtol=1e-12)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("form", FORMS)
def test_derivatives_agree_with_finite_differences_to_second_order(form):
    f, p = held(form)
    assert adc.check_grad(f, p, X, Y) < 1e-7


def test_by_default_every_parameter_has_a_gradient():
    f, p = held("dict")
    value, (dp, dx, dy) = adc.value_and_grad(f)(p, X, Y)
    assert value == f(p, X, Y)
    assert (list(dp), dx.shape, dy.shape) == (list(p), X.shape, Y.shape)
    assert isinstance(adc.grad(f, ("p",))(p, X, Y), tuple)


@pytest.mark.parametrize("form", FORMS)
def test_a_pullback_and_a_split_give_containers(form):
    f, p = held(form)
    value, pullback = adc.vjp(f, p, X, Y, wrt="p")
    (found,) = pullback(2.0)
    assert same_structure(found, p)
    want = leaves(adc.grad(f, "p")(p, X, Y))
    for got, one in zip(leaves(found), want, strict=True):
        assert_allclose(got, 2 * one)
    split = f.split("p")
    again, saved = split.forward(p, X, Y)
    assert again == value
    assert_allclose(leaves(split.propagate(saved, 1.0)[0])[0], want[0])


@pytest.mark.parametrize(("backend", "form"), BOTH)
def test_tangents_and_hessian_vector_products_nest_like_the_parameter(form, backend):
    f, p = held(form, backend)
    make = FORMS[form][1]
    d = [RANDOM.normal(size=a.shape) for a in (W1, B1, W2)]
    want = sum(np.vdot(a, g) for a, g in zip(d, leaves(adc.grad(f, "p")(p, X, Y)), strict=True))
    assert_allclose(adc.jvp(f, (p, X, Y), (make(*d), None, None))[1], want)
    product = adc.hvp(f, "p")((p, X, Y), make(*d))
    assert same_structure(product, p)
    names = ("w1", "b1", "w2")
    for got, one in zip(leaves(product), adc.hvp(flat, names)((W1, B1, W2, X, Y), d), strict=True):
        assert_allclose(got, one, rtol=1e-10)


def test_none_inside_a_tangent_is_zero():
    f, p = held("dict")
    d = RANDOM.normal(size=4)
    _, tangent = adc.jvp(f, (p, X, Y), ({"b1": d, "w1": None, "w2": None}, None, None))
    assert_allclose(tangent, d @ adc.grad(f, "p")(p, X, Y)["b1"])
    root = adc.compile("sqrt(p[0]) + p[1]", backend="numpy")
    assert adc.jvp(root, ((0.0, 1.0),), ((None, 1.0),))[1] == 1.0  # no 0 * inf


def test_a_hessian_is_indexed_by_leaf_twice():
    f, p = held("nested")
    h = adc.hessian(f, "p")(p, X, Y)
    want = adc.hessian(flat, ("w1", "b1", "w2"))(W1, B1, W2, X, Y)
    assert isinstance(h[0], Layer)
    assert isinstance(h[0].w[0], Layer)
    assert_allclose(h[0].w[0].b, want[0][1])
    assert_allclose(h[1]["out"][0][0].w, want[2][0])


def test_a_jacobian_is_indexed_by_output_then_by_leaf():
    f = adc.compile('def f(p):\n    return p["a"] * p["b"], (sum(p["a"]),)', backend="numpy")
    p = {"a": np.array([1.0, 2.0]), "b": 3.0}
    first, (second,) = adc.jacobian(f)(p)
    assert_allclose(first["a"], 3 * np.eye(2))
    assert_allclose(first["b"], p["a"])
    assert_allclose(second["a"], [1, 1])
    assert second["b"] == 0.0
    assert_allclose(adc.jacobian(adc.grad(adc.compile('sum(p["a"])**3', backend="numpy")))(p)["a"]["a"], 18)


def test_many_cases_of_a_container():
    f, p = held("dict")
    many = {**p, "b1": RANDOM.normal(size=(7, 4))}
    got = adc.vmap(f, ({"w1": None, "b1": 0, "w2": None}, None, None))(many, X, Y)
    assert_allclose(got, [f({**p, "b1": b}, X, Y) for b in many["b1"]])
    pair = adc.compile("p[0] * sum(p[1])", backend="numpy")
    a, b = RANDOM.normal(size=4), RANDOM.normal(size=(4, 2))
    assert_allclose(adc.vmap(pair)((a, b)), a * b.sum(axis=1))
    slopes = adc.vmap(adc.grad(pair))((a, b))
    assert_allclose(slopes[0], b.sum(axis=1))
    assert_allclose(slopes[1], np.repeat(a, 2).reshape(4, 2))


@pytest.mark.parametrize("form", FORMS)
def test_variables_inside_a_container(form):
    f, p = held(form)
    held_by = FORMS[form][1]
    w, b = adc.Variable(W1, requires_grad=True), adc.Variable(B1, requires_grad=True)
    loss = f(held_by(w, b, W2), X, Y)
    slope = adc.tape.grad(loss, w, create_graph=True)
    want = leaves(adc.grad(f, "p")(p, X, Y))
    assert_allclose(slope.value, want[0])
    mixed = adc.tape.grad((slope * slope).sum(), b, retain_graph=True)  # second order: 2 H_bw g_w
    (blocks,) = [adc.hessian(flat, ("w1", "b1"))(W1, B1, W2, X, Y)]
    assert_allclose(mixed.value, 2 * np.tensordot(blocks[1][0], want[0], 2))
    loss.backward()
    assert_allclose(b.grad.value, want[1])


def test_variables_of_rank_0_in_a_list():
    f = adc.compile("p[0] * p[1]", backend="numpy")
    a = adc.Variable(2.0)
    assert adc.tape.grad(f([a, 3.0]), a).item() == 3.0


@pytest.mark.slow
def test_inside_njit_there_are_tuples_and_named_tuples():
    f = adc.compile("def f(p, k):\n    (a, b), c = p.x, p.y\n    return k * sum(a * c) * b")
    slope = adc.grad(f, "p").jitted

    @njit
    def user(a, b, c):
        g = slope(Point((a, b), c), 2.0)
        return g.x[0] + g.y, g.x[1]

    a, c = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    want = adc.grad(f, "p")(Point((a, 4.0), c), 2.0)
    arrays, scalar = user(a, 4.0, c)
    assert_allclose(arrays, want.x[0] + want.y)
    assert_allclose(scalar, want.x[1])


# ---- Leaves ----


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_carries_no_derivative_is_none_in_a_gradient(backend):
    f = adc.compile('sum(p["x"] * p["n"]) * where(p["on"], p["s"], 0)', backend=backend)
    p = {"x": np.array([1.0, 2.0]), "n": np.array([3, 4]), "on": True, "s": 2, "note": "a text", "gone": None}
    found = adc.grad(f)(p)
    assert list(found) == list(p)
    assert_allclose(found["x"], [6, 8])
    assert found["s"] == 11.0  # a Python int counts as float, as for a parameter
    assert [found[k] for k in ("n", "on", "note", "gone")] == [None] * 4
    assert adc.check_grad(f, p) < 1e-9
    assert adc.hessian(f)(p)["x"]["n"] is None
    assert adc.hessian(f)(p)["note"] is None
    _, pullback = adc.vjp(f, p)
    assert pullback(1.0)[0]["n"] is None
    v = {"x": np.ones(2), "n": None, "on": None, "s": None, "note": None, "gone": None}
    assert_allclose(adc.hvp(f)((p,), v)["s"], 7)


def test_a_dataclass_is_built_without_its_checks():
    f = adc.compile("sum(m.first.w)**2 * m.scale * m.width", backend="numpy")
    model = Model(Layer(np.array([1.0, 2.0]), None), 2.0, width=3)
    found = adc.grad(f)(model)
    assert type(found) is Model
    assert_allclose(found.first.w, 2 * 3 * 2 * 3)
    assert (found.scale, found.first.b, found.width, found.kind) == (27.0, None, None, None)  # width: int


def test_a_text_or_none_chooses_while_compiling():
    source = """
def f(p, x):
    y = tanh(x) if p["kind"] == "tanh" else x**2
    return y if p["shift"] == None else y + p["shift"]
"""
    f = adc.compile(source, backend="numpy")
    assert f({"kind": "square", "shift": None}, 3.0) == 9.0
    assert f({"kind": "tanh", "shift": 1.0}, 0.0) == 1.0
    assert adc.grad(f)({"kind": "square", "shift": 2.0}, 3.0) == ({"kind": None, "shift": 1.0}, 6.0)


def test_another_structure_is_another_program():
    f = adc.compile("len(p) * sum(p[0])", backend="numpy")
    assert f((X, 1.0)) == 2 * X.sum()
    assert f((X, 1.0, Y)) == 3 * X.sum()
    assert f(((Y)[None],)) == Y.sum()


def test_a_list_of_numbers_is_an_array():
    f = adc.compile('sum(p["x"]**2)', backend="numpy")
    assert_allclose(adc.grad(f)({"x": [1, 2.5]})["x"], [2, 5])


def test_plain_numbers_stay_plain():
    f = adc.compile("p[0]**2 * p[1]", backend="numpy")
    found = adc.grad(f)((3.0, 2))
    assert found == (12.0, 9.0)
    assert [type(g) for g in found] == [float, float]


def test_float32_stays_float32():
    f = adc.compile('sum(p["x"] * p["s"])', backend="numpy")
    found = adc.grad(f)({"x": np.ones(3, np.float32), "s": np.float32(2)})
    assert (found["x"].dtype, found["s"].dtype) == (np.float32, np.float32)


def test_an_unused_leaf_has_zeros_and_its_pullback_none():
    f = adc.compile('p["a"]**2', backend="numpy")
    p = {"a": 3.0, "b": np.ones(2)}
    assert_allclose(adc.grad(f)(p)["b"], [0, 0])
    _, pullback = adc.vjp(f, p)
    assert pullback(1.0)[0] == {"a": 6.0, "b": None}


# ---- In the language ----


def test_parts_are_read_unpacked_and_passed_on():
    source = """
def dense(layer, x):
    return tanh(x @ layer.w + layer.b)

def f(layers, x):
    first, second = layers
    return sum(dense(second, dense(first, x)))
"""
    f = adc.compile(source, backend="numpy")
    layers = [
        Layer(RANDOM.normal(size=(3, 4)), 0.5),
        Layer(RANDOM.normal(size=(4, 2)), RANDOM.normal(size=2)),
    ]
    hidden = np.tanh(X @ layers[0].w + 0.5)
    assert_allclose(f(layers, X), np.tanh(hidden @ layers[1].w + layers[1].b).sum())
    assert adc.check_grad(f, layers, X) < 1e-7


def test_a_loop_over_a_container_is_written_out():
    source = """
def f(layers, x):
    for w, b in layers:
        x = tanh(x @ w + b)
    return sum(x)
"""
    f = adc.compile(source, backend="numpy")
    layers = [(RANDOM.normal(size=(3, 4)), 0.5), (RANDOM.normal(size=(4, 2)), np.ones(2))]
    (w, b), (v, c) = layers
    assert_allclose(f(layers, X), np.tanh(np.tanh(X @ w + b) @ v + c).sum())
    assert f((), X) == pytest.approx(X.sum())
    assert adc.check_grad(f, layers, X) < 1e-7
    with pytest.raises(adc.ParseError, match="cannot unpack a scalar"):
        f(X[0], X)


def test_a_container_may_be_a_result():
    f = adc.compile("def f(p, s):\n    return p, s * p.y", backend="numpy")
    again, double = f(Point(X, 2.0), 2.0)
    assert isinstance(again, Point)
    assert again.x is not X
    assert_allclose(again.x, X)
    assert double == 4.0
    _, pullback = adc.vjp(f, Point(X, 2.0), 2.0)
    dp, ds = pullback((Point(None, 5.0), 1.0))
    assert (dp.x, dp.y, ds) == (None, 7.0, 2.0)
    dp, ds = pullback((None, 1.0))
    assert (dp.x, dp.y, ds) == (None, 2.0, 2.0)
    buffers = (Point(np.empty_like(X), np.empty(())), np.empty(()))
    f.into(buffers, Point(X, 2.0), 2.0)
    assert_allclose(buffers[0].x, X)


def test_an_annotation_names_the_class():
    f = adc.compile("def f(p: Point, q: dict):\n    return p.x * q['s']", backend="numpy")
    assert f(Point(2.0, 1.0), {"s": 3.0}) == 6.0
    with pytest.raises(adc.DtypeError, match=r"q is a Point.*, but its annotation is dict"):
        f(Point(2.0, 1.0), Point(1.0, 1.0))
    with pytest.raises(adc.DtypeError, match="p is a tuple of 2, but its annotation is f64"):
        adc.compile("def f(p: f64[n]):\n    return sum(p)", backend="numpy")((X, 1.0))


def test_leaves_are_named_by_their_paths():
    f, p = held("nested")
    f(p, X, Y)
    assert "%\"p[1]['out'][0]\": f64[m]" in f.show("ir", p, X, Y)
    assert "p[0].w: flows" in f.explain()
    with pytest.raises(adc.ShapeError, match=r"axis 0 of p\[1\]\['out'\]\[0\]"):
        f((p[0], {"out": [np.ones(5)]}), X, Y)
    step = adc.compile('sum(where(p["x"] > 1, p["x"], 0))', backend="numpy")
    with pytest.raises(adc.GradientError, match=r"with respect to p\['x'\]\[1\] is"):
        adc.check_grad(step, {"x": np.array([3.0, 1.0])})


# ---- What is refused ----


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('p["w3"]', "there is no key 'w3'"),
        ("p.w", "has no attribute 'w'"),
        ("p[0]", "a dict is indexed by a key in quotes"),
        ('p["q"].z', r"a Point\(x, y\) has no field 'z'"),
        ('p["q"]["x"]', "index must be one integer"),
        ('p["q"][2]', "index 2 of a tuple of 2"),
        ('p["l"]["w"]', "has no keys"),
        ("p + 1", "add takes numbers and arrays, not a dict"),
        ('sum(p["q"])', "a Point"),
        ('p["note"] * 2', "not a string"),
        ("p", None),
    ],
)
def test_a_part_that_is_not_there(source, message):
    f = adc.compile(source, backend="numpy")
    p = {"w1": 1.0, "q": Point(1.0, 2.0), "l": Layer(1.0, 2.0), "note": "x"}
    if message is None:
        assert f(p) == p
        return
    with pytest.raises(adc.Error, match=message) as caught:
        f(p)
    assert caught.value.line == 1


def _loop() -> list[Any]:
    loop: list[Any] = [X]
    loop.append(loop)
    return loop


@dataclass
class Unset:
    a: float = field(init=False)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: X}, "p has the key 1"),
        ({"a": {1, 2}}, r"p\['a'\].*is a set"),
        ({"a": 1j}, r"p\['a'\].*complex"),
        (_loop(), "nest deeper than 64"),
        (Unset(), "p.a is not set"),
    ],
)
def test_values_that_are_no_containers(value, message):
    with pytest.raises(adc.Error, match=message):
        adc.compile("p[0]", backend="numpy")(value)


@pytest.mark.parametrize(
    ("tangent", "message"),
    [
        ({"w1": W1}, "the tangent of p is a dict with the keys 'w1', 'b1', 'w2', but got a dict"),
        ((W1, B1, W2), "got a tuple of 3"),
        ({"w1": W1, "b1": B1, "w2": W1}, r"the tangent of p\['w2'\] is float64 of shape \(3, 4\)"),
        ({"w1": (W1,), "b1": B1, "w2": W2}, r"the tangent of p\['w1'\]"),
        (W1, "got a ndarray"),
    ],
)
def test_a_tangent_of_another_structure(tangent, message):
    f, p = held("dict")
    with pytest.raises(adc.ShapeError, match=message):
        adc.jvp(f, (p, X, Y), (tangent, None, None))
    with pytest.raises(adc.ShapeError, match=message):
        adc.hvp(f, "p")((p, X, Y), tangent)


def test_a_tangent_of_what_has_no_derivative():
    f = adc.compile("p[0] * sum(p[1])", backend="numpy")
    with pytest.raises(adc.ShapeError, match=r"the tangent of p\[1\] is not a float"):
        adc.jvp(f, ((2.0, np.arange(3)),), ((1.0, np.ones(3)),))


def test_a_cotangent_of_another_structure():
    f = adc.compile("def f(p):\n    return p, 2 * p.x", backend="numpy")
    _, pullback = adc.vjp(f, Point(1.0, 2.0))
    with pytest.raises(adc.ShapeError, match=r"the cotangent\[0\] is a Point\(x, y\), but got a tuple"):
        pullback(((1.0, 2.0), 1.0))
    with pytest.raises(adc.ShapeError, match=r"the cotangent is a tuple of 2, but got a float"):
        pullback(1.0)


def test_wrt_names_parameters_that_hold_floats():
    f = adc.compile("p[0] * q[0]", backend="numpy")
    with pytest.raises(adc.DtypeError, match="p is without floats: there is no derivative"):
        adc.grad(f, "p")((np.int64(1), None), (2.0,))
    assert adc.grad(f)((np.int64(1), None), (2.0,)) == (1.0,)


def test_axes_of_cases_nest_like_the_container():
    f, p = held("dict")
    with pytest.raises(adc.ShapeError, match="vmap: in_axes of p is a dict"):
        adc.vmap(f, ({"w1": 0}, None, None))(p, X, Y)
    with pytest.raises(adc.ShapeError, match=r"vmap: p\['b1'\] has rank 1, so no axis 1"):
        adc.vmap(f, (1, None, None))(p, X, Y)


def test_dicts_and_dataclasses_stay_outside_njit():
    f = adc.compile("p[0] * 2").jitted

    @njit
    def user(p):
        return f(p)

    with pytest.raises(Exception, match="of containers, tuples and named tuples"):
        user("text")


@pytest.mark.parametrize("kind", [OrderedDict, lambda **parts: defaultdict(float, **parts)])
def test_dicts_of_other_classes_are_dicts(kind):
    f = adc.compile("def f(p, x):\n    return sum(p['w'] * x) + p['b']", backend="numpy")
    slopes = adc.grad(f, "p")(kind(w=np.ones(2), b=1.0), np.array([3.0, 4.0]))
    assert type(slopes) is dict
    np.testing.assert_array_equal(slopes["w"], [3.0, 4.0])
