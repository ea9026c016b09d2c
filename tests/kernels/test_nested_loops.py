"""Loops inside the iterations of loops, which carry the same arrays; and extremes that need no loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from programs.written_loops import BEHIND

import adcompiler as adc
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array
from adcompiler.ir.walk import arrays_of

BACKENDS = ("numpy", "cpu")
LAYERS = """
def network(w, h, x):
    state = [h[l] for l in range(len(w))]
    total = 0.0
    for t in range(len(x)):
        y = x[t]
        for l in range(len(w)):
            state[l] = tanh(w[l] * y + state[l])
            y = state[l]
        total += sum(y * x[t])
    return total, state
"""


def network(w, h, x):
    state, total = h.copy(), 0.0
    for row in x:
        y = row
        for k in range(len(w)):
            state[k] = y = np.tanh(w[k] * y + state[k])
        total += (y * row).sum()
    return total, state


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layers", [1, 3])
def test_a_loop_inside_a_iteration_changes_what_the_outer_loop_carries(backend, layers):
    rng = np.random.default_rng(layers)
    args = rng.normal(size=(layers, 2)), rng.normal(size=(layers, 2)), rng.normal(size=(3, 2))
    for found, true in zip(adc.compile(LAYERS, backend=backend)(*args), network(*args), strict=True):
        assert np.allclose(found, true, rtol=1e-14, atol=1e-14)
    loss = (
        LAYERS
        + "\ndef loss(w, h, x):\n    total, state = network(w, h, x)\n    return total + sum(state**2)\n"
    )
    assert adc.check_grad(adc.compile(loss, backend=backend), *args, order=2) < 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_largest_of_equal_values_is_their_value_if_there_are_any(backend):
    f = adc.compile("def f(x, n: i64):\n    return max(x for i in range(n))", backend=backend)
    assert [f(1.5, n) for n in (0, 1, 3)] == [-np.inf, 1.5, 1.5]
    assert [adc.grad(f, "x")(1.5, n) for n in (0, 3)] == [0.0, 1.0]
    g = adc.compile("def g(x, n: i64):\n    return [min(a for i in range(n)) for a in x]", backend=backend)
    assert g(np.array([2.0, 3.0]), 4).tolist() == [2.0, 3.0]
    assert g(np.array([2.0, 3.0]), 0).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_choice_between_constants_that_is_compared_is_its_condition(backend):
    source = (
        "def f(x, a: i64):\n    c = (3.0 if x > 1 else 1.0) if a > 0 else nan\n    return c > 2, c > 0, c > 5"
    )
    f = adc.compile(source, backend=backend)
    assert f(2.0, 1) == (True, True, False)
    assert f(0.0, 1) == (False, True, False)
    assert f(2.0, 0) == (False, False, False)
    for other, holds in ((0.0, [True, False]), (-2.0, [False, False])):
        low = adc.compile(f"def f(x):\n    return (nan if x > 1 else {other}) > -1", backend=backend)
        assert [low(x) for x in (0.0, 2.0)] == holds


@pytest.mark.parametrize("backend", BACKENDS)
def test_whether_any_index_is_a_given_one(backend):
    source = "def f(t: i64, n: i64):\n    return max(1 if i == t else 0 for i in range(n))"
    f = adc.compile(source, backend=backend)
    assert [f(t, 3) for t in (-1, 0, 2, 3)] == [0, 1, 1, 0]
    assert f(0, 0) == -(2**63)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_condition_that_outer_loops_decide_lets_an_inner_loop_run_or_not(backend):
    """Each point counts for its nearest centroid only: others are not even read, and are not NaN either."""
    source = (
        "def f(x: f64[n, d], c: f64[k, d]):\n"
        "    s = [[sum((x[i, a] - c[j, a])**2 for a in range(d)) for j in range(k)] for i in range(n)]\n"
        "    return [[sum(-(1 / (x[i, a] - c[j, a])) if s[i, j] < 1 else 0 for i in range(n))"
        " for a in range(d)] for j in range(k)]"
    )
    f = adc.compile(source, backend=backend)
    x, c = np.array([[0.0, 0.5], [3.0, 0.25], [0.5, 9.0]]), np.array([[0.0, 0.0], [3.5, 0.0], [0.5, 0.5]])
    near = np.sum((x[:, None] - c) ** 2, axis=2) < 1
    with np.errstate(divide="ignore"):
        true = np.where(near[..., None], -1 / (x[:, None] - c), 0).sum(axis=0)
    assert np.allclose(f(x, c), true, rtol=1e-14)
    if backend == "cpu":
        (line,) = [k for k in f.show("kernel").splitlines() if " else 0)):" in k]
        assert "< 1.0 else 0" in line


COMPUTED = """
def f(x: f64[n], k: i64[m]):
    y = [x[0] * i for i in range(k[0])]
    for t in range(k[1]):
        s = 0.0
        while s < 3:
            y = [sin(y[i]) * y[i] + x[0] for i in range(k[0])]
            s = s + y[0]**2 + 1
    return sum(y[i] for i in range(k[0]))
