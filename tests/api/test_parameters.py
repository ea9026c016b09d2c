"""`adc.Parameter`, `adc.parameters` of objects, and `adc.ravel`: what training needs beside optimisers."""

from __future__ import annotations

import copy
import math
import pickle
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

import adcompiler as adc
from adcompiler import DtypeError, Error, GraphError, LimitError, Parameter, ShapeError, Variable

# -- Parameter ---------------------------------------------------------------------------------


def test_a_parameter_is_a_variable_that_requires_a_gradient():
    w = Parameter([1, 2], name="w")
    assert isinstance(w, Variable)
    assert w.requires_grad
    assert w.is_leaf
    assert not Parameter(1.0, requires_grad=False).requires_grad
    assert repr(w) == "Parameter([1., 2.], name='w', requires_grad=True)"
    (w * w).sum().backward()
    assert_array_equal(w.grad.value, [2.0, 4.0])
    assert type(w * w) is Variable


@pytest.mark.parametrize("again", [copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))])
def test_a_copy_of_a_parameter_is_one(again):
    w = again(Parameter(np.ones(2, "f"), requires_grad=False, name="w"))
    assert type(w) is Parameter
    assert (w.name, w.dtype, w.requires_grad) == ("w", np.float32, False)


def test_a_parameter_begins_with_the_value_of_a_constant():
    v = Variable([1.0, 2.0])
    w = Parameter(v)
    w.value = [3.0, 4.0]
    assert_array_equal(v.value, [1.0, 2.0])


def test_what_cannot_be_a_parameter():
    with pytest.raises(GraphError, match=r"adc.Parameter\(v.value\)"):
        Parameter(Variable(1.0, requires_grad=True, name="v"))
    with pytest.raises(DtypeError, match="only floats"):
        Parameter(np.array([1, 2]))


# -- parameters --------------------------------------------------------------------------------


class Dense:
    def __init__(self, name):
        self.w, self.b = Parameter([1.0], name=f"{name}.w"), Parameter(0.0, name=f"{name}.b")


class Slotted:
    __slots__ = ("__private", "empty", "w")

    def __init__(self):
        self.w = Parameter(1.0, name="w")
        self.__private = Parameter(1.0, name="private")


class Lazy:
    shared = Parameter(1.0, name="of the class")

    @property
    def computed(self):
        raise AssertionError("a property was computed")

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked for")


@dataclass(slots=True)
class Model:
    layers: Any
    bias: Any


def names(*objects):
    return [p.name for p in adc.parameters(*objects)]


def test_attributes_lists_dicts_and_objects_inside_of_each_other():
    model = Model([Dense("one"), (Dense("two"),)], {"b": deque([Parameter(1.0, name="b")])})
    assert names(model) == ["one.w", "one.b", "two.w", "two.b", "b"]
    assert names(Dense("x"), [Dense("y")]) == ["x.w", "x.b", "y.w", "y.b"]
    assert names(Slotted()) == ["private", "w"]


def test_each_is_found_once():
    model = Dense("m")
    model.tied, model.again = model.w, [model.w, model.b, model]
    assert names(model, model) == ["m.w", "m.b"]


def test_cycles_end():
    one, two = Dense("one"), Dense("two")
    one.child, two.parent = two, one
    one.loop = [one]
    one.loop.append(one.loop)
    assert names(one) == ["one.w", "one.b", "two.w", "two.b"]


def test_deep_chains_do_not_overflow_the_stack():
    chain: Any = Parameter(1.0, name="deep")
    for _ in range(20_000):
        chain = [chain]
    assert names(chain) == ["deep"]


def test_subclasses_of_containers_have_attributes_too():
    class Layers(list):
        pass

    layers = Layers([Parameter(1.0, name="a")])
    layers.scale = Parameter(1.0, name="scale")
    assert names(layers) == ["a", "scale"]
    assert names(OrderedDict(z=Parameter(1.0, name="z"))) == ["z"]
    assert names(namedtuple("P", "x")(Parameter(1.0, name="x"))) == ["x"]
    assert names(np.array([Parameter(1.0, name="o"), None], dtype=object)) == ["o"]


def test_what_is_not_entered():
    w = Parameter(1.0, name="w")
    assert names(Lazy(), Lazy, math, lambda: w, Dense("x").__init__) == []
    assert names([1, "text", None, np.ones(2), 1j, Variable(1.0, requires_grad=True)]) == []
    assert names((w * 2), adc.compile("x + 1")) == []
    assert names([w]) == ["w"]


