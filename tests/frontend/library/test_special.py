"""Special functions in programs: orders, names of other libraries, SymPy, kernels from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sympy
from scipy import special
from scipy.stats import norm

import adcompiler as adc


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_scipys_names_mean_scipys_functions(backend: str) -> None:
    def f(x):  # type: ignore[no-untyped-def]
        return special.psi(x) + special.betaln(x, 2) + norm.logcdf(x) + np.sinc(x) + special.polygamma(1, x)

    x = np.array([0.3, 1.5, 4.0])
    expected = special.psi(x) + special.betaln(x, 2) + norm.logcdf(x) + np.sinc(x) + special.polygamma(1, x)
    g = adc.compile(f, backend=backend)
    np.testing.assert_allclose(g(x), expected, rtol=1e-13)
    adc.check_grad(g, x)


def test_a_prefix_may_be_a_variable() -> None:
    assert adc.compile("special + norm")(1.0, 2.0) == 3.0
    assert adc.compile("scipy.special.expit(x) + x")(0.0) == 0.5


def test_what_math_calls_remainder_is_refused() -> None:
    with pytest.raises(adc.ParseError, match=r"x - y \* round"):
        adc.compile("math.remainder(x, y)")(5.0, 3.0)


def test_an_order_is_a_number_known_while_compiling() -> None:
    f = adc.compile("def f(n, x):\n    return polygamma(n, x)", static="n")
    assert f(2, 1.5) == pytest.approx(special.polygamma(2, 1.5), rel=1e-14)
    assert adc.grad(f)(2, 1.5) == pytest.approx(special.polygamma(3, 1.5), rel=1e-14)
    for bad in ("polygamma(k, x)", "polygamma(-1, x)", "polygamma(1.5, x)", "jn(x, 1.0)", "jn(1000, x)"):
        with pytest.raises(adc.DtypeError, match="an integer from"):
            adc.compile(bad, args="x, k" if "k" in bad else "x")(*(1.0, 2.0)[: 1 + ("k" in bad)])


def test_on_the_tape() -> None:
    x = adc.Variable(1.5, requires_grad=True)
    (slope,) = adc.tape.grad([adc.tape.apply("jn", 2, x)], [x])
    assert slope.value == pytest.approx(special.jvp(2, 1.5), rel=1e-13)
    (beta,) = adc.tape.grad([x.beta(2.0)], [x])
    expected = special.beta(1.5, 2) * (special.psi(1.5) - special.psi(3.5))
    assert beta.value == pytest.approx(expected, rel=1e-13)


def test_parameters_with_defaults() -> None:
    x = np.array([-2.0, 3.0])
    np.testing.assert_allclose(adc.compile("elu(x)")(x), [np.expm1(-2), 3])
    np.testing.assert_allclose(adc.compile("leaky_relu(x) + leaky_relu(x, slope=0.5)")(x), [-1.02, 6])
    assert adc.Variable(-2.0).elu().value == pytest.approx(np.expm1(-2))


def test_sympy_in_and_out() -> None:
    x = sympy.Symbol("x", positive=True)
    form = (
        sympy.besselj(2, x) + sympy.besseli(1, x) + sympy.polygamma(3, x) + sympy.beta(x, 2)
        + sympy.sinc(x) + sympy.erfinv(x / 9)
    )  # fmt: skip
    f = adc.compile(form)
    assert f(1.5) == pytest.approx(float(form.subs(x, 1.5)), rel=1e-13)
    assert adc.grad(f)(1.5) == pytest.approx(float(form.diff(x).subs(x, 1.5)), rel=1e-12)
    for text in ("sinc(x)", "erfcx(x)", "jn(2, x)", "lbeta(x, 2)", "norm_logcdf(x)", "ive(1, x)"):
        slope = adc.grad(adc.compile(text))
        (free,) = slope.sympy().free_symbols
        assert slope(0.7) == pytest.approx(float(slope.sympy().subs(free, 0.7).doit()), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_arrays_and_both_types(dtype: type) -> None:
    x = np.linspace(0.1, 5, 100_000, dtype=dtype)  # enough points to run in parallel
    f = adc.compile("i0e(x) + polygamma(1, x) + erfcx(x) + lbeta(x, 2)")
    wide = x.astype(float)
    expected = special.i0e(wide) + special.polygamma(1, wide) + special.erfcx(wide) + special.betaln(wide, 2)
    assert f(x).dtype == dtype
    digits = 1e-13 if dtype is np.float64 else 1e-6
    np.testing.assert_allclose(f(x), expected, rtol=10 * digits, atol=digits)


@pytest.mark.slow
def test_jitted() -> None:
    from numba import njit

    slope = adc.grad(adc.compile("norm_logcdf(x) + j0(x)")).jitted
    assert njit(lambda x: slope(x))(-30.0) == pytest.approx(30.033259667433677 + special.j1(30.0), rel=1e-13)


def test_fma_rounds_once() -> None:
    x = 1 + 2.0**-30
    for backend in ("cpu", "numpy"):
        assert adc.compile("fma(x, x, -(x * x))", backend=backend)(x) == 2.0**-60


def test_cached_kernels_work_in_a_fresh_process(tmp_path: Path) -> None:
    """Machine code in the cache holds no address of the process that made it."""
    text = (
        "import adcompiler as adc, numpy as np\n"
        "f = adc.grad(adc.compile('sum(erfcx(x) + polygamma(2, x) + jn(3, x) + norm_logcdf(-x))'))\n"
        "print(f(np.linspace(0.5, 9, 70000)).sum())\n"
    )
    root = Path(adc.__file__).parents[1]
    env = os.environ | {"ADC_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(root)}

    def run() -> str:
        command = [sys.executable, "-c", text]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    first = run()
    machine_code = sorted(tmp_path.rglob("*.o"))
    assert machine_code
    assert run() == first
    assert sorted(tmp_path.rglob("*.o")) == machine_code, "the second process compiled nothing"
