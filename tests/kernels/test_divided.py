"""Threads in the iterations of loops: the nests of an iteration are cut into blocks, as those beside loops
are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from judges.compared import leaves, near
from judges.divided_loops import divided_iterations
from judges.plain_kernels import kernels_hold, plain_kernels
from judges.threads import same_bits
from programs import Program
from programs.loops import loop_programs
from programs.written_loops import PROGRAMS

import adcompiler as adc
from adcompiler.targets.cpu.compiled import CpuKernel

PAIRS = """
def f(p: f64[n, 2], v: f64[n, 2], m: f64[n], steps: i64):
    for t in range(steps):
        a = [[sum(m[j] * (p[j, k] - p[i, k]) / (1.0 + sum((p[j, c] - p[i, c])**2 for c in range(2)))
                  for j in range(n)) for k in range(2)] for i in range(n)]
        v = v + 0.1 * a
        p = p + 0.1 * v / (1 + t)
    return sum(p * p) / 2
"""
DIFFUSION = """
def f(u: f64[n], c: f64[n], steps: i64):
    for _ in range(steps):
        u = [u[i] + c[i] * (u[i - 1] - 2 * u[i] + u[i + 1]) if 0 < i < n - 1 else u[i] for i in range(n)]
        u = u / (1 + sum(u * u) / n)
    return sum(u**3)
"""
WHILE = """
def f(x: f64[n], limit):
    while sum(x * x) > limit:
        x = x * 0.9 - 0.01 * sin(x)
    return sum(x)
"""
NESTED = """
def f(x: f64[n], w: f64[k, n], steps: i64):
    for t in range(steps):
        for r in w:
            x = tanh(x + r * mean(x))
        x = x[::-1] * (1.0 + t)
    return sum(x * x)
"""
SCATTERED = """
def f(x: f64[n], at: i64[m], steps: i64):
    for _ in range(steps):
        y = zeros(n)
        for k in range(m):
            y[at[k]] += sin(x[at[k]])
        x = x + y
    return sum(x * x)
"""
random = np.random.default_rng(5)


def arguments(dtype: Any = np.float64, n: int = 9, steps: int = 3) -> dict[str, tuple[Any, ...]]:
    def some(*shape: int) -> Any:
        return random.uniform(0.2, 1.0, shape).astype(dtype)

    at = random.integers(0, max(n, 1), 12 if n else 0)
    return {
        PAIRS: (some(n, 2), some(n, 2), some(n), steps),
        DIFFUSION: (some(n), some(n) / 4, steps),
        WHILE: (some(n), n / 20),
        NESTED: (some(n), some(2, n), steps),
        SCATTERED: (some(n), at, steps),
    }


SOURCES = {"pairs": PAIRS, "diffusion": DIFFUSION, "while": WHILE, "nested": NESTED, "scattered": SCATTERED}
by_name = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


@pytest.fixture(autouse=True)
def divided() -> Iterator[None]:
    with divided_iterations():
        yield


def floats(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f" and np.ndim(a))


def on(backend: str, source: str, wrt: tuple[int, ...], args: tuple[Any, ...]) -> list[Any]:
    """The value, its gradient and a product with the Hessian."""
    f = adc.compile(source, backend=backend)
    ways = tuple(np.ones_like(args[k]) for k in wrt)
    return leaves((f(*args), adc.grad(f, wrt)(*args), adc.hvp(f, wrt)(args, ways)))


@pytest.mark.thinned(9)
@by_name
@pytest.mark.parametrize(("n", "steps"), [(9, 3), (1, 2), (0, 2), (5, 0)])
def test_values_gradients_and_second_order(source: str, n: int, steps: int) -> None:
    args = arguments(n=n, steps=steps)[source]
    if source is WHILE and not n:
        return
    wrt = floats(args)
    with plain_kernels() as plain:
        for one, other in zip(on(plain, source, wrt, args), on("numpy", source, wrt, args), strict=True):
            near(one, other, 1e-9)


@pytest.mark.optimised
@pytest.mark.thinned(6)
@by_name
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_number_of_threads_does_not_change_bits(source: str, dtype: type) -> None:
    args = arguments(dtype)[source]
    source = source.replace("f64", "f32") if dtype is np.float32 else source
    gradient = adc.grad(adc.compile(source, backend="cpu"), floats(args))
    found = same_bits(lambda: gradient(*args))
    expected = adc.grad(adc.compile(source, backend="numpy"), floats(args))(*args)
    for one, two in zip(found, expected, strict=True):
        near(one, two, 1e-4 if dtype is np.float32 else 1e-10)


@pytest.mark.slow
@by_name
def test_numba_compiles_the_same(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel has what only numba compiles."""
    monkeypatch.setattr(CpuKernel, "native", None)
    args = arguments()[source]
    near(adc.compile(source, backend="cpu")(*args), adc.compile(source, backend="numpy")(*args), 1e-11)


@pytest.mark.thinned(40)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program(name: str) -> None:
    holds(PROGRAMS[name])


@settings(max_examples=2)
@given(loop_programs())
def test_random_programs(program: Program) -> None:
    holds(program)


@pytest.mark.slow
@settings(max_examples=300)
@given(loop_programs())
def test_many_random_programs(program: Program) -> None:
    holds(program)


def holds(program: Program) -> None:
    """A program and its gradient, with blocks of iterations in reversed order, against the interpreter."""
    with divided_iterations():
        kernels_hold(program)


def test_short_iterations_stay_in_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call a nest and iteration costs more than threads would bring."""
    monkeypatch.undo()
    f = adc.compile(PAIRS, backend="cpu")
    text = f.show("kernel", *arguments()[PAIRS])
    assert "for iteration0 in" in text
    assert "iteration0, " not in text.split("def run(")[0]
