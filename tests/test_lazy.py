"""Values that are made when they are asked for: once, at most so many, in threads and children of fork."""

from __future__ import annotations

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from adcompiler.lazy import Memo, Sites, WeakMemo


def made(memo, *keys):
    """The values of keys; each is its key, made anew."""
    return [memo.made(k, lambda k=k: [k]) for k in keys]


def test_a_value_is_made_once():
    memo = Memo()
    assert made(memo, 1, 1)[0] is made(memo, 1)[0] is memo[1] is memo.get(1)


def test_none_is_a_value():
    memo = Memo()
    assert memo.made(1, lambda: None) is None
    assert memo.made(1, lambda: 2) is None


def test_the_value_asked_for_least_recently_is_dropped():
    memo = Memo(2)
    made(memo, 1, 2, 1, 3)
    assert list(memo) == [1, 3]
    memo[4] = [4]  # as if it was made
    assert list(memo) == [3, 4]


def test_sites_make_what_is_asked_for_again():
    sites = Sites(2)
    ask = lambda k: sites.of_repeated(k, lambda: k)  # noqa: E731
    assert [ask(k) for k in (1, 2, 1, 2, 3, 3, 3)] == [None, None, 1, 2, None, 3, 3]
    assert list(sites) == [2, 3]


def test_what_fails_is_tried_again():
    memo = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.made(1, lambda: 1 // 0)
    assert memo.made(1, lambda: 2) == 2


def test_one_thread_makes_a_value_and_others_wait_for_it():
    memo, together, count = Memo(), Barrier(4), []

    def ask(_):
        together.wait(10)
        return memo.made("slow", lambda: count.append(1) or object())

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == len(count) == 1


def test_threads_that_make_different_values_do_not_wait():
    memo, other = Memo(), Event()

    def make_slowly():
        assert other.wait(10)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(memo.made, 1, make_slowly)
        pool.submit(memo.made, 2, other.set)
        assert slow.result(10) == "slow"


def test_pickles_and_copies_are_empty():
    memo = Memo(3)
    made(memo, 1)
    for again in (pickle.loads(pickle.dumps(memo)), copy.copy(memo), copy.deepcopy(memo)):
        assert not again
        assert again.limit == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_of_fork_makes_what_its_parent_was_making():
    memo, making, done = Memo(1), Event(), Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(memo.made, 1, lambda: making.set() or done.wait(30))
        assert making.wait(10)
        child = os.fork()
        if not child:
            os._exit(0 if memo.made(1, lambda: "child") == "child" and made(memo, 2) else 1)
        done.set()
    assert os.waitpid(child, 0)[1] == 0


def test_a_weak_memo_keeps_a_value_as_long_as_its_object():
    class Key:
        pass

    memo, key = WeakMemo(), Key()
    assert memo.made(key, list) is memo.made(key, list)
    del key
    assert not memo