def test_an_object_is_trained():
    model = Dense("m")
    opt = adc.optim.SGD(adc.parameters(model), lr=0.1)
    for _ in range(200):
        opt.zero_grad()
        ((model.w * 2.0 + model.b - 5.0) ** 2).sum().backward()
        opt.step()
    assert model.w.item() * 2 + model.b.item() == pytest.approx(5.0)


# -- ravel -------------------------------------------------------------------------------------

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Layer:
    w: Any
    b: Any
    width: int = 3
    kind: str = "tanh"


def test_a_container_as_a_vector_and_back():
    params = {
        "layers": [Layer(np.arange(4.0).reshape(2, 2), np.float32(4)), Layer(np.array(5.0), 6)],
        "point": Point((7.0, None), [8, 9.5]),
        "empty": np.empty((0, 3), "f"),
        "counts": np.array([1, 2]),
        "flag": True,
    }
    vector, unravel = adc.ravel(params)
    assert_array_equal(vector, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9.5])
    found = unravel(vector + 1)
    one, two = found["layers"]
    assert_array_equal(one.w, np.arange(1.0, 5).reshape(2, 2))
    assert (one.b, type(one.b), one.width, one.kind) == (5.0, np.float32, 3, "tanh")
    assert (two.w.shape, two.w[()], two.b, type(two.b)) == ((), 6.0, 7.0, float)
    assert found["point"] == Point((8.0, None), [9.0, 10.5])
    assert (found["empty"].shape, found["empty"].dtype) == ((0, 3), np.float32)
    assert found["counts"] is params["counts"]
    assert found["flag"] is True
    assert_array_equal(adc.ravel(found)[0], vector + 1)


@pytest.mark.parametrize(
    ("params", "dtype"),
    [
        ([np.ones(2, "f"), np.ones(1, "f")], "f"),
        ([np.ones(2, "f"), np.ones(1)], "d"),
        (np.ones((2, 2), ">f4"), "f"),
        ({}, "d"),
        ([], "d"),
        (2.0, "d"),
    ],
)
def test_the_type_of_the_vector(params, dtype):
    vector, unravel = adc.ravel(params)
    assert vector.dtype == dtype
    assert vector.ndim == 1
    assert_array_equal(adc.ravel(unravel(vector.astype("d")))[0], vector, strict=True)


def test_nothing_shares_memory():
    x = np.ones(3)
    vector, unravel = adc.ravel(x)
    back = unravel(vector)
    vector[0] = 5.0
    assert (x[0], back[0]) == (1.0, 1.0)


def test_any_layout():
    x = np.arange(6.0).reshape(2, 3)
    for form in (x.T, np.asfortranarray(x), x[:, ::2], x[::-1]):
        vector, unravel = adc.ravel([form])
        assert_array_equal(vector, form.ravel())
        assert_array_equal(unravel(vector)[0], form)


def test_scipy_minimises_over_a_container():
    f = adc.compile("def f(p):\n    return (1 - p['x'])**2 + 100 * sum((p['y'] - p['x']**2)**2)")
    start, unravel = adc.ravel({"x": -1.0, "y": np.zeros(2)})
    slope = adc.value_and_grad(f)

    def objective(vector):
        value, gradient = slope(unravel(vector))
        return value, adc.ravel(gradient)[0]

    found = unravel(minimize(objective, start, jac=True).x)
    assert found["x"] == pytest.approx(1.0, 1e-4)
    assert_allclose(found["y"], [1.0, 1.0], 1e-4)


def test_unravel_is_pickled():
    vector, unravel = adc.ravel({"a": Point(1.0, np.ones(2))})
    again = pickle.loads(pickle.dumps(unravel))
    assert again(vector)["a"].x == 1.0


