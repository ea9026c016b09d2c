"""Names that generated modules need are free for a user's parameters."""

from __future__ import annotations

import pytest

import adcompiler as adc
from adcompiler.kernels.emit.names import RESERVED, Names


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_no_identifier_is_a_reserved_word(word):
    names = Names()
    given = [names.fresh(wanted) for wanted in (word, word, f"{word}_")]
    assert len(set(given)) == 3
    assert not RESERVED.intersection(given)


@pytest.mark.parametrize("backend", ["cpu", "numba"])
def test_parameters_of_such_names(backend):
    source = "def f(jit, np, select, kernel, cuda): return jit * sin(np) + max(select, kernel) * cuda"
    f = adc.compile(source, backend=backend)
    args = 2.0, 0.5, 3.0, 4.0, 5.0
    expected = adc.compile(source, backend="numpy")
    assert f(*args) == pytest.approx(expected(*args))
    assert adc.grad(f)(*args) == pytest.approx(adc.grad(expected)(*args))


def test_a_device_kernel_does_not_shadow_its_module():
    text = adc.compile("def f(cuda: f64[n]): return cuda * 2", backend="cuda").show("kernel", [1.0, 2.0])
    assert "cuda_" in text
