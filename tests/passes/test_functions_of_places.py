"""Functions of a place that several points of a loop share are computed once for each place."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc

WINDOW = """
def f(x: f64[n], w: f64[m]):
    return sum(sum(w[k] * tanh(x[i + k]) for k in range(m))**2 for i in range(n - m + 1))
"""
OF_TWO = """
def f(x: f64[n], w: f64[n]):
    return sum(sum(exp(x[i - k] * w[i - k]) for k in range(i + 1))**2 for i in range(n))
"""
PLANES = """
def f(x: f64[n], w: f64[m]):
    A = np.array([x * b for b in w])
    return sum(sum(sin(A[j, i + k]) for k in range(n - i))**2 for i in range(n) for j in range(m))
"""
CHAIN = """
def f(x: f64[n], w: f64[m]):
    q = x.copy()
    for k in range(m):
        J = zeros(n)
        for j in range(n):
            for i in range(j, n):
                J[j] += w[k] * cos(q[i])
        q = q + 0.1 * J
    return sum(q**2)
"""
PROGRAMS = {"window": WINDOW, "two arrays": OF_TWO, "planes": PLANES, "chain": CHAIN}
SHORT = "def f(x: f64[n]):\n    return sum(exp(x[i + j]) for i in range(3) for j in range(3))"
RNG = np.random.default_rng(8)
FUNCTION = re.compile(r"math\.(?:tanh|exp|sin|cos)\((.*)\)")


def places(kernel: str) -> list[str]:
    """The arguments of functions, without variables that are assigned before."""
    return [place for text in kernel.split("@jit") for place in _places(text)]


def _places(text: str) -> list[str]:
    """Those of one function of a kernel."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    values = dict(re.findall(r"^ +(v\d+) = (.*)$", "\n".join(lines), re.M))
    found = [m[1] for line in lines if (m := FUNCTION.search(line))]
    for _ in range(4):
        found = [re.sub(r"\bv\d+\b", lambda m: values.get(m[0], m[0]), arg) for arg in found]
    return found


def args_of(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    return RNG.uniform(-1, 1, n), RNG.uniform(0.5, 1, n if name == "two arrays" else 3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_are_computed_once_for_each_place(name: str) -> None:
    args = args_of(name, 7)
    f = adc.compile(PROGRAMS[name])
    g = adc.value_and_grad(f, ("x", "w"))
    f(*args), g(*args)
    for kernel in (f.show("kernel"), g.show("kernel")):
        found = places(kernel)
        assert found
        assert not any(" + " in arg or " - " in arg for arg in found)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_values_and_gradients(name: str, n: int) -> None:
    args = args_of(name, n)
    if name == "window" and n < 3:
        args = args[0], args[1][:n]
    fast, slow = (
        adc.value_and_grad(adc.compile(PROGRAMS[name], backend=b), ("x", "w")) for b in ("cpu", "numpy")
    )
    (value, slopes), (expected, right) = fast(*args), slow(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for got, want in zip(slopes, right, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_order_and_single_precision(name: str) -> None:
    args = args_of(name, 4)
    adc.check_grad(adc.compile(PROGRAMS[name]), *args, order=2)
    single = adc.grad(adc.compile(PROGRAMS[name].replace("f64", "f32")))
    slopes, right = (
        single(*(a.astype(np.float32) for a in args)),
        adc.grad(adc.compile(PROGRAMS[name]))(*args),
    )
    for got, want in zip(slopes, right, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_a_short_window_of_a_long_array_reads_only_the_window() -> None:
    f = adc.compile(SHORT)
    x = RNG.uniform(-1, 1, 9)
    assert f(x) == pytest.approx(sum(np.exp(x[i + j]) for i in range(3) for j in range(3)))
    assert not re.search(r"in range\(.*\bn\b", f.show("kernel"))
