"""What a caller writes to between forward and backward changes no gradient.

A function that gives results and holds on to values holds copies: of its arguments, however they are
passed, and of the results that it gave.
"""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import adcompiler as adc
from adcompiler.runtime.programs.snapshot import snapshot

BACKENDS = ["cpu", "numpy"]

# Each reads its argument, its result, or both in propagate.
SOURCES = {
    "result": "exp(x)",
    "argument": "x**3 + x",
    "both": "[sqrt(x) * x, tanh(x)]",
    "several": "def f(x):\n    y = exp(x)\n    return y, y * x, x",
    "loop": "def f(x):\n    y = 1 * x\n    for i in range(3):\n        y = sin(y) * x\n    return y",
    "nothing done": "def f(x):\n    y = 1 * x\n    for i in range(len(x), len(x)):\n        y = y * x\n"
    "    return y * y, y",
    "routine": "def f(x):\n    a = [[x[i] * x[j] + 3 * (i == j) for i in range(3)] for j in range(3)]\n"
    "    return inv(a), solve(a, x)",
}


class Pair(NamedTuple):
    x: object


def plain(base):
    return base[:3]


def fortran(base):
    return np.asfortranarray(base)[:3]


def strided(base):
    return base[::2][:3]


def backwards(base):
    return base[2::-1]


def read_only(base):
    view = base[:3].view()
    view.flags.writeable = False
    return view


def broadcast(base):
    return np.broadcast_to(base[:1], (3,))


def window(base):
    return sliding_window_view(base, 3)[1]


def of_a_buffer(base):
    return np.frombuffer(memoryview(base).toreadonly(), base.dtype)[:3]


ARGUMENTS = [plain, fortran, strided, backwards, read_only, broadcast, window, of_a_buffer]


def written_to(value):
    """Write to every array of a result."""
    if isinstance(value, tuple):
        for part in value:
            written_to(part)
    elif np.ndim(value):
        value -= 7.0


def ones(value):
    return tuple(map(ones, value)) if isinstance(value, tuple) else np.ones_like(value)


