"""The thread pool: each block is done once, by whoever; and how many threads there are."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.cpu.threads import region

WORK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
LAUNCH = ctypes.CFUNCTYPE(None, WORK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def shared(blocks: int, threads: int, seconds: float = 0.0) -> tuple[Counter[int], set[int]]:
    """How often each block of a parallel region is done, and which threads do some."""
    done: Counter[int] = Counter()
    who: set[int] = set()

    def work(first: int, stop: int, data: Any) -> bool:
        time.sleep(seconds)
        done.update(range(first, stop))
        who.add(threading.get_native_id())
        return False  # the region goes on

    launch, count = region(threads)
    LAUNCH(launch)(WORK(work), None, blocks, count, None)
    return done, who


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("blocks", [2, 3, 8, 64, 101])
def test_each_block_is_done_once(blocks: int, threads: int) -> None:
    for _ in range(20):
        assert shared(blocks, threads)[0] == Counter(range(blocks))


def test_workers_and_the_caller_share_a_long_region() -> None:
    done, who = shared(30, 3, seconds=0.005)
    assert done == Counter(range(30))
    assert threading.get_native_id() in who
    assert len(who) == 3


def test_several_threads_of_python_share_one_pool() -> None:
    """Who finds the pool busy does all blocks alone."""
    with ThreadPoolExecutor(6) as callers:
        found = list(callers.map(lambda k: shared(20 + k, 3, seconds=0.001)[0], range(24)))
    assert found == [Counter(range(20 + k)) for k in range(24)]


def test_kernels_from_many_threads_at_once() -> None:
    f = adc.value_and_grad(adc.compile("sum(sin(a * x)**2)"), "x")
    x = np.linspace(0, 1, 200_000)
    expected = [f(float(a), x) for a in range(6)]
    with ThreadPoolExecutor(6) as callers:
        for _ in range(5):
            for (value, slope), (v, s) in zip(
                callers.map(lambda a: f(float(a), x), range(6)), expected, strict=True
            ):
                assert value == v
                np.testing.assert_array_equal(slope, s)


# -- how many ------------------------------------------------------------------------------------


def test_a_number_of_threads_for_all_and_for_one_function() -> None:
    before = adc.get_num_threads()
    try:
        adc.set_num_threads(np.int64(3))
        assert adc.get_num_threads() == 3
        text, x = "sum(exp(-x * x)) / sum(cos(x))", np.linspace(0, 1, 300_001)
        functions = [adc.compile(text, threads=n) for n in (None, 1, 2, 5)]
        values = {adc.value_and_grad(f)(x)[0] for f in functions}
        assert len(values) == 1
    finally:
        adc.set_num_threads(before)


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "two", None, 1025])
def test_what_is_no_number_of_threads(count: Any) -> None:
    with pytest.raises(adc.Error, match="is not a number of threads"):
        adc.set_num_threads(count)
    if count is not None:
        for backend in ("cpu", "numpy"):
            with pytest.raises(adc.Error, match="is not a number of threads"):
                adc.compile("x + 1", backend=backend, threads=count)
        with pytest.raises(adc.Error, match="is not a number of threads"):
            adc.function(threads=count)(shared)


@pytest.mark.parametrize("backend", ["cpu:x", "cpu:0", "numpy:2", "cpu2", ":2", 3])
def test_backends_that_there_are_not(backend: Any) -> None:
    with pytest.raises(adc.Error):
        adc.compile("x + 1", backend=backend)


ENVIRONMENT = """
import numpy as np, adcompiler as adc
x = np.linspace(0, 1, 300_000)
try:
    print(adc.get_num_threads(), adc.compile("sum(x)")(x) > 0)
except adc.Error as error:
    print(error)
"""


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("given", "shown"), [("3", "3 True"), ("1", "1 True"), ("many", "ADC_NUM_THREADS"), ("0", "0")]
)
def test_the_environment_says_how_many(given: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADC_NUM_THREADS", given)
    done = subprocess.run([sys.executable, "-c", ENVIRONMENT], capture_output=True, text=True, timeout=100)
    assert shown in done.stdout, done.stderr


FORK = """
import os, numpy as np, adcompiler as adc
adc.set_num_threads(3)
f = adc.value_and_grad(adc.compile("sum(sin(x) * y)"), "x")
x, y = np.linspace(0, 1, 500_000), np.linspace(1, 2, 500_000)
value, slope = f(x, y)
for generation in range(3):
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code == 0, code
        break
    again, also = f(x, y)
    assert again == value and np.array_equal(slope, also)
assert f(x, y)[0] == value
os._exit(0)
"""


BUSY = """
import os, sys, threading, time, numpy as np, adcompiler as adc
adc.set_num_threads(2)
f = adc.value_and_grad(adc.compile("sum(sin(x) * y)"), "x")
x, y = np.linspace(0, 1, 300_000), np.linspace(1, 2, 300_000)
value, slope = f(x, y)
on = True

def calls():
    while on:
        f(x, y)

def compiles():
    k = 0
    while on:
        k += 1
        g = adc.value_and_grad(adc.compile(f"sum(exp(-x * x) * {k} + log(x + {os.getpid()}))"))
        g(x[:10 + k % 5])
        adc.vmap(g)(x[:20].reshape(4, 5))

threads = [threading.Thread(target=t, daemon=True) for t in (calls, compiles, compiles)]
for t in threads:
    t.start()
for k in range(12):
    time.sleep(0.13)
    child = os.fork()
    if not child:
        again, also = f(x, y)
        h = adc.grad(adc.compile(f"sum(cos(x) * {k} + sqrt(x + {os.getpid()}))"))
        h(x[:9]), h(x)
        os._exit(0 if again == value and np.array_equal(slope, also) else 1)
    end = time.monotonic() + 40
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, 6)
            os.waitpid(child, 0)
            sys.exit(f"child {k} hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0, (k, done)
on = False
for t in threads:
    t.join(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_other_threads_call_and_compile() -> None:
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", BUSY], check=True, timeout=200)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_process_that_ran_in_parallel_runs_in_parallel() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=100)
