"""Who keeps graphs alive, and that training keeps none."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from threading import Event, Thread
from types import ModuleType

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Variable, tape


def loss_of(w):
    return ((w * w).sum() - 1.0) ** 2  # made here


@pytest.fixture
def w():
    tape.reset()
    gc.freeze()  # the search of leaks looks at what is made from now on
    yield Variable([1.0, 2.0], requires_grad=True, name="w")
    tape.reset()


@pytest.fixture
def training(monkeypatch):
    """A module with a list. That of the tests is older than `gc.freeze`, which hides what it refers to."""
    module = ModuleType("training")
    module.LOSSES = []
    monkeypatch.setitem(sys.modules, "training", module)
    return module


def held(part):
    """The one holder whose description has these words."""
    (found,) = [h for h in tape.leaks().holders if part in h.what]
    return found


def test_nothing_is_held_after_training(w):
    for _ in range(3):
        loss = loss_of(w)
        loss.backward()
        with adc.no_grad():
            w -= 0.01 * w.grad
        w.grad = None
    del loss
    assert str(tape.leaks()) == "no graph is held"
    assert tape.leaks().holders == ()


def test_a_list_of_losses(w, training):
    for _ in range(5):
        training.LOSSES.append(loss_of(w))
    found = held("LOSSES of the module training")
    assert (found.variables, found.operations) == (5, 20)
    assert found.bytes > 0
    text = str(tape.leaks())
    assert text.startswith("20 operations recorded and held")
    line = loss_of.__code__.co_firstlineno + 1
    assert f"test_leaks.py:{line}: return ((w * w).sum() - 1.0) ** 2  # made here (5 times)" in text
    assert "keep .item() or .detach()" in text
    training.LOSSES[:] = [loss.item() for loss in training.LOSSES]
    assert str(tape.leaks()) == "no graph is held"


@pytest.mark.slow
def test_attributes_dicts_closures_and_slots(w):
    class Model:
        pass

    class Slotted:
        __slots__ = ("best",)

    model, slotted = Model(), Slotted()
    model.best = w * 2.0
    model.history = {"train": [w * 3.0]}
    slotted.best = w * 4.0

    def closed():
        kept = w * 5.0
        return lambda: kept

    function = closed()
    assert held("the attribute best of a test_attributes").variables == 1
    assert "the list at 'train' of the dict" in held("the attribute history of a").what
    assert "Slotted" in held("Slotted").what
    assert "kept in the closure of" in held("in the closure of").what
    assert function() is not None


def test_a_function_that_runs_in_another_thread(w):
    made, done = Event(), Event()

    def work():
        kept = w * 2.0
        made.set()
        done.wait()
        assert kept.size == 2

    thread = Thread(target=work)
    thread.start()
    made.wait()
    try:
        assert held("kept in work(), which is running").operations == 1
    finally:
        done.set()
        thread.join()
    assert tape.leaks() == "no graph is held"


def test_what_the_collector_does_not_see_is_counted(w):
    objects = np.empty(1, object)
    objects[0] = w * 2.0 + 1.0
    found = tape.leaks()
    assert found.holders == ()
    assert found.startswith("2 operations recorded and held")
    assert "2 operations: held where Python's collector cannot look" in found


def test_others_may_record_while_graphs_are_looked_at(w):
    stop = Event()

    def work():
        while not stop.is_set():
            kept = [w * 2.0 for _ in range(100)]
            kept.clear()

    threads = [Thread(target=work) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(100):
            adc.why_none(w * 3.0, w)
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


def test_gradients_with_graphs_hold_them(w):
    loss_of(w).backward(create_graph=True)
    found = held(".grad of w")
    assert "create_graph=True" in str(found)
    w.grad = None
    assert tape.leaks().holders == ()


def test_names_of_functions_that_run_stand_last(w, training):
    training.LOSSES.append(w * 2.0)
    loss = loss_of(w)
    first, last = tape.leaks().holders
    assert "LOSSES" in first.what
    assert "loss in test_names_of_functions_that_run_stand_last()" in last.what
    assert loss.item() > 0


def test_to_look_for_holders_holds_nothing(w):
    loss = loss_of(w)
    tape.leaks()
    adc.why_none(loss, w)
    del loss
    assert tape.leaks().holders == ()


def trained(w, x, steps):
    for _ in range(steps):
        loss = ((w * x).sum() - 1.0) ** 2
        loss.backward()
        loss.item()
        with adc.no_grad():
            w -= 1e-3 * w.grad
        w.grad = None


@pytest.mark.slow
def test_ten_thousand_steps_of_training_stay_flat_in_memory(w):
    x = np.array([3.0, 4.0])
    trained(w, x, 1000)
    gc.collect()
    tracemalloc.start()
    trained(w, x, 10)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    objects = len(gc.get_objects())
    trained(w, x, 9000)
    tracemalloc.start()
    trained(w, x, 10)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    gc.collect()
    assert len(gc.get_objects()) - objects < 50
    assert after - before < 10_000
    assert tape.leaks().holders == ()
