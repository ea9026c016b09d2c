"""Lists and tuples times integers, and sums of tuples, are those of Python; lists with names are arrays."""

import numpy as np
import pytest

import adcompiler as adc

BACKENDS = ["cpu", "numpy"]
SEQUENCES = [
    "[0.0] * 3", "3 * [0.0]", "[x] * 2", "2 * [x, y]", "[x, y] * 3", "[x, y] * 1", "[x, y] * True",
    "[x, y] * 2 * 2", "[[x] * 2] * 3", "[[x, y]] * 2", "[[x], [y]] * 2", "[x] * 300", "[x, y] * (1 + 1)",
    "(x,) * 3", "2 * (x, y)", "(x, y) + (x,)", "() + (x,)", "(x,) * 0 + (y,)", "((x, y) + (x,)) * 2",
    "(x, y) * 2 + (x,) + (y,) * 3", "[i * x for i in range(3)] * 2", "2 * [[x, i * y] for i in range(2)]",
    "[x + i for i in [1, 2]] * 2", "[[x * i for i in range(2)] * 2 for j in range(3)]",
    "[x * i for i in range(2)] * 2 * 2", "[x for i in range(0)] * 2", "[x for i in range(2)] * 0",
]  # fmt: skip


@pytest.mark.thinned(3, backend="cpu")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", SEQUENCES)
def test_displays_mean_what_python_means(source, backend):
    expected = eval(source, {"x": 2.0, "y": 3.0})
    found = adc.compile(source, args="x, y", backend=backend)(2.0, 3.0)
    assert isinstance(found, tuple) == isinstance(expected, tuple)
    np.testing.assert_array_equal(found, np.asarray(expected))


@pytest.mark.thinned(4, backend="cpu")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("items", ["[0.0]", "[x, y]", "[[x, y], [y, x]]", "[[x] * 2]"])
@pytest.mark.parametrize("count", ["n", "len(z)", "2 * n", "n * len(z)", "n + 1"])
def test_the_number_may_be_known_at_the_call_only(items, count, backend):
    source = "def f(x, y, z, n: i64):\n    return {}\n"
    for n in (1, 3):
        expected = np.asarray(eval(f"{items} * ({count})", {"x": 2.0, "y": 3.0, "z": [1.0] * 4, "n": n}))
        for text in (f"{items} * ({count})", f"({count}) * {items}"):
            f = adc.compile(source.format(text), backend=backend)
            np.testing.assert_array_equal(f(2.0, 3.0, np.ones(4), n), expected)


def test_nothing_is_repeated_no_times():
    f = adc.compile("def f(x, n: i64):\n    return sum([x] * 0) + sum([x, x] * n)")
    assert f(2.0, 0) == 0.0
    assert f(2.0, 3) == 12.0
    assert adc.grad(f)(2.0, 3) == 6.0


def test_a_repeated_list_is_an_array_to_store_in():
    f = adc.compile("""
def f(x, n: i64):
    a = [0.0] * 3
    b = [0.0] * n
    for i in range(n):
        a[i % 3] += x**2
        b[i] = x**3
    return sum(a) + sum(b)
""")
    assert f(2.0, 5) == 5 * (4 + 8)
    assert adc.grad(f)(2.0, 5) == 5 * (4 + 12)
    assert adc.grad(adc.grad(f))(2.0, 5) == 5 * (2 + 12)


def test_repeated_values_have_all_derivatives():
    f = adc.compile("def f(x, y):\n    return sum([x * y, x**2] * 3)")
    assert adc.grad(f)(2.0, 5.0) == (3 * (5 + 4), 6)
    assert adc.hessian(f)(2.0, 5.0) == ((6, 3), (3, 0))
    adc.check_grad(f, np.float32(2.0), np.float32(5.0), order=2)


def test_a_list_with_a_name_is_an_array():
    f = adc.compile("def f(x):\n    v = [x, 2 * x]\n    return 2.0 * v + v - 1")
    np.testing.assert_array_equal(f(1.0), [2.0, 5.0])


@pytest.mark.parametrize("source", ["z.shape + (2,)", "z.shape * 2", "(2,) + (z.shape[0],)"])
def test_shapes_are_tuples(source):
    expected = eval(source, {"z": np.ones((3, 4))})
    assert adc.compile(f"zeros({source})", args="z")(np.ones((3, 4))).shape == expected


def test_containers_are_tuples():
    f = adc.compile("def f(p, q):\n    t = 0.0\n    for v in (p + q) * 2:\n        t += sum(v)\n    return t")
    p, q = [np.ones(2), np.ones(3)], (np.ones(4),)
    assert f(p, q) == 2 * 9
    np.testing.assert_array_equal(adc.grad(f)(p, q)[1][0], 2 * np.ones(4))


def test_many_items_are_no_long_text():
    assert adc.compile("sum([x, 1.0] * 1000000)")(2.0) == 3e6


LISTS = ["[x]", "[x, y]", "[i * x for i in range(2)]", "[x] * 2", "[[x, y], [y, x]]"]
TEXTS = [
    "{} * 1.5", "x * {}", "{} * {}", "{} * [x, y]", "[y for j in range(2)] * {}", "{} + {}", "{} + [x]",
    "{} + [y for j in range(2)]", "{} == {}", "{} < [x, y]", "z.shape + {}",
]  # fmt: skip


@pytest.mark.parametrize("list_", LISTS)
@pytest.mark.parametrize("text", TEXTS)
def test_what_python_and_numpy_mean_differently_is_refused(list_, text):
    with pytest.raises(adc.DtypeError, match="list"):
        adc.compile(text.format(list_, list_), args="x, y, z")(2.0, 3.0, np.ones(2))


@pytest.mark.parametrize(
    "text", ["{} * z", "z * {}", "{} + z", "z - {}", "{} < z", "0.5 * exp({})", "sum({}) * 2"]
)
@pytest.mark.parametrize("list_", ["[x, y]", "[i * x for i in range(2)]"])
def test_with_an_array_a_list_is_an_array(list_, text):
    expected = eval(text.format(list_), {"x": 2.0, "y": 3.0, "z": np.array([1.0, 4.0]), "exp": np.exp})
    found = adc.compile(text.format(list_), args="x, y, z")(2.0, 3.0, np.array([1.0, 4.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-15)
