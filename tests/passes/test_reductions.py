"""Loops that combine by extrema and logaddexp are reductions: values and derivatives are those of
the same loop with `while`, which stays a loop, and of finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import evaluate

import adcompiler as adc

INF, NAN = np.inf, np.nan
RANDOM = np.random.default_rng(8)

# What a loop carries at first, and what an iteration does.
UPDATES = {
    "logsumexp": ("s = -inf", "s = logaddexp(s, x[j] * p[j])"),
    "logsumexp from a value": ("s = 0.3 * p[0]", "s = logaddexp(x[j] * p[j], s)"),
    "logsumexp under a condition": ("s = -inf", "if x[j] > -2:\n    s = logaddexp(s, x[j] * p[j])"),
    "either of two": (
        "s = -1e9",
        "if x[j] > 0:\n    s = logaddexp(s, x[j] * p[j])\nelse:\n    s = logaddexp(s, sin(p[j]))",
    ),
    "two statements": ("s = -1e9", "s = logaddexp(s, x[j])\ns = logaddexp(s, x[j] * p[j])"),
    "largest": ("s = -inf", "s = max(s, x[j] * p[j])"),
    "least from a value": ("s = 0.1 * p[0]", "s = minimum(x[j] * p[j], s)"),
}


def indented(text: str) -> str:
    return "".join(f"        {line}\n" for line in text.splitlines())


def of_numbers(init: str, update: str, dtype: str = "f64", keyword: str = "for") -> str:
    """A program with a loop, or with the same loop as `while`."""
    head, loop = f"def f(x: {dtype}[n], p: {dtype}[n]):\n    {init}\n", "    for j in range(len(x)):\n"
    if keyword == "while":
        loop, update = "    j = 0\n    while j < len(x):\n", f"{update}\nj += 1"
    return f"{head}{loop}{indented(update)}    return 2 * s\n"


def derivatives(source: str, *values: Any) -> list[Any]:
    """Value, gradient, Hessian-vector product and tangent of a program."""
    f = adc.compile(source, backend="numpy")
    x, p = values
    directions = np.cos(x), np.sin(p)
    return [
        f(x, p),
        *adc.grad(f, ("x", "p"))(x, p),
        *adc.hvp(f, ("x", "p"))((x, p), directions),
        adc.jvp(f, (x, p), directions)[1],
    ]


@pytest.mark.parametrize("name", UPDATES)
def test_a_loop_is_a_reduction(name: str) -> None:
    source = of_numbers(*UPDATES[name])
    f = adc.compile(source)
    x, p = RANDOM.standard_normal((2, 6))
    f(x, p)
    assert "loop" not in f.show("ir")
    adc.check_grad(f, x, p)
    for n in (1, 2, 6):
        found = derivatives(source, x[:n], p[:n])
        wanted = derivatives(of_numbers(*UPDATES[name], keyword="while"), x[:n], p[:n])
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["logsumexp", "either of two", "largest"])
def test_of_single_precision(name: str) -> None:
    x, p = RANDOM.standard_normal((2, 5)).astype(np.float32)
    found = derivatives(of_numbers(*UPDATES[name], "f32"), x, p)
    wanted = derivatives(of_numbers(*UPDATES[name], "f32", "while"), x, p)
    for one, other in zip(found, wanted, strict=True):
        assert np.asarray(one).dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("x", [[], [-INF, -INF], [-INF, 1.0], [1.0, NAN, 2.0], [1.0, INF], [0.0, 2.0, 0.0]])
@pytest.mark.parametrize("name", ["logsumexp", "largest"])
def test_values_at_edges(name: str, x: list[float]) -> None:
    source = of_numbers(*UPDATES[name])
    given = np.array(x), np.ones(len(x))
    np.testing.assert_equal(adc.compile(source)(*given), evaluate(source, *given))


@pytest.mark.parametrize(
    ("name", "x", "gradient"),
    [
        ("logsumexp", [-INF, 1.0], [0, 2]),
        ("logsumexp", [-INF, -INF], [0, 0]),  # as that of `logsumexp`
        ("logsumexp", [1.0, NAN], [NAN, NAN]),
        ("largest", [1.0, 1.0, 0.0, 1.0], [2 / 3, 2 / 3, 0, 2 / 3]),  # as that of `max`
        ("largest", [-INF, 1.0], [0, 2]),
    ],
)
def test_gradients_at_edges(name: str, x: list[float], gradient: list[float]) -> None:
    f = adc.compile(of_numbers(*UPDATES[name]), backend="numpy")
    np.testing.assert_allclose(adc.grad(f, "x")(np.array(x), np.ones(len(x))), gradient)


INSIDE = """
def inside(word: f64[n, S], rule: f64[S, S, S]):
    chart = full((n, n + 1, S), -1e9)
    for i in range(n):
        chart[i, i + 1] = word[i]
    for span in range(2, n + 1):
        for i in range(n - span + 1):
            j = i + span
            for a in range(S):
                best = -1e9
                for k in range(i + 1, j):
                    for b in range(S):
                        for c in range(S):
                            best = logaddexp(best, rule[a, b, c] + chart[i, k, b] + chart[k, j, c])
                chart[i, j, a] = best
    return logsumexp(chart[0, n])
