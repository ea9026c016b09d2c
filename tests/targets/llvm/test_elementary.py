"""Elementary functions of vectors that are inlined: errors, edges, symmetry, order, and coefficients."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from ops.rules import coefficients
from ops.rules.accuracy import CASES, points, ulps

import adcompiler as adc
from adcompiler.targets.llvm.libmvec import WIDEST, vectors
from adcompiler.targets.llvm.runtime.entry import translated
from adcompiler.targets.llvm.runtime.machine_code import optimised
from adcompiler.targets.llvm.vectormath.approximation import COEFFICIENTS
from adcompiler.targets.llvm.vectormath.elementary import ELEMENTARY

FLOATS = (np.float64, np.float32)
# Subnormal powers are rounded twice.
MOST = {**dict.fromkeys(("exp", "exp2"), 1.0), **dict.fromkeys(("log", "cosh"), 0.8)}
MOST |= dict.fromkeys(("log2", "log10", "log1p", "erf"), 1.0)
pytestmark = pytest.mark.skipif(vectors() != WIDEST, reason="there are no vectors of 512 bits")
every = pytest.mark.parametrize("name", sorted(ELEMENTARY))
both = pytest.mark.parametrize("dtype", FLOATS)


def case(name: str):
    """What is known of a function."""
    return next(c for c in CASES if c.text == f"{name}(x)")


def critical(name: str, dtype) -> np.ndarray:
    """Numbers near which a function is hard: 1, centres of cells, ends of quarters of iterations, tiny
    ones."""
    random = np.random.default_rng(1)
    numbers = COEFFICIENTS["double" if dtype is np.float64 else "float"]
    near = [0.75, 1.0, 1.5, 2.0, *np.arange(1, 60) * np.pi / 4, *np.arange(1, 40) * np.log(2) / 32]
    for cells in ("erf", "erfc"):
        near += numbers[f"{cells}_centres"]
    found = np.outer(near, 1 + random.normal(size=4) * 10.0 ** -random.integers(1, 9, 4)).ravel()
    found = np.concatenate([found, 10.0 ** random.uniform(-12, -1, 300)])
    low, high = case(name).narrow if dtype is np.float32 and case(name).narrow else case(name).interval
    found = np.concatenate([found, -found]).astype(dtype)
    return found[(found >= low) & (found <= high) & (found != 0)]


@both
@every
def test_errors_are_small(name, dtype):
    args = [np.concatenate([*points(case(name), dtype, 500), critical(name, dtype)])]
    assert ulps(case(name), args, adc.compile(f"{name}(x)")(*args)).max() <= MOST.get(name, 1.5)


@pytest.mark.slow
@both
@every
def test_errors_are_small_everywhere(name, dtype):
    args = points(case(name), dtype, 200_000, seed=2)
    assert ulps(case(name), args, adc.compile(f"{name}(x)")(*args)).max() <= MOST.get(name, 1.5)


@both
@every
def test_loops_call_nothing(name, dtype):
    """But for the sines of large angles."""
    f = adc.compile(f"{name}(x)")
    f(np.ones(40, dtype))
    text = str(optimised(translated(f._specialise(f._last).executable.general.source, True).text))
    calls = [line for line in text.split("\n") if "call " in line and "@_ZGV" in line]
    assert bool(calls) == (name in {"sin", "cos"})


@pytest.mark.slow_when(lambda dtype: dtype is np.float32)
@both
def test_large_kernels_call_functions_with_the_same_bits(dtype):
    """Inlined, so many would take LLVM minutes."""
    names, count = sorted(ELEMENTARY), 3
    parts = [f"{name}(x * {k}.5) / sqrt(x + {k})" for name in names for k in range(1, count + 1)]
    args = [np.random.default_rng(3).uniform(0.1, 0.9, 77).astype(dtype)]
    several = adc.compile(f"def f(x):\n    return {', '.join(parts)}")
    for part, found in zip(parts, several(*args), strict=True):
        np.testing.assert_array_equal(found, adc.compile(part)(*args))
    text = str(optimised(translated(several._specialise(several._last).executable.general.source, True).text))
    assert all(f"@adc_{name}_v" in text for name in names)


@both
@pytest.mark.parametrize("name", ["erf", "expm1", "log1p", "sin", "sinh"])
def test_tiny_numbers_and_signs_of_zero(name, dtype):
    """Around 0 these are multiples of their arguments."""
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, least, 3 * least, 1000 * least, np.finfo(dtype).tiny, 1e-30, -0.0, -least], dtype)
    found = adc.compile(f"{name}(x)")(x)
    slope = 2 / np.sqrt(np.pi) if name == "erf" else 1.0
    np.testing.assert_allclose(
        found, (x.astype(np.longdouble) * slope).astype(dtype), rtol=np.finfo(dtype).eps
    )
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))


@both
def test_exact_values(dtype):
    inf, nan = np.inf, np.nan
    exact = {
        "exp": {0: 1, -inf: 0, inf: inf, 1e30: inf, -1e30: 0},
        "exp2": {k: 2.0**k for k in (-149, -126, -30, 0, 1, 10, 127)},
        "expm1": {-inf: -1, inf: inf, -1e30: -1},
        "log": {1: 0, 0: -inf, inf: inf, -1: nan, -inf: nan},
        "log2": {2.0**k: k for k in (-149, -126, -1, 0, 1, 10, 127)} | {0: -inf, -1: nan},
        "log10": {1: 0, 10: 1, 100: 2, 1000: 3, 0: -inf, inf: inf, -1: nan},
        "log1p": {-1: -inf, inf: inf, -2: nan, -inf: nan},
        "erf": {inf: 1, -inf: -1, 7: 1, 1e30: 1},
        "erfc": {0: 1, inf: 0, -inf: 2, -7: 2, 30: 0},
        "sinh": {inf: inf, -inf: -inf, 1e30: inf},
        "cosh": {0: 1, inf: inf, -inf: inf},
        "sin": {inf: nan, -inf: nan},
        "cos": {0: 1, inf: nan},
    }
    assert exact.keys() == ELEMENTARY.keys()
    for name, values in exact.items():
        f = adc.compile(f"{name}(x)")
        x = np.array([*values, nan], dtype)
        np.testing.assert_array_equal(f(x), np.array([*values.values(), nan], dtype), name)


@both
@every
def test_symmetry(name, dtype):
    x = np.concatenate([*points(case(name), dtype, 1000), np.linspace(0, 8, 2001, dtype=dtype)])
    f = adc.compile(f"{name}(x)")
    if name in {"erf", "sinh", "sin"}:
        np.testing.assert_array_equal(f(-x), -f(x))
    elif name in {"cosh", "cos"}:
        np.testing.assert_array_equal(f(-x), f(x))


@both
@pytest.mark.parametrize(("name", "low", "high"), [("erf", 3, 7), ("expm1", -50, -5)])
def test_functions_reach_their_limits_in_order(name, low, high, dtype):
    y = adc.compile(f"{name}(x)")(np.linspace(low, high, 20_001, dtype=dtype))
    assert np.all(np.diff(y.astype(np.float64)) >= -np.finfo(dtype).epsneg)
    assert np.all(np.abs(y) <= 1)


@both
def test_results_underflow_gradually(dtype):
    low, high = (-745.5, -708) if dtype is np.float64 else (-104, -87)
    x = np.linspace(low, high, 999, dtype=dtype)
    found = adc.compile("exp(x)")(x)
    least = np.finfo(dtype).smallest_subnormal
    with mpmath.workprec(200):
        true = np.array([float(mpmath.exp(mpmath.mpf(float(v))) / mpmath.mpf(float(least))) for v in x])
    found = found.astype(np.float64) / float(least)
    subnormal = true < 2.0 ** np.finfo(dtype).nmant
    assert subnormal.sum() > 500
    assert np.abs(found - true)[subnormal].max() <= 0.65 + 0.5


@both
def test_large_angles_among_others(dtype):
    """Vectors with a large angle take the slow way, and no other element's bits change."""
    x = np.random.default_rng(0).uniform(-9, 9, 64).astype(dtype)
    for name in ("sin", "cos"):
        f = adc.compile(f"{name}(x)")
        expected = f(x)
        for k in (0, 5, 17, 63):
            y = x.copy()
            y[k] = 1e7
            found = f(y)
            assert abs(found[k] - getattr(np, name)(y[k].astype(np.float64))) < 4 * np.finfo(dtype).eps
            np.testing.assert_array_equal(np.delete(found, k), np.delete(expected, k))


def test_coefficients_of_one_function():
    with mpmath.workprec(coefficients.BITS):
        for bits, kind in coefficients.KINDS.items():
            for name, numbers in coefficients.exp(bits).items():
                np.testing.assert_array_equal(np.array(COEFFICIENTS[kind][name], dtype(bits)), numbers)


def dtype(bits: int):
    return np.float64 if bits == coefficients.DOUBLE else np.float32


@pytest.mark.slow
def test_coefficients_are_those_of_their_script():
    assert coefficients.PATH.read_text() == coefficients.page()
