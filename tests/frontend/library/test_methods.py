"""Methods of arrays: the programs are plain Python on NumPy arrays, which judges their values."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

RANDOM = np.random.default_rng(1)
X, Y, V = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(4, 2)), RANDOM.normal(size=4)

PROGRAMS = [
    "x.sum()",
    "x.sum(axis=0) * v",
    "(x - x.mean(axis=1, keepdims=True)).std(axis=0)",
    "x.mean(0)",
    "x.prod(axis=1)",
    "x.min()",
    "x.min(0)",
    "x.max(axis=1, keepdims=True)",
    "x.var()",
    "(x > 0).any(axis=0)",
    "(x > -9).all()",
    "x.argmin()",
    "x.argmax(axis=1)",
    "x.dot(y)",
    "x.T.dot(x).dot(v)",
    "x.reshape(2, 6)",
    "x.reshape((2, -1)).sum(axis=0)",
    "x.reshape(-1)[::2]",
    "x.transpose()[1:]",
    "x.transpose(1, 0)",
    "x.transpose((1, 0)).ravel()",
    "(2 * x).flatten()",
    "x.clip(-0.5, 0.5)",
    "x.copy() / x.size",
    "v.size + v.ndim + x.shape[1] + v.sum()",
    "(v * 10).round()",
    "x[1].dot(v) ** 2",
]


def values(source: str) -> dict[str, np.ndarray]:
    f = adc.compile(source)
    return {p.name: {"x": X, "y": Y, "v": V}[p.name] for p in f._parameters}


@pytest.mark.parametrize("source", PROGRAMS)
def test_a_method_means_what_it_means_in_numpy(source):
    args = values(source)
    want = np.asarray(eval(source, {}, args))
    got = np.asarray(adc.compile(source, backend="numpy")(**args))
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "source", [p for p in PROGRAMS if not any(w in p for w in ("any", "all", "argm", "round"))]
)
def test_methods_are_differentiated_to_second_order(source):
    args = values(source)
    assert adc.check_grad(adc.compile(f"sin({source}).sum()", backend="numpy"), *args.values()) < 1e-6


def test_methods_are_compiled():
    f = adc.compile("(x.reshape(4, 3).T.clip(-1, 1).dot(v)).std()")
    x, v = X, V
    assert f(x, v) == pytest.approx(x.reshape(4, 3).T.clip(-1, 1).dot(v).std())
    adc.check_grad(f, x, v)


def test_a_method_in_a_python_function():
    @adc.function
    def spread(x):
        return (x - x.mean()).var() / x.size

    assert spread(V) == pytest.approx(V.var() / 4)
    np.testing.assert_allclose(adc.grad(spread)(V), (V - V.mean()) / 8)
    assert spread(1.0) == 0.0


def test_the_module_and_the_method():
    f = adc.compile("np.sum(x) - x.sum()")
    assert f(V) == 0.0
    g = adc.compile("def g(np):\n    return np.sum()")
    assert g(V) == pytest.approx(V.sum())
