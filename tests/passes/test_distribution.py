"""Loop distribution: which functions leave a loop, and that nothing else changes."""

import numpy as np
import pytest

import adcompiler as adc

SURVIVAL = """
def f(t: f64[n], w: f64[n], a):
    s = 1.0
    for i in range(n):
        s = 0.5 * s + w[i] * t[i]**a
    return s
"""
CARRIED = """
def f(t: f64[n], w: f64[n], a):
    s = 0.1
    for i in range(n):
        s = sin(s + t[i]) * w[i] + exp(a)
    return s
"""
DECIDED = """
def f(t: f64[n], w: f64[n], a):
    s = 0.0
    for i in range(n):
        u = log(t[i]) * a
        if w[i] > 0.0:
            s = s * 0.9 + exp(u - i * 0.01)
        else:
            s = s - tanh(u)
    return s
"""
NESTED = """
def f(t: f64[n], w: f64[n], a):
    s = 0.0
    for i in range(n):
        for j in range(n):
            s = 0.5 * s + exp(-a * t[i] * w[j])
    return s
"""
ROWS = """
def f(X: f64[n, 2], w: f64[n], a):
    s, q = 0.0, 1.0
    for i in range(n):
        r = hypot(X[i, 0], X[i, 1] * a)
        s = 0.5 * s + q * exp(-r)
        q = q * cos(r) + w[i]
    return s * q
"""
# What depends on the inner row alone is computed once, also in the reverse loops.
COMPONENTS = """
def f(t: f64[n], w: f64[n], a):
    s = 0.0
    for i in range(n):
        p = 0.0
        for k in range(n):
            p = 0.5 * p + atan(a * w[k]) / (t[i] + p * p)
        s = 0.5 * s + p
    return s
"""
FEW = """
def f(t: f64[8], a):
    s = 1.0
    for i in range(8):
        s = sin(s) + exp(a * t[i])
    return s
"""
PROGRAMS = {
    "survival": SURVIVAL, "carried": CARRIED, "decided": DECIDED, "nested": NESTED, "rows": ROWS,
    "components": COMPONENTS,
}  # fmt: skip


def inputs(name: str, n: int, dtype: type = float) -> tuple:
    rng = np.random.default_rng(n)
    t = (rng.random((n, 2) if name == "rows" else n) + 0.2).astype(dtype)
    return t, (rng.random(n) - 0.4).astype(dtype), dtype(0.7)


def test_few_iterations_are_no_loop_to_distribute() -> None:
    f = adc.compile(FEW)
    t = np.linspace(0.1, 1.0, 8)
    s = 1.0
    for k in t:
        s = np.sin(s) + np.exp(0.3 * k)
    assert abs(f(t, 0.3) - s) < 1e-14


def test_functions_of_inner_rows_are_computed_before_both_loops() -> None:
    """One loop of a nest calls the function."""
    f = adc.value_and_grad(adc.compile(COMPONENTS), wrt="a")
    lines = f.show("kernel", *inputs("components", 5)).splitlines()
    depths = {len(line) - len(line.lstrip()) for line in lines if "math.atan(" in line}
    assert depths == {8}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_interpreter(name: str) -> None:
    for of in (lambda f: f, adc.grad):
        compiled, plain = (of(adc.compile(PROGRAMS[name], backend=b)) for b in ("cpu", "numpy"))
        for n in (0, 1, 3, 40):
            args = inputs(name, n)
            for ours, theirs in zip(flat(compiled(*args)), flat(plain(*args)), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives(name: str) -> None:
    f = adc.compile(PROGRAMS[name])
    t, w, a = inputs(name, 24)
    h = 1e-6
    second = adc.grad(adc.grad(f, wrt="a"), wrt="a")(t, w, a)
    first = adc.grad(f, wrt="a")
    np.testing.assert_allclose(
        second, (first(t, w, a + h) - first(t, w, a - h)) / (2 * h), rtol=1e-6, atol=1e-8
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_single_precision(name: str) -> None:
    text = PROGRAMS[name].replace("f64", "f32").replace(", a)", ", a: f32)")
    f = adc.compile(text)
    args = inputs(name, 100, np.float32)
    exact = adc.compile(PROGRAMS[name])(*(np.float64(x) for x in args))
    assert f(*args).dtype == np.float32
    np.testing.assert_allclose(f(*args), exact, rtol=2e-5)


def flat(results: object) -> tuple:
    return results if isinstance(results, tuple) else (results,)
