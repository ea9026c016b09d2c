"""Kernels that threads compile in parts."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.llvm import module_text
from adcompiler.targets.llvm.runtime import jit, machine_code

SOURCE = """
def layers(x: f64[n, d], V: f64[d, h], W: f64[h, k]):
    hidden = tanh(x @ V)
    scores = hidden @ W
    return sum(log(sum(exp(scores), axis=1))) + sum(cumsum(hidden[:, 0]))
"""


def arguments():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 40)), rng.normal(size=(40, 30)), rng.normal(size=(30, 20))


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """The cache is empty."""
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))


def results():
    f = adc.compile(SOURCE)
    value, gradients = adc.value_and_grad(f, (0, 1, 2))(*arguments())
    return [value, *gradients]


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_have_the_bits_of_the_whole(threads, monkeypatch, kept):
    numbers = []

    def objects(code, others=()):
        found = machine_code.objects(code, others)
        numbers.append(len(found))
        return found

    monkeypatch.setattr(jit, "objects", objects)
    monkeypatch.setattr(module_text, "PART_CHARACTERS", 1 << 30)
    before = adc.get_num_threads()
    adc.set_num_threads(threads)
    try:
        whole = results()
        assert set(numbers) == {1}
        monkeypatch.setattr(module_text, "PART_CHARACTERS", 1)
        parts = results()
    finally:
        adc.set_num_threads(before)
    assert max(numbers) > 3
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_compiles_though_threads_were_compiling_at_the_fork(monkeypatch, kept):
    monkeypatch.setattr(module_text, "PART_CHARACTERS", 1)
    results()  # with all imports
    stop, errors = threading.Event(), []

    def compile_again():
        for k in range(1000):
            if stop.is_set():
                return
            try:
                adc.grad(adc.compile(f"{SOURCE.rstrip()} * {k}"))(*arguments())
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=compile_again) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for k in range(5):
            child = os.fork()
            if child == 0:
                found = adc.grad(adc.compile(f"sum(x * x) * {k}"))(np.ones(3))
                os._exit(0 if (found == 2 * k).all() else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