def circle():
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (lambda: adc.ravel({"w": [Variable(1.0)]}), DtypeError, r"params\['w'\]\[0\] is a Variable"),
        (lambda: adc.ravel([np.ones(2), 1j]), DtypeError, r"params\[1\] is a complex"),
        (lambda: adc.ravel({"w": object()}), DtypeError, r"params\['w'\]"),
        (lambda: adc.ravel(np.ones(2, "f2")), DtypeError, "float16"),
        (lambda: adc.ravel(np.ma.masked_array([1.0], [True])), DtypeError, "masked"),
        (lambda: adc.ravel({1: 2.0}), DtypeError, "keys must be strings"),
        (lambda: adc.ravel([[1.0], [1.0, 2.0]]), DtypeError, "not an array"),
        (lambda: adc.ravel(circle()), LimitError, "nest deeper"),
        (lambda: adc.ravel([1.0, 2.0])[1](np.ones(3)), ShapeError, "a vector of 2"),
        (lambda: adc.ravel([1.0, 2.0])[1](np.ones((2, 1))), ShapeError, r"shape \(2, 1\)"),
        (lambda: adc.ravel([1.0, 2.0])[1]([1j, 2.0]), DtypeError, "complex128"),
        (lambda: adc.ravel([1.0, 2.0])[1](Variable([1.0, 2.0])), DtypeError, "v.value"),
        (lambda: adc.ravel([1.0, 2.0])[1]("ab"), DtypeError, "a vector of floats"),
        (lambda: adc.ravel([1.0, 2.0])[1](None), DtypeError, "a vector of floats"),
    ],
)
def test_mistakes(wrong, kind, message):
    with pytest.raises(kind, match=message) as caught:
        wrong()
    assert isinstance(caught.value, Error)
    assert caught.value.remedy


# -- Hessians ----------------------------------------------------------------------------------


@dataclass
class Weights:
    w: Any
    b: Any


VALUES = (np.array([1.0, 2.0]), 0.7, np.array([[0.5, 1.0], [2.0, 3.0]]))
PARAMS = {
    "dict": {"a": VALUES[0], "k": VALUES[1], "m": VALUES[2]},
    "list": [VALUES[0], VALUES[1], VALUES[2]],
    "nested": {"k": {"inner": VALUES[0]}, "rest": (VALUES[1], VALUES[2])},
    "class": Weights(VALUES[0], [VALUES[1], VALUES[2]]),
}
READS = {
    "dict": "p['a'], p['k'], p['m']", "list": "p[0], p[1], p[2]",
    "nested": "p['k']['inner'], p['rest'][0], p['rest'][1]", "class": "p.w, p.b[0], p.b[1]",
}  # fmt: skip
BODY = "\n    return sum(sin(a) * k) * sum(m**3) + k**2 * sum(m @ a)"
PLAIN = adc.compile("def f(v):\n    a, k, m = v[:2], v[2], reshape(v[3:], (2, 2))" + BODY, backend="numpy")


@pytest.mark.parametrize("name", PARAMS)
def test_a_hessian_by_a_container_is_a_symmetric_matrix(name):
    """The same as that of the function of the vector; and it goes back."""
    f = adc.compile(f"def f(p):\n    a, k, m = {READS[name]}{BODY}", backend="numpy")
    blocks = adc.hessian(f)(PARAMS[name])
    matrix, unravel = adc.ravel(blocks)
    vector, _ = adc.ravel(PARAMS[name])
    assert_allclose(matrix, adc.hessian(PLAIN)(vector), rtol=1e-12)
    assert_allclose(matrix, matrix.T, rtol=1e-14)
    again, _ = adc.ravel(unravel(2 * matrix))
    assert_array_equal(again, 2 * matrix)
    assert type(unravel(matrix)) is type(blocks)
    with pytest.raises(ShapeError, match="7 rows and columns"):
        unravel(matrix[1:])


def test_a_hessian_by_several_arguments_of_which_some_are_containers():
    f = adc.compile("def f(p, m):\n    a, k = p['a'], p['k']" + BODY, backend="numpy")
    matrix, unravel = adc.ravel(adc.hessian(f)({"a": VALUES[0], "k": VALUES[1]}, VALUES[2]))
    vector, _ = adc.ravel(VALUES)
    assert_allclose(matrix, adc.hessian(PLAIN)(vector), rtol=1e-12)
    assert_array_equal(adc.ravel(unravel(matrix))[0], matrix)
    plain = adc.compile("def f(a, k, m):" + BODY, backend="numpy")
    assert_allclose(adc.ravel(adc.hessian(plain)(*VALUES))[0], matrix, rtol=1e-12)


@pytest.mark.parametrize(
    "params",
    [{"a": {"a": 1.0, "b": 2.0}, "b": {"a": 3.0, "b": 4.0}}, {"w": {"w": np.ones((2, 2))}},
     ((np.ones((2, 2)), np.ones((2, 3))), (np.ones((3, 2)), np.ones((3, 2)))), [np.ones(2), [np.ones(2)]]],
)  # fmt: skip
def test_other_containers_of_containers_are_vectors(params):
    assert adc.ravel(params)[0].ndim == 1
