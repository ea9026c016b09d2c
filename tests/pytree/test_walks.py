"""Walks over containers: their leaves in order, with paths, and containers of others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.errors import LimitError, ShapeError
from adcompiler.pytree import containers
from adcompiler.pytree.containers import leaves_in, mapped, mapped_by_path
from adcompiler.pytree.trees import beside, built, leaves, leaves_by_path, map_leaves, tree_of
from adcompiler.runtime.arguments import signature


class Pair(NamedTuple):
    a: object
    b: object


NESTED = {"w": [np.zeros(2), (1.0, "text")], "p": Pair(None, 2)}
PATHS = ["x['w'][0]", "x['w'][1][0]", "x['w'][1][1]", "x['p'].a", "x['p'].b"]


def itself() -> list:
    made: list = []
    made.append(made)
    return made


def test_leaves_of_a_value_and_of_a_tree_come_in_the_same_order():
    tree = tree_of(NESTED, "x", lambda path, value, integer: path)
    assert list(leaves(tree)) == PATHS == [path for path, _ in leaves_by_path("x", tree)]
    assert [type(v) for v in leaves_in(NESTED)] == [np.ndarray, float, str, type(None), int]


def test_a_tree_is_built_again_from_its_leaves():
    tree = tree_of(NESTED, "x", lambda path, value, integer: value)
    assert built(tree, leaves(tree)) == built(map_leaves(lambda v: v, tree), leaves_in(NESTED))
    assert isinstance(built(tree, leaves(tree))["p"], Pair)


def test_mapped_takes_leaves_of_several_values_that_nest_alike():
    one, other = {"a": 1.0, "b": (2.0, 3.0)}, {"a": 10.0, "b": (20.0, 30.0)}
    assert mapped(lambda x, y: x + y, one, other) == {"a": 11.0, "b": (22.0, 33.0)}
    assert mapped_by_path(lambda path, x: path, "p", one) == {"a": "p['a']", "b": ("p['b'][0]", "p['b'][1]")}
    with pytest.raises(ShapeError, match="nest differently"):
        mapped(lambda x, y: x, one, {"a": 10.0})


def test_beside_a_tree_none_stands_for_all_of_a_container():
    tree = tree_of({"a": 1.0, "b": [np.ones(1), np.ones(1)]}, "x", lambda path, value, integer: value)
    assert list(beside(tree, {"b": None, "a": 5}, "g")) == [
        ("g['a']", 5),
        ("g['b'][0]", None),
        ("g['b'][1]", None),
    ]
    with pytest.raises(ShapeError, match=r"g\['b'\] is .* not a list of 2"):
        list(beside(tree, {"a": 5, "b": (1, 2, 3)}, "g"))


@pytest.mark.parametrize(
    "walk", [lambda v: list(leaves_in(v)), lambda v: tree_of(v, "x", lambda *leaf: leaf)]
)
def test_containers_that_hold_themselves_are_refused(walk):
    with pytest.raises(LimitError, match="nest deeper"):
        walk(itself())


def test_a_call_opens_each_container_once(monkeypatch):
    f = adc.compile("def f(p):\n    return sum(p['a']) + p['b'][0] * p['b'][1]\n")
    p = {"a": np.ones(3), "b": (2.0, np.ones(3))}
    f(p)
    seen, real = [], containers.opened

    def opened(value, name):
        seen.append(name)
        return real(value, name)

    for module in (signature, containers):
        monkeypatch.setattr(module, "opened", opened)
    f({"a": np.ones(4), "b": (2.0, np.ones(4))})
    assert seen == ["p", "p['b']"]


def test_a_variable_in_a_container_handles_the_call_whatever_is_wrong_before_it():
    f = adc.compile("sum(p[0]) * p[1]", args=["p"])
    v = adc.Variable(3.0, requires_grad=True)
    f([np.ones(2), v]).backward()
    assert v.grad == 2.0
