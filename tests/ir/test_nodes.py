"""Nodes are interned: two are equal exactly if they are the same object."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from adcompiler.ir import nodes
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Const,
    Func,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Size,
    const,
    is_const,
    select,
)

i, j, N = Index(0), Index(1), Size(0)
X = Input(0, "f64", (N, N))


def exp_of_x():
    return Map((N, N), Apply("exp", (Read(X, (i, j)),), "f64"))


def chain(length, start="a"):
    """sin(sin(... f(x) ...)), with a function of its own at the bottom."""
    element = Apply(start, (Read(X, (i, j)),), "f64")
    for _ in range(length):
        element = Apply("sin", (element,), "f64")
    return element


def test_the_same_parts_make_the_same_node():
    assert exp_of_x() is exp_of_x()
    assert Index(0) is i
    assert Input(0, "f64", (Size(0), Size(0))) is X
    assert select(const(True, "bool"), i, j) is select(const(True, "bool"), i, j)


def test_other_parts_make_another_node():
    assert Index(1) is not Index(0)
    assert Index(0) != Size(0)
    assert Input(0, "f32", (N, N)) is not X
    assert Apply("exp", (i,), "f32") is not Apply("exp", (i,), "f64")
    assert Reduce("sum", (N,), (N,), i) is not Reduce("sum", (), (N, N), i)


def test_an_element_is_one_object_in_every_array():
    body = Read(X, (i, j))
    assert Map((N, N), body).body is Reduce("sum", (N,), (N,), body).body


def test_constants_are_their_type_and_bits():
    assert const(0.0, "f64") is not const(-0.0, "f64")
    assert math.copysign(1, const(-0.0, "f64").value) == -1
    assert const(1, "i64") is not const(True, "bool")
    assert const(1, "f64") is not const(1, "f32")
    assert const(math.nan, "f64") is const(math.nan, "f64")
    quiet, signalling = (Const("f64", b"\1" + bytes(5) + top + b"\x7f") for top in (b"\xf8", b"\xf0"))
    assert quiet is not signalling
    assert const(math.nan, "f64") not in (quiet, signalling)


def test_constants_convert_as_numpy_does():
    assert const(2**63, "i64").value == -(2**63)
    assert const(0.1, "f32").value == pytest.approx(0.1, abs=1e-8)
    assert const(0.1, "f32").value != 0.1
    assert const(2, "bool").value is True


def test_is_const_compares_values():
    assert is_const(const(2.0, "f32"), 2)
    assert is_const(const(-0.0, "f64"), 0)
    assert is_const(const(math.nan, "f64"))
    assert not is_const(const(3, "i64"), 2)
    assert not is_const(i)


def test_axes_follow_from_the_parts():
    assert const(1, "i64").axes == N.axes == frozenset()
    assert Read(X, (i, const(0, "i64"))).axes == {0}
    assert Apply("add", (Read(X, (i, j)), Read(X, (j, Index(2)))), "f64").axes == {0, 1, 2}


def test_the_domain_of_each_kind_of_array():
    three = const(3, "i64")
    assert Map((N, three), i).domain == (N, three)
    assert Reduce("sum", (N,), (three,), i).domain == (N, three)
    scatter = Accumulate((N,), (three,), (i,), j)
    assert (scatter.shape, scatter.domain, scatter.elements) == ((N,), (three,), (i, j))
    assert [a.rank for a in (X, scatter, Reduce("sum", (), (N,), i))] == [2, 1, 0]


def test_a_copy_is_the_node_itself():
    node = exp_of_x()
    assert copy.copy(node) is node
    assert copy.deepcopy(node) is node
    assert copy.deepcopy({"r": [node]})["r"][0] is node


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_comes_back_as_the_same_node(protocol):
    scatter = Accumulate((N,), (N,), (i,), select(const(True, "bool"), const(-0.0, "f64"), Read(X, (i, i))))
    func = Func("f", (X,), ("x",), (exp_of_x(), scatter), ("r", "s"), ("n",), {X: "x"})
    back = pickle.loads(pickle.dumps(func, protocol))
    assert back == func
    assert back.results[1] is scatter
    assert back.names == {X: "x"}


def test_a_node_that_nobody_holds_leaves_the_table():
    held = chain(50, start="nobody_holds_this")
    parts = [weakref.ref(held), weakref.ref(held.args[0])]
    assert all(any(part() is node for node in nodes._table.values()) for part in parts)
    del held
    gc.collect()
    assert not any(part() for part in parts)


def test_a_node_holds_its_parts():
    node = chain(50)
    gc.collect()
    assert chain(50) is node


def test_a_long_chain_is_built_and_freed_without_recursion():
    held = chain(20_000, start="nor_this")
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None


def test_threads_that_build_the_same_node_get_the_same_object():
    workers, rounds = 8, 50
    barrier = Barrier(workers)

    def build():
        kept = []
        for k in range(rounds):
            barrier.wait(timeout=60)
            kept.append(chain(20, f"round{k}"))
        return kept

    with ThreadPoolExecutor(workers) as pool:
        built = [f.result() for f in [pool.submit(build) for _ in range(workers)]]
    assert all(len({id(node) for node in same}) == 1 for same in zip(*built, strict=True))
