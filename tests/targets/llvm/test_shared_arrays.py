"""Arrays of nests that threads may share: LLVM knows that these nests change and read them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc

# A loop of the program reads what a nest has added to an array that the kernel filled with zeros.
LOOPS = {
    "trace": "v * x[0], trace(v)",
    "trace of a product": "v @ outer(x[:3], x[:3]), trace(v)",
    "corner": "v * x[0], v[2, 0] + sum(v[i, 2 - i] for i in range(3))",
}


def looped(text: str, backend: str = "cpu") -> adc.Function:
    """The sum over four steps of the second of two expressions; the first is the next matrix."""
    return adc.compile(
        f"""
def looped(x: f64[3], v: f64[3, 3]):
    total = 0.0
    for _ in range(5):
        v, found = {text}
        total += found
    return total
""",
        backend=backend,
    )


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_loop_reads_what_a_nest_before_it_added(text):
    x, v = np.array([0.5, 1.5, -0.7]), np.arange(9.0).reshape(3, 3) / 4
    found = adc.value_and_grad(looped(text))(x, v)
    expected = adc.value_and_grad(looped(text, "numpy"))(x, v)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("text", ["sum(sin(x) * y)", "softmax(x) * y"])
def test_what_threads_run_gets_its_arrays_from_its_caller(text):
    """The caller's arrays have no aliases: an address from elsewhere would be another array for LLVM."""
    f = adc.compile(text, args="x, y")
    f(np.linspace(0.0, 1.0, 8), np.ones(8))
    shared = re.findall(r"define [^\n]*@share\d+.*?\n}", f.show("llvm"), re.DOTALL)
    assert shared
    for body in shared:
        words = set(re.findall(r"(%\S+) = getelementptr [^\n]*ptr %words", body)) | {"%words"}
        assert not words & set(re.findall(r"= load ptr, ptr (%[\w.]+)", body))
