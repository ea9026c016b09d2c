"""`break`, `continue` and `return` in loops: what such a loop gives, and its derivatives, by the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import agrees, along, directions, totalled
from programs.written_exits import LEAVING, LONG

import adcompiler as adc


@pytest.mark.thinned(16)
@pytest.mark.parametrize("name", LEAVING)
def test_derivatives_of_both_modes_to_the_third_order(name: str) -> None:
    total = totalled(LEAVING[name])
    one, other, third = directions(total, 3)
    f = adc.compile(total.source, backend="numpy")
    slope, change = adc.grad(f)(*total.args), adc.hvp(f)(total.args, tuple(one))
    expected = [along(total, one), along(total, one, other), along(total, one, other, third)]
    assert None not in expected
    agrees(slope, one, expected[0])  # reverse mode
    agrees(change, other, expected[1])  # forward over reverse

    def second(*args):
        return adc.vjp(adc.grad(f), *args)

    _, pull = second(*total.args)
    agrees(pull(tuple(one)), other, expected[1])  # reverse over reverse
    thirds = adc.taylor(f, total.args, tuple(one), 3)
    three = along(total, one, one, one)
    assert three is not None
    assert abs(thirds[3] - three) <= 1e-8 * max(1, abs(three))  # forward, three times


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    "name",
    [
        "a break",
        "a break and a continue",
        "a while that is left",
        "stores and a break",
        "a return",
        "a while without an end",
        "a return under a branch",
    ],
)
def test_third_derivatives_in_reverse_mode(name: str) -> None:
    total = totalled(LEAVING[name])
    f = adc.compile(total.source, backend="numpy")
    way = [np.zeros(np.shape(a)) for a in total.args[:-1]] + [1.0]
    expected = along(total, way, way, way)
    assert expected is not None
    found = adc.grad(adc.grad(adc.grad(f, "w"), "w"), "w")(*total.args)
    assert abs(found - expected) <= 1e-8 * max(1, abs(expected))


def test_a_loop_that_is_left_computes_no_further():
    """Neither the values nor the indices of later iterations matter."""
    f = adc.compile(
        "def f(x, k: i64):\n    s = 1.0\n    for i in range(1000000000):\n        if i == k:\n"
        "            break\n        s = s * x[i]\n    return s"
    )
    assert f(LONG, 3) == LONG[0] * LONG[1] * LONG[2]
    assert adc.grad(f, "x")(LONG, 1)[0] == 1
    with pytest.raises(adc.OutOfRangeError, match="an index is out of range"):
        f(LONG, 10)


def test_no_derivative_passes_through_what_is_skipped() -> None:
    """What follows a `continue` may be infinite there, and so may its derivative."""
    f = adc.compile(
        "def f(x: f64[n]):\n    s = 0.0\n    for v in x:\n        if v == 0:\n            continue\n"
        "        s += sqrt(v) + 1 / v\n    return s"
    )
    assert f(np.array([0.0, 1.0, 4.0])) == 4.25
    np.testing.assert_array_equal(adc.grad(f)(np.array([0.0, 1.0, 4.0])), [0, -0.5, 0.1875])
    assert adc.hvp(f)((np.array([0.0, 1.0, 1.0]),), np.ones(3))[0] == 0


@pytest.mark.slow
def test_stores_under_a_condition_change_one_element() -> None:
    """So that no mask goes over the whole array, in values or derivatives."""
    source = (
        "def f(x: f64[n]):\n    y, z = zeros(n), zeros((n, 2))\n    for i in range(1, n):\n"
        "        if x[i] < 0.6:\n            continue\n        y[i] = y[i - 1] + x[i]\n"
        "        y[0] += y[i] * x[i]\n        z[i] = y[:2] * x[i]\n    return y, z"
    )
    f = adc.compile(source, backend="numpy")
    assert f.show("ir").count("array (i < n) { select(") == 2
    assert adc.check_grad(f, LONG) < 1e-7


def test_empty_loops_and_float32() -> None:
    source = LEAVING["a break"].source.replace(": f64[n]", "")
    assert adc.compile(source)(np.zeros(0), 0.7) == 0.7
    x = LONG.astype(np.float32)
    found = adc.compile(source)(x, np.float32(0.7))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, adc.compile(source)(LONG, 0.7), rtol=1e-5)


def test_a_decorated_function_and_the_same_text_are_alike() -> None:
    @adc.function
    def f(x, w):
        s = w
        for v in x:
            if v > 1.2:
                break
            if v < 0.6:
                continue
            s = s * v
        return s

    text = """
def f(x, w):
    s = w
    for v in x:
        if v > 1.2:
            break
        if v < 0.6:
            continue
        s = s * v
    return s
"""
    assert f(LONG, 0.7) == adc.compile(text)(LONG, 0.7)


def test_what_a_loop_returns_keeps_its_type() -> None:
    first = adc.compile(
        "def f(x, least):\n    for i in range(len(x)):\n        if x[i] > least:\n            return i\n"
        "    return -1"
    )
    assert [first(np.array([0.5, 2.0, 3.0]), y) for y in (1.0, 5.0)] == [1, -1]
    assert type(first(np.ones(1), 0.0)) is np.int64
    found = adc.compile(
        "def f(x):\n    for v in x:\n        if v > 1:\n            return True\n    return False"
    )
    assert found(np.array([0.5, 2.0])).dtype == bool
    single = adc.compile(
        "def f(x):\n    for v in x:\n        if v > 1:\n            return 2 * v\n    return x[0]"
    )
    assert single(np.ones(3, np.float32)).dtype == np.float32


LOOP = "    for v in x:\n        if v > 3:\n"
REFUSED = {
    f"{LOOP}            return 0.0\n        if v > 2:\n            return x\n    return x": "different ranks",
    f"{LOOP}            return 0.0\n    return x": "the result has rank 0 in one",
    f"{LOOP}            return None\n    return x": "cannot return a value that is not a number",
    f"{LOOP}            return v": "a branch ends without a return",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_a_loop_cannot_return(body: str) -> None:
    with pytest.raises(adc.Error, match=REFUSED[body]):
        adc.compile(f"def f(x):\n{body}")(LONG)