"""


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_an_array_gives_the_length_of_what_is_carried(backend: str) -> None:
    """It stands outside of the loop, and a read at 0 asks of it that there is such a place."""
    f = adc.compile(COMPUTED, backend=backend)
    x = np.array([0.5, 0.2])

    def expected(count: int, iterations: int) -> float:
        y = x[0] * np.arange(count)
        for _ in range(iterations):
            s = 0.0
            while s < 3:
                y = np.sin(y) * y + x[0]
                s = s + y[0] ** 2 + 1
        return float(y.sum())

    for count, iterations in ((4, 2), (1, 3), (4, 0), (2, 1)):
        assert f(x, np.array([count, iterations])) == pytest.approx(expected(count, iterations), rel=1e-13)
    with pytest.raises(adc.Error, match="an index is out of range"):
        f(x, np.array([0, 2]))


SUMMED = COMPUTED.replace("    y = [x[0] * i", "    c = sum(k) // 2 + 1\n    y = [x[0] * i", 1).replace(
    "k[0]", "c"
)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("source", [COMPUTED, BEHIND, SUMMED])
def test_what_is_carried_with_a_length_that_an_array_gives_is_differentiated(
    source: str, backend: str
) -> None:
    f = adc.compile(source, backend=backend)
    x, way = np.array([0.45, 0.2]), np.array([1.0, 0.5])
    gradient, product = adc.grad(f, "x"), adc.hvp(f, "x")
    for counts in ((3, 2), (1, 3), (4, 0)):
        k = np.array(counts)
        assert adc.check_grad(f, x, k, order=1 + (counts == (3, 2))) < 1e-6
        _, saved = f.split().forward(x, k)
        np.testing.assert_allclose(f.split().propagate(saved, 1.0)[0], gradient(x, k), rtol=1e-12)
        (pulled,) = adc.vjp(gradient, x, k, wrt=(0,))[1](way)
        np.testing.assert_allclose(pulled, product((x, k), way), rtol=1e-10)


LAST = """
def last(x: f64[n], w):
    z = zeros(n)
    for i, v in enumerate(x):
        for j in range(i):
            k = 0
            while k < 2:
                z[0] = cos((0.1 * k if j % 2 == 0 else v) - tanh(w * w))
                k += 1
    return z[0]
