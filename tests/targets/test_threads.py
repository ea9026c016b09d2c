"""Tasks that threads share."""

from __future__ import annotations

import threading

import pytest

import adcompiler as adc
from adcompiler.targets.threads import together


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = adc.get_num_threads()
    adc.set_num_threads(request.param)
    yield request.param
    adc.set_num_threads(before)


def test_results_are_in_the_order_of_tasks(threads):
    assert together([lambda k=k: k * k for k in range(20)]) == [k * k for k in range(20)]
    assert together([]) == []


def test_tasks_run_at_the_same_time(threads):
    barrier = threading.Barrier(threads, timeout=60)
    together([barrier.wait] * threads)
    assert not barrier.broken


def test_the_first_error_is_raised_after_all_tasks_have_run(threads):
    done = []

    def task(k):
        if k in (3, 5):
            raise ValueError(k)
        done.append(k)

    with pytest.raises(ValueError, match="3"):
        together([lambda k=k: task(k) for k in range(8)])
    assert sorted(done) == [0, 1, 2, 4, 6, 7]


def test_no_task_begins_after_an_interrupt():
    done = []

    def interrupted():
        raise KeyboardInterrupt

    before = adc.get_num_threads()
    adc.set_num_threads(1)
    try:
        with pytest.raises(KeyboardInterrupt):
            together([lambda: done.append(0), interrupted, lambda: done.append(2)])
    finally:
        adc.set_num_threads(before)
    assert done == [0]


def test_without_more_threads_the_calling_one_runs_all_tasks(monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert together([lambda k=k: k for k in range(4)]) == [0, 1, 2, 3]
