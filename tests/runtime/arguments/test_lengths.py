"""Lengths that are empty, negative or larger than memory, and indices that no range reaches."""

import numpy as np
import pytest

import adcompiler as adc

BACKENDS = ["numpy", "cpu"]
X, Y = np.arange(3.0), np.ones(2)

# Each reads what x has not, k times.
NEVER = [
    "sum(x[5] for i in range(k))",
    "sum(x[-4] for i in range(k))",
    "sum(x[len(x)] for i in range(k))",
    "sum(x[i + 5] for i in range(k))",
    "sum(x[j + 2] for i in range(k) for j in range(2))",
    "sum(sum(x[5] for j in range(3)) for i in range(k))",
    "sum(sum(x[5] for j in range(k)) for i in range(3))",
    "sum([x[5] for i in range(k)])",
    "sum([[x[5] for j in range(2)] for i in range(k)])",
    "max(0, sum(x[5] * v for v in [0.0] * k))",
    "sum(x[index[0]] for i in range(k))",
    "sum(x[index[i]] for i in range(k))",
    "sum(x[3 * i + 4] for i in range(index[1], index[1] + k))",
]
LOOPS = [
    "for i in range(k):\n        t = sin(t) + x[5]",
    "for i in range(k):\n        t = t * x[i + 3]",
    "for i in range(k):\n        for j in range(2):\n            t = sin(t) + x[5]",
    "for i in range(3):\n        for j in range(k):\n            t = sin(t) + x[5]",
    "for i in range(k):\n        t = t + sum(x[j + 2] for j in range(2))",
]


def program(body):
    inner = f"    {body}\n" if body.startswith("for") else f"    t = {body}\n"
    return f"def f(x, index, k: i64):\n    t = 0.0\n{inner}    return t"


@pytest.mark.thinned(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("body", [*NEVER, *LOOPS])
def test_what_stands_in_an_empty_range_is_not_evaluated(body, backend):
    f = adc.compile(program(body), backend=backend)
    index = np.array([7, 0])
    assert f(X, index, 0) == 0.0
    np.testing.assert_array_equal(adc.grad(f)(X, index, 0), np.zeros(3))
    np.testing.assert_array_equal(adc.hessian(f)(X, index, 0), np.zeros((3, 3)))
    with pytest.raises(adc.OutOfRangeError):
        f(X, index, 1)
    with pytest.raises(adc.OutOfRangeError):
        adc.grad(f)(X, index, 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", ["len(x) - 3", "0", "len(y) - len(x)"])
def test_ranges_of_lengths_may_be_empty(length, backend):
    f = adc.compile(f"def f(x, y):\n    return sum(x[5] * y[0] for i in range({length}))", backend=backend)
    assert f(X, Y) == 0.0
    if length == "len(x) - 3":
        assert f(np.arange(6.0), Y) == 15.0
        with pytest.raises(adc.OutOfRangeError):
            f(np.arange(5.0), Y)


def test_nothing_is_read_of_an_empty_array():
    last = adc.compile("sum(x[len(x) - 1] * v for v in x)")
    assert last(np.zeros(0)) == 0.0
    assert last(X) == 6.0


def test_cases_may_be_empty_too():
    f = adc.compile("def f(x, k: i64):\n    return sum(x[5] for i in range(k))")
    np.testing.assert_array_equal(adc.vmap(f, (0, None))(np.ones((4, 3)), 0), np.zeros(4))
    with pytest.raises(adc.OutOfRangeError):
        adc.vmap(f, (0, None))(np.ones((4, 3)), 2)


HUGE = [
    "zeros(2**60)", "zeros((2**40, 2**40))", "zeros((2**62, 2**62))", "ones(2**58)", "full(2**61, x)",
    "arange(2**60)", "eye(2**40)", "linspace(0, x, 2**60)", "[x] * 2**60", "[x for i in range(2**60)]",
    "zeros(n)", "zeros((n, n))", "zeros((n, n, n, n))", "arange(n)", "[x * i for i in range(n)]", "[x] * n",
    "[[x * i * j for i in range(n)] for j in range(n)]",
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", HUGE)
def test_arrays_larger_than_any_memory_are_refused(text, backend):
    f = adc.compile(f"def f(x, n: i64):\n    return {text}", backend=backend)
    with pytest.raises(adc.LimitError, match="more memory than available"):
        f(2.0, 2**60)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", ["zeros(-1)", "zeros((2, -1))", "zeros(2**63)", "zeros(10**30)", "eye(-2)",
                                  "linspace(0, 1, -2)", "full(-1, x)", "zeros(n - 5)", "full(n - 5, x)",
                                  "eye(n - 5)", "zeros((3, n - 5))", "linspace(0, x, n - 5)",
                                  "sum(full(n - 5, x))", "zeros(len(y) - 5)"])  # fmt: skip
def test_negative_lengths_are_refused(text, backend):
    f = adc.compile(f"def f(x, y, n: i64):\n    return {text}", backend=backend)
    with pytest.raises(adc.ShapeError, match="a length of"):
        f(2.0, np.ones(3), 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranges_and_repetitions_below_zero_are_empty(backend):
    f = adc.compile("def f(x, n: i64):\n    return [x] * (n - 5), arange(n - 5), [x for i in range(n - 5)]",
                    backend=backend)  # fmt: skip
    assert [len(part) for part in f(2.0, 3)] == [0, 0, 0]
    assert [len(part) for part in f(2.0, 7)] == [2, 2, 2]


# Indices that lie in the axis if the axis has any element.
WITHIN = [
    "x[i % len(x)]", "x[(7 * i + 3) % len(x)]", "x[len(x) - 1 - i % len(x)]", "x[(i % len(x)) % len(x)]",
    "x[len(y) % len(x)]", "x[i // (len(y) + 1)]", "x[i % (len(x) + 1) - 1]", "x[max(0, min(i, len(x) - 1))]",
    "x[clip(i, 0, len(x) - 1)]", "x[0 * i]", "x[len(x) // 2]", "x[len(x) - 1]", "x[-1]", "x[argmax(x)]",
    "(x[i % len(x)] if i > 0 else x[0])", "sum(x[(i + j) % len(x)] for j in range(2))",
]  # fmt: skip
PLACES = [
    "sum(y[i] * {} for i in range(len(y)))",
    "sum([y[i] * {} for i in range(len(y))])",
    "0.0\n    for i in range(len(y)):\n        s = sin(s) + y[i] * {}",
    "0.0\n    i = 0\n    while i < len(y):\n        s = sin(s) + y[i] * {}\n        i += 1",
]


@pytest.mark.thinned(12)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("read", WITHIN)
def test_an_empty_axis_has_no_element_to_read(read, place, backend):
    f = adc.compile(f"def f(x, y):\n    s = {place.format(read)}\n    return s", backend=backend)
    empty = np.zeros(0)
    for g in (f, adc.grad(f)):
        with pytest.raises(adc.OutOfRangeError):
            g(empty, Y)
    assert np.isfinite(f(X, Y))
    assert f(X, empty) == 0.0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", ["sum(y[i] * x[i % len(x)] if len(x) > 0 else 2.0 for i in range(len(y)))",
                                  "sum(sum(x[(i + j) % n] * y[j] for j in range(len(y))) for i in range(n))",
                                  "sum([x[(i + 1) % n] for i in range(n)])"])  # fmt: skip
