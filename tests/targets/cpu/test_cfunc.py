"""Compiled functions of scalars as C callbacks: for `scipy.integrate`, C code and numba."""

from __future__ import annotations

import ctypes
import math
import pickle

import numpy as np
import pytest
from numba import njit
from scipy.integrate import IntegrationWarning, nquad, quad

import adcompiler as adc


def test_quad_integrates_a_callback():
    f = adc.compile("exp(-x**2)")
    assert quad(f.low_level_callable, -np.inf, np.inf)[0] == pytest.approx(math.sqrt(math.pi), rel=1e-10)


def test_quad_passes_its_args_to_the_parameters_that_follow():
    f = adc.compile("cos(k * x) + shift", args=["x", "k", "shift"])
    got = quad(f.low_level_callable, 0, 1, args=(3.0, 0.5))[0]
    assert got == pytest.approx(math.sin(3) / 3 + 0.5, rel=1e-12)


def test_nquad_integrates_over_every_parameter():
    f = adc.compile("x * y**2 + z")
    got = nquad(f.low_level_callable, [(0, 1), (0, 2), (0, 3)])[0]
    assert got == pytest.approx(0.5 * (8 / 3) * 3 + 1 * 2 * 4.5, rel=1e-12)


def test_differentiation_under_the_integral_sign():
    f = adc.compile("exp(-a * x**2)", args=["x", "a"])
    slope = adc.grad(f, "a").low_level_callable
    curve = adc.grad(adc.grad(f, "a"), "a").low_level_callable
    a = 1.7
    value = math.sqrt(math.pi / a)
    assert quad(slope, -20, 20, args=(a,))[0] == pytest.approx(-value / (2 * a), rel=1e-9)
    assert quad(curve, -20, 20, args=(a,))[0] == pytest.approx(3 * value / (4 * a**2), rel=1e-9)


def test_a_wrong_number_of_arguments_reads_nothing():
    f = adc.compile("x * y")
    with pytest.warns(IntegrationWarning):
        assert math.isnan(quad(f.low_level_callable, 0, 1)[0])


def test_the_c_function_returns_its_one_result():
    f = adc.compile("def f(x, k: i64, w: f32):\n    return x**k * w")
    assert f.cfunc.ctypes.argtypes == (ctypes.c_double, ctypes.c_int64, ctypes.c_float)
    assert f.cfunc.ctypes(2.0, 3, 0.5) == f(2.0, 3, np.float32(0.5)) == 4.0
    again = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64, ctypes.c_float)(
        f.cfunc.address
    )
    assert again(2.0, 3, 0.5) == 4.0
    assert "entry" in f.cfunc.native_name
    assert f.cfunc is f.cfunc


def test_several_results_are_written_in_order():
    f = adc.compile("def f(out, found, x):\n    return out**2 * found + sin(x)")
    gradient = adc.grad(f)
    out = (ctypes.c_double * 3)()
    gradient.cfunc.ctypes(2.0, 3.0, 0.5, out)
    assert tuple(out) == gradient(2.0, 3.0, 0.5)


def test_numba_code_calls_a_callback():
    f = adc.compile("(x - 3)**2")
    slope = adc.grad(f).cfunc

    @njit
    def descend(x, steps):
        for _ in range(steps):
            x -= 0.1 * slope(x)
        return x

    assert descend(0.0, 200) == pytest.approx(3.0)


@pytest.mark.slow
def test_arrays_inside_are_no_hindrance():
    f = adc.compile("sum(exp(-x * linspace(0, 1, 101)))")
    assert f.cfunc.ctypes(0.7) == pytest.approx(f(0.7), rel=1e-14)
    assert quad(f.low_level_callable, 0, 1)[0] == pytest.approx(quad(f, 0, 1)[0], rel=1e-12)


def test_functions_pickle_after_use():
    f = adc.compile("x**2")
    f.cfunc, f.low_level_callable  # noqa: B018
    assert pickle.loads(pickle.dumps(f)).cfunc.ctypes(3.0) == 9.0


@pytest.mark.parametrize(
    ("source", "error", "cause"),
    [
        (
            "def f(x: f64[n]):\n    return sum(x)",
            adc.ShapeError,
            "f is not a function of scalars: x is an array",
        ),
        ("x * arange(3)", adc.ShapeError, "r is an array"),
        ("def f(x, k: static):\n    return x**k", adc.Error, "f has the static parameter 'k'"),
        ("def f(x):\n    return x, x > 0", adc.DtypeError, "several types"),
    ],
)
def test_what_is_no_callback_is_refused(source, error, cause):
    with pytest.raises(error, match=cause):
        adc.compile(source).cfunc  # noqa: B018


def test_what_is_no_integrand_is_refused():
    gradient = adc.grad(adc.compile("x * y"))
    with pytest.raises(adc.DtypeError, match="returns 2 results") as caught:
        gradient.low_level_callable  # noqa: B018
    assert 'grad(f, "x")' in caught.value.remedy
    with pytest.raises(adc.DtypeError, match="the parameter k is i64"):
        adc.compile("def f(x, k: i64):\n    return x * k").low_level_callable  # noqa: B018
    with pytest.raises(adc.DtypeError, match="returns bool"):
        adc.compile("x > 0").low_level_callable  # noqa: B018
