"""Loops whose iterations the host launches, in numba's simulator: captured once and launched again, or one by
one.

The simulator records what an iteration launches and runs the record for all iterations that follow: so what
is right here launches the same in every iteration, but for the number of the iteration, which lies on the
device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import as_cuda
import numpy as np
import pytest
from numba import cuda
from programs.written_loops import BEHIND, SOURCES

import adcompiler as adc
from adcompiler.runtime.programs import backends
from adcompiler.targets.cpu import kernels
from adcompiler.targets.cuda import executable, plan
from adcompiler.targets.cuda import program as device_program
from adcompiler.targets.cuda.device import arrays, copies
from adcompiler.targets.cuda.device.simulated import captured

RANDOM = np.random.default_rng(0)
FEWEST = device_program.FEWEST_CAPTURED_ITERATIONS
SLICES = plan.Machine(threads=4, warp=4, busy=10**6, enough=0, most_blocks=2, tile=10**9)
Counts = list[
    tuple[int, int]
]  # of each loop: how many iterations were to be launched again, and how many were


@pytest.fixture(autouse=True)
def loops_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "LARGE_ITERATION", -1)
    monkeypatch.setitem(backends.BACKENDS, "numpy", as_cuda.PLAIN["numpy"])


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """The loops of which an iteration is captured."""
    counts: Counts = []
    replayed = device_program._Call.replayed

    def counted(self: Any, loop: Any, times: int) -> int:
        found = replayed(self, loop, times)
        counts.append((times, found))
        return found

    monkeypatch.setattr(device_program._Call, "replayed", counted)
    return counts


def values(f: Any) -> Any:
    return f


def second(f: Any) -> Any:
    """The derivatives of the gradient, by forward mode and by reverse mode."""
    gradient = adc.grad(f)

    def call(*args: Any) -> Any:
        tangents = tuple(np.cos(a) for a in args)
        _, pull = adc.vjp(gradient, *args)
        return adc.jvp(gradient, args, tangents), pull(tangents if len(args) > 1 else tangents[0])

    return call


def agree(transform: Callable[[Any], Any], source: str, *args: Any) -> None:
    """The device gives what the NumPy backend does."""
    found, expected = (
        list(flat(transform(adc.compile(source, backend=b))(*args))) for b in ("cuda", "numpy")
    )
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        close = 1e-4 if np.asarray(other).dtype == np.float32 else 1e-10
        scale = max(float(np.max(np.abs(other), initial=0.0)), 1.0)
        np.testing.assert_allclose(one, other, rtol=close, atol=close * scale)


def flat(value: Any) -> Iterator[Any]:
    """The leaves of nested results."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from flat(part)
    elif value is not None:
        yield value


# Numbers and arrays that are carried, a part that is stored, and a row of what is given.
CARRIED = """
def f(h, w, x):
    k = 0.0
    for t in range(len(x)):
        k = 0.5 * k + sum(h)
        h = tanh(w @ h + x[t]) + 0.1 * k
        h[0] = h[0] * k
    return sum(h * h) + k
"""


LEAST = {values: 1, adc.value_and_grad: 2, second: 4}  # loops


@pytest.mark.slow_when(lambda transform, iterations: transform is second and iterations > 1)
@pytest.mark.slow_when(
    lambda transform, iterations: transform is adc.value_and_grad and iterations in (0, 2, 3, FEWEST + 1)
)
@pytest.mark.parametrize(("transform", "iterations"), [
    *((adc.value_and_grad, iterations) for iterations in (0, 1, 2, 3, FEWEST, FEWEST + 1, 11)),
    (values, 11), (second, 0), (second, 1), (second, FEWEST + 1),
])  # fmt: skip
def test_any_number_of_iterations(iterations: int, transform: Any, replays: Counts) -> None:
    args = RANDOM.normal(size=3), RANDOM.normal(size=(3, 3)) / 3, RANDOM.normal(size=(iterations, 3))
    agree(transform, CARRIED, *args)
    left = iterations - 1
    assert set(replays) == ({(left, left)} if left >= FEWEST else set())
    assert len(replays) >= (LEAST[transform] if left >= FEWEST else 0)


PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "several arrays, which change places": ("""
def f(q, p, k):
    for t in range(9):
        q, p = p * cos(q), q - 0.1 * k * p
    return sum(q * q + p)
""", tuple(RANDOM.normal(size=(3, 5)))),
    "backward": ("""
def f(x: f64[n, m], w: f64[m]):
    s = w
    for i in range(n - 1, -1, -1):
        s = sin(s * x[i]) + i * w
    return sum(s * s)
""", (RANDOM.normal(size=(7, 3)), RANDOM.normal(size=3))),
    "rows that iterations leave": ("""
def f(x: f64[n, m], w: f64[m]):
    y = zeros((n, m))
    s = w
    for i in range(n):
        s = tanh(s * x[i])
        y[i] = s * w
    return sum(y * y * x)
""", (RANDOM.normal(size=(7, 3)), RANDOM.normal(size=3))),
    "numbers only": ("""
def f(x: f64[n], a: f64):
    s = 1.0
    for v in x:
        s = a * tanh(s) + v
    return s
""", (RANDOM.normal(size=8), 0.7)),
    "sums of rows": ("""
def f(x: f64[n, m], w: f64[m, m]):
    h = x[0]
    for t in range(6):
        h = sin([sum(w[i, j] * h[j] for j in range(m)) for i in range(m)]) + 0.1 * t
    return sum(h * h)
""", (RANDOM.normal(size=(2, 5)), RANDOM.normal(size=(5, 5)) / 2)),
    "what is added at computed places": ("""
def f(x: f64[n], w: f64[n]):
    h = x
    for t in range(7):
        h = sin([h[(3 * i * i) % n] * w[i] for i in range(n)])
    return sum(h * h)
""", (RANDOM.normal(size=6), RANDOM.normal(size=6))),
    "windows that are stored": ("""
def f(x: f64[n]):
    r = zeros((len(x), 3))
    for i in range(len(x) - 2):
        r[i : i + 2, 1:] += x[i] * sum(x[i : i + 3]) + r[i, 0]
    return sum(r * r)
""", (RANDOM.normal(size=8),)),
    "slices by offsets": ("""
def f(x: f64[n], s: i64[m]):
    t = 0.5
    r = x.copy()
    for i in range(len(s) - 1):
        a = x[s[i] : s[i + 1]]
        t = sin(t) + sum(a * a)
        r[s[i] : s[i + 1]] = a * t
    return t + sum(r * x)
""", (RANDOM.normal(size=8), np.array([0, 3, 3, 5, 8, 6]))),
    "products and routines": ("""
def f(h, w):
    for t in range(7):
        h = tanh(h @ w) + solve(w + 9 * eye(3), h.T).T
    return sum(h * h)
""", (RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(3, 3)) / 3)),
    "what is given, again in every iteration": ("""
def f(x: f64[n], w: f64[n]):
    h = w
    s = 0.0
    for t in range(6):
        s = s + t * sum(h * x)
        h = x
    return s
""", (RANDOM.normal(size=6), RANDOM.normal(size=6))),
}  # fmt: skip


BY_THE_HOST = {"slices by offsets"}  # lengths that an iteration computes: it is the host that launches


@pytest.mark.thinned(3)
@pytest.mark.slow_when(
    lambda name, transform: transform is second and name not in ("backward", "numbers only")
)
@pytest.mark.parametrize(("name", "transform"), [
    *((name, adc.value_and_grad) for name in PROGRAMS),
    *((name, second) for name in PROGRAMS if name != "products and routines"),  # long in the simulator
])  # fmt: skip
def test_captured_iterations(
    name: str, transform: Any, replays: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "chosen", lambda *_: True)
    monkeypatch.setattr(kernels._Program, "alone", lambda *_: True)
    source, args = PROGRAMS[name]
    agree(transform, source, *args)
    assert bool(replays) is (name not in BY_THE_HOST)
    assert all(times == done for times, done in replays)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_iterations_whose_sums_are_cut(
    name: str, replays: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_program, "MACHINE", SLICES)
    source, args = PROGRAMS[name]
    agree(adc.value_and_grad, source, *args)
    assert bool(replays) is (name not in BY_THE_HOST)
    assert all(times == done for times, done in replays)