"""
DURATIONS = """
def durations(x: f64[T, K], d: f64[D]):
    alpha = zeros((T + 1, K))
    for t in range(1, T + 1):
        for k in range(K):
            best = -1e9
            total = 0.0
            for j in range(1, min(D, t) + 1):
                total += x[t - j, k]
                best = logaddexp(best, alpha[t - j, k] + d[j - 1] * total)
            alpha[t, k] = best + x[t - 1, 0]
    return logsumexp(alpha[T])
"""
ROWS = """
def rows(x: f64[n, m], y: f64[m, k]):
    s = full(k, -inf)
    top = zeros(k)
    for j in range(m):
        s = logaddexp(s, x[0, j] * y[j])
        if x[1, j] > 0:
            top = maximum(top, y[j])
    return (s * top).sum()
"""
VITERBI = """
def viterbi(x: f64[n, m], y: f64[m, m]):
    v = x[0] * 1.0
    for t in range(1, n):
        w = zeros(m)
        for k in range(m):
            best = -inf
            for j in range(m):
                best = max(best, v[j] + y[j, k])
            w[k] = best + x[t, k]
        v = w
    return max(v)
"""
INNER = {"inside": INSIDE, "durations": DURATIONS, "rows": ROWS, "viterbi": VITERBI}


@pytest.mark.parametrize("name", INNER)
def test_inside_of_other_loops(name: str) -> None:
    source = INNER[name]
    shapes = {"inside": ((4, 2), (2, 2, 2)), "durations": ((5, 2), (3,)), "rows": ((2, 3), (3, 4))}
    given = [RANDOM.standard_normal(shape) for shape in shapes.get(name, ((4, 3), (3, 3)))]
    f = adc.compile(source)
    np.testing.assert_allclose(f(*given), evaluate(source, *given), rtol=1e-12)
    ir = f.show("ir")
    assert ir.count("reduce") >= 2
    assert ir.count("loop (") == {"inside": 2, "durations": 2, "rows": 0, "viterbi": 1}[name]
    adc.check_grad(f, *given)


PLACES = {  # loops over the rows of x, its columns and those of y, from the outermost one
    "innermost": "ijl",
    "outermost": "lij",
    "between": "ilj",
}
LOOPS = {"i": "for i in range(n):", "j": "for j in range(k):", "l": "for l in range(m):"}


def at_places(order: str, update: str) -> str:
    heads = "".join(f"{'    ' * (depth + 1)}{LOOPS[name]}\n" for depth, name in enumerate(order))
    body = "".join(f"{'    ' * 4}{line}\n" for line in update.splitlines())
    return (
        "def f(x: f64[n, m], y: f64[m, k]):\n    out = 0.1 * x[:, :1] + zeros((n, k))\n"
        f"{heads}{body}    return sum(sin(out))\n"
    )


@pytest.mark.parametrize("order", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(
    "update",
    [
        "out[i, j] = logaddexp(out[i, j], x[i, l] * y[l, j])",
        "if x[i, l] > 0:\n    out[i, j] = max(x[i, l] * y[l, j], out[i, j])",
    ],
    ids=["logaddexp", "max"],
)
def test_at_places_of_arrays(order: str, update: str) -> None:
    source = at_places(order, update)
    f = adc.compile(source, backend="numpy")
    args = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((3, 2))
    np.testing.assert_allclose(f(*args), evaluate(source, *args), rtol=1e-12)
    assert "loop" not in f.show("ir")
    adc.check_grad(f, *args)


@pytest.mark.parametrize("update", ["s = logaddexp(s, s * x[j])", "s = max(x[j], s + p[j])", "s *= x[j]"])
def test_others_stay_loops(update: str) -> None:
    f = adc.compile(of_numbers("s = 1.0", update))
    f(np.ones(3), np.ones(3))
    assert "loop" in f.show("ir")
