"""SlangPy's calls with lists of structs: pairs around a list, an item, or a field, few items or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adcompiler as adc
from adcompiler import DiffPair, Variable

Item = dict[str, Any]
f = adc.compile("sum([log(p['x']) * p['y'] + sum(p['v']**2) * p['x'] for p in ps])", backend="numpy")
same = adc.compile("def same(ps):\n    return ps", backend="numpy")


def items(n: int, of: Callable[[Any], Any] = lambda value: value) -> list[Item]:
    return [{"x": of(1.0 + k), "y": 2.0, "v": of(np.arange(2.0) + k)} for k in range(n)]


def same_items(found: Any, wanted: Any, keys: str = "xyv") -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        for key in keys:
            assert_allclose(one[key], other[key])


@pytest.fixture(params=[3, 20], ids=["few", "many"])
def n(request):
    return request.param


def test_without_pairs_and_with_one_around_the_list(n):
    wanted, pair = adc.grad(f)(items(n)), DiffPair(items(n))
    same_items(f.backward(items(n), 1.0)[0], wanted)
    same_items(f.backward(pair, 1.0)[0], wanted)
    same_items(pair.d, wanted)


@pytest.mark.parametrize("kind", [DiffPair, lambda value: Variable(value, requires_grad=True)])
def test_each_pair_or_variable_gathers_its_own_gradient(n, kind):
    wanted, given = adc.grad(f)(items(n)), items(n, kind)
    (found,) = f.backward(given, 1.0)
    same_items(found, wanted, "xv")
    assert found[1]["y"] is None
    gathered = given[1]["v"]
    assert_allclose(gathered.d if kind is DiffPair else gathered.grad.value, wanted[1]["v"])


def test_one_pair_in_one_item_and_one_item_as_a_pair(n):
    wanted, given = adc.grad(f)(items(n)), items(n)
    given[1]["v"] = DiffPair(given[1]["v"])
    for times in (1, 2):
        (found,) = f.backward(given, 1.0)
        assert_allclose(given[1]["v"].d, times * wanted[1]["v"])
    assert found[0] is None
    item: Any = items(n)
    item[2] = DiffPair(item[2])
    f.backward(item, 1.0)
    same_items([item[2].d], [wanted[2]])


def test_tangents_in_pairs(n):
    wanted = adc.jvp(f, (items(n),), (items(n),))[1]
    assert_allclose(f.forward(DiffPair(items(n), items(n))).d, wanted)
    assert_allclose(
        f.forward(items(n, lambda v: DiffPair(v, v))).d, wanted - 2 * np.log(np.arange(n) + 1).sum()
    )
    one = items(n)
    one[1]["x"] = DiffPair(one[1]["x"], 1.0)
    assert_allclose(f.forward(one).d, adc.grad(f)(items(n))[1]["x"])


def test_second_order(n):
    wanted, pair = adc.hvp(f)((items(n),), items(n)), DiffPair(DiffPair(items(n), items(n)))
    f.backward(pair, 1.0)
    same_items(pair.d.d, wanted)
    given = items(n)
    given[1]["v"] = DiffPair(DiffPair(given[1]["v"], np.ones(2)))
    f.backward(given, 1.0)
    assert_allclose(given[1]["v"].d.d, 2 * (1.0 + 1) * np.ones(2))


def test_float32_stays_float32(n):
    given = items(n, lambda v: DiffPair(np.float32(v)))
    f.backward(given, np.float32(1))
    assert given[1]["v"].d.dtype == given[1]["x"].d.dtype == np.float32


def test_cotangents_of_lists():
    assert_allclose(same.backward(items(20), items(20))[0][3]["v"], [3.0, 4.0])
    one = [{"x": 1.0, "y": None, "v": None}, *[None] * 19]
    assert [g["x"] for g in same.backward(items(20), one)[0]] == [1.0, *[0.0] * 19]
    with pytest.raises(
        adc.ShapeError, match=r"the cotangent of r0 has shape \(19,\), but the result \(20,\)"
    ):
        same.backward(items(20), one[:-1])


def test_lists_in_lists():
    nest = adc.compile("sum([sum([q['a']**2 for q in p['qs']]) * p['b'] for p in ps])", backend="numpy")
    given = [{"qs": [{"a": 1.0 + i + j} for j in range(10)], "b": 2.0} for i in range(12)]
    given[1]["qs"][2]["a"] = pair = DiffPair(4.0, 1.0)
    assert nest.forward(given).d == 16.0
    pair.d = None
    assert nest.backward(given, 1.0)[0][1]["qs"][2] == {"a": 16.0}
    assert pair.d == 16.0


def test_items_gather_sums_alone():
    given = items(20, lambda v: DiffPair(v, accumulator="push"))
    with pytest.raises(adc.DtypeError, match=r"\"push\": ps\[0\]\['x'\] is part of a list of structs"):
        f.backward(given, 1.0)