ROWS = {
    "sums that are cut": ("""
def f(x: f64[m], w: f64[k, m]):
    h = x
    for t in range(7):
        u = [sum(h[(i * j) % m] for j in range(m)) for i in range(k)]
        h = [h[i] * sin(u[i % k] * u[0]) * w[0, i] for i in range(m)]
    return sum(h * h)
""", (RANDOM.normal(size=5), RANDOM.normal(size=(3, 5)))),
    "copies": ("""
def f(x: f64[n, m], w: f64[m, m]):
    h = x[0]
    g = x[1]
    for t in range(7):
        g, h = h, [sum(w[i, j] * sin(h[j]) for j in range(m)) for i in range(m)] * g
    return sum(h * h) + sum(g)
""", (RANDOM.normal(size=(2, 5)), RANDOM.normal(size=(5, 5)))),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_kernels_find_the_row_of_a_iteration(
    name: str, replays: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What iterations leave, of which only the device knows the number while they are launched again."""
    monkeypatch.setattr(device_program, "MACHINE", SLICES)
    rows: set[Any] = set()
    module, kernel = (copies, "_kernel") if name == "copies" else (device_program, "add_slices")
    made = getattr(module, kernel)

    def noted(*args: Any) -> Any:
        rows.update(args[1:])
        return made(*args)

    monkeypatch.setattr(module, kernel, noted)
    source, args = ROWS[name]
    agree(adc.value_and_grad, source, *args)
    assert bool(replays) is (name not in BY_THE_HOST)
    assert all(times == done for times, done in replays)
    assert any(row != () for row in rows)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize(("row", "to_row"), [((), ()), ((1,), ()), ((), (2,)), ((2,), (0, 1))])
def test_copies_of_rows(row: copies.Row, to_row: copies.Row, strided: bool) -> None:
    numbers = np.array([1, 3, 2])
    step = 2 if strided else 1
    whole = RANDOM.normal(size=(5,) * len(row) + (3, 4 * step))
    target = np.zeros((4,) * len(to_row) + (3, 4))
    to = cuda.to_device(target)
    copies.copy_row(cuda.to_device(whole)[..., ::step], to, 0, cuda.to_device(numbers), row, to_row)
    target[tuple(numbers[list(to_row)])] = whole[..., ::step][tuple(numbers[list(row)])]
    np.testing.assert_array_equal(to.copy_to_host(), target)


BY_HOST: dict[str, tuple[str, tuple[Any, ...], set[tuple[int, int]]]] = {
    "while": ("""
def f(x, a):
    while sum(x * x) < 100:
        x = x * a + 0.1
    return sum(x * x)
""", (np.linspace(0.1, 0.5, 5), 1.3), {(7, 7)}),  # of its adjoint the number of iterations is known
    "sums at computed places of a row": ("""
def f(x: f64[n, m], w: f64[m], at: i64[m]):
    for t in range(n):
        w = sin([x[t, at[i]] * w[i] for i in range(m)])
    return sum(w * w)
""", (RANDOM.normal(size=(7, 5)), RANDOM.normal(size=5), np.array([0, 2, 2, 4, 1])), {(6, 6)}),
    "arrays of an iteration's own length": ("""
def f(x: f64[n]):
    s = 1.0
    for t in range(7):
        y = [sin(s * x[j]) for j in range(t % 3 + 1)]
        s = s + sum(y)
    return s
""", (RANDOM.normal(size=4),), set()),
    "lengths of an iteration": ("""
def f(x: f64[n], w: f64[n]):
    s = w
    for i in range(n):
        for j in range(i):
            s = sin(s * x[j]) + i * x[i]
    return sum(s * s)
""", (RANDOM.normal(size=9), RANDOM.normal(size=9)), {(k, k) for k in range(FEWEST, 8)}),
    "loops inside": ("""
def f(x: f64[n], w: f64[n]):
    s = w
    for i in range(6):
        for j in range(8):
            s = sin(s * x) + i * x * j
    return sum(s * s)
""", (RANDOM.normal(size=3), RANDOM.normal(size=3)), {(7, 7)}),
}  # fmt: skip


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", BY_HOST)
def test_what_the_host_must_know_is_launched_iteration_by_iteration(name: str, replays: Counts) -> None:
    """`expected` are the other loops: inner ones, and adjoints or what they are of."""
    source, args, expected = BY_HOST[name]
    agree(adc.value_and_grad, source, *args)
    assert set(replays) == expected


def test_lengths_that_are_computed_are_read_back_in_each_iteration(replays: Counts) -> None:
    agree(adc.value_and_grad, BEHIND, np.array([0.45, 0.2]), np.array([3, 9]))
    assert not replays or max(replays) < (8, 8)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["rows", "slices", "scatter", "swapped, then a loop", "dynamic programming"])
def test_programs_of_other_tests(name: str, replays: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_program, "FEWEST_CAPTURED_ITERATIONS", 1)
    source, args = SOURCES[name]
    agree(values, source, *args)
    agree(split, source, *args)
    assert any(times == done for times, done in replays)


def split(f: Any) -> Any:
    """The gradient of the sum of what a function gives, by explicit forward and propagate."""

    def call(*args: Any) -> Any:
        parts = f.split()
        result, saved = parts.forward(*args)
        return result, parts.propagate(saved, np.ones_like(result))

    return call


@pytest.mark.parametrize("possible", [0, 1, 3, 8])
def test_iterations_go_on_where_the_driver_stops(possible: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that cannot be made, or not be launched any more: other iterations are launched as usual."""
    made = 0

    @contextmanager
    def limited(write: Any) -> Iterator[Any]:
        left = possible

        def launch(stream: Any) -> bool:
            nonlocal left, made
            left -= 1
            made += left >= 0
            return left >= 0 and sequence(stream)

        with captured(write) as sequence:
            yield launch if possible else None

    monkeypatch.setattr(device_program, "captured", limited)
    args = RANDOM.normal(size=3), RANDOM.normal(size=(3, 3)) / 3, RANDOM.normal(size=(9, 3))
    agree(adc.value_and_grad, CARRIED, *args)
    assert made == 2 * possible


def test_what_is_asked_of_the_host_while_it_is_captured_is_not_launched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched: list[Any] = []

    @contextmanager
    def asked(write: Any) -> Iterator[Any]:
        with captured(write) as sequence:
            write.__closure__[1].cell_contents.by_host = True
            yield lambda stream: launched.append(stream) or sequence(stream)

    monkeypatch.setattr(device_program, "captured", asked)
    args = RANDOM.normal(size=3), RANDOM.normal(size=(3, 3)) / 3, RANDOM.normal(size=(9, 3))
    agree(adc.value_and_grad, CARRIED, *args)
    assert not launched


def test_a_function_is_called_again_with_other_lengths_and_types(replays: Counts) -> None:
    f, g = (adc.value_and_grad(adc.compile(CARRIED, backend=b)) for b in ("cuda", "numpy"))
    for iterations, n, dtype in ((7, 3, "f8"), (9, 5, "f8"), (7, 3, "f8"), (3, 2, "f8"), (7, 3, "f4")):
        args = [RANDOM.normal(size=s).astype(dtype) / 2 for s in (n, (n, n), (iterations, n))]
        close = 1e-11 if dtype == "f8" else 1e-4
        for one, other in zip(flat(f(*args)), flat(g(*args)), strict=True):
            np.testing.assert_allclose(one, other, rtol=close, atol=close)
    assert set(replays) == {(6, 6), (8, 8)}


def test_captured_iterations_are_launched_on_the_stream_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, streams = cuda.stream(), []

    @contextmanager
    def noted(write: Any) -> Iterator[Any]:
        with captured(write) as sequence:
            yield lambda stream: streams.append(stream) or sequence(stream)

    monkeypatch.setattr(device_program, "captured", noted)
    monkeypatch.setitem(arrays.STREAMS, "numba", lambda: mine)
    args = [RANDOM.normal(size=s) / 2 for s in (3, (3, 3), (8, 3))]
    f, g = (adc.compile(CARRIED, backend=b) for b in ("cuda", "numpy"))
    np.testing.assert_allclose(f(*map(cuda.to_device, args)), g(*args), rtol=1e-12)
    assert streams == [mine] * 7


def test_only_what_is_asked_for_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of iterations lie on the device: results that are arrays need no wait for them."""
    asked: list[Any] = []
    numbers = device_program._Call.numbers

    def noted(self: Any, wanted: Any) -> Any:
        found = numbers(self, wanted)
        asked.extend(found)
        return found

    monkeypatch.setattr(device_program._Call, "numbers", noted)
    source = "def f(h, x):\n    for row in x:\n        h = sin(h * row)\n    return h"
    args = [cuda.to_device(RANDOM.normal(size=s)) for s in (3, (8, 3))]
    adc.compile(source, backend="cuda")(*args)
    assert not asked
