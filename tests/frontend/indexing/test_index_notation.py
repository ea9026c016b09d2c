"""Index notation: comprehensions build arrays, generators are reduced, indices gather. The oracle judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judges.compared import has_oracles_value
from oracle import gradient
from programs import Program

import adcompiler as adc

RANDOM = np.random.default_rng(5)
X = RANDOM.uniform(0.3, 1.5, 5)
M = RANDOM.uniform(0.3, 1.5, (3, 4))
ROW, ONE, NONE = M[:1], X[:1], np.zeros(0)
AT = np.array([1, 3, 3, -1, 0])

# What may stand after `return` for `x: f64[n]`.
OF_A_VECTOR = [
    "[x[i]**2 for i in range(n)]",
    "sum(x[i + 1] * x[i] for i in range(n - 1))",
    "[x[n - 1 - i] * i for i in range(n)]",
    "[x[i] - x[i - 1] for i in range(n)]",  # x[-1] is the last
    "[x[(i + 1) % n] for i in range(n)]",
    "[x[i] for i in range(n - 1, -1, -2)]",
    "[i // 2 + x[i] for i in range(1, n, 3)]",
    "sum(x[i] * x[j] for i in range(n) for j in range(i))",  # a triangle
    "[sum(x[j] for j in range(i + 1)) for i in range(n)]",
    "[max(x[j] for j in range(i, n)) for i in range(n)]",
    "sum((x[i] - x[j])**3 * x[j - i] for i in range(n) for j in range(i + 1, n))",
    "sum(x[j] * x[i] for i in range(n) for j in range(i + 2, n - 1))",
    "sum(x[j] * x[j - 2] for i in range(n) for j in range(i + 2, n) if x[i] > 0.7)",
    "sum(v * w * x[i] for i in range(n) for v, w in zip([x[k] for k in range(n)], x[::-1]))",
    "sum(x[j] * v for i in range(n) for j, v in zip(range(i + 1, n), x))",  # pairs by position
    "sum(k * x[j] for i in range(n) for k, j in enumerate(range(i, n)))",
    "sum(prod(x[j] for j in range(i, n, 2)) for i in range(n))",
    "sum(x[i] for i in range(n) if x[i] > 0.7)",
    "mean(x[i] for i in range(n) if i % 2 == 0 if x[i] > 0.1)",
    "min(x[i] * x[j] for i in range(n) for j in range(n) if i != j)",
    "any(x[i] > 1.4 for i in range(n)), all(x[i] > 0 for i in range(n))",
    "[x[i] - x[i - 1] if i > 0 else x[i] for i in range(n)]",
    "sum(v * w for v, w in zip(x, x[::-1])) + sum(k * v for k, v in enumerate(x))",
    "sum(a * b * c for a, b, c in zip(x, x[1:], range(n)))",  # as long as the shortest
    "[argmax(x[i] * x[j] for j in range(n)) for i in range(n)]",
    "sum(w * 2 for w in (n, 2.0, 3.0)) * x",
    "[[x[i] * x[j] for j in range(n)] for i in range(n)]",
    "[logsumexp(x[i] * x[j] for j in range(n)) for i in range(n)]",
    "[i for i in range(n)]",
]
OTHERS: list[tuple[str, tuple[Any, ...]]] = [
    ("def f(x: f64[n, d]):\n    return sum(x[i] for i in range(n))", (M,)),
    ("def f(x: f64[n, d]):\n    return [sum(r * r) for r in x]", (M,)),
    ("def f(x: f64[n, d]):\n    return [[x[i, j] for i in range(n)] for j in range(d)]", (ROW,)),
    ("def f(x, at):\n    return x[at] ** 2", (X, AT)),
    ("def f(x, r, c):\n    return x[r, c]", (M, np.array([2, 0]), np.array([-1, 1]))),
    ("def f(x, c):\n    return x[:, c] * 2", (M, AT[:3])),
    ("def f(x: f64[n], at: i64[m]):\n    return sum(x[at[k]] * k for k in range(m))", (X, AT)),
    ("def f(x: f64[n], k: i64):\n    return sum(x[i] ** k for i in range(k))", (X, 3)),
    (
        "def f(start, column, value, x):\n"
        "    return [sum(value[k] * x[column[k]] for k in range(start[i], start[i + 1]))\n"
        "            for i in range(len(start) - 1)]",
        (np.array([0, 2, 2, 5]), np.array([0, 1, 3, 1, 2]), X, X[:4]),
    ),
    (  # the sizes that annotations name are those of each call
        "def dot(a: f64[n], b: f64[n]):\n    return sum(a[i] * b[n - 1 - i] for i in range(n))\n"
        "def f(x: f64[n, d]):\n    return sum(dot(x[i], x[i - 1]) for i in range(n))",
        (M,),
    ),
]
PROGRAMS = [(f"def f(x: f64[n]):\n    return {text}", (X,)) for text in OF_A_VECTOR] + OTHERS


@pytest.mark.parametrize(("source", "args"), PROGRAMS)
def test_values(source: str, args: tuple[Any, ...]) -> None:
    has_oracles_value(Program(source, args), "numpy")


@pytest.mark.parametrize("x", [ONE, NONE, X.astype(np.float32)], ids=["one", "none", "float32"])
@pytest.mark.parametrize("text", OF_A_VECTOR)
def test_values_of_other_arrays(text: str, x: np.ndarray) -> None:
    source = f"def f(x: {'f32' if x.dtype == np.float32 else 'f64'}[n]):\n    return {text}"
    of_nothing = any(word in text for word in ("min", "max", "mean", "logsumexp", "zip"))  # not in the oracle
    if x.size > 1 or not of_nothing:
        has_oracles_value(Program(source, (x,)), "numpy")
    elif "argm" not in text:
        adc.compile(source, backend="numpy")(x)


@pytest.mark.parametrize(("source", "args"), PROGRAMS)
def test_gradients(source: str, args: tuple[Any, ...]) -> None:
    if "arg" in source or "any(" in source or "[i for" in source:
        return
    f = adc.compile(source, backend="numpy")
    wrt = tuple(k for k, a in enumerate(args) if np.asarray(a).dtype == np.float64)
    value, pullback = adc.vjp(f, *args, wrt=wrt)
    found = pullback(np.ones(np.shape(value)) if np.ndim(value) else 1.0)
    for one, other in zip(found, gradient(source, args, wrt=wrt), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("sum(x[::2] ** 2)", slice(None, None, 2)),
        ("sum(x[2 * i + 1] ** 2 for i in range(n // 2))", slice(1, None, 2)),
        ("sum(x[n - 1 - 3 * i] ** 2 for i in range(n // 3))", slice(None, 1, -3)),
    ],
)
def test_elements_between_those_that_steps_read_have_no_derivative(source: str, read: slice) -> None:
    x = np.arange(1.0, 9)
    expected = np.zeros(8)
    expected[read] = 2 * x[read]
    for backend in ("numpy", "cpu"):
        f = adc.compile(f"def f(x: f64[n]):\n    return {source}", backend=backend)
        np.testing.assert_array_equal(adc.grad(f)(x), expected)


@pytest.mark.parametrize("step", [2, 3, -2])
def test_a_store_with_steps_leaves_what_is_between(step: int) -> None:
    f = adc.compile(
        f"def f(x: f64[n]):\n    y = 1.0 * x\n    y[::{step}] = 0.0\n    return y", backend="numpy"
    )
    x, kept = np.arange(1.0, 9), np.ones(8)
    kept[::step] = 0.0
    np.testing.assert_array_equal(f(x), x * kept)
    np.testing.assert_array_equal(adc.vjp(f, x)[1](np.ones(8))[0], kept)


def test_axes_of_arrays_as_indices_come_first_if_a_slice_stands_between() -> None:
    x, i, j = np.arange(48.0).reshape(2, 3, 2, 4), np.array([0, 2, 1, 0, 1]), np.array([3, 0, 2, 1, 0])
    f = adc.compile(
        "def f(x, i: i64[k], j: i64[k]):\n    return x[:, i, :, j], x[:, i, j % 2]", backend="numpy"
    )
    for found, expected in zip(f(x, i, j), (x[:, i, :, j], x[:, i, j % 2]), strict=True):
        np.testing.assert_array_equal(found, expected)


# ---- Indices are proved, or checked at the call ----


def test_remainders_reach_all_numbers_below_their_modulus() -> None:
    source = "def f(x: f64[n], y: f64[p], k: i64[m]):\n    return sum(x[k[i] % len(y)] for i in range(m))"
    f = adc.compile(source)
    assert f(np.arange(4.0), np.ones(4), np.array([3, 7])) == 6.0
    with pytest.raises(adc.OutOfRangeError, match=r"the axis has length 3 .* at least 4"):
        f(np.arange(3.0), np.ones(4), np.array([3, 7]))
    with pytest.raises(adc.OutOfRangeError):
        adc.compile("def f(x: f64[3], k: i64):\n    return x[k % 4]")(np.ones(3), 3)


@pytest.mark.parametrize(
    "source",
    [
        "sum(x[i]**2 for i in range(len(x)))",
        "sum(i * v for i, v in enumerate(x))",
        "sum(a * b for a, b in zip(x, x[::-1]))",
        "sum([x[i] * k for k, i in zip(range(3), range(len(x)))])",
        "sum(x[j] for i, k in enumerate(range(2, len(x))) for j in range(k, len(x)))",
    ],
)
def test_bare_expressions_iterate(source: str) -> None:
    bare, written = adc.compile(source), adc.compile(f"def f(x):\n    return {source}")
    assert [p.name for p in bare._parameters] == ["x"]
    np.testing.assert_array_equal(adc.grad(bare)(X), adc.grad(written)(X))


def test_what_is_proved_costs_no_check() -> None:
    """Ranges, their ends, conditions around and remainders tell where an index lies."""
    for text in (
        "sum(x[i + 1] - x[i] for i in range(n - 1))",
        "sum(x[i] * x[j] for i in range(n) for j in range(i))",
        "sum(x[(3 * i + 1) % n] for i in range(n))",
        "[x[i + 1] if i + 1 < n else 0.0 for i in range(n)]",
        "sum(x[i] for i in range(n - 1, -1, -1))",
        "[x[i - 1] for i in range(n)]",
    ):
        f = adc.compile(f"def f(x: f64[n]):\n    return {text}", backend="numpy")
        f(X)
        assert "check" not in f.show("ir")


def test_a_sum_over_what_comes_after_has_no_scatters_in_reverse_mode() -> None:
    f = adc.compile(
        "def f(x: f64[n]):\n    return sum((x[i] - x[j])**3 for i in range(n) for j in range(i + 1, n))"
    )
    assert "accumulate" not in adc.grad(f).show("ir", X)


def test_lengths_are_compared_once_a_call() -> None:
    f = adc.compile("def f(x: f64[n], y: f64[m]):\n    return sum(x[i] * y[i] for i in range(n))")
    with pytest.raises(adc.OutOfRangeError) as caught:
        f(np.ones(5), np.ones(4))
    assert str(caught.value) == (
        "<expression>:2:23: index: the axis has length 4 (axis 0 of y), but at least 5 (axis 0 of x) is "
        "needed\n"
        "        return sum(x[i] * y[i] for i in range(n))\n"
        "                          ^^^^\n"
        "  help: the arguments have shapes x: (5,), y: (4,); the index must be inside the axis"
    )


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_values_are_checked_where_nothing_else_tells(backend: str) -> None:
    f = adc.compile("def f(x, at):\n    return x[at]", backend=backend)
    np.testing.assert_array_equal(f(X, np.array([-5, 4])), X[[0, 4]])
    for wrong in (-6, 5):
        for called in (f, adc.grad(adc.compile("def f(x, at):\n    return sum(x[at])", backend=backend))):
            with pytest.raises(adc.OutOfRangeError) as caught:
                called(X, np.array([0, wrong]))
            assert caught.value.cause == "an index is out of range"
            assert "^^^^^" in str(caught.value)


def test_a_condition_around_an_index_keeps_it_in_range() -> None:
    f = adc.compile(
        "def f(x, at: i64):\n    return x[at] if 0 <= at and at < len(x) else 0.0", backend="numpy"
    )
    assert (f(X, 2), f(X, 7), f(X, -1)) == (X[2], 0.0, 0.0)


def test_checks_of_many_cases() -> None:
    many = adc.vmap(adc.compile("def f(x, at):\n    return x[at]", backend="numpy"), (0, 0))
    np.testing.assert_array_equal(many(M, np.array([3, 0, -1])), M[[0, 1, 2], [3, 0, -1]])
    with pytest.raises(adc.OutOfRangeError):
        many(M, np.array([3, 0, 4]))


# ---- Mistakes: » stands before the place that the error names ----

MISTAKES = [
    ("»[x[i] for i in range(n) if x[i] > 0]", adc.ShapeError, "the length of this list depends on values"),
    (
        "[»[x[i] for i in range(j)] for j in range(n)]",
        adc.ShapeError,
        "the rows of this list differ in length",
    ),
    ("»x[x > 0]", adc.DtypeError, "the result is x[mask], whose length depends on values"),
    ("»x[0.5]", adc.DtypeError, "an index must be an integer, not the number 0.5"),
    ("sum(x[i] for i in »range(0, n, 0))", adc.ParseError, "the step of range must be a nonzero constant"),
    ("sum(x[i] for i in »range(x[0]))", adc.DtypeError, "range of a scalar of f64"),
    ("sum(x[i] for i in »range(stop=n))", adc.ParseError, "range takes its arguments by position"),
    ("sum(i for i in »5)", adc.DtypeError, "cannot iterate over the number 5"),
    ("»var(x[i] for i in range(n) if i > 2)", adc.ParseError, "var of a generator with a condition"),
]


@pytest.mark.parametrize(("marked", "kind", "cause"), MISTAKES)
def test_mistakes(marked: str, kind: type[adc.Error], cause: str) -> None:
    with pytest.raises(kind) as caught:
        adc.compile(f"def f(x: f64[n]):\n    return {marked.replace('»', '')}", backend="numpy")(X)
    assert caught.value.cause == cause
    assert (caught.value.line, caught.value.column) == (2, len("    return ") + marked.index("»") + 1)
    assert caught.value.remedy


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_unchecked_indices_read_zero_and_store_nothing(backend):
    source = "def f(x: f64[n], idx: i64[m]):\n    return sum(x[idx[k]]**2 for k in range(m))"
    x, idx = np.array([1.0, 2.0, 3.0]), np.array([0, 7, -2, -9])
    with pytest.raises(adc.OutOfRangeError):
        adc.compile(source, backend=backend)(x, idx)
    f = adc.compile(source, backend=backend, unchecked=True)
    assert f(x, idx) == 5.0
    np.testing.assert_array_equal(adc.grad(f)(x, idx), [2.0, 4.0, 0.0])
    np.testing.assert_array_equal(np.diag(adc.hessian(f)(x, idx)), [2.0, 2.0, 0.0])
    assert "min" not in f.show("ir")
