"""Whole arrays: slices, reductions, products, shapes. The oracle judges values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate, gradient

import adcompiler as adc

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(4, 5)), RANDOM.normal(size=(4, 5))
A = RANDOM.normal(size=(5, 3))
V, W = RANDOM.normal(size=5), RANDOM.normal(size=4)

CASES = {
    "x.T": (X,),
    "x.mT": (X,),
    "x[None, :, :].mT @ y": (X, X),
    "x[1:] - x[:-1]": (X,),
    "x[:, ::2]": (X,),
    "x[::-1, 1]": (X,),
    "x[-1]": (X,),
    "x[None, :, 2:]": (X,),
    "x[1:3, -3:-1]": (X,),
    "x[10:]": (V,),
    "x[3:1]": (V,),
    "mean(x)": (X,),
    "mean(x, axis=0)": (X,),
    "var(x, axis=1)": (X,),
    "std(x)": (X,),
    "max(x)": (X,),
    "min(x, axis=1)": (X,),
    "max(x, axis=0, keepdims=True)": (X,),
    "prod(x, axis=1)": (X,),
    "logsumexp(x)": (X,),
    "logsumexp(x, axis=0)": (X,),
    "any(x > 1)": (X,),
    "all(x > -9, axis=0)": (X,),
    "argmax(x)": (X,),
    "argmin(x, axis=1)": (X,),
    "x @ a": (X, A),
    "x @ v": (X, V),
    "w @ x": (W, X),
    "v @ v": (V,),
    "reshape(x, (5, 4))": (X,),
    "reshape(x, (2, -1))": (X,),
    "transpose(x, (1, 0))": (X,),
    "stack((v, 2 * v))": (V,),
    "stack((v, 2 * v), axis=1)": (V,),
    "concatenate((v, w))": (V, W),
    "concatenate((x, y), axis=1)": (X, Y),
    "zeros(3) + x": (1.5,),
    "arange(5) * v": (V,),
    "linspace(0, x, 7)": (2.0,),
    "full((2, 3), x)": (2.0,),
    "sum(x[1:] * x[:-1]) / len(x)": (V,),
    "x.shape[1] * v": (X, V),
    "x[len(x) - 1]": (X,),
    "x[x.shape[0] // 2, -(len(v) // 3)] * v": (X, V),
    "x[len(x) - 5]": (X,),  # -1: it counts from the end
}


def agrees(source: str, args: tuple, backend: str) -> None:
    """Value, shape and the gradient of a scalar made of it are the oracle's."""
    f = adc.compile(source, backend=backend)
    got, want = f(*args), evaluate(source, *args)
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12, atol=1e-13)
    if np.asarray(want).dtype.kind == "f":
        names = tuple(p.name for p in f._parameters)
        scalar = f"sum(sin({source}))"
        found = adc.grad(adc.compile(scalar, args=names, backend=backend), wrt=names)(*args)
        for a, b in zip(found, gradient(scalar, args, wrt=names), strict=True):
            np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("source", CASES)
def test_arrays_agree_with_the_oracle(source):
    agrees(source, CASES[source], "numpy")


