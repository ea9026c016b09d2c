"""Slices with bounds that are computed: rows cut by offsets, windows, prefixes and suffixes."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

BACKENDS = ("cpu", "numpy")
OFFSETS = {"rows": [0, 2, 2, 5, 7], "beyond": [-3, 2, 9], "backwards": [5, 3, 6], "none": [0]}
HEAD = "def f(x, s):\n    n = len(x)\n    "
BY_OFFSETS = {
    "sums": "return sum(sum(x[s[i] : s[i + 1]] ** 2) ** 2 for i in range(len(s) - 1))",
    "products": "return sum(sin(x[s[i] : s[i + 1]] @ (x[s[i] : s[i + 1]] + 1)) for i in range(len(s) - 1))",
    "norms": "return sum([norm(x[s[i] : s[i + 1]]) ** 3 for i in range(len(s) - 1)])",
    "suffixes": "return sum(sum(x[a:]) ** 3 for a in s)",
    "prefixes": "return sum(sum(x[: a - 1]) ** 3 for a in s)",
    "a loop": "t = 0.5\n    for i in range(len(s) - 1):\n        a = x[s[i] : s[i + 1]]\n"
              "        t = sin(t) + norm(a) ** 2 * len(a)\n    return t",
    "a slice of a slice": "t = 0.5\n    for i in range(len(s) - 1):\n        a = x[s[i] : s[i + 1]]\n"
                          "        t = sin(t) + sum(a[1:] ** 2)\n    return t",
    "stores": "r = zeros(n)\n    for i in range(len(s) - 1):\n        a = x[s[i] : s[i + 1]]\n"
              "        r[s[i] : s[i + 1]] = a ** 2 * (i + 1)\n"
              "    return sum(r ** 2)",
    "at one place": "return sum(x[s[0] : s[-1]] ** 3)",
    "with a step": "return sum(sum(x[s[i] : s[i + 1] : 2] ** 3) for i in range(len(s) - 1))",
}  # fmt: skip
AROUND = {
    "windows": "return sum(sin(sum(x[i : i + 3] ** 2)) for i in range(n - 2))",
    "convolution": "return sum(sin(x[i : i + 3] @ x[:3]) for i in range(n - 2))",
    "cut off": "return sum(mean(x[max(i - 1, 0) : min(i + 2, n)]) ** 2 for i in range(n))",
    "prefixes": "return sum(sum(x[: i + 1]) ** 2 for i in range(n))",
    "from the end": "return sum(sum(x[i - 2 :]) ** 2 for i in range(n))",
    "a loop": "t = 0.5\n    for i in range(n - 2):\n        t = sin(t) + norm(x[i : i + 3]) ** 2\n"
              "        t = t + sum(x[i:])\n    return t",
    "stores": "r = zeros(n)\n    for i in range(n - 1):\n        r[i : i + 2] = r[i : i + 2] + x[i] ** 2\n"
              "    return sum(r ** 2)",
    "by a maximum": "k = argmax(x[1:4])\n    return sum(x[k : k + 2] ** 3)",
}  # fmt: skip
ITERATION = (
    "def f(x, s):\n    t = 0.5\n    for i in range(len(s) - 1):\n        a = x[s[i] : s[i + 1]]\n        "
)
OPERATIONS = {
    "of two": "t += sum(a * x[2 * s[i] - s[i] : s[i + 1]])",
    "an element": "t += a[0] ** 2 * a[-1]",
    "flipped": "t = sin(t) + sum(flip(a) * a ** 2)",
    "differences": "t += sum(diff(a) ** 2)",
    "running sums": "t = sin(t) + sum(cumsum(a) ** 2)",
    "sorted": "t = sin(t) + sum(sort(a)[1:] ** 2)",
    "the median": "t += median(a) ** 2",
    "stacked": "t += sum(stack((a, a ** 2)) ** 2)",
    "joined": "t += sum(concatenate((a, x)) ** 2 * a[0])",
    "an outer product": "t += sum(outer(a, a) ** 2)",
    "a matrix": "t += sum(inv(outer(a, a) + eye(len(a))) @ a)",
    "a determinant": "t = sin(t) + det(outer(a, a) + eye(len(a)))",
    "zeros": "z = zeros(len(a))\n        z[1:] = a[:-1]\n        t += sum(z ** 3)",
    "a range": "t += sum(a ** 2 * arange(len(a)))",
    "a line": "t = sin(t) + sum(linspace(0, 1, len(a)) * a ** 2)",
    "places": "t += sum(x[arange(s[i], s[i + 1])] ** 3)",
    "reshaped": "t += sum(reshape(a, (1, len(a))) @ a)",
    "prefixes": "t += sum([sum(a[: k + 1]) ** 2 for k in range(len(a))])",
    "elements in order": "for v in a:\n            t = sin(t) + v ** 2",
    "indices in order": "for k in range(len(a)):\n            t = sin(t) + a[k] * a[-1 - k]",
    "a recurrence": "r = a\n        for k in range(3):\n            r = sin(r) + a\n        t += sum(r) ** 2",
    "a while": "r = a\n        while sum(r) < 9:\n            r = r * 1.5\n        t += sum(r ** 2)",
    "a condition": "t += sum(a ** 3) if len(a) > 2 else 0.0",
}
NAMES = (
    "sin mean zeros argmax flip diff cumsum sort median stack concatenate outer eye arange linspace reshape"
)
NUMPYS = {name: getattr(np, name) for name in NAMES.split()}
NUMPYS |= {name: getattr(np.linalg, name) for name in ("norm", "inv", "det")}
NUMPYS["sum"] = lambda terms: np.sum(terms if isinstance(terms, np.ndarray) else list(terms))


def plain(source, x, s):
    """What Python itself makes of a text."""
    scope = dict(NUMPYS)
    exec(source, scope)
    return scope["f"](x, s)


def values(count=7):
    return np.random.default_rng(3).uniform(0.4, 1.2, count)


def agrees_with_python(source, s, backend):
    """Value, gradient and Hessian, the latter two by differences."""
    f, x = adc.compile(source, backend=backend), values()
    assert f(x, s) == pytest.approx(plain(source, x, s), rel=1e-12)
    step = 1e-6 * np.eye(len(x))
    slopes = [(plain(source, x + h, s) - plain(source, x - h, s)) / 2e-6 for h in step]
    gradient = adc.grad(f, wrt="x")
    np.testing.assert_allclose(gradient(x, s), slopes, rtol=1e-6, atol=1e-6)
    rows = [(gradient(x + h, s) - gradient(x - h, s)) / 2e-6 for h in step]
    np.testing.assert_allclose(adc.hessian(f, wrt="x")(x, s), rows, rtol=1e-6, atol=1e-6)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("name", BY_OFFSETS)
def test_bounds_from_an_array(name, offsets, backend):
    """By Python's rules: negative bounds count from the end, and what lies outside is cut off."""
    agrees_with_python(HEAD + BY_OFFSETS[name], np.array(OFFSETS[offsets]), backend)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", AROUND)
