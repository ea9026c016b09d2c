"""Fast paths: after two calls that are alike, machine code answers others like them; all others run as if
there were none."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import adcompiler as adc

SOURCE = "(1 - x)**2 + 100 * (y - x**2)**2"


def rosenbrock(x, y):
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def has_door(f) -> bool:
    """Whether the next call takes the fast path, a function of machine code."""
    return type(f.__call__) is type(len)


def counted(f, monkeypatch) -> list:
    """The types of the calls that go the general way from here on."""
    seen: list = []
    before = type(f)._describe
    monkeypatch.setattr(type(f), "_describe", lambda self, *a: seen.append(a[0]) or before(self, *a))
    return seen


def test_numbers_go_in_and_nested_numbers_come_out():
    f = adc.value_and_grad(adc.compile(SOURCE))
    assert not has_door(f)
    first = f(1.0, 2.0)
    assert not has_door(f)  # most programs are called once with the same types and lengths
    f(1.0, 2.0)
    assert has_door(f)
    assert f(1.0, 2.0) == first == (100.0, (-400.0, 200.0))
    value, (dx, dy) = f(0.5, 0.25)
    assert all(type(n) is float for n in (value, dx, dy))


def test_a_call_like_the_last_one_does_not_go_the_general_way(monkeypatch):
    f = adc.compile(SOURCE)
    x, y = np.arange(3.0), np.ones(3)
    f(x, y)
    f(x, y)
    seen = counted(f, monkeypatch)
    np.testing.assert_array_equal(f(x + 1, y), rosenbrock(x + 1, y))
    assert not seen
    f(1.0, 2.0)
    f(3.0, 4.0)
    f(5.0, 6.0)
    assert len(seen) == 2


NUMBERS = {
    "floats": (1.5, 2.5),
    "integers": (3, 4),
    "both": (3, 2.5),
    "NumPy's": (np.float64(1.5), np.float64(2.5)),
    "one of NumPy's": (np.float64(1.5), 2.5),
    "with an array": (np.float64(1.5), np.arange(3.0)),
    "an integer with an array": (2, np.arange(3.0)),
}


@pytest.mark.parametrize("args", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_these_classes_go_in(args, monkeypatch):
    f, reference = adc.compile(SOURCE), adc.compile(SOURCE, backend="numpy")
    first = f(*args)
    f(*args)
    assert has_door(f)
    seen = counted(f, monkeypatch)
    second = f(*args)
    assert not seen
    assert repr(first) == repr(second) == repr(reference(*args))


def test_integers_that_are_annotated_stay_integers():
    f = adc.compile("def f(x: f64[n], k: i64):\n    return x[k], k * k")
    x = np.arange(5.0)
    assert [f(x, k) for k in (1, 2, 3)] == [(1.0, 1), (2.0, 4), (3.0, 9)]
    assert has_door(f)
    with pytest.raises(adc.OutOfRangeError):
        f(x, 5)
    assert f(x, 4) == (4.0, 16)


@pytest.mark.parametrize("large", [10**400, -(10**400)])
def test_integers_may_be_too_large_for_a_door(large):
    f = adc.compile("x * 2")
    assert f(3) == f(4) - 2 == 6.0
    with pytest.raises(adc.DtypeError, match="does not fit float64"):
        f(large)
    g = adc.compile("def g(k: i64):\n    return k + 1")
    assert g(3) == g(2) + 1 == 4
    with pytest.raises(adc.DtypeError, match="does not fit int64"):
        g(large)


def test_a_length_that_an_integer_says_is_not_taken_for_known():
    f = adc.compile("def f(x, m: i64):\n    return sum(x + i for i in range(m))")
    assert [f(1.0, m) for m in (2, 2, 3, 0)] == [3.0, 3.0, 6.0, 0.0]


def test_what_is_known_while_compiling_must_be_the_same(monkeypatch):
    f = adc.compile("def f(x, n: static):\n    for _ in range(n):\n        x = x * 2\n    return x")
    assert [f(1.0, n) for n in (2, 2, 3, 3, 2)] == [4.0, 4.0, 8.0, 8.0, 4.0]
    seen = counted(f, monkeypatch)
    f(1.0, 3)
    f(1.0, 3)
    assert len(seen) == 1


OTHERS = {
    "a name": lambda f: f(x=1.0, y=2.0),
    "integers": lambda f: f(1, 2),
    "NumPy's integers": lambda f: f(np.int64(1), 2.0),
    "a boolean": lambda f: f(True, 2.0),
    "NumPy's float": lambda f: f(np.float64(1.0), 2.0),
    "float32": lambda f: f(np.float32(1.0), np.float32(2.0)),
    "an array": lambda f: f(np.arange(4.0), 2.0),
    "a list": lambda f: f([1.0, 2.0], 2.0),
    "a column": lambda f: f(np.arange(3.0)[:, None], np.arange(3.0)),
    "no contiguous one": lambda f: f(np.arange(6.0)[::2], np.arange(3.0)),
    "other lengths": lambda f: f(np.arange(5.0), np.arange(5.0)),
    "one of them is 1": lambda f: f(np.arange(3.0), np.arange(1.0)),
    "another byte order": lambda f: f(np.arange(3.0).astype(">f8"), np.arange(3.0)),
    "float32 arrays": lambda f: f(np.arange(3, dtype="f4"), np.arange(3, dtype="f4")),
    "integers in an array": lambda f: f(np.arange(3), np.ones(3)),
    "not aligned": lambda f: f(np.frombuffer(bytearray(33), offset=1, dtype="f8", count=3), np.ones(3)),
    "a subclass": lambda f: f(np.arange(3.0).view(np.recarray), np.ones(3)),
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("before", [(1.0, 2.0), (np.arange(3.0), np.ones(3)), (np.arange(3.0), 2.0)])
def test_any_other_call_is_as_without_a_door(other, before):
    f, fresh = (
        adc.value_and_grad(adc.compile(f"sum({SOURCE})")),
        adc.value_and_grad(adc.compile(f"sum({SOURCE})")),
    )
    f(*before)
    f(*before)
    assert has_door(f)
    assert [repr(other(f)) for _ in range(3)] == [repr(other(fresh))] * 3  # classes, dtypes, nesting


ERRORS = {
    "too few": (lambda f: f(np.ones(3)), "missing y"),
    "too many": (lambda f: f(np.ones(3), np.zeros(3, int), 1.0), "got 3 arguments"),
    "unknown name": (lambda f: f(np.ones(3), z=1.0), "'z'"),
    "no number": (lambda f: f(np.ones(3), "2"), "not a number"),
    "complex": (lambda f: f(np.ones(3), 1j * np.ones(3)), "complex128"),
    "lengths": (lambda f: f(np.ones(3), np.zeros(4, int)), "differ"),
    "an index": (lambda f: f(np.ones(3), np.array([0, 1, 3])), "index"),
}


@pytest.mark.parametrize(("call", "says"), ERRORS.values(), ids=ERRORS)
def test_errors_are_those_of_any_call(call, says):
    f = adc.compile("def f(x: f64[n], y: i64[n]):\n    return [x[y[i]] for i in range(n)]")
    good = np.ones(3), np.zeros(3, int)
    f(*good)
    f(*good)
    assert has_door(f)
    with pytest.raises(adc.Error, match=says):
        call(f)
    assert f(*good).tolist() == [1.0, 1.0, 1.0]


def test_results_of_every_kind():
    source = "def f(x: f64[n], y: f32[n], k: i64[n]):\n    return sum(x), (sum(y), sum(k), sum(x) > 0), x * k"
    f = adc.compile(source)
    args = np.arange(3.0), np.arange(3, dtype="f4"), np.arange(3)
    first, second = f(*args), f(*args)
    assert has_door(f)
    for found in (first, second):
        assert [type(n) for n in (found[0], *found[1])] == [np.float64, np.float32, np.int64, np.bool_]
        assert (found[0], found[1], found[2].tolist()) == (3.0, (3.0, 3, True), [0.0, 1.0, 4.0])


def test_python_numbers_have_python_results_of_every_kind():
    f = adc.compile("def f(x):\n    return x + 1, (x > 2, 3)")
    assert [f(2.5) for _ in range(2)] == [(3.5, (True, 3))] * 2
    assert has_door(f)
    value, (truth, whole) = f(2.5)
    assert [type(n) for n in (value, truth, whole)] == [float, bool, int]


def test_results_are_new_arrays_each_time():
    f = adc.compile("x * 2.0")
    for n in (3, 100_000 // 8, 20_000):  # small ones, and such as are used again
        x = np.arange(float(n))
        found = [f(x + k) for k in range(4)]
        assert has_door(f)
        assert all(np.array_equal(a, (x + k) * 2) for k, a in enumerate(found))


def test_no_reference_is_lost_or_kept():
    f = adc.value_and_grad(adc.compile("sum(exp(x) * a)"))
    x = np.arange(5.0)
    f(x, 1.5)
    before = sys.getrefcount(x), sys.getrefcount(None), sys.getallocatedblocks()
    for _ in range(1000):
        dx = f(x, 1.5)[1][0]
    assert sys.getrefcount(x) == before[0]
    assert sys.getrefcount(dx) == 2
    assert abs(sys.getrefcount(None) - before[1]) < 100
    assert abs(sys.getallocatedblocks() - before[2]) < 100


def test_show_shows_the_last_call():
    f = adc.compile(SOURCE)
    f(1.0, 2.0)
    f(np.ones(3), np.ones(3))
    assert "f64[n]" in f.show("ir")
    f(1.0, 2.0)
    f(1.0, 2.0)
    assert "f64[n]" not in f.show("ir")


def test_a_variable_is_recorded_after_a_call_with_its_value():
    f = adc.compile("x * x")
    f(2.0)
    v = adc.Variable(3.0, requires_grad=True)
    f(v).backward()
    assert v.grad == 6.0


def test_copies_have_doors_of_their_own():
    f = adc.compile(SOURCE)
    f(1.0, 2.0)
    for other in (copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert not has_door(other)
        assert other(1.0, 2.0) == other(1.0, 2.0) == f(1.0, 2.0)
        assert has_door(other)


def test_fast_paths_in_many_threads():
    f = adc.grad(adc.compile("sum(sin(a * x))"), "a")
    x = [np.linspace(0, 1, n) for n in (20, 30, 2000)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: f(float(k), x[k % 3]), range(600)))
    np.testing.assert_allclose(
        found, [np.sum(x[k % 3] * np.cos(k * x[k % 3])) for k in range(600)], rtol=1e-9
    )


def test_a_door_does_not_keep_what_nobody_holds():
    f = adc.compile("x * 3 + 1")
    f(1.0)
    f(1.0)
    fast_path = f.__call__
    del f
    gc.collect()
    assert fast_path(2.0) == 7.0
    assert fast_path(np.ones(2)).tolist() == [4.0, 4.0]


def test_many_arguments_have_no_door():
    names = [f"x{k}" for k in range(300)]
    f = adc.compile(" + ".join(names))
    assert f(*[1.0] * 300) == f(*[1.0] * 300) == 300.0
    assert not has_door(f)
