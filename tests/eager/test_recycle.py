"""Results are written to memory that was used before, if and only if nobody holds it."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.buffers import MOST_BYTES, POOL

N = 20_000
X = np.arange(float(N))


@pytest.fixture(autouse=True)
def pool():
    adc.recycle(MOST_BYTES)
    yield
    adc.recycle(MOST_BYTES)


@pytest.fixture(scope="module")
def double():
    return adc.compile("2 * x")


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_that_nobody_holds_is_used_again(double):
    places = set()
    for _ in range(10):
        found = double(X)
        places.add(address(found))
        del found
    assert len(places) == 1


@pytest.mark.parametrize("what", ["2 * x", "sum((x + y) * y)", "def f(x, y): return x, tanh(y) * x"])
def test_given_buffers_are_written_by_the_kernel(what, monkeypatch):
    f = adc.compile(what) if "def" in what or "2" in what else adc.grad(adc.compile(what))
    args = [X] * len(f._parameters)
    found = f(*args)
    taken = []
    monkeypatch.setattr(POOL, "empty", lambda shape, dtype: taken.append(shape) or np.empty(shape, dtype))
    buffers = tuple(map(np.empty_like, found)) if isinstance(found, tuple) else np.empty_like(found)
    f.into(buffers, *args)
    np.testing.assert_array_equal(buffers, found)
    assert (N,) not in taken


@pytest.mark.parametrize(
    "hold",
    [
        lambda r: r,
        lambda r: r[5:7],
        lambda r: r.reshape(-1, 2).T,
        lambda r: memoryview(r),
        lambda r: np.frombuffer(r),
        lambda r: r.view(np.int64),
        lambda r: r.base,
        lambda r: {"deep": [r[::3]]},
        lambda r: r.__array_interface__ and np.asarray(r),
        lambda r: np.from_dlpack(r),
        lambda r: r.flat,
        lambda r: np.broadcast_to(r, (2, N)),
        lambda r: weakref.ref(r),
    ],
)
def test_memory_that_somebody_holds_is_not(double, hold):
    first = double(X)
    place = address(first)
    held = hold(first)
    del first
    if isinstance(held, weakref.ref):
        assert held() is None or address(double(X)) != place
        return
    for k in range(3):
        assert address(double(X + k)) != place
    kept = np.ravel(np.asarray(held["deep"][0] if isinstance(held, dict) else held))
    if kept.dtype == np.float64 and kept.size == N:
        np.testing.assert_array_equal(np.sort(kept), 2 * X)


@pytest.mark.parametrize("shape", [(N,), (N + 1,), (3, N), (7, 13, 401)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_results_begin_at_a_line_of_the_cache(double, shape, dtype):
    for limit in (MOST_BYTES, 0):
        adc.recycle(limit)
        found = double(np.ones(shape, dtype))
        assert (found.shape, found.dtype) == (shape, dtype)
        assert address(found) % 64 == 0
        np.testing.assert_array_equal(found, 2)


def test_results_of_one_call_are_apart():
    f = adc.compile("def f(x):\n    return 2 * x, 3 * x, x + 1")
    for _ in range(3):
        a, b, c = f(X)
        assert len({address(a), address(b), address(c)}) == 3
        np.testing.assert_array_equal(a + c, b + 1)


def test_what_was_changed_by_its_holder_is_not_used_again(double):
    first = double(X)
    first.flags.writeable = False
    place = address(first)
    del first
    again = double(X)
    assert address(again) != place
    again[0] = 1.0


def test_a_saved_temporary_stays():
    """What forward saves is held until it has been propagated."""
    f = adc.compile("def f(x):\n    return exp(x / 30000)**2")
    split = f.split()
    _, saved = split.forward(X)
    for k in range(3):
        split.forward(X + k)
    (slope,) = split.propagate(saved, np.ones(N))
    np.testing.assert_allclose(slope, 2 / 30000 * np.exp(X / 15000), rtol=1e-13)


def test_threads_have_memory_of_their_own(double):
    double(X)
    wrong = []

    def work(k):
        for _ in range(50):
            if not np.array_equal(double(X + k), 2 * (X + k)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_limit(double):
    adc.recycle("100 KB")
    held = [double(X) for _ in range(4)]
    assert POOL.bytes <= 100_000
    del held
    gc.collect()
    adc.recycle(0)
    assert POOL.empty((N,), np.dtype(float)).size == N
    assert not POOL.arrays
    with pytest.raises(adc.Error, match="not a size of memory"):
        adc.recycle("much")


def test_many_results_do_not_grow_the_pool(double):
    for n in range(N, N + 400):
        double(np.arange(float(n)))
    assert POOL.bytes <= MOST_BYTES
    assert len(POOL.arrays) <= 64
