"""Whole numbers as arguments: lists of them are floats unless the program needs integers; arrays are not.

An integer array is refused, by name and with the remedy, where it is to be differentiated or nothing else
can be.
"""

import numpy as np
import pytest

import adcompiler as adc

square = adc.compile("sum(x * x)")
product = adc.compile("x * y")
spmv = adc.compile("""
def spmv(start, column, value, x):
    n = len(start) - 1
    return [sum(value[k] * x[column[k]] for k in range(start[i], start[i + 1])) for i in range(n)]
""")
SPMV = ([0, 2, 2, 3], [0, 2, -1], [1, 2, 3], [5, 6, 7])

# Each differentiates sum(x * x) by its argument.
TRANSFORMS = {
    "grad": lambda x: adc.grad(square)(x),
    "grad of grad": lambda x: adc.grad(adc.compile("def f(x):\n    return sum(grad(g)(x)) / 2\n\n"
                                                   "def g(x):\n    return sum(x**3)", name="f"))(x) * 2 / 3,
    "value_and_grad": lambda x: adc.value_and_grad(square)(x)[1],
    "vjp": lambda x: adc.vjp(square, x)[1](1)[0],
    "jvp": lambda x: np.array([adc.jvp(square, (x,), (d,))[1] for d in ([1, 0], [0, 1])]),
    "jacobian": lambda x: adc.jacobian(square)(x),
    "sparse jacobian": lambda x: adc.jacobian(square, sparse=True)(x).toarray()[0],
    "hessian": lambda x: adc.hessian(square)(x) @ np.array([3.0, 4.0]),
    "sparse hessian": lambda x: adc.hessian(square, sparse=True)(x) @ np.array([3.0, 4.0]),
    "hvp": lambda x: adc.hvp(square)((x,), [3, 4]),
    "split": lambda x: (s := square.split()).propagate(s.forward(x)[1], 1)[0],
    "backward": lambda x: square.backward(x, 1.0)[0],
    "pair": lambda x: square.backward(adc.DiffPair(x), 1.0)[0],
    "forward": lambda x: np.array([square.forward(adc.DiffPair(x, d)).d for d in ([1, 0], [0, 1])]),
    "vmap": lambda x: adc.vmap(adc.grad(adc.compile("x * x")))(x),
    "taylor": lambda x: np.array([adc.taylor(square, (x,), (d,), 1)[1] for d in ([1, 0], [0, 1])]),
    "container": lambda x: adc.grad(adc.compile('def f(p):\n    return sum(p["x"] * p["x"])'))({"x": x})["x"],
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_lists_of_ints_are_floats(name):
    found = TRANSFORMS[name]([3, 4])
    assert np.asarray(found).dtype == np.float64
    np.testing.assert_allclose(found, [6.0, 8.0], rtol=1e-14)


@pytest.mark.parametrize("given", [np.array([3, 4]), np.array([3, 4], "i2"), np.array([3, 4], "u1")])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_integer_arrays_are_refused_by_name(name, given):
    with pytest.raises(adc.DtypeError) as caught:
        TRANSFORMS[name](given)
    assert "p['x']" in str(caught.value) if name == "container" else "x is" in caught.value.cause
    assert "float" in caught.value.remedy


@pytest.mark.parametrize("given", [np.int64(3), np.int32(3), np.array(3)])
def test_integers_of_numpy_are_refused_by_name(given):
    with pytest.raises(adc.DtypeError, match="x is an integer"):
        adc.grad(square)(given)


@pytest.mark.parametrize(("given", "what"), [(np.array([True]), "a boolean array"), (True, "a boolean")])
def test_truth_values_are_refused_by_name(given, what):
    with pytest.raises(adc.DtypeError, match=f"x is {what}"):
        adc.grad(square)(given)
    with pytest.raises(adc.DtypeError, match=f"x is {what}"):
        adc.vjp(square, given)


def test_integer_arrays_may_stand_beside_floats():
    found = product.backward(np.array([3]), [2], [1.0])
    assert found[0] is None
    np.testing.assert_array_equal(found[1], [3.0])
    assert adc.grad(adc.compile("sum(x * y)"))(np.array([3]), [2]).shape == (1,)
    with pytest.raises(adc.DtypeError, match="x is i64"):
        adc.grad(adc.compile("sum(x * y)"), "x")(np.array([3]), [2])


def test_the_styles_of_slangpy():
    first, second = product.backward([3], [2], [1.0])
    np.testing.assert_array_equal(first, [2.0])
    np.testing.assert_array_equal(second, [3.0])


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_lists_that_index_are_integers(backend):
    f = adc.compile("def f(x, i):\n    return sum(x[i]**2)", backend=backend)
    np.testing.assert_array_equal(adc.grad(f)([1, 2, 3], [0, 2, 2]), [2.0, 0.0, 12.0])
    np.testing.assert_array_equal(spmv(*SPMV), [19.0, 0.0, 21.0])
    value, x = adc.vjp(spmv, *SPMV)[1]([1, 1, 1])
    np.testing.assert_array_equal(value, [5.0, 7.0, 7.0])
    np.testing.assert_array_equal(x, [1.0, 0.0, 5.0])
    tangent = adc.jvp(spmv, SPMV, (None, None, [1, 0, 0], None))[1]
    np.testing.assert_array_equal(tangent, [5.0, 0.0, 0.0])
    with pytest.raises(adc.DtypeError, match="column is i64"):
        adc.jvp(spmv, SPMV, (None, [1, 0, 0], None, None))


@pytest.mark.parametrize(
    "source",
    [
        "def f(x, i):\n    return sum(x[k] for k in i)",
        "def f(x, i):\n    return sum(x[k] * v for k, v in zip(i, x))",
        "def f(x, i):\n    return x[i[0]] + x[i[1]]",
        "def f(x, i):\n    t = 0.0\n    for k in range(i[0], i[2]):\n        t += x[k]\n    return t",
        "def f(x, i):\n    k = 0\n    while i[k] > 0:\n        k = i[k]\n    return x[k]",
        "def g(j, x):\n    return x[j]\n\ndef f(x, i):\n    return sum(g(i, x))",
        "def f(x, i):\n    return sum(x * (i & 1))",
        'def f(x, i):\n    p = (i, x)\n    return sum(p[1][p[0]])',
    ],
)  # fmt: skip
def test_however_the_integers_are_used(source):
    f = adc.compile(source)
    expected = adc.grad(f)([1.0, 2.0, 3.0], np.array([0, 1, 2]))
    np.testing.assert_array_equal(adc.grad(f)([1, 2, 3], [0, 1, 2]), expected)


def test_annotations_decide():
    assert adc.compile("def f(x: i64[n]):\n    return sum(x)")([1, 2]).dtype == np.int64
    assert adc.compile("def f(x: f64[n]):\n    return sum(x)")([1, 2]).dtype == np.float64
    mixed = adc.compile("def f(x: f64[n], i):\n    return x[i[0]]")
    assert adc.grad(mixed)([1, 2], [1]).tolist() == [0.0, 1.0]
    with pytest.raises(adc.DtypeError, match="k is an integer"):
        adc.grad(adc.compile("def f(k: i64):\n    return 1.0 * k"))(3)


def test_an_error_about_a_loop_is_not_that_of_its_range_of_floats():
    source = """
def f(x: f64[n, m], k):
    row = zeros(max(n, m))
    for i in range(k):
        for j in range(m):
            row = zeros(n)
            for r in range(n):
                row[r] = x[r, j]
            for r in range(n):
                x[r, j] = 2 * row[r]
    return sum(x)
"""
    with pytest.raises(adc.ShapeError, match="row may have other lengths after an iteration"):
        adc.compile(source)(np.ones((2, 3)), 2)


def test_an_error_is_that_of_floats():
    with pytest.raises(adc.ParseError, match="unknown name 'z'"):
        adc.compile("def f(x):\n    return x + z")([1, 2])


def test_lists_that_are_no_int64():
    assert square([2**64]) == 2.0**128
    assert square([]) == 0.0
    assert square(range(3)) == 5.0
    assert square([True, False]) == 1  # truth values stay what they are


def test_containers():
    f = adc.compile('def f(p):\n    return sum(p["w"] * p["b"]) + sum(p["w"][p["i"]])')
    found = adc.grad(f)({"w": [1, 2], "b": 3, "i": [0, 1, 1]})
    np.testing.assert_array_equal(found["w"], [4.0, 5.0])
    assert found["b"] == 3.0
    assert found["i"] is None


def test_variables():
    v = adc.Variable([1, 2], requires_grad=True)
    square(v).backward()
    np.testing.assert_array_equal(v.grad.value, [2.0, 4.0])
    y = product(v, [3, 4])
    np.testing.assert_array_equal(adc.tape.grad(y, v).value, [3.0, 4.0])


def test_float32_stays():
    """A list beside float32 is float64, as NumPy has it for arrays."""
    found = adc.grad(adc.compile("sum(x * y)"), ("x", "y"))(np.ones(2, "f4"), [1, 2])
    assert [g.dtype for g in found] == [np.float32, np.float64]