@pytest.mark.parametrize("source", ["x[1:] - x[:-1]", "prod(x, axis=1)", "logsumexp(x, axis=0)", "x @ a"])
def test_arrays_agree_with_the_oracle_compiled(source):
    agrees(source, CASES[source], "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("source", CASES)
def test_all_arrays_agree_with_the_oracle_compiled(source):
    agrees(source, CASES[source], "cpu")


LAST = """
def f(x: f64[n], y: f64[m]):
    k = n - 3
    return y[k]**2 * x[n - 1]
"""


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_an_index_made_of_sizes_is_checked_at_each_call(backend):
    f = adc.compile(LAST, backend=backend)
    x, y = np.arange(1.0, 6), np.arange(3.0, 6)
    assert f(x, y) == y[2] ** 2 * x[4]
    assert f(x[:2], y) == y[-1] ** 2 * x[1]
    adc.check_grad(f, x, y)
    adc.check_grad(f, x[:2], y)
    both = adc.hessian(f)(x, y)
    np.testing.assert_array_equal(both[1][1], np.diag([0, 0, 2 * x[4]]))
    for lengths, says in (((5, 2), "length 2 (axis 0 of y), but at least 3"), ((1, 1), "but at least 2")):
        with pytest.raises(adc.OutOfRangeError, match=r"3:12|4:12") as caught:
            adc.grad(f)(*map(np.ones, lengths))
        assert says in str(caught.value)
    many = adc.vmap(f, (0, None))(np.stack([x, 2 * x]), y)
    np.testing.assert_array_equal(many, [f(x, y), f(2 * x, y)])


@pytest.mark.parametrize("source", ["sum(x[:k])", "sum(zeros(k) + x[0])", "sum(x[i] for i in range(k))"])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_an_integer_argument_is_a_length(source, backend):
    f = adc.compile(f"def f(x: f64[n], k: i64):\n    return {source}", backend=backend)
    assert [f(np.ones(3), k) for k in (0, 2)] == [0.0, 2.0]


@pytest.mark.parametrize(
    "source", ["sum(x[:k[1]])", "sum(zeros(k[1]) + x[0])", "sum(x[i] for i in range(k[1]))"]
)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_an_element_of_an_array_of_integers_is_a_length(source, backend):
    f = adc.compile(f"def f(x: f64[n], k: i64[2]):\n    return {source}", backend=backend)
    assert [f(np.ones(3), np.array([9, k])) for k in (0, 2)] == [0.0, 2.0]


def test_a_product_with_a_zero_factor_has_the_right_derivative():
    x = np.array([2.0, 0.0, 3.0])
    product = adc.compile("prod(x)", backend="numpy")
    np.testing.assert_array_equal(adc.grad(product)(x), [0.0, 6.0, 0.0])
    np.testing.assert_array_equal(adc.hessian(product)(x), [[0, 3, 0], [3, 0, 2], [0, 2, 0]])


def test_the_norm_has_a_zero_derivative_at_zero():
    norm = adc.compile("norm(x)", backend="numpy")
    np.testing.assert_array_equal(adc.grad(norm)(np.zeros(3)), np.zeros(3))
    np.testing.assert_allclose(adc.grad(norm)(np.array([3.0, 4.0])), [0.6, 0.8])


def test_ties_of_an_extremum_share_its_derivative():
    x = np.array([1.0, 3.0, 3.0])
    np.testing.assert_array_equal(adc.grad(adc.compile("max(x)", backend="numpy"))(x), [0.0, 0.5, 0.5])


def test_logsumexp_does_not_overflow():
    f = adc.compile("logsumexp(x)", backend="numpy")
    assert f(np.array([1000.0, 1000.0])) == pytest.approx(1000 + np.log(2))
    assert f(np.zeros(0)) == -np.inf


@pytest.mark.parametrize(
    ("source", "shape", "kind", "says"),
    [
        ("x[5]", (3,), adc.OutOfRangeError, "index 5: the axis has length 3"),
        ("x[-4]", (3,), adc.OutOfRangeError, "index -4: the axis has length 3"),
        ("x[0, 0]", (3,), adc.OutOfRangeError, "2 indices for an array of rank 1"),
        ("reshape(x, (2, 2))", (3,), adc.ShapeError, "reshape: the number of elements"),
        ("x @ x", (2, 3), adc.ShapeError, "differ"),
        ("transpose(x, (0, 0))", (2, 3), adc.OutOfRangeError, "does not contain each"),
        ("x[0.5]", (3,), adc.DtypeError, "an index must be an integer"),
        ("x[::0]", (3,), adc.ParseError, "step"),
        (
            "x[len(x)]",
            (3,),
            adc.OutOfRangeError,
            "index: the axis has length 3 (axis 0 of x), but at least",
        ),
        ("x[len(x)]", (1,), adc.OutOfRangeError, "index: the axis has length 1, but at least 2"),
        ("x[len(x) - 1]", (0,), adc.OutOfRangeError, "negative index: the axis has length 0"),
        ("x[len(x) / 2]", (4,), adc.DtypeError, "an index must be an integer"),
    ],
)
def test_what_does_not_fit_is_refused(source, shape, kind, says):
    with pytest.raises(kind, match=r"(?s)1:1: .*\^.*help: ") as caught:
        adc.compile(source, backend="numpy")(np.ones(shape))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "bounds", [(5, -1, -1), (5, 0, -2), (0, 5, -1), (3, -4, -3), (-1, -6, -2), (2, 2, -1)]
)
def test_arange_goes_down(bounds: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(adc.compile(f"1 * arange{bounds}", backend="numpy")(), np.arange(*bounds))


def test_loops_over_arange_go_down() -> None:
    loop = "for k in np.arange(len(x) - 1, -1, -1):\n        s = s * 0.5 + x[k]"
    source = f"def f(x):\n    s = 0.0\n    {loop}\n    return s"
    for n in (0, 1, 4):
        x = np.arange(1.0, n + 1)
        assert adc.compile(source, backend="numpy")(x) == sum(v * 0.5**k for k, v in enumerate(x))