def test_what_happens_only_where_there_are_elements_needs_no_check(text, backend):
    f = adc.compile(f"def f(x: f64[n], y):\n    return {text}", backend=backend)
    assert f(np.zeros(0), Y) == (4.0 if "else" in text else 0.0)
    assert "check" not in f.show("ir")


MODES = {  # derivatives whose programs take more inputs than the function
    "jvp": lambda f, x, y, k: adc.jvp(f, (x, y, k), (x, y, None))[1],
    "hvp": lambda f, x, y, k: adc.hvp(f, "x")((x, y, k), x).sum(),
    "forward": lambda f, x, y, k: f.forward(adc.DiffPair(x, x), y, k).grad,
    "taylor": lambda f, x, y, k: adc.taylor(f, (x, y, k), (x, y, None), 2)[2],
    "backward": lambda f, x, y, k: f.backward(adc.DiffPair(x), y, k, 1.0)[0].sum(),
    "vmap": lambda f, x, y, k: adc.vmap(f, (0, None, None))(np.stack([x, x]), y, k)[0],
    "check": lambda f, x, y, k: adc.check_grad(f, x, y, k),
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("mode", MODES)
def test_derivatives_refuse_the_lengths_that_the_function_refuses(mode, backend):
    """A length and the value of an integer are compared: these two in each mode, whatever else is given."""
    f = adc.compile(
        "def f(x: f64[n], y: f64[m], k: i64):\n    return sum(x[i]**2 * y[i] for i in range(k))",
        backend=backend,
    )
    long, short = np.arange(1.0, 8.0), np.arange(1.0, 4.0)
    for x, y, k in ((long, short, 3), (short, long, 3), (short, short, 0), (long, long, 7)):
        f(x, y, k)
        assert np.isfinite(MODES[mode](f, x, y, k))
    for x, y, k in ((long, short, 4), (short, long, 4), (short, short, 4), (long, long, 8)):
        for call in (f, lambda *args: MODES[mode](f, *args)):
            with pytest.raises(adc.OutOfRangeError, match="the axis has length"):
                call(x, y, k)
