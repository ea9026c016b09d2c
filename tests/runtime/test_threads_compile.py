"""Threads that compile: they do not wait for each other, and make each value once."""

from __future__ import annotations

import ast
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.lazy import cached_property
from adcompiler.loopir.limits import MOST_ATTEMPTS
from adcompiler.loopir.parse import parsed


class Lazy:
    """Each value is made by a function that it is given."""

    def __init__(self, make):
        self.make = make

    @cached_property
    def value(self):
        """What is made."""
        return self.make()


def test_a_value_is_made_once_and_kept():
    made = []
    lazy = Lazy(lambda: made.append(1) or len(made))
    assert (lazy.value, lazy.value, made) == (1, 1, [1])
    assert Lazy.value.__doc__ == "What is made."


def test_unrelated_values_do_not_wait_for_each_other():
    both = threading.Barrier(2, timeout=10)  # passed only if both are being made at a time
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda lazy: lazy.value, [Lazy(both.wait), Lazy(both.wait)]))


def test_threads_that_want_the_same_value_get_one():
    started, release, made = threading.Event(), threading.Event(), []

    def make():
        started.set()
        assert release.wait(10)
        made.append(object())
        return made[-1]

    lazy = Lazy(make)
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(lambda: lazy.value) for _ in range(4)]
        assert started.wait(10)
        release.set()
        assert {id(f.result()) for f in found} == {id(made[0])}
    assert len(made) == 1


def test_what_fails_is_made_again():
    answers = iter([ValueError("no"), 2])

    def make():
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    lazy = Lazy(make)
    with pytest.raises(ValueError, match="no"):
        lazy.value  # noqa: B018
    assert lazy.value == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_makes_again_what_a_thread_was_making():
    started, release = threading.Event(), threading.Event()

    def make():
        started.set()
        return threading.current_thread() is threading.main_thread() or release.wait(10)

    lazy = Lazy(make)
    thread = threading.Thread(target=lambda: lazy.value)
    thread.start()
    assert started.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if lazy.value is True else 1)
    release.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_texts_are_parsed_again_where_pythons_parser_is_confused_by_threads(monkeypatch):
    faults = [SystemError("AST constructor recursion depth mismatch (before=63, after=71)"), RecursionError()]
    whole = ast.parse

    def parse(text):
        if faults:
            raise faults.pop()
        return whole(text)

    monkeypatch.setattr(ast, "parse", parse)
    assert ast.unparse(parsed("x + 1")) == "x + 1"
    faults += [RecursionError() for _ in range(MOST_ATTEMPTS + 1)]
    with pytest.raises(RecursionError):
        parsed("x")


def test_many_functions_are_compiled_by_many_threads():
    x = np.linspace(0, 1, 7)

    def run(k):
        f = adc.compile(f"sum(sin({k}.5 * x) + x)")
        return f(x), adc.grad(f)(x)

    with ThreadPoolExecutor(8) as threads:
        for k, (value, slope) in enumerate(threads.map(run, range(8))):
            assert value == pytest.approx(np.sum(np.sin((k + 0.5) * x) + x))
            np.testing.assert_allclose(slope, (k + 0.5) * np.cos((k + 0.5) * x) + 1)
