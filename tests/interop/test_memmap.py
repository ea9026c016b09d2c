"""Files mapped into memory: read where they are, and written to as buffers."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.runtime.arguments.signature import describe

f = adc.compile("a * x**2", name="f", args="a, x")
total = adc.compile("sum(a * x**2)", args="a, x")


@pytest.fixture(params=["float64", "float32"])
def mapped(request, tmp_path):
    """A file of numbers, opened for reading, and the same numbers as an array."""
    values = np.random.default_rng(0).normal(size=1000).astype(request.param)
    np.save(tmp_path / "x.npy", values)
    return np.load(tmp_path / "x.npy", mmap_mode="r"), values


def test_a_file_is_read_where_it_is(mapped):
    memory, _ = mapped
    assert type(memory) is np.memmap
    assert np.shares_memory(describe(f._parameters[1], memory)[1], memory)
    assert np.shares_memory(describe(f._parameters[1], memory[10:500:2])[1], memory)


def test_values_and_derivatives_are_those_of_an_array(mapped):
    memory, values = mapped
    pairs = [
        (f(2.0, memory), f(2.0, values)),
        (total(a=2.0, x=memory), total(2.0, values)),
        (adc.grad(total, "x")(2.0, memory), adc.grad(total, "x")(2.0, values)),
        (adc.vjp(f, 2.0, memory)[1](values)[1], adc.vjp(f, 2.0, values)[1](values)[1]),
        (adc.jvp(total, (2.0, memory), (None, memory))[1], adc.jvp(total, (2.0, values), (None, values))[1]),
        (adc.hvp(total, "x")((2.0, memory), memory), adc.hvp(total, "x")((2.0, values), values)),
        (adc.jacobian(f, "a")(2.0, memory), adc.jacobian(f, "a")(2.0, values)),
        (adc.hessian(total, "a")(2.0, memory), adc.hessian(total, "a")(2.0, values)),
    ]
    for found, expected in pairs:
        assert type(found) is type(expected)  # what is computed is in memory
        np.testing.assert_array_equal(found, expected)


def test_a_file_is_a_buffer(mapped, tmp_path):
    memory, values = mapped
    target = np.memmap(tmp_path / "r.bin", values.dtype, "w+", shape=values.shape)
    assert f.into(target, 2.0, memory) is target
    target.flush()
    np.testing.assert_array_equal(np.fromfile(tmp_path / "r.bin", values.dtype), f(2.0, values))


def test_gradients_go_to_files(mapped, tmp_path):
    memory, values = mapped
    target = np.memmap(tmp_path / "g.bin", values.dtype, "w+", shape=values.shape)
    adc.grad(total, "x").into(target, 2.0, memory)
    np.testing.assert_array_equal(target, adc.grad(total, "x")(2.0, values))


def test_a_file_may_be_changed_in_place(tmp_path):
    values = np.arange(1.0, 5.0)
    values.tofile(tmp_path / "x.bin")
    memory = np.memmap(tmp_path / "x.bin", float, "r+")
    f.into(memory, 2.0, memory)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "x.bin"), 2 * values**2)


def test_a_file_for_reading_is_no_buffer(mapped):
    memory, values = mapped
    with pytest.raises(adc.DtypeError, match="writable"):
        f.into(memory, 2.0, values)