"""


@pytest.mark.slow_when(lambda backend: backend == "numpy")
@pytest.mark.parametrize("backend", BACKENDS)
def test_iterations_at_once_of_a_loop_whose_stacks_have_lengths_of_their_own(backend: str) -> None:
    """The iterations of the outer loop, when its sums are taken beside it, are as long as the longest of
    them."""
    x, w, way = np.array([0.4, -1.2, 0.7]), 0.6, (np.array([0.3, 1.0, -0.5]), 2.0)
    gradient = adc.grad(adc.compile(LAST, backend=backend), (0, 1))
    plain = adc.grad(adc.compile("cos(x[2] - tanh(w * w))", args=("x", "w"), backend="numpy"), (0, 1))
    for one, other in zip(gradient(x, w), plain(x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    pulled, expected = (adc.vjp(g, x, w)[1](way) for g in (gradient, plain))
    for one, other in zip(pulled, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("length", ["t % 3 + 1", "k - t"])
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_indices_of_what_each_iteration_has_its_own_length_of_are_checked(backend: str, length: str) -> None:
    """By values: only the loop tells the length."""
    source = f"""
def f(x: f64[n], k: i64):
    s = 0.0
    for t in range(k):
        y = [x[1]**2 * (j + t) for j in range({length})]
        s = s + y[AT]
    return s
"""
    f, g = (adc.compile(source.replace("AT", at), backend=backend) for at in ("0", "1"))
    assert f(np.full(3, 2.0), 4) == 4 * 6
    np.testing.assert_allclose(adc.grad(f, "x")(np.full(3, 2.0), 4), [0, 4 * 6, 0])
    with pytest.raises(adc.OutOfRangeError, match="index 1: an axis is too short"):
        g(np.ones(3), 4)


STAIRS = """
def f(x: f64[n], w):
    s = w
    for i, v in enumerate(x):
        for j in range(i + 1):
            for k in range(j, n):
                s = tanh(0.9 * s + v * x[j] * x[k] * w)
    return s
"""
WHILES = """
def f(x: f64[n], w):
    s = w
    i = 0
    while i < n:
        j = 0
        while j < i:
            k = 0
            while k < j + 1:
                s = sin(s * w + x[k] * x[j] + x[i])
                k += 1
            j += 1
        i += 1
    return s
"""
ARRAYS = """
def f(x: f64[n], w):
    s = 0.0
    for i in range(n):
        y = x * w
        for j in range(i):
            for l in range(j + 1):
                y = sin(y) * x[l] + x[j]
        s += sum(y)**2
    return s
"""
STORED = """
def f(x: f64[n], w):
    z = x
    for i in range(n):
        y = z * w
        for j in range(i):
            q = j
            while q < i:
                y = [sin(y[k]) + z[k % n] * w for k in range(n)]
                q += 1
            y[j] = y[j] * x[i] + y[i]
        z = tanh(z + y)
    return sum(z)
"""
CHOSEN = """
def f(x: f64[n], w):
    s = w
    i = 0
    while i < n:
        g = 0.2
        for j in range(i + 1):
            g = sum(x[j:] ** 2) * g
        s -= sin(g)
        i += 1
    return where(s <= 1.0, s * w, 1.0)