@pytest.mark.thinned(14)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_pullback_is_that_of_the_call(name, argument, dtype, backend):
    f = adc.compile(SOURCES[name], backend=backend)
    base = np.linspace(0.5, 1.5, 6, dtype=dtype)
    value, pullback = adc.vjp(f, argument(base))
    cotangents = ones(value)
    (expected,) = pullback(cotangents)
    expected = expected.copy()
    written_to(value)
    base *= -3
    np.testing.assert_array_equal(pullback(cotangents)[0], expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("save", ["partials", "auto", ["t"]])
def test_split_holds_copies_whatever_it_saves(save, backend):
    f = adc.compile("def f(x):\n    t = sin(x)\n    return t, exp(t * x)", backend=backend)
    x = np.linspace(0.5, 1.5, 4)
    s = f.split(save=save)
    results, saved = s.forward(x)
    cotangents = ones(results)
    expected = s.propagate(saved, cotangents)[0].copy()
    written_to(results)
    x *= -3
    np.testing.assert_array_equal(s.propagate(saved, cotangents)[0], expected)


def test_saved_values_are_read_only():
    _, saved = adc.compile("exp(x) * x").split().forward(np.ones(3))
    assert saved
    for value in saved:
        with pytest.raises(ValueError, match="read-only"):
            value += 1


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_second_derivatives_hold_copies(argument):
    gradient = adc.grad(adc.compile("sum(exp(x) * x)"))
    base = np.linspace(0.5, 1.5, 6)
    x = argument(base).copy()
    value, pullback = adc.vjp(gradient, argument(base))
    written_to(value)
    base *= -3
    np.testing.assert_allclose(pullback(np.ones(3))[0], np.exp(x) * (x + 2), rtol=1e-14)


@pytest.mark.parametrize("made", [lambda x: (x,), lambda x: [x, 2.0], lambda x: {"x": x}, Pair])
def test_containers_hold_copies(made):
    part = {dict: 'p["x"]', Pair: "p.x"}.get(type(made(0.0)), "p[0]")
    f = adc.compile(f"def f(p):\n    return exp({part}) * {part}")
    x = np.linspace(0.5, 1.5, 6)
    argument = made(np.broadcast_to(x[:1], 3))
    value, pullback = adc.vjp(f, argument)
    value -= 1
    x *= -3
    (found,) = pullback(np.ones(3))
    found = found["x"] if isinstance(found, dict) else found[0]
    np.testing.assert_allclose(found, np.exp(0.5) * 1.5 * np.ones(3), rtol=1e-14)


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize(
    "source",
    [
        "exp(x) * c",
        "sin(x * c)",
        "def f(x, c):\n    for i in range(3):\n        x = sin(x) * c\n    return x",
    ],
)
def test_the_tape_holds_copies(source, argument):
    f = adc.compile(source)
    base, other = np.linspace(0.5, 1.5, 6), np.linspace(1.5, 0.5, 6)
    x = adc.Variable(argument(base))
    y = f(x, argument(other))
    expected = adc.tape.grad(y, x).numpy()
    base *= -3
    other *= -3
    np.testing.assert_array_equal(adc.tape.grad(y, x).value, expected)
    np.testing.assert_allclose(adc.tape.grad(y * y, x).value, 2 * y.value * expected, rtol=1e-14)


@pytest.mark.parametrize("index", [np.array([2, 0]), [2, 0], np.array([True, False, True])])
def test_the_tape_holds_copies_of_indices(index):
    x = adc.Variable(np.arange(3.0))
    y = x[index]
    expected = adc.tape.grad(y, x).numpy()
    index[:] = [False] * len(index)
    np.testing.assert_array_equal(adc.tape.grad(y, x).value, expected)


def test_gradients_of_two_inputs_are_two_variables():
    """A gradient may be assigned, as one who clips gradients does."""
    a, b = adc.Variable(2.0, requires_grad=True), adc.Variable(3.0, requires_grad=True)
    (a + b).backward()
    a.grad.value = 0.0
    assert b.grad.item() == 1.0
    first, second = adc.tape.grad(a + b, [a, b])
    first.value = 0.0
    assert second.item() == 1.0


def test_a_pair_gathers_copies():
    f = adc.compile("x * y")
    for accumulator in ("sum", "push", "first"):
        x = np.ones(1) if accumulator != "sum" else np.ones(3)
        pair = adc.DiffPair(x, accumulator=accumulator)
        gathered, _ = f.backward(pair, np.full(3, 2.0), np.ones(3))
        for one in gathered if accumulator == "push" else [gathered]:
            one *= 0
        assert np.all(np.asarray(pair.d) == 2.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_share_no_memory(backend):
    """With each other and with the arguments, also where a loop does nothing or a result is an argument."""
    f = adc.compile(
        "def f(x, y, k: i64):\n    for i in range(k):\n        x, y = y, x\n    return x, y, x.T, x, x[1:]",
        backend=backend,
    )
    x, y = np.ones((3, 3)), np.ones((3, 3))
    for iterations in (0, 1, 2):
        arrays = [x, y, *f(x, y, iterations)]
        pairs = [(a, b) for k, a in enumerate(arrays) for b in arrays[:k]]
        assert not any(np.shares_memory(a, b) for a, b in pairs)


def test_sparse_blocks_are_the_callers():
    h = adc.hessian(adc.compile("sum(x**4 / 12)"), sparse=True)
    first = h(np.ones(4))
    first.data[:], first.indices[:], first.indptr[:] = 0, 0, 0
    np.testing.assert_array_equal(h(np.ones(4)).toarray(), np.eye(4))


def test_a_snapshot_is_no_larger_than_the_memory_that_it_copies():
    base = np.arange(1000.0)
    for view in (
        np.broadcast_to(1.0, (10_000, 10_000)),
        np.broadcast_to(base[::-1], (1000, 1000)),
        sliding_window_view(base, 500)[::-1],
    ):
        found = snapshot(view)
        owner = found
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        assert owner.nbytes <= base.nbytes
        assert not np.shares_memory(owner, base)
        np.testing.assert_array_equal(found[::99, ::99], view[::99, ::99])
        assert not found.flags.writeable


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_a_snapshot_has_the_values(shape):
    for order in (lambda a: a, np.transpose, lambda a: a[..., ::-1] if a.ndim else a):
        array = order(np.arange(float(np.prod(shape))).reshape(shape))
        found = snapshot(array)
        np.testing.assert_array_equal(found, array)
        assert found.shape == array.shape
        assert not np.shares_memory(found, array)
