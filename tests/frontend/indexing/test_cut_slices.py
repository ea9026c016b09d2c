"""Slices with bounds that are computed: rows cut by offsets, windows, prefixes and suffixes."""
# ruff: noqa: F821

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

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
REDUCTIONS = (
    "sum({})", "prod({})", "mean({})", "var({})", "std({})", "var({}, ddof=1)", "std({}, ddof=1)",
    "average({})", "average({0}, weights={0} ** 2)", "cov({0}, {0} ** 2)[0, 1]", "trapezoid({})",
    "norm({})", "norm({}, 1)", "norm({}, inf)", "norm({}, -inf)", "norm(outer({}, x))",
    "sum(norm(outer({}, x), axis=0))", "sum(std(outer({}, x), axis=1))", "sum(mean(outer({}, x), axis=0))",
    "max({})", "min({})", "{0}[argmax({0})]", "{0}[argmin({0})]", "any({0} > 0.9) * sum({0})",
    "all({0} > 0.5) * sum({0})", "logsumexp({})", "softmax({0}) @ {0}", "log_softmax({0}) @ {0}",
    "{0} @ {0}", "dot({0}, {0})", "vdot({0}, {0})", "inner({0}, {0})", "einsum('i,i->', {0}, {0})",
    "cumsum({0}) @ {0}", "cumprod({0}) @ {0}", "cummax({0}) @ {0}", "cummin({0}) @ {0}",
    "logcumsumexp({0}) @ {0}", "sort({0}) @ {0}", "{0}[argsort({0})] @ {0}", "median({})",
    "quantile({}, 0.3)", "percentile({}, 30)", "interp(0.6, sort({0}), {0})", "sum(diff({}) ** 2)",
    "sum(convolve({}, [0.5, -1.0]) ** 2)", "segment_sum({0}, arange(len({0})) % 2, 2)[0] ** 2",
)  # fmt: skip
CUTS = {"x[:i]": "range(2, n)", "x[i:]": "range(n - 2)", "x[i // 2 : i + 2]": "range(1, n - 1)"}
NAMES = (
    "sin mean zeros argmax argmin argsort flip diff cumsum cumprod sort median stack concatenate outer eye "
    "arange linspace reshape inf prod var std average cov trapezoid quantile percentile interp convolve dot "
    "vdot inner einsum any all max min"
)
NUMPYS = {name: getattr(np, name) for name in NAMES.split()}
NUMPYS |= {name: getattr(np.linalg, name) for name in ("norm", "inv", "det")}
NUMPYS |= {name: getattr(scipy.special, name) for name in ("softmax", "log_softmax", "logsumexp")}
NUMPYS |= {"cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}
NUMPYS["logcumsumexp"] = np.logaddexp.accumulate
NUMPYS["sum"] = lambda terms: np.sum(terms if isinstance(terms, np.ndarray) else list(terms))
NUMPYS["segment_sum"] = lambda terms, groups, count: np.bincount(groups, terms, count)


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


@pytest.mark.thinned(20)
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


@pytest.mark.thinned(24)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_arrays_whose_length_an_iteration_computes(name, backend):
    """All that takes arrays takes them."""
    source = ITERATION + OPERATIONS[name] + "\n    return t"
    agrees_with_python(source, np.array([0, 2, 3, 7]), backend)


@pytest.mark.thinned(32)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_reduction_over_a_computed_length_has_derivatives_of_that_length(reduction, cut):
    """Of what a loop only adds up, all iterations are computed at once, padded to the longest."""
    term = reduction.format(cut)
    source = (
        f"def f(x, s):\n    n, t = len(x), 0.0\n    for i in {CUTS[cut]}:\n        t += {term}\n    return t"
    )
    agrees_with_python(source, np.array([0]), "numpy")
    f, x, way = adc.compile(source, backend="numpy"), values(), np.arange(7.0)
    _, slope = adc.jvp(f, (x, np.array([0])), (way, None))
    assert slope == pytest.approx(adc.grad(f, "x")(x, np.array([0])) @ way, rel=1e-12)


RULED = """\
def f(x, k):
    t = 0.0
    for i in range(len(x)):
        t += {}
    return t + mean([norm(x[:j]) ** 2 for j in k])
"""


@pytest.mark.thinned(2)
@pytest.mark.parametrize("cut", ["norm(x[: k[i]])", "std(x[k[i] :]) + norm(x[i:] * x[i])"])
def test_kernels_of_norms_over_a_computed_length(cut):
    """Value, gradient and tangent of the kernels are those of the reference, in float32 too."""
    k, x = np.array([2, 0, 5, 1, 4]), values(5)
    for dtype, near in ((np.float64, 1e-13), (np.float32, 1e-5)):
        found, expected = (
            (*adc.value_and_grad(f, "x")(x.astype(dtype), k), adc.jvp(f, (x.astype(dtype), k), (x, None))[1])
            for f in (adc.compile(RULED.format(cut), backend=b) for b in BACKENDS)
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=near, atol=near)


@adc.function
def slope(v, r, dr):
    return 2 * v * dr


@adc.custom_vjp(slope)
def squares(v: f64[k]):
    return sum(v**2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rules_of_the_users_own_over_a_computed_length(backend):
    """A rule is asked for the elements that there are."""

    @adc.function(backend=backend)
    def f(x):
        t = 0.0
        for i in range(1, len(x)):
            t += squares(x[:i])
        return t

    x = values()
    np.testing.assert_allclose(adc.grad(f)(x), 2 * x * np.arange(6, -1, -1))
    assert adc.jvp(f, (x,), (x,))[1] == pytest.approx(2 * f(x))


EMPTY = (
    "mean({})", "var({})", "std({})", "std({}, ddof=1)", "average({0}, weights={0} ** 2)", "cov({})",
    "median({})", "max({})", "norm({})", "logsumexp({})", "mean(v for v in {} if v > 9)", "mean(x[x > 9])",
    "std(x[x > 9])", "sum([mean(x[:j]) for j in range(len({}) + 1)])",
)  # fmt: skip


@pytest.mark.thinned(4)
@pytest.mark.parametrize("bound", ["k", "len(s)"])
@pytest.mark.parametrize("reduction", EMPTY)
def test_forward_and_reverse_mode_agree_where_there_are_no_elements(reduction, bound):
    """What reads nothing has no derivative: 0, also where the value is NaN."""
    text = f"def f(x, k: i64, s):\n    return {reduction.format(f'x[:{bound}]')}"
    f, args = adc.compile(text, backend="numpy"), (values(), 0, np.zeros(0, int))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(adc.grad(f, "x")(*args), np.zeros(7))
        assert adc.jvp(f, args, (np.ones(7), None, None))[1] == 0


def test_a_mean_of_nothing_is_nan_in_kernels():
    f, x = adc.compile("def f(x, k: i64):\n    return mean(x[:k]) + 0 * std(x[k - 1 :])"), values()
    assert np.isnan(f(x, 0))
    np.testing.assert_array_equal(adc.grad(f, "x")(x, 0), np.zeros(7))
    np.testing.assert_allclose(adc.grad(f, "x")(x, 7), np.full(7, 1 / 7))


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
    with pytest.raises(adc.OutOfRangeError, match=r"x\[i : i \+ k\] extends past the end of the axis"):
        f(values())
    assert f(values(0)) == 0.0


def test_only_the_first_axis_differs_in_length():
    f = adc.compile("def f(x):\n    return sum(sum(x[:, :i]) for i in range(3))")
    with pytest.raises(adc.ShapeError, match="must be the first index"):
        f(np.ones((2, 3)))
