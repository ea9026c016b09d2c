"""Arrays of libraries that follow the array API standard, and whatever exports DLPack."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.runtime.arguments import signature

xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")

loss = adc.compile("sum(sin(x) * y)", name="loss", args="x, y")
product = adc.compile("x * y", name="product", args="x, y")

DTYPES = ["float32", "float64"]


def is_like(found, expected, dtype):
    """Whether an array is of the namespace, of this dtype, and equal to NumPy's."""
    assert found.__array_namespace__().__name__ == "array_api_strict"
    assert found.dtype == getattr(xp, dtype)
    np.testing.assert_allclose(np.from_dlpack(found), expected, rtol=1e-5 if dtype == "float32" else 1e-13)
    return True


def pair(dtype):
    x, y = np.linspace(0, 1, 3).astype(dtype), np.array([2.0, -1.0, 0.5], dtype)
    return (x, y), (xp.asarray(x), xp.asarray(y))


def all_like(found, expected, dtype):
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        return all(all_like(f, e, dtype) for f, e in zip(found, expected, strict=True))
    return is_like(found, expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "made",
    [
        lambda: loss, lambda: product, lambda: adc.grad(loss), lambda: adc.value_and_grad(loss, "x"),
        lambda: adc.jacobian(product), lambda: adc.hessian(loss), lambda: adc.jacobian(adc.grad(loss), "y"),
    ],
    ids=["loss", "product", "grad", "value_and_grad", "jacobian", "hessian", "second order"],
)  # fmt: skip
def test_results_are_of_the_namespace_of_the_arguments(made, dtype):
    f, (plain, given) = made(), pair(dtype)
    assert all_like(f(*given), f(*plain), dtype)
    assert all_like(f(x=given[0], y=given[1]), f(*plain), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_so_are_those_of_vjp_jvp_and_hvp(dtype):
    plain, given = pair(dtype)
    value, pullback = adc.vjp(product, *given)
    expected, pulled = adc.vjp(product, *plain)
    assert is_like(value, expected, dtype)
    assert all_like(pullback(given[0]), pulled(plain[0]), dtype)
    assert all_like(pickle.loads(pickle.dumps(pullback))(given[0]), pulled(plain[0]), dtype)
    tangents = given[1], None
    assert all_like(adc.jvp(loss, given, tangents), adc.jvp(loss, plain, (plain[1], None)), dtype)
    assert all_like(adc.hvp(loss)(given, given[::-1]), adc.hvp(loss)(plain, plain[::-1]), dtype)


def test_an_unused_input_has_zeros_in_the_gradient_and_none_in_the_pullback():
    f, x, y = adc.compile("sum(x)", args="x, y"), xp.asarray([1.0, 2.0]), xp.asarray([3.0])
    assert all_like(adc.grad(f)(x, y), (np.ones(2), np.zeros(1)), "float64")
    assert adc.vjp(f, x, y)[1](1.0)[1] is None


def test_empty_arrays_numbers_and_numpys_arrays_go_with_any():
    empty = xp.asarray(np.zeros((0, 2)))
    assert product(empty, 2.0).shape == (0, 2)
    assert is_like(loss(xp.asarray([0.5]), np.array([2.0])), 2 * np.sin(0.5), "float64")


def test_arrays_in_containers():
    f = adc.compile("sum(p['w'] * p['w']) * p['s']", args="p")
    found = adc.grad(f)({"w": xp.asarray([1.0, 2.0]), "s": 3.0})
    assert is_like(found["w"], [6.0, 12.0], "float64")
    assert is_like(found["s"], 5.0, "float64")


def test_arguments_are_not_copied():
    x = xp.asarray(np.arange(4.0))
    assert np.shares_memory(signature.describe(loss._parameters[0], x)[1], np.from_dlpack(x))


def test_arrays_of_two_libraries_are_refused():
    class Other(type(xp.asarray([1.0]))):
        def __new__(cls):
            return object.__new__(cls)

        def __array_namespace__(self, api_version=None):
            return np

    with pytest.raises(adc.DtypeError, match="of array_api_strict and numpy"):
        loss(xp.asarray([1.0]), Other())


def test_so_are_those_beside_series():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    for pair in ((xp.asarray([1.0]), pd.Series([1.0])), (pd.Series([1.0]), xp.asarray([1.0]))):
        with pytest.raises(adc.DtypeError, match="but others are of"):
            loss(*pair)


def test_complex_arrays_are_refused():
    with pytest.raises(adc.DtypeError, match="complex128"):
        loss(xp.asarray([1j]), 1.0)


class Exporter:
    """What exports DLPack, and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_what_exports_dlpack_is_an_argument_a_cotangent_and_a_tangent():
    x = np.arange(3.0)
    given, ones = Exporter(x), Exporter(np.ones(3))
    assert np.array_equal(adc.grad(loss, "y")(given, 1.0 * x), np.sin(x))
    assert np.shares_memory(signature.describe(loss._parameters[0], given)[1], x)
    assert np.array_equal(adc.vjp(product, given, x)[1](ones)[0], x)
    assert np.array_equal(adc.jvp(product, (given, x), (ones, None))[1], x)


def test_results_export_dlpack():
    value = product(np.arange(3.0), 2.0)
    assert np.shares_memory(np.from_dlpack(value), value)


def test_calls_with_numbers_and_numpys_arrays_ask_no_adapter(monkeypatch):
    def asked(kind):
        raise AssertionError(kind)

    loss(np.ones(3), 2.0)
    monkeypatch.setattr(signature, "adapter_of", asked)
    loss(np.ones(3), 2.0)
    loss(x=np.ones((3, 2)), y=2.0)
    adc.grad(loss)(np.ones(3), 2.0)
    adc.vjp(loss, np.ones(3), 2.0)


class Elsewhere(Exporter):
    """What says that it is on a GPU."""

    def __dlpack_device__(self):
        return 2, 0


def test_memory_of_another_device_is_refused():
    there = Elsewhere(np.ones(3))
    for use in (lambda: loss(there, 1.0), lambda: adc.vjp(product, np.ones(3), 1.0)[1](there)):
        with pytest.raises(adc.DtypeError, match="on a"):
            use()


def test_memory_that_is_read_only_is_read():
    x = np.arange(3.0)
    x.flags.writeable = False
    assert np.array_equal(product(Exporter(x), 2.0), 2 * x)


def test_what_cannot_be_converted_says_why():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("its file is closed")

    with pytest.raises(adc.DtypeError, match="its file is closed"):
        loss(Broken(), 1.0)


def test_buffers_are_arrays_of_numpys():
    with pytest.raises(adc.DtypeError, match="must be a writable NumPy array, not"):
        product.into(xp.asarray([0.0]), xp.asarray([1.0]), 2.0)


def test_arrays_on_a_device_are_its_kernels_arguments(monkeypatch):
    class There:
        """An array of a library on a CUDA device."""

        __cuda_array_interface__ = None

        def __array_namespace__(self):
            raise AssertionError("it is not read here")

    f, array = adc.compile("x * x", backend="cuda"), There()
    monkeypatch.setattr(type(f), "_bind", lambda self, args: SimpleNamespace(result=lambda: args))
    assert f(array) == (array,)
