"""Quotients and roots of vectors by Newton's method: the bits are those of the processor's instructions."""

import re

import mpmath
import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.llvm.libmvec import vectors
from adcompiler.targets.llvm.runtime.entry import translated
from adcompiler.targets.llvm.runtime.machine_code import optimised

found = vectors()
longest = pytest.mark.skipif(
    found is None or found.letter != "e", reason="this processor has no vectors of 512 bits"
)
RNG = np.random.default_rng(7)
TYPES = {"f64": (np.float64, np.int64), "f32": (np.float32, np.int32)}
COUNT = 100_003  # odd: a remainder stays


def program(dtype, text):
    return adc.compile(f"def f(a: {dtype}[n], x: {dtype}[n]):\n    return {text}")


def assert_same_bits(got, expected):
    bits = [np.where(np.isnan(v), np.nan, v).view(f"i{v.itemsize}") for v in (got, expected)]
    np.testing.assert_array_equal(*bits)


def usual(dtype):
    """Numbers of all magnitudes near 1."""
    a, x = (RNG.normal(size=COUNT) * 2.0 ** RNG.integers(-20, 20, COUNT) for _ in "ax")
    return a.astype(TYPES[dtype][0]), x.astype(TYPES[dtype][0])


def extreme(dtype):
    """Any bits: subnormal and huge numbers, infinities and NaN; and zeros."""
    kind, bits = TYPES[dtype]
    limits = np.iinfo(bits)
    a, x = (RNG.integers(limits.min, limits.max, COUNT, dtype=bits).view(kind) for _ in "ax")
    for v in (a, x):
        v[RNG.integers(0, COUNT, COUNT // 20)] = 0.0
        v[RNG.integers(0, COUNT, COUNT // 20)] = -0.0
        v[RNG.integers(0, COUNT, COUNT // 50)] = np.inf
    return a, x


def halfway(dtype):
    """Quotients and roots as near to the middle between two numbers as there are any: those of middles."""
    kind, _ = TYPES[dtype]
    digits = np.finfo(kind).nmant + 1
    a, x = np.empty((2, 5000), kind)
    for k in range(len(a)):
        middle = 2 * int(RNG.integers(2 ** (digits - 1), 2**digits)) + 1
        divisor = int(RNG.integers(2 ** (digits - 1), 2**digits))
        a[k] = kind(middle * divisor >> digits)
        x[k] = kind(divisor)
        if k % 2:  # x is the square of a middle, as near as may be
            x[k] = kind(middle * middle >> (digits + 1 + k % 4 // 2))
    return a, x


@pytest.mark.thinned(4)
@pytest.mark.parametrize("numbers", [usual, extreme, halfway])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("text", ["a / x", "1 / x", "-3 / x", "sqrt(x)"])
def test_the_bits_are_those_of_the_processor(text, dtype, numbers):
    a, x = numbers(dtype)
    with np.errstate(all="ignore"):
        expected = eval(text, {"a": a, "x": x, "sqrt": np.sqrt})
    assert_same_bits(program(dtype, text)(a, x), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_vector_with_a_rare_number_is_right_in_all_lanes(dtype):
    f = program(dtype, "a / x + sqrt(x)")
    for rare in (0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, np.finfo(TYPES[dtype][0]).smallest_subnormal):
        for place in range(0, 40, 3):
            a, x = (np.abs(v[:40]) for v in usual(dtype))
            x[place] = rare
            a[-place] = rare
            with np.errstate(all="ignore"):
                assert_same_bits(f(a, x), a / x + np.sqrt(x))


@pytest.mark.parametrize("dtype", TYPES)
def test_reciprocals_of_roots_are_precise(dtype):
    kind, _ = TYPES[dtype]
    x = np.exp(RNG.uniform(np.log(np.finfo(kind).tiny), np.log(np.finfo(kind).max), 3000)).astype(kind)
    x[:500] = np.linspace(1, 4, 500)
    got = program(dtype, "rsqrt(x)")(x, x)
    with mpmath.workdps(40):
        exact = [1 / mpmath.sqrt(mpmath.mpf(float(v))) for v in x]
        units = [float(np.spacing(kind(e))) for e in exact]
        wrong = [abs(float(g) - e) / u for g, e, u in zip(got, exact, units, strict=True)]
    assert max(wrong) < 1.5


@longest
@pytest.mark.parametrize(("text", "value"), [("a / x", 0.25), ("sqrt(x)", 2), ("rsqrt(x)", 0.5)])
def test_they_are_inlined(text, value):
    f = program("f64", text)
    np.testing.assert_array_equal(f(np.ones(9), np.full(9, 4.0)), value)
    code = str(optimised(translated(f._specialise(f._last).executable.general.source, True).text))
    assert "@llvm.x86.avx512.r" in code
    assert not re.search(r"call .*<8 x double> @adc_", code)