"""
DEEP = {
    "last": LAST,
    "stairs": STAIRS,
    "whiles": WHILES,
    "arrays": ARRAYS,
    "stored": STORED,
    "chosen": CHOSEN,
}


def of_first_and_second_order(f: adc.Function, x: np.ndarray, w: float) -> list:
    way = np.linspace(0.5, -1.0, len(x)), 2.0
    gradient = adc.grad(f, (0, 1))
    return [*gradient(x, w), *adc.hvp(f, (0, 1))((x, w), way), *adc.vjp(gradient, x, w)[1](way)]


def agree(found: list, expected: list) -> None:
    for pair in zip(found, expected, strict=True):
        one, other = (0.0 if value is None else value for value in pair)
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_loops_in_loops_in_loops_whose_lengths_iterations_compute(name: str) -> None:
    """What such a loop saves has lengths that an iteration of the loop around it knows, and its derivatives
    read it in loops of their own, to which these lengths are given."""
    compiled, interpreted = (adc.compile(DEEP[name], backend=b) for b in ("cpu", "numpy"))
    for n in (1, 3):
        x, w = np.linspace(0.4, 1.1, n), 0.6
        agree(
            of_first_and_second_order(compiled, x, w),
            expected := of_first_and_second_order(interpreted, x, w),
        )
        agree(expected[2:4], expected[4:])


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", DEEP)
def test_their_gradients_in_both_precisions(name: str) -> None:
    wide = adc.compile(DEEP[name])
    x, w = np.linspace(0.4, 1.1, 3), 0.6
    assert adc.check_grad(wide, x, w, order=1) < 1e-6
    expected = adc.grad(wide, (0, 1))(x, w)
    narrow = adc.grad(adc.compile(DEEP[name].replace("f64", "f32")), (0, 1))
    for one, other in zip(narrow(x.astype(np.float32), np.float32(w)), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_their_third_derivatives(name: str) -> None:
    x, w, way = np.linspace(0.4, 1.1, 3), 0.6, (np.array([0.3, 1.0, -0.5]), 2.0)
    moved = []
    for backend in BACKENDS:
        hessian = adc.hessian(adc.compile(DEEP[name], backend=backend), (0, 1))
        moved.append([block for row in adc.jvp(hessian, (x, w), way)[1] for block in row])
    for one, other in zip(*moved, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


def test_what_several_loops_would_make_in_their_iterations_is_made_once() -> None:
    """A part of an iteration that nothing changes, and that both loops have."""
    source = """
def f(x: f64[n], w: f64[m]):
    z = x
    for i in range(len(w) + 5):
        z = [sum(sin(z[j] * w[k % m]) for j in range(n)) for k in range(n)]
    y = z
    for i in range(len(w) + 6):
        y = [sum(cos(y[j] + w[k % m]) for j in range(n)) for k in range(n)]
    return z, y
"""
    x, w = np.linspace(0.3, 1.1, 5), np.array([0.6, 0.3])
    compiled, interpreted = (adc.compile(source, backend=b) for b in ("cpu", "numpy"))
    for one, other in zip(compiled(x, w), interpreted(x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert sum("% m\n" in line + "\n" for line in compiled.show("kernel").splitlines()) == 1


# Tables that nested loops fill element by element, from elements that are there already.
TABLES = {
    "alignment": """
def f(x: f64[n], y: f64[m], g):
    r = zeros((n + 1, m + 1)) + 3.0
    r[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = r[i - 1, j - 1], r[i - 1, j], r[i, j - 1]
            r[i, j] = (x[i - 1] - y[j - 1])**2 - g * log(exp(-a / g) + exp(-b / g) + exp(-c / g))
    return r[n, m]
""",
    "five neighbours": """
def f(x: f64[n], y: f64[m], g):
    r = ones((n + 2, m + 2))
    for i in range(2, n + 2):
        for j in range(2, m + 2):
            near = r[i - 1, j] * r[i, j - 1] + sin(r[i - 2, j] - r[i, j - 2])
            r[i, j] = tanh(near * x[i - 2] + g * r[i - 1, j - 2] - y[j - 2])
    return sum(r)
""",
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_not_saved_in_each_iteration(name: str) -> None:
    """What reverse iterations read of the table is saved, so that memory grows as the table does."""
    x, y = np.linspace(-1, 1, 3), np.linspace(0.5, -0.5, 2)
    f = adc.compile(TABLES[name], backend="numpy")
    slope = adc.grad(f, (0, 1, 2))
    types = slope._describe((x, y, 0.7), {})[0]
    assert highest_rank(slope._specialise(types).func.roots) == 2
    assert adc.check_grad(f, x, y, 0.7, order=1) < 1e-6


def highest_rank(roots: Sequence[Array]) -> int:
    """The highest rank of all arrays, those in bodies of loops included."""
    arrays = arrays_of(roots)
    inner = [highest_rank(a.loop.roots) for a in arrays if isinstance(a, Item)]
    return max([a.rank for a in arrays] + inner)
