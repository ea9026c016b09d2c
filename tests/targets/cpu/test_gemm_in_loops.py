"""Matrix products of iterations of a program's loops as calls, which lengths choose."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.kernels.emit.traffic import Time
from adcompiler.targets.cpu import kernels
from adcompiler.targets.cpu.compiled import Mode

UNTIL = """
def until(x: f64[m, n], w: f64[n, n], b: f64[n], rounds: i64):
    z = zeros((m, n))
    gap = 1.0
    while gap > 1e-3:
        new = tanh(z @ w + x + b)
        gap = max(abs(new - z))
        z = new
    return sum(z * z)
"""
CASES = """
def cases(x: f64[m, n], w: f64[n, n], b: f64[n], rounds: i64):
    for k in range(rounds):
        if sum(x) > 0.5 * k:
            x = sin(x @ w) - b
        else:
            for _ in range(rounds):
                x = x + cos(x @ w.T) * b
    return sum(x**3)
"""
PROGRAMS = {"until": UNTIL, "cases": CASES}
WRT = ("x", "w", "b")


def arguments(m: int, n: int, rounds: int, dtype: str = "float64") -> tuple[np.ndarray | int, ...]:
    random = np.random.default_rng(m + n)
    x, w, b = (random.normal(size=shape).astype(dtype) / 4 for shape in ((m, n), (n, n), (n,)))
    return x, w / np.sqrt(n).astype(dtype), b, rounds


def in_loops(f: adc.Function, *args: np.ndarray | int) -> int:
    """The number of products in loops that are calls."""
    f(*args)
    bound = f._bind(args)
    executable = bound.program.executable
    configuration = executable.select(bound.sizes)
    program = executable.program(configuration.known, configuration.rows)
    return sum(program.products[k].in_loop for k in configuration.products)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_of_the_reference(monkeypatch, name: str, dtype: str) -> None:
    monkeypatch.setattr(kernels._Program, "time", lambda *given: Time(0.0, 0.0))
    source = PROGRAMS[name].replace("f64", "f32") if dtype == "float32" else PROGRAMS[name]
    ours, plain = (adc.compile(source, backend=backend) for backend in ("cpu", "numpy"))
    rtol, atol = (2e-3, 2e-3) if dtype == "float32" else (1e-9, 1e-11)
    for m, rounds in ((70, 4), (20, 0), (0, 2)):
        args = arguments(m, 16, rounds, dtype)
        if name == "until" and not m:
            continue  # a maximum of no elements
        directions = tuple(np.ones_like(a) for a in args[:3])
        found, expected = (
            [f(*args), *adc.value_and_grad(f, WRT)(*args)[1], *adc.hvp(f, WRT)(args, directions)]
            for f in (ours, plain)
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
    args = arguments(70, 16, 4, dtype)
    assert in_loops(ours, *args) == (1 if name == "until" else 2)
    assert in_loops(adc.grad(ours, WRT), *args) >= 2


def test_they_agree_with_finite_differences(monkeypatch) -> None:
    monkeypatch.setattr(kernels._Program, "time", lambda *given: Time(0.0, 0.0))
    adc.check_grad(adc.compile(CASES), *arguments(16, 16, 3), wrt=WRT)


def test_predicted_times_and_lengths_choose() -> None:
    f = adc.compile(UNTIL)
    assert in_loops(f, *arguments(64, 32, 0)) == 1
    assert not in_loops(f, *arguments(16, 9, 0))


def test_loops_are_not_scheduled_where_they_cannot_be_faster() -> None:
    """That follows from the schedule with calls."""
    bound = adc.compile(UNTIL)._bind(arguments(64, 32, 0))
    executable = bound.program.executable
    configuration = executable.select(bound.sizes)
    assert [*executable.program(configuration.known).times] == [(configuration.products, False)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_share_their_tiles(monkeypatch, name: str) -> None:
    """An iteration calls a nest over tiles, and the bits stay the same."""
    monkeypatch.setattr(kernels._Program, "time", lambda *given: Time(0.0, 0.0))
    args = arguments(150, 80, 3)
    one, two = (adc.compile(PROGRAMS[name], backend=f"cpu:{threads}") for threads in (1, 2))
    for first, second in zip(adc.grad(one, WRT)(*args), adc.grad(two, WRT)(*args), strict=True):
        np.testing.assert_array_equal(first, second)
    bound = two._bind(args)
    kernel = bound.program.executable.at(bound.sizes)
    assert isinstance(kernel.mode, Mode)
    assert kernel.mode.divided
    assert any("library_matmul" in line for line in kernel.kernel.source.splitlines())


def test_other_targets_multiply_in_loops() -> None:
    args = arguments(40, 16, 3)
    expected = adc.grad(adc.compile(CASES, backend="numpy"), WRT)(*args)
    for backend in ("numba", "cpu-precise"):
        found = adc.grad(adc.compile(CASES, backend=backend), WRT)(*args)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