def test_bounds_from_indices_around(name, backend):
    agrees_with_python(HEAD + AROUND[name], np.array([0]), backend)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_arrays_whose_length_an_iteration_computes(name, backend):
    """All that takes arrays takes them."""
    source = ITERATION + OPERATIONS[name] + "\n    return t"
    agrees_with_python(source, np.array([0, 2, 3, 7]), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("text", "error", "cause"), [
    ("sum(a * x)", adc.ShapeError, "two lengths differ"),
    ("a @ x[1:]", adc.ShapeError, "two lengths differ"),
    ("sum(zeros(s[i] - 1))", adc.ShapeError, "a length: it is negative"),
    ("a[2]", adc.OutOfRangeError, "is too short"),
    ("x[s[i + 1] :][1]", adc.OutOfRangeError, "is too short"),
])  # fmt: skip
def test_lengths_that_do_not_fit_are_told_by_values(text, error, cause, backend):
    f = adc.compile(ITERATION + f"t += {text}\n    return t", backend=backend)
    with pytest.raises(error, match=cause):
        f(values(), np.array([0, 2, 3, 7]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "made",
    [
        "zeros(k[0])",
        "zeros((2, k[0])) + x[0]",
        "tile(x, k[0])",
        "reshape(x, (k[0], -1))",
        "linspace(0, 1, k[0])",
    ],
)
def test_a_negative_length_is_refused_by_value(made, backend):
    """Not before kernels used it: they take it for 0."""
    f = adc.compile(f"def f(x: f64[n], k: i64[m]):\n    return sum({made}) * x[0]", backend=backend)
    with pytest.raises(adc.ShapeError, match="a length: it is negative"):
        f(values(), np.array([-2]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_are_arrays(backend):
    """k elements from any place on: they stack, and take part in products of matrices."""
    f = adc.compile("def f(x, w):\n    return [x[i : i + 3] for i in range(len(x) - 2)] @ w", backend=backend)
    x, w = values(), np.array([1.0, 2.0, -1.0])
    np.testing.assert_allclose(f(x, w), np.lib.stride_tricks.sliding_window_view(x, 3) @ w)
    adc.check_grad(f, x, w)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", ["i : i + 3", "i - 1 : i + 1"])
def test_windows_lie_within_the_array(place, backend):
    f = adc.compile(f"def f(x):\n    return sum(sum(x[{place}])**2 for i in range(len(x)))", backend=backend)
    with pytest.raises(adc.OutOfRangeError, match=r"x\[i : i \+ k\] leaves the axis"):
        f(values())
    assert f(values(0)) == 0.0


def test_only_the_first_axis_differs_in_length():
    f = adc.compile("def f(x):\n    return sum(sum(x[:, :i]) for i in range(3))")
    with pytest.raises(adc.ShapeError, match="is the first axis of what is read"):
        f(np.ones((2, 3)))
