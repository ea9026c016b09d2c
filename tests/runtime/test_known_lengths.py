"""Lengths that may differ and are equal in most calls, and short ones beside long ones have programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judges.guard_zones import holds, short_constants
from programs import Program, programs
from programs.loops import loop_programs

import adcompiler as adc
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.kernels import MOST_KNOWN, kernel_at

SOURCE = """
def f(x: f64[n, d], scale, a):
    return sum(a[i] * exp(-sum(((x[i, k] - x[j, k]) / scale[k])**2 for k in range(d))) * a[j]
               for i in range(n) for j in range(n))
"""
EXPONENTIALS = "def f(a, b, c):\n    return logsumexp(a[i] * b[i] + c[i] for i in range(len(a)))"
LENGTHS = [(5, 3, 3, 5), (5, 3, 4, 5), (5, 3, 6, 9), (2, 1, 1, 2), (4, 4, 4, 4)]


def arguments(n: int, d: int, scales: int, weights: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, d)), rng.uniform(1.0, 2.0, scales), rng.normal(size=weights)


def kernel(f: adc.Function, args: tuple[np.ndarray, ...]) -> CpuKernel:
    """The kernel of a call."""
    program = f._specialise(f._last)
    found = kernel_at(program.executable, program.sizes(args))
    assert isinstance(found, CpuKernel)
    return found


def test_elements_of_an_array_of_an_equal_length_are_there():
    f = adc.grad(adc.compile(SOURCE))
    equal, longer = arguments(5, 3, 3, 5), arguments(5, 3, 4, 6)
    f(*equal), f(*longer)
    assert " if i" in kernel(f, longer).kernel.text
    assert " if i" not in kernel(f, equal).kernel.text


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_lengths_that_come_in_iteration(backend):
    """Values, gradients and products with the Hessian are those of the reference for lengths one by one."""
    f, slow = adc.compile(SOURCE, backend=backend), adc.compile(SOURCE, backend="numpy")
    gradient, product = adc.grad(f), adc.hvp(f)
    for lengths in LENGTHS:
        args = arguments(*lengths)
        way = tuple(np.ones_like(a) for a in args)
        np.testing.assert_allclose(f(*args), slow(*args), rtol=1e-12)
        for one, other in zip(gradient(*args), adc.grad(slow)(*args), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        for one, other in zip(product(args, way), adc.hvp(slow)(args, way), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_gradients_by_what_nobody_reads_are_zero():
    x, scale, a = arguments(5, 3, 4, 7)
    _, by_scale, by_a = adc.grad(adc.compile(SOURCE))(x, scale, a)
    np.testing.assert_array_equal(by_scale == 0, [False, False, False, True])
    np.testing.assert_array_equal(by_a == 0, [False] * 5 + [True] * 2)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 6, 5), (5, 5, 8)])
def test_finite_differences(lengths):
    args = [np.random.default_rng(0).normal(size=n) for n in lengths]
    adc.check_grad(adc.compile(EXPONENTIALS), *args, order=2)


def test_shorter_arrays_are_still_refused():
    f = adc.compile(EXPONENTIALS)
    f(*np.ones((3, 4)))
    with pytest.raises(adc.OutOfRangeError):
        f(np.ones(4), np.ones(3), np.ones(4))


# -- short lengths ---------------------------------------------------------------------------------------

POINTS = """
def energy(x: f64[n, d], c: f64[d], at: i64[n]):
    return sum(tanh(x[i, at[i]]) * norm(x[i] - c)**3 + det(outer(x[i], c) + eye(len(c))) for i in range(n))
"""


def points(n: int, d: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(d)
    return rng.normal(size=(n, d)), rng.normal(size=d), rng.integers(0, d, n)


def test_coordinates_of_many_points_are_written_out():
    f = adc.compile("def f(x): return sum(sum(x[i]**2)**1.5 for i in range(len(x)))")
    texts = {}
    for shape in [(100, 3), (100, 5), (5, 3)]:
        x = np.ones(shape)
        f(x)
        texts[shape] = kernel(f, (x,)).kernel.text
    assert texts[100, 3].count("for ") < texts[100, 5].count("for ") == texts[5, 3].count("for ")


@pytest.mark.thinned(7)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n", [3, 64, 100])
def test_short_lengths_by_all_modes(n, d):
    x, c, at = points(n, d)
    f, slow = (adc.compile(POINTS, backend=b) for b in ("cpu", "numpy"))
    ways = (np.cos(x), np.sin(c))
    np.testing.assert_allclose(f(x, c, at), slow(x, c, at), rtol=1e-12)
    for transform in (
        lambda f: adc.grad(f, wrt=("x", "c"))(x, c, at),
        lambda f: adc.hvp(f, wrt=("x", "c"))((x, c, at), ways),
        lambda f: adc.jvp(f, (x, c, at), (*ways, None)),
    ):
        for one, other in zip(transform(f), transform(slow), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_no_kernel_for_each_number_of_iterations():
    f = adc.compile(
        "def f(x: f64[n], k: i64):\n    for t in range(k):\n        x = sin(x)\n    return sum(x)"
    )
    x = np.ones(100)
    assert kernel_of(f, x, 3) is kernel_of(f, x, 4)
    assert f(x, 2) == pytest.approx(100 * np.sin(np.sin(1.0)))


def kernel_of(f: adc.Function, x: np.ndarray, count: int) -> CpuKernel:
    f(x, count)
    return kernel(f, (x, count))


def test_no_more_kernels_than_a_few():
    """Lengths that come in all combinations have the kernel for any lengths in the end."""
    f = adc.compile("def f(x: f64[n], a: f64[p], b: f64[q]):\n    return sum(x) * sum(a) * sum(b)")
    x = np.ones(100)
    lengths = [(p, q) for p in range(2, 7) for q in range(2, 7)]
    assert [f(x, np.ones(p), np.ones(q)) for p, q in lengths] == [100 * p * q for p, q in lengths]
    assert len({kernel(f, (x, np.ones(p), np.ones(q))) for p, q in lengths}) == MOST_KNOWN + 1


RANDOM = st.one_of(programs(smooth=True, empty=False), loop_programs())


@settings(max_examples=1)
@given(RANDOM)
def test_random_programs_whose_short_lengths_are_constants(program: Program) -> None:
    with short_constants(True):
        holds(program, False, True)


@pytest.mark.slow
@settings(max_examples=300)
@given(RANDOM)
def test_many_random_programs_whose_short_lengths_are_constants(program: Program) -> None:
    with short_constants(True):
        holds(program, False, True)
