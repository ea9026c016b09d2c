"""Loops whose iterations go over one axis element by element: all iterations of a block before the next
block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judges.compared import leaves, near
from judges.divided_loops import divided_iterations
from judges.plain_kernels import plain_kernels
from judges.threads import same_bits

import adcompiler as adc

HORNER = """
def f(x: f64[m], t: f64[n]):
    p = 0.0 * t
    for c in x:
        p = p * t + c
    return sum(p * p)
"""
SUMS = """
def f(x: f64[m, n], y: f64[n]):
    total = 0.0
    for r in x:
        y = tanh(y + r)
        total = total + sum(y * r)
    return total
"""
COLUMNS = """
def f(p: f64[n, d], w: f64[d, d], steps: i64):
    for _ in range(steps):
        p = [[tanh(sum(w[k, l] * p[i, l] for l in range(d))) for k in range(d)] for i in range(n)]
    return sum(p)
"""
SWAPPED = """
def f(a: f64[n], b: f64[n], steps: i64):
    for t in range(steps):
        a, b = b, a * sin(b) / (1 + t)
    return sum(a * b)
"""
WHOLE_CONSTANT = """
def f(x: f64[n], w: f64[n], steps: i64):
    for _ in range(steps):
        x = [x[i] * w[n - 1 - i] for i in range(n)]
    return sum(x)
"""
random = np.random.default_rng(8)


def arguments(dtype: Any = np.float64, n: int = 7, m: int = 3) -> dict[str, tuple[Any, ...]]:
    def some(*shape: int) -> Any:
        return random.uniform(0.2, 1.0, shape).astype(dtype)

    return {
        HORNER: (some(m), some(n)),
        SUMS: (some(m, n), some(n)),
        COLUMNS: (some(n, 3), some(3, 3), m),
        SWAPPED: (some(n), some(n), m),
        WHOLE_CONSTANT: (some(n), some(n), m),
    }


NAMES = {
    HORNER: "horner", SUMS: "sums", COLUMNS: "columns", SWAPPED: "swapped",
    WHOLE_CONSTANT: "whole constant",
}  # fmt: skip
by_name = pytest.mark.parametrize("source", NAMES, ids=NAMES.get)


def floats(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f" and np.ndim(a))


def on(backend: str, source: str, args: tuple[Any, ...]) -> list[Any]:
    """The value, its gradient and a product with the Hessian."""
    f, wrt = adc.compile(source, backend=backend), floats(args)
    ways = tuple(np.ones_like(args[k]) for k in wrt)
    return leaves((f(*args), adc.grad(f, wrt)(*args), adc.hvp(f, wrt)(args, ways)))


def iterations_are_inside(source: str) -> bool:
    """Whether the loop's iterations stand in the function of a nest, and not in the driver."""
    nests, driver = adc.compile(source, backend="cpu").show("kernel").split("def run(")
    assert ("for iteration" in nests) != ("for iteration" in driver)
    return "for iteration" in nests


@pytest.mark.slow
@by_name
@pytest.mark.parametrize(("n", "m"), [(7, 3), (1, 2), (4, 0)])
def test_values_gradients_and_second_order(source: str, n: int, m: int) -> None:
    """Blocks of two points, in reversed order."""
    args = arguments(n=n, m=m)[source]
    with plain_kernels() as plain, divided_iterations():
        for one, other in zip(on(plain, source, args), on("numpy", source, args), strict=True):
            near(one, other, 1e-9)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("source", [s for s in NAMES if s is not SUMS])
def test_no_places(source: str) -> None:
    args = arguments(n=0)[source]
    for one, other in zip(on("cpu", source, args), on("numpy", source, args), strict=True):
        near(one, other)


@pytest.mark.optimised
@pytest.mark.thinned(8)
@by_name
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_number_of_threads_does_not_change_bits(source: str, dtype: type) -> None:
    args = arguments(dtype, 5000)[source]
    source = source.replace("f64", "f32") if dtype is np.float32 else source
    kernels = adc.grad(adc.compile(source, backend="cpu"), floats(args))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adcompiler.targets.cpu.compiled.PARALLEL_POINTS", 1)
        found = same_bits(lambda: kernels(*args))
    expected = adc.grad(adc.compile(source, backend="numpy"), floats(args))(*args)
    for one, two in zip(found, expected, strict=True):
        near(one, two, 2e-3 * np.max(np.abs(two)) if dtype is np.float32 else 1e-9 * np.max(np.abs(two)))


@pytest.mark.parametrize("source", [s for s in NAMES if s is not SUMS])
def test_iterations_are_inside_of_blocks(source: str) -> None:
    assert iterations_are_inside(source)


def test_reverse_iterations_are_too() -> None:
    """What they add up over the places is a partial sum a block and iteration."""
    f = adc.grad(adc.compile(HORNER, backend="cpu"), "x")
    nests, driver = f.show("kernel").split("def run(")
    assert nests.count("for iteration") == 2
    assert "for iteration" not in driver


MEETING = {
    "a neighbour": "x = [x[i - 1] + x[i] if i > 0 else x[i] for i in range(n)]",
    "the first one": "x = x * x[0]",
    "a sum": "x = x / sum(x)",
    "another order": "x = 0.5 * x[::-1]",
    "a place of its own": "x = [x[at[i]] * 0.5 for i in range(n)]",
    "a scatter": "y = zeros(n)\n        for k in range(n):\n            y[at[k]] += x[k]\n        x = y",
    "a condition": "x = x * 0.5 if x[0] > 0.1 else x + 1.0",
    "a running number": "s = s + sum(x)\n        x = x * s",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("iteration", MEETING.values(), ids=MEETING)
def test_elements_that_meet_do_so_iteration_by_iteration(iteration: str) -> None:
    source = (
        "def f(x: f64[n], at: i64[n], steps: i64):\n    s = 0.0\n"
        f"    for _ in range(steps):\n        {iteration}\n    return sum(x) + s"
    )
    assert not iterations_are_inside(source)
    args = random.uniform(0.2, 1.0, 5), random.integers(0, 5, 5), 3
    with plain_kernels() as plain, divided_iterations():
        for one, other in zip(on(plain, source, args), on("numpy", source, args), strict=True):
            near(one, other, 1e-9)


def test_iterations_count_as_points() -> None:
    """5000 places are too few for threads in one iteration, and enough in a hundred."""
    f = adc.compile(HORNER, backend="cpu")
    for m, parallel in ((2, False), (100, True)):
        f(np.ones(m), np.ones(5000))
        program = f._specialise(f._last)
        assert program.executable.general.in_parallel(program.sizes([np.ones(m), np.ones(5000)])) == parallel
